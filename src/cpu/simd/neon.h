/* The vector vocabulary on AArch64 NEON. See scalar.h for what each word means. */
#ifndef TAPCONV_SIMD_H
#define TAPCONV_SIMD_H

#include <arm_neon.h>
#include <stdint.h>

/* A word a line. */
/* clang-format off */

#define SIMD_ISA neon
#define SIMD_BIT TAPCONV_ISA_NEON
#define SIMD_REGISTERS 32

static inline void simd_stream_fence(void) {}

typedef float32x4_t vf;
#define VF_LANES 4
typedef struct vf8 {
    vf low, high;
} vf8;

static inline vf vf_zero(void) { return vdupq_n_f32(0); }
static inline vf vf_set1(float a) { return vdupq_n_f32(a); }
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline vf vf_load_part(const float *p, int64_t n)
{
    float lanes[4] = {0};
    for (int64_t i = 0; i < n && i < 4; i++) lanes[i] = p[i];
    return vld1q_f32(lanes);
}
static inline void vf_store(float *p, vf a) { vst1q_f32(p, a); }
static inline void vf_store_part(float *p, vf a, int64_t n)
{
    float lanes[4];
    vst1q_f32(lanes, a);
    for (int64_t i = 0; i < n && i < 4; i++) p[i] = lanes[i];
}
static inline void vf_stream(float *p, vf a) { vst1q_f32(p, a); }
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
static inline vf vf_fms(vf a, vf b, vf c) { return vfmaq_f32(vnegq_f32(c), a, b); }
static inline vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vf vf_select_gt(vf a, vf b, vf yes, vf no) { return vbslq_f32(vcgtq_f32(a, b), yes, no); }
static inline vf vf_neg(vf a) { return vnegq_f32(a); }
static inline int vf_any_gt(vf a, vf b) { return vmaxvq_u32(vcgtq_f32(a, b)) != 0; }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_copysign(vf magnitude, vf sign) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude); }
static inline vf vf_round(vf a) { return vrndnq_f32(a); }
/* In two steps, each a normal power of two, so that results may be subnormal; rounds once. */
static inline vf vf_scale2(vf a, vf n)
{
    const int32x4_t whole = vcvtnq_s32_f32(n), half = vshrq_n_s32(whole, 1), rest = vsubq_s32(whole, half);
    const int32x4_t bias = vdupq_n_s32(127);
    const vf first = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    const vf second = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    return vmulq_f32(vmulq_f32(a, first), second);
}
static inline vf vf_pow2(vf n)
{
    const int32x4_t biased = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(vmaxq_s32(biased, vdupq_n_s32(0)), 23));
}
static inline vf vf_pow2_near(vf a, vf b, vf *n)
{
    *n = vf_round(vf_mul(a, b));
    return vf_pow2(*n);
}
#define SIMD_HAS_PICK
static inline vf vf_pick(const float table[16], vf a)
{
    /* Bytes 4i .. 4i + 3 of the 64 are entry i. */
    const uint32x4_t index = vandq_u32(vshrq_n_u32(vreinterpretq_u32_f32(a), 21), vdupq_n_u32(15));
    const uint32x4_t bytes = vmlaq_n_u32(vdupq_n_u32(0x03020100), index, 0x04040404);
    const uint8_t *const p = (const uint8_t *)table;
    const uint8x16x4_t all = {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
    return vreinterpretq_f32_u8(vqtbl4q_u8(all, vreinterpretq_u8_u32(bytes)));
}

static inline vf vf_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void vf_store_f16(uint16_t *p, vf a) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }
static inline vf vf_load_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16)); }
static inline void vf_store_bf16(uint16_t *p, vf a)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
    const uint32x4_t quiet = vorrq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(0x40));
    vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet)));
}
static inline vf vf_round_tf32(vf a)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(a), exponent = vdupq_n_u32(0x7f800000u);
    const uint32x4_t rounded = vandq_u32(vaddq_u32(bits, vdupq_n_u32(0x1000)), vdupq_n_u32(~0x1fffu));
    return vreinterpretq_f32_u32(vbslq_u32(vceqq_u32(vandq_u32(bits, exponent), exponent), bits, rounded));
}

static inline vf8 vf8_zero(void) { return (vf8){vf_zero(), vf_zero()}; }
static inline vf8 vf8_set1(float a) { return (vf8){vf_set1(a), vf_set1(a)}; }
static inline vf8 vf8_load(const float *p) { return (vf8){vf_load(p), vf_load(p + 4)}; }
static inline void vf8_store(float *p, vf8 a) { vf_store(p, a.low), vf_store(p + 4, a.high); }
static inline vf8 vf8_add(vf8 a, vf8 b) { return (vf8){vf_add(a.low, b.low), vf_add(a.high, b.high)}; }
static inline vf8 vf8_fma(vf8 a, vf8 b, vf8 c) { return (vf8){vf_fma(a.low, b.low, c.low), vf_fma(a.high, b.high, c.high)}; }

typedef float64x2_t vd;
#define VD_LANES 2
typedef struct vd8 {
    vd part[4];
} vd8;

static inline vd vd_zero(void) { return vdupq_n_f64(0); }
static inline vd vd_set1(double a) { return vdupq_n_f64(a); }
static inline vd vd_load(const double *p) { return vld1q_f64(p); }
static inline vd vd_load_part(const double *p, int64_t n)
{
    const double lanes[2] = {n > 0 ? p[0] : 0, n > 1 ? p[1] : 0};
    return vld1q_f64(lanes);
}
static inline void vd_store(double *p, vd a) { vst1q_f64(p, a); }
static inline void vd_stream(double *p, vd a) { vst1q_f64(p, a); }
static inline void vd_store_part(double *p, vd a, int64_t n)
{
    if (n > 0) p[0] = vgetq_lane_f64(a, 0);
    if (n > 1) p[1] = vgetq_lane_f64(a, 1);
}
static inline vd vd_add(vd a, vd b) { return vaddq_f64(a, b); }
static inline vd vd_sub(vd a, vd b) { return vsubq_f64(a, b); }
static inline vd vd_mul(vd a, vd b) { return vmulq_f64(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return vfmaq_f64(c, a, b); }
static inline vd vd_from_f32(const float *p) { return vcvt_f64_f32(vld1_f32(p)); }

static inline vd8 vd8_zero(void) { return (vd8){{vd_zero(), vd_zero(), vd_zero(), vd_zero()}}; }
static inline vd8 vd8_set1(double a) { return (vd8){{vd_set1(a), vd_set1(a), vd_set1(a), vd_set1(a)}}; }
static inline vd8 vd8_load(const double *p) { return (vd8){{vd_load(p), vd_load(p + 2), vd_load(p + 4), vd_load(p + 6)}}; }
static inline void vd8_store(double *p, vd8 a)
{
    for (int i = 0; i < 4; i++) vd_store(p + 2 * i, a.part[i]);
}
static inline vd8 vd8_add(vd8 a, vd8 b)
{
    for (int i = 0; i < 4; i++) a.part[i] = vd_add(a.part[i], b.part[i]);
    return a;
}
static inline vd8 vd8_fma(vd8 a, vd8 b, vd8 c)
{
    for (int i = 0; i < 4; i++) a.part[i] = vd_fma(a.part[i], b.part[i], c.part[i]);
    return a;
}

#endif
