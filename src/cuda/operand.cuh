/* Operands and results whose type is looked at when the kernel runs: for kernels that convert so seldom that a template for
 * every type would not be faster. */
#ifndef TAPCONV_CUDA_OPERAND_CUH
#define TAPCONV_CUDA_OPERAND_CUH

#include "cuda/types.cuh"

/* How stored bits become an operand. */
enum conversion { FROM_F32, FROM_F32_TO_TF32, FROM_F32_TO_F16, FROM_F32_TO_BF16, FROM_F16, FROM_BF16 };

static inline conversion conversion_of(const tapconv_problem *p)
{
    if (p->type == TAPCONV_F16) return FROM_F16;
    if (p->type == TAPCONV_BF16) return FROM_BF16;
    switch (p->math) {
    case TAPCONV_MATH_TF32: return FROM_F32_TO_TF32;
    case TAPCONV_MATH_F16: return FROM_F32_TO_F16;
    case TAPCONV_MATH_BF16: return FROM_F32_TO_BF16;
    default: return FROM_F32;
    }
}

__device__ __forceinline__ float operand(uint32_t bits, conversion how)
{
    const float v = __uint_as_float(bits);
    switch (how) {
    case FROM_F32_TO_TF32: return round_operand<TAPCONV_MATH_TF32>(v);
    case FROM_F32_TO_F16: return round_operand<TAPCONV_MATH_F16>(v);
    case FROM_F32_TO_BF16: return round_operand<TAPCONV_MATH_BF16>(v);
    case FROM_F16: return __half2float(__ushort_as_half((unsigned short)bits));
    case FROM_BF16: return __uint_as_float(bits << 16);
    default: return v;
    }
}

/* The bits of an element that is read as an operand. */
__device__ __forceinline__ uint32_t bits_at(const void *array, conversion how, int64_t index)
{
    return how >= FROM_F16 ? __ldg((const unsigned short *)array + index) : __ldg((const unsigned *)array + index);
}

__device__ __forceinline__ void store_as(void *array, tapconv_type type, int64_t index, float v)
{
    if (type == TAPCONV_F32)
        store_f32((float *)array + index, v);
    else if (type == TAPCONV_F16)
        store_f32((__half *)array + index, v);
    else
        store_f32((__nv_bfloat16 *)array + index, v);
}

#endif
