/* The vector vocabulary: what every instruction set's header defines. Here a vector has one lane and everything is plain
 * C; it is the specification of the others. vf is a vector of VF_LANES float32, vd one of VD_LANES float64, vf8 and vd8
 * hold eight lanes whatever the width.
 *
 *   load, store        any alignment; stream: aligned to the vector, and past the caches where the machine can
 *   load_part          lanes from n on are 0 and their memory is not touched; store_part writes n lanes
 *   fma, fnma          a*b + c and c - a*b, rounded once where the instruction set can (scalar C cannot, cheaply: rounded
 *                      twice)
 *   fms                a*b - c, rounded once everywhere: what a rounded product or sum has lost
 *   min, max           the second operand where either is NaN
 *   select_gt          lane by lane, a > b ? yes : no; NaN compares false
 *   any_gt             whether a > b in any lane
 *   copysign           magnitude of the first, sign of the second
 *   round              to the nearest integer, ties to even
 *   scale2             a * 2^n for an integral n in [-252, 252], rounded once, subnormals included
 *   pow2               2^n for an integral n <= 127; for n < -126 something between 0 and 2^-126
 *   pow2_near          2^n for the integer n nearest to a*b, -126 <= n <= 127; where n is less, n is right and 2^n is not;
 *                      for NaN both are anything
 *   pick               (where SIMD_HAS_PICK) the one of 16 entries that two bits of a's exponent and two of its fraction say, in order for a in
 *                      [2, 32): table[0] for [2, 2.5), table[3] for [3.5, 4), table[4] for [4, 5), table[15] for [28, 32)
 *   load_f16 ...       a whole vector of another type; store_f16, store_bf16 round to nearest even
 *   round_tf32         to nearest, ties away from zero
 *   vd_from_f32        VD_LANES float32 values
 *   shift              (where SIMD_HAS_SHIFT) lanes lead, lead + 1, ... of two vectors in a row, index from shift_index
 *   slide              (where SIMD_HAS_SLIDE) the same for a lead that is known at compile time, 0 <= lead < lanes
 *   load_strided       (where SIMD_HAS_SHIFT) elements stride apart, stride at most 16; reads the stride whole vectors they lie in;
 *                      strided_places prepares it
 *   simd_stream_fence  after stream, before another thread may read */
#ifndef TAPCONV_SIMD_H
#define TAPCONV_SIMD_H

#include "convert.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A word a line. */
/* clang-format off */

#define SIMD_ISA scalar
#define SIMD_BIT TAPCONV_ISA_SCALAR
#define SIMD_REGISTERS 16

static inline void simd_stream_fence(void) {}

typedef float vf;
#define VF_LANES 1
typedef struct vf8 {
    float lane[8];
} vf8;

static inline vf vf_zero(void) { return 0; }
static inline vf vf_set1(float a) { return a; }
static inline vf vf_load(const float *p) { return *p; }
static inline vf vf_load_part(const float *p, int64_t n) { return n > 0 ? *p : 0; }
static inline void vf_store(float *p, vf a) { *p = a; }
static inline void vf_store_part(float *p, vf a, int64_t n)
{
    if (n > 0) *p = a;
}
static inline void vf_stream(float *p, vf a) { *p = a; }
static inline vf vf_add(vf a, vf b) { return a + b; }
static inline vf vf_sub(vf a, vf b) { return a - b; }
static inline vf vf_mul(vf a, vf b) { return a * b; }
static inline vf vf_div(vf a, vf b) { return a / b; }
static inline vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf vf_fnma(vf a, vf b, vf c) { return c - a * b; }
static inline vf vf_fms(vf a, vf b, vf c) { return (float)((double)a * b - c); }
static inline vf vf_min(vf a, vf b) { return a < b ? a : b; }
static inline vf vf_max(vf a, vf b) { return a > b ? a : b; }
static inline vf vf_select_gt(vf a, vf b, vf yes, vf no) { return a > b ? yes : no; }
static inline vf vf_neg(vf a) { return -a; }
static inline int vf_any_gt(vf a, vf b) { return a > b; }
static inline vf vf_abs(vf a) { return fabsf(a); }
static inline vf vf_copysign(vf magnitude, vf sign) { return copysignf(magnitude, sign); }
static inline vf vf_round(vf a) { return nearbyintf(a); }
static inline vf vf_pow2(vf n)
{
    const uint32_t bits = n >= -126 ? (uint32_t)((int)n + 127) << 23 : 0;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}
static inline vf vf_scale2(vf a, vf n)
{
    const float half = n == n ? (float)((int)n / 2) : n;
    return a * vf_pow2(half) * vf_pow2(n - half);
}
static inline vf vf_pow2_near(vf a, vf b, vf *n)
{
    *n = vf_round(vf_mul(a, b));
    return *n < 128 ? vf_pow2(*n) : 0;
}
#define SIMD_HAS_PICK
static inline vf vf_pick(const float table[16], vf a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    return table[bits >> 21 & 15];
}
static inline vf vf_load_f16(const uint16_t *p) { return tapconv_f16_to_f32(*p); }
static inline void vf_store_f16(uint16_t *p, vf a) { *p = tapconv_f32_to_f16(a); }
static inline vf vf_load_bf16(const uint16_t *p) { return tapconv_bf16_to_f32(*p); }
static inline void vf_store_bf16(uint16_t *p, vf a) { *p = tapconv_f32_to_bf16(a); }
static inline vf vf_round_tf32(vf a) { return tapconv_f32_to_tf32(a); }

typedef double vd;
#define VD_LANES 1
typedef struct vd8 {
    double lane[8];
} vd8;

static inline vd vd_zero(void) { return 0; }
static inline vd vd_set1(double a) { return a; }
static inline vd vd_load(const double *p) { return *p; }
static inline vd vd_load_part(const double *p, int64_t n) { return n > 0 ? *p : 0; }
static inline void vd_store(double *p, vd a) { *p = a; }
static inline void vd_stream(double *p, vd a) { *p = a; }
static inline void vd_store_part(double *p, vd a, int64_t n)
{
    if (n > 0) *p = a;
}
static inline vd vd_add(vd a, vd b) { return a + b; }
static inline vd vd_sub(vd a, vd b) { return a - b; }
static inline vd vd_mul(vd a, vd b) { return a * b; }
static inline vd vd_fma(vd a, vd b, vd c) { return a * b + c; }
static inline vd vd_from_f32(const float *p) { return *p; }

#define EIGHT_LANES(v, real)                                                                                           \
    static inline v v##_zero(void) { return (v){{0}}; }                                                                \
    static inline v v##_set1(real a) { return (v){{a, a, a, a, a, a, a, a}}; }                                         \
    static inline v v##_load(const real *p) { return (v){{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]}}; }          \
    static inline void v##_store(real *p, v a)                                                                         \
    {                                                                                                                  \
        for (int i = 0; i < 8; i++) p[i] = a.lane[i];                                                                  \
    }                                                                                                                  \
    static inline v v##_add(v a, v b)                                                                                  \
    {                                                                                                                  \
        for (int i = 0; i < 8; i++) a.lane[i] = a.lane[i] + b.lane[i];                                                 \
        return a;                                                                                                      \
    }                                                                                                                  \
    static inline v v##_fma(v a, v b, v c)                                                                             \
    {                                                                                                                  \
        for (int i = 0; i < 8; i++) a.lane[i] = a.lane[i] * b.lane[i] + c.lane[i];                                     \
        return a;                                                                                                      \
    }
EIGHT_LANES(vf8, float)
EIGHT_LANES(vd8, double)
#undef EIGHT_LANES

#endif
