/* Elements of arrays on the card: loads with widening, stores with rounding, operands rounded as the math modes say, and
 * the choice of a template by a type that is known only at run time. */
#ifndef TAPCONV_CUDA_TYPES_CUH
#define TAPCONV_CUDA_TYPES_CUH

#include "tapconv.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------- one value at a time */

template <typename T> __device__ __forceinline__ float load_as_f32(const T *p);
template <> __device__ __forceinline__ float load_as_f32<float>(const float *p)
{
    return *p;
}
template <> __device__ __forceinline__ float load_as_f32<__half>(const __half *p)
{
    return __half2float(*p);
}
template <> __device__ __forceinline__ float load_as_f32<__nv_bfloat16>(const __nv_bfloat16 *p)
{
    return __bfloat162float(*p);
}

/* To nearest, ties to even. */
__device__ __forceinline__ void store_f32(float *p, float v)
{
    *p = v;
}
__device__ __forceinline__ void store_f32(__half *p, float v)
{
    *p = __float2half_rn(v);
}
__device__ __forceinline__ void store_f32(__nv_bfloat16 *p, float v)
{
    *p = __float2bfloat16_rn(v);
}

/* An element of bias, gamma or beta, whose type differs from that of x where param_type says so. */
__device__ __forceinline__ float load_param(const void *array, tapconv_type type, int64_t index)
{
    if (type == TAPCONV_F16) return load_as_f32((const __half *)array + index);
    if (type == TAPCONV_BF16) return load_as_f32((const __nv_bfloat16 *)array + index);
    return ((const float *)array)[index];
}

/* To the nearest TF32, ties away from zero; Inf and NaN stay what they are. The same bits as cvt.rna.tf32.f32 and as the
 * CPU engine. */
__device__ __forceinline__ float round_tf32(float v)
{
    uint32_t bits = __float_as_uint(v);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
    return __uint_as_float(bits);
}

/* An operand as the math mode takes it. Rounding a value that is stored in the mode's type changes nothing. */
template <tapconv_math M> __device__ __forceinline__ float round_operand(float v)
{
    if constexpr (M == TAPCONV_MATH_TF32) return round_tf32(v);
    if constexpr (M == TAPCONV_MATH_F16) return __half2float(__float2half_rn(v));
    if constexpr (M == TAPCONV_MATH_BF16) return __bfloat162float(__float2bfloat16_rn(v));
    return v;
}

/* -------------------------------------------------------------------------------------------- several values at once */

/* A run of N neighbouring elements that one instruction moves (N * sizeof(T) is 4, 8 or 16 and divides its address). */
template <typename T, int N> struct alignas(sizeof(T) * N) element_run {
    T value[N];
};

template <int N, typename T> __device__ __forceinline__ void load_run_as_f32(float (&to)[N], const T *p)
{
    const element_run<T, N> run = *reinterpret_cast<const element_run<T, N> *>(p);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = load_as_f32(&run.value[i]);
}

/* Rounded, as stored bits: one value of 4 bytes, or two of 2. */
template <typename T> __device__ __forceinline__ unsigned rounded_word(const float *from)
{
    if constexpr (sizeof(T) == 4) return __float_as_uint(*from);
    if constexpr (sizeof(T) == 2) {
        T pair[2];
        store_f32(&pair[0], from[0]);
        store_f32(&pair[1], from[1]);
        unsigned short low, high;
        memcpy(&low, &pair[0], 2);
        memcpy(&high, &pair[1], 2);
        return low | (unsigned)high << 16;
    }
}

/* In PTX, since the compiler makes a store for each word of a vector behind the branches of an activation. For
 * global memory. */
template <int N, typename T> __device__ __forceinline__ void store_run_f32(T *p, const float (&from)[N])
{
    constexpr int words = N * (int)sizeof(T) / 4, each = 4 / (int)sizeof(T);
    static_assert(words == 1 || words == 2 || words % 4 == 0, "a run is 4 or 8 bytes, or whole words of 16");
    unsigned word[words];
#pragma unroll
    for (int i = 0; i < words; i++) word[i] = rounded_word<T>(from + i * each);
    if constexpr (words % 4 == 0) {
#pragma unroll
        for (int i = 0; i < words; i += 4)
            asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p + i * each)),
                         "r"(word[i]), "r"(word[i + 1]), "r"(word[i + 2]), "r"(word[i + 3])
                         : "memory");
    } else if constexpr (words == 2) {
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "r"(word[0]), "r"(word[1])
                     : "memory");
    } else {
        asm volatile("st.global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(word[0]) : "memory");
    }
}

/* ------------------------------------------------------------------------------------------- choosing at run time */

template <typename T> struct type_tag {
    using type = T;
};
template <tapconv_math M> struct math_tag {
    static constexpr tapconv_math math = M;
};

/* f(type_tag<T>()) for an array's type; float64 is not for this engine. */
template <typename F> auto with_type(tapconv_type type, F f)
{
    switch (type) {
    case TAPCONV_F16: return f(type_tag<__half>());
    case TAPCONV_BF16: return f(type_tag<__nv_bfloat16>());
    default: return f(type_tag<float>());
    }
}

/* f(math_tag<M>()) for how operands of `type` must be rounded when loaded: not at all where they are stored so. */
template <typename F> auto with_rounding(tapconv_type type, tapconv_math math, F f)
{
    if (type == TAPCONV_F32) {
        switch (math) {
        case TAPCONV_MATH_TF32: return f(math_tag<TAPCONV_MATH_TF32>());
        case TAPCONV_MATH_F16: return f(math_tag<TAPCONV_MATH_F16>());
        case TAPCONV_MATH_BF16: return f(math_tag<TAPCONV_MATH_BF16>());
        default: break;
        }
    }
    return f(math_tag<TAPCONV_MATH_F32>());
}

/* ------------------------------------------------------------------------------------------------------- launching */

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Blocks of a grid's x axis at most; kernels stride over what is more. */
#define MOST_BLOCKS ((int64_t)INT32_MAX)

/* Division of numbers below 2^31 by one divisor in a multiplication and a shift (Granlund and Montgomery, "Division by
 * invariant integers using multiplication", 1994). */
struct fast_divisor {
    uint32_t divisor, multiplier, shift;

    explicit fast_divisor(uint32_t d) : divisor(d), multiplier(0), shift(0)
    {
        while (((uint64_t)1 << shift) < d) shift++;
        multiplier = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - d)) / d + 1);
    }
    fast_divisor() : divisor(1), multiplier(0), shift(0)
    {
    }
    __device__ __forceinline__ uint32_t quotient(uint32_t n) const
    {
        return (__umulhi(n, multiplier) + n) >> shift;
    }
};

#endif
