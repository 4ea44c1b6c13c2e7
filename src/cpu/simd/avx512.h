/* The vector vocabulary on AVX-512: vf is a vector of float32, vd one of float64. See scalar.h for what each word means. */
#ifndef TAPCONV_SIMD_H
#define TAPCONV_SIMD_H

#include <immintrin.h>
#include <stdint.h>

/* A word a line. */
/* clang-format off */

#define SIMD_ISA avx512
#define SIMD_BIT TAPCONV_ISA_AVX512
#define SIMD_REGISTERS 32

static inline void simd_stream_fence(void) { _mm_sfence(); }

typedef __m512 vf;
typedef __m512i simd_index;
#define VF_LANES 16
typedef __m256 vf8; /* eight lanes: one block of packed output channels */

static inline __mmask16 vf_mask(int64_t n) { return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u); }
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_set1(float a) { return _mm512_set1_ps(a); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline vf vf_load_part(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(vf_mask(n), p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline void vf_store_part(float *p, vf a, int64_t n) { _mm512_mask_storeu_ps(p, vf_mask(n), a); }
static inline void vf_stream(float *p, vf a) { _mm512_stream_ps(p, a); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
static inline vf vf_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_select_gt(vf a, vf b, vf yes, vf no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
}
static inline vf vf_neg(vf a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
static inline int vf_any_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_copysign(vf magnitude, vf sign)
{
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_set1_epi32((int)0x80000000u), _mm512_castps_si512(sign),
                                                         _mm512_castps_si512(magnitude), 0xca));
}
static inline vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_scale2(vf a, vf n) { return _mm512_scalef_ps(a, n); }
static inline vf vf_pow2(vf n) { return _mm512_scalef_ps(_mm512_set1_ps(1), n); }
static inline vf vf_pow2_near(vf a, vf b, vf *n)
{
    *n = vf_round(vf_mul(a, b));
    return vf_pow2(*n);
}
#define SIMD_HAS_PICK
static inline vf vf_pick(const float table[16], vf a)
{
    return _mm512_permutexvar_ps(_mm512_srli_epi32(_mm512_castps_si512(a), 21), _mm512_loadu_ps(table));
}

#define SIMD_HAS_SHIFT
static inline __m512i vf_shift_index(int64_t lead)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(lanes, _mm512_set1_epi32((int)lead));
}
static inline vf vf_shift(vf low, vf high, __m512i index) { return _mm512_permutex2var_ps(low, index, high); }

/* p[0], p[stride], ...: each of the `stride` vectors that hold them gives the lanes it has, moved to their places. */
static inline vf vf_load_strided(const float *p, int64_t stride, __m512i place, const uint16_t *lanes_of)
{
    vf all = _mm512_setzero_ps();
    for (int64_t j = 0; j < stride; j++)
        all = _mm512_mask_permutexvar_ps(all, lanes_of[j], place, _mm512_loadu_ps(p + j * 16));
    return all;
}
static inline __m512i vf_strided_places(int64_t stride, uint16_t *lanes_of)
{
    int32_t place[16];
    for (int64_t j = 0; j < stride; j++) lanes_of[j] = 0;
    for (int64_t i = 0; i < 16; i++) {
        place[i] = (int32_t)(i * stride % 16);
        lanes_of[i * stride / 16] |= (uint16_t)(1u << i);
    }
    return _mm512_loadu_si512(place);
}

static inline vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline void vf_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline void vf_store_bf16(uint16_t *p, vf a)
{
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    rounded = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(rounded));
}
static inline vf vf_round_tf32(vf a)
{
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i rounded = _mm512_and_si512(_mm512_add_epi32(bits, _mm512_set1_epi32(0x1000)), _mm512_set1_epi32(~0x1fff));
    const __m512i exponent = _mm512_set1_epi32(0x7f800000);
    const __mmask16 finite = _mm512_cmpneq_epi32_mask(_mm512_and_si512(bits, exponent), exponent);
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(finite, bits, rounded));
}

static inline vf8 vf8_zero(void) { return _mm256_setzero_ps(); }
static inline vf8 vf8_set1(float a) { return _mm256_set1_ps(a); }
static inline vf8 vf8_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf8_store(float *p, vf8 a) { _mm256_storeu_ps(p, a); }
static inline vf8 vf8_add(vf8 a, vf8 b) { return _mm256_add_ps(a, b); }
static inline vf8 vf8_fma(vf8 a, vf8 b, vf8 c) { return _mm256_fmadd_ps(a, b, c); }

typedef __m512d vd;
#define VD_LANES 8
typedef __m512d vd8;

static inline __mmask8 vd_mask(int64_t n) { return (__mmask8)(n >= 8 ? 0xffu : (1u << n) - 1u); }
static inline vd vd_zero(void) { return _mm512_setzero_pd(); }
static inline vd vd_set1(double a) { return _mm512_set1_pd(a); }
static inline vd vd_load(const double *p) { return _mm512_loadu_pd(p); }
static inline vd vd_load_part(const double *p, int64_t n) { return _mm512_maskz_loadu_pd(vd_mask(n), p); }
static inline void vd_store(double *p, vd a) { _mm512_storeu_pd(p, a); }
static inline void vd_stream(double *p, vd a) { _mm512_stream_pd(p, a); }
static inline void vd_store_part(double *p, vd a, int64_t n) { _mm512_mask_storeu_pd(p, vd_mask(n), a); }
static inline vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
static inline vd vd_sub(vd a, vd b) { return _mm512_sub_pd(a, b); }
static inline vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
static inline __m512i vd_shift_index(int64_t lead)
{
    return _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(lead));
}
static inline vd vd_shift(vd low, vd high, __m512i index) { return _mm512_permutex2var_pd(low, index, high); }
static inline vd vd_load_strided(const double *p, int64_t stride, __m512i place, const uint16_t *lanes_of)
{
    vd all = _mm512_setzero_pd();
    for (int64_t j = 0; j < stride; j++)
        all = _mm512_mask_permutexvar_pd(all, (__mmask8)lanes_of[j], place, _mm512_loadu_pd(p + j * 8));
    return all;
}
static inline __m512i vd_strided_places(int64_t stride, uint16_t *lanes_of)
{
    int64_t place[8];
    for (int64_t j = 0; j < stride; j++) lanes_of[j] = 0;
    for (int64_t i = 0; i < 8; i++) {
        place[i] = i * stride % 8;
        lanes_of[i * stride / 8] |= (uint16_t)(1u << i);
    }
    return _mm512_loadu_si512(place);
}
static inline vd vd_from_f32(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }

#define vd8_zero vd_zero
#define vd8_set1 vd_set1
#define vd8_load vd_load
#define vd8_store vd_store
#define vd8_add vd_add
#define vd8_fma vd_fma

#endif
