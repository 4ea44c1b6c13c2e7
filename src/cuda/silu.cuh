/* silu of several values at once, for kernels that it would limit: straight code without branches, so that the values
 * are computed side by side.
 *
 * For float32 results the same bits as act_silu. For 16-bit results by the card's approximations of 2^x and 1/x: off by
 * at most 2^-16 of the result, before that is rounded to 8 or 11 bits. */
#ifndef TAPCONV_CUDA_SILU_CUH
#define TAPCONV_CUDA_SILU_CUH

#include "cuda/activation.cuh"

/* From here on a quotient or a power may leave the range of normal numbers. 16-bit results need no limit above: silu is the
 * value itself there. */
#define SILU_LIMIT 87.0f

__device__ __forceinline__ float approximate_reciprocal(float d)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return r;
}

/* act_silu(v) for |v| < SILU_LIMIT or NaN. */
__device__ __forceinline__ float silu_inside(float v)
{
    /* The addition rounds to an integer as rintf does, and leaves it in the low bits. */
    const float shifted = act_min(80.0f, v) * -0x1.715476p+0f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    const float power = __uint_as_float((__float_as_uint(shifted) << 23) + 0x3f800000u);
    const float y = act_min(80.0f, v), upper = fmaf(n, 0x1.62e4p-1f, y);
    const float s = act_expm1_reduced(fmaf(n, 0x1.7f7d1cp-20f, upper));
    const float d = power + fmaf(power, s, 1.0f);
    /* The quotient as the compiler makes it where nothing can overflow: rounded correctly. */
    float r = approximate_reciprocal(d);
    r = fmaf(fmaf(-d, r, 1.0f), r, r);
    float q = v * r;
    q = fmaf(r, fmaf(-d, q, v), q);
    return fmaf(r, fmaf(-d, q, v), q);
}

__device__ __forceinline__ float silu_roughly(float v)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v * -0x1.715476p+0f));
    return v * approximate_reciprocal(1.0f + power);
}

/* activate_all() of values that are stored as T. What a value becomes depends on that value alone. */
template <typename T, int N> __device__ __forceinline__ void activate_run(int activation, float (&v)[N])
{
    if (activation != TAPCONV_ACT_SILU) {
        if (activation != TAPCONV_ACT_NONE) activate_all(activation, v);
        return;
    }
    bool inside = true;
#pragma unroll
    for (int i = 0; i < N; i++) inside &= !((sizeof(T) == 2 ? -v[i] : fabsf(v[i])) >= SILU_LIMIT);
    if (inside) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = sizeof(T) == 2 ? silu_roughly(v[i]) : silu_inside(v[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = sizeof(T) == 4 || -v[i] >= SILU_LIMIT ? act_silu(v[i]) : silu_roughly(v[i]);
}

#endif
