/* One instruction set's kernels: the templates for float32 and float64, and the table that names them. Included by
 * isa_*.c after the vocabulary. */
#include "convert.h"
#include "cpu/kernels.h"
#include "cpu/slabs.h"

#include <math.h>
#include <string.h>

#include "cpu/kernels/activate.h"
#include "cpu/kernels/activate_f64.h"
#include "cpu/kernels/emit_f32.h"
#include "cpu/kernels/emit_f64.h"

/* Register tiles as rows, widest vectors: accumulators, one row of samples and a weight fit the registers. */
#if SIMD_REGISTERS == 32
#define SIMD_ROWS 8
#define UP_TO_3(T, r) T(r, 1) T(r, 2) T(r, 3)
#define UP_TO_4(T, r) UP_TO_3(T, r) T(r, 4)
#define UP_TO_5(T, r) UP_TO_4(T, r) T(r, 5)
#define UP_TO_6(T, r) UP_TO_5(T, r) T(r, 6)
#define UP_TO_9(T, r) UP_TO_6(T, r) T(r, 7) T(r, 8) T(r, 9)
#define UP_TO_12(T, r) UP_TO_9(T, r) T(r, 10) T(r, 11) T(r, 12)
#define ALL_TILES(T)                                                                                                   \
    UP_TO_12(T, 1) UP_TO_9(T, 2) UP_TO_6(T, 3) UP_TO_6(T, 4) UP_TO_5(T, 5) UP_TO_4(T, 6) UP_TO_3(T, 7) UP_TO_3(T, 8)
#else
#define SIMD_ROWS 4
#define UP_TO_3(T, r) T(r, 1) T(r, 2) T(r, 3)
#define UP_TO_5(T, r) UP_TO_3(T, r) T(r, 4) T(r, 5)
#define UP_TO_8(T, r) UP_TO_5(T, r) T(r, 6) T(r, 7) T(r, 8)
#define ALL_TILES(T) UP_TO_8(T, 1) UP_TO_5(T, 2) UP_TO_3(T, 3) UP_TO_3(T, 4)
#endif
#define ALL_ROWS(T) T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8) T(9) T(10) T(11) T(12) T(13) T(14) T(15) T(16)
#define ALL_THIN(T) T(1, 8) T(2, 8) T(3, 4) T(4, 4) T(5, 2) T(6, 2) T(7, 2) T(8, 2)

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* ------------------------------------------------------------------------------------------------------------- float32 */
#define REAL float
#define V vf
#define VINDEX simd_index
#define V8 vf8
#define VOP(word) vf_##word
#define V8OP(word) vf8_##word
#define LANES VF_LANES
#define NAME(x) f32_##x

static inline vf f32_load_vector(const void *src, tapconv_type type, tapconv_math math)
{
    vf v = type == TAPCONV_F32 ? vf_load(src) : type == TAPCONV_F16 ? vf_load_f16(src) : vf_load_bf16(src);
    if (type != TAPCONV_F32) return v; /* f16 and bf16 values are TF32 values as they are */
    if (math == TAPCONV_MATH_TF32) return vf_round_tf32(v);
    uint16_t narrow[VF_LANES];
    if (math == TAPCONV_MATH_F16) vf_store_f16(narrow, v), v = vf_load_f16(narrow);
    if (math == TAPCONV_MATH_BF16) vf_store_bf16(narrow, v), v = vf_load_bf16(narrow);
    return v;
}
static inline vd f32_widen(const float *src)
{
    return vd_from_f32(src);
}

#include "cpu/kernels/moments.h"
#include "cpu/kernels/peak.h"
#include "cpu/kernels/stage.h"
#include "cpu/kernels/thin.h"
#include "cpu/kernels/tile.h"
ALL_TILES(TILE)
#if SIMD_REGISTERS == 32
TILE(16, 1)
#endif
#if VF_LANES > 1
ALL_THIN(THIN)
#endif
#if defined(SIMD_HAS_SHIFT)
#include "cpu/kernels/row.h"
ALL_ROWS(ROW)
#elif defined(SIMD_HAS_SLIDE)
#include "cpu/kernels/row_slide.h"
ALL_ROWS(ROW)
#endif

