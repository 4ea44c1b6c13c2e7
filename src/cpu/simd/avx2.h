/* The vector vocabulary on AVX2 with FMA and F16C. See scalar.h for what each word means. */
#ifndef TAPCONV_SIMD_H
#define TAPCONV_SIMD_H

#include <immintrin.h>
#include <stdint.h>

/* A word a line. */
/* clang-format off */

#define SIMD_ISA avx2
#define SIMD_BIT TAPCONV_ISA_AVX2
#define SIMD_REGISTERS 16

static inline void simd_stream_fence(void) { _mm_sfence(); }

typedef __m256 vf;
#define VF_LANES 8
typedef __m256 vf8;

static inline __m256i vf_mask(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n >= 8 ? 8 : (int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_set1(float a) { return _mm256_set1_ps(a); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline vf vf_load_part(const float *p, int64_t n) { return _mm256_maskload_ps(p, vf_mask(n)); }
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline void vf_store_part(float *p, vf a, int64_t n) { _mm256_maskstore_ps(p, vf_mask(n), a); }
static inline void vf_stream(float *p, vf a) { _mm256_stream_ps(p, a); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vf vf_fms(vf a, vf b, vf c) { return _mm256_fmsub_ps(a, b, c); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_select_gt(vf a, vf b, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
static inline vf vf_neg(vf a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
static inline int vf_any_gt(vf a, vf b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf vf_copysign(vf magnitude, vf sign)
{
    const vf bit = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
}
static inline vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* In two steps, each a normal power of two, so that results may be subnormal; rounds once. */
static inline vf vf_scale2(vf a, vf n)
{
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
    const __m256i bias = _mm256_set1_epi32(127);
    const vf first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const vf second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(a, first), second);
}
static inline vf vf_pow2(vf n)
{
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_max_epi32(biased, _mm256_setzero_si256()), 23));
}
/* The sum rounds to an integer, whose low bits are those of n + 127. */
static inline vf vf_pow2_near(vf a, vf b, vf *n)
{
    const vf shifter = _mm256_set1_ps(0x1.8000fep23f), sum = _mm256_fmadd_ps(a, b, shifter);
    *n = _mm256_sub_ps(sum, shifter);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(sum), 23));
}

#define SIMD_HAS_SLIDE
static inline __attribute__((always_inline)) vf vf_slide(vf low, vf high, const int by)
{
    const __m256i a = _mm256_castps_si256(low), c = _mm256_castps_si256(high);
    const __m256i b = _mm256_permute2x128_si256(a, c, 0x21);
    switch (by) {
    case 0: return low;
    case 1: return _mm256_castsi256_ps(_mm256_alignr_epi8(b, a, 4));
    case 2: return _mm256_castsi256_ps(_mm256_alignr_epi8(b, a, 8));
    case 3: return _mm256_castsi256_ps(_mm256_alignr_epi8(b, a, 12));
    case 4: return _mm256_castsi256_ps(b);
    case 5: return _mm256_castsi256_ps(_mm256_alignr_epi8(c, b, 4));
    case 6: return _mm256_castsi256_ps(_mm256_alignr_epi8(c, b, 8));
    default: return _mm256_castsi256_ps(_mm256_alignr_epi8(c, b, 12));
    }
}

static inline vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline void vf_store_f16(uint16_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline void vf_store_bf16(uint16_t *p, vf a)
{
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    rounded = _mm256_blendv_epi8(rounded, quiet, nan);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
}
static inline vf vf_round_tf32(vf a)
{
    const __m256i bits = _mm256_castps_si256(a), exponent = _mm256_set1_epi32(0x7f800000);
    const __m256i rounded = _mm256_and_si256(_mm256_add_epi32(bits, _mm256_set1_epi32(0x1000)), _mm256_set1_epi32(~0x1fff));
    const __m256i special = _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), exponent);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(rounded, bits, special));
}

#define vf8_zero vf_zero
#define vf8_set1 vf_set1
#define vf8_load vf_load
#define vf8_store vf_store
#define vf8_add vf_add
#define vf8_fma vf_fma

typedef __m256d vd;
#define VD_LANES 4
typedef struct vd8 {
    vd low, high;
} vd8;

static inline __m256i vd_mask(int64_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
static inline vd vd_zero(void) { return _mm256_setzero_pd(); }
static inline vd vd_set1(double a) { return _mm256_set1_pd(a); }
static inline vd vd_load(const double *p) { return _mm256_loadu_pd(p); }
static inline vd vd_load_part(const double *p, int64_t n) { return _mm256_maskload_pd(p, vd_mask(n)); }
static inline void vd_store(double *p, vd a) { _mm256_storeu_pd(p, a); }
static inline void vd_stream(double *p, vd a) { _mm256_stream_pd(p, a); }
static inline void vd_store_part(double *p, vd a, int64_t n) { _mm256_maskstore_pd(p, vd_mask(n), a); }
static inline vd vd_add(vd a, vd b) { return _mm256_add_pd(a, b); }
static inline vd vd_sub(vd a, vd b) { return _mm256_sub_pd(a, b); }
static inline vd vd_mul(vd a, vd b) { return _mm256_mul_pd(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return _mm256_fmadd_pd(a, b, c); }
static inline __attribute__((always_inline)) vd vd_slide(vd low, vd high, const int by)
{
    const vd between = _mm256_permute2f128_pd(low, high, 0x21);
    switch (by) {
    case 0: return low;
    case 1: return _mm256_shuffle_pd(low, between, 5);
    case 2: return between;
    default: return _mm256_shuffle_pd(between, high, 5);
    }
}
static inline vd vd_from_f32(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }

#include "pair8.h"

#endif