#undef REAL
#undef V
#undef V8
#undef VOP
#undef V8OP
#undef LANES
#undef NAME
#undef TILE
#undef TILE_INLINE
#undef THIN
#undef ROW

/* ------------------------------------------------------------------------------------------------------------- float64 */
#define REAL double
#define V vd
#define V8 vd8
#define VOP(word) vd_##word
#define V8OP(word) vd8_##word
#define LANES VD_LANES
#define NAME(x) f64_##x

static inline vd f64_load_vector(const void *src, tapconv_type type, tapconv_math math)
{
    (void)math;
    double wide[VD_LANES];
    for (int64_t i = 0; i < VD_LANES; i++) wide[i] = tapconv_get(src, type, i);
    return vd_load(wide);
}
static inline vd f64_widen(const double *src)
{
    return vd_load(src);
}

#include "cpu/kernels/moments.h"
#include "cpu/kernels/peak.h"
#include "cpu/kernels/stage.h"
#include "cpu/kernels/thin.h"
#include "cpu/kernels/tile.h"
ALL_TILES(TILE)
#if SIMD_REGISTERS == 32
TILE(16, 1)
#endif
#if VF_LANES > 1
ALL_THIN(THIN)
#endif
#if defined(SIMD_HAS_SHIFT)
#include "cpu/kernels/row.h"
ALL_ROWS(ROW)
#elif defined(SIMD_HAS_SLIDE)
#include "cpu/kernels/row_slide.h"
ALL_ROWS(ROW)
#endif

/* --------------------------------------------------------------------------------------------------------------- table */
#define F32_TILE(r, v) [r - 1][v - 1] = f32_tile_##r##x##v,
#define F64_TILE(r, v) [r - 1][v - 1] = f64_tile_##r##x##v,
#define F32_ROW(taps) [taps - 1] = f32_row_##taps,
#define F64_ROW(taps) [taps - 1] = f64_row_##taps,
#define F32_THIN(c, many) [c - 1] = {f32_thin_1x##c, f32_thin_##many##x##c},
#define F64_THIN(c, many) [c - 1] = {f64_thin_1x##c, f64_thin_##many##x##c},

static const tapconv_real_kernels f32_kernels = {
    .bytes = 4,
    .lanes = VF_LANES,
    .rows = SIMD_ROWS,
    .tile = {ALL_TILES(F32_TILE)},
#if SIMD_REGISTERS == 32
    .pair = f32_tile_16x1,
#endif
#if VF_LANES > 1
    .thin_columns = VF_LANES / 2,
    .thin = {ALL_THIN(F32_THIN)},
#endif
#if defined(SIMD_HAS_SHIFT) || defined(SIMD_HAS_SLIDE)
    .row = {ALL_ROWS(F32_ROW)},
#endif
    .load = f32_load,
    .taps = f32_taps,
    .phases = f32_phases,
    .emit = f32_emit,
    .moments = f32_moments,
    .peak = f32_peak,
};

static const tapconv_real_kernels f64_kernels = {
    .bytes = 8,
    .lanes = VD_LANES,
    .rows = SIMD_ROWS,
    .tile = {ALL_TILES(F64_TILE)},
#if SIMD_REGISTERS == 32
    .pair = f64_tile_16x1,
#endif
#if VF_LANES > 1
    .thin_columns = VD_LANES / 2,
    .thin = {ALL_THIN(F64_THIN)},
#endif
#if defined(SIMD_HAS_SHIFT) || defined(SIMD_HAS_SLIDE)
    .row = {ALL_ROWS(F64_ROW)},
#endif
    .load = f64_load,
    .taps = f64_taps,
    .phases = f64_phases,
    .emit = f64_emit,
    .moments = f64_moments,
    .peak = f64_peak,
};

static void stream_copy(void *dst, const void *src, int64_t bytes)
{
    float *to = dst;
    const float *from = src;
    for (int64_t i = 0; i < bytes / (int64_t)sizeof(float); i += VF_LANES) vf_stream(to + i, vf_load(from + i));
    simd_stream_fence();
}

static void stream_fence(void)
{
    simd_stream_fence();
}

const tapconv_isa PASTE(tapconv_isa_, SIMD_ISA) = {
    .bit = SIMD_BIT,
    .real = {&f32_kernels, &f64_kernels},
    .stream_copy = stream_copy,
    .stream_fence = stream_fence,
};
