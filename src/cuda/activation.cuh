/* The activations of float32 values, within 2 ulp of their formulas, subnormal results included. Built as those of
 * src/cpu/kernels/activate.h, which says why, for one value: GELU as there where tables are cheap, silu with its clamps.
 * Host and device give the same bits, so tests/kernels/check_activations.c speaks for both; contracted products or
 * fast-math would break them. */
#ifndef TAPCONV_CUDA_ACTIVATION_CUH
#define TAPCONV_CUDA_ACTIVATION_CUH

#include "tapconv.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ACTIVATION __host__ __device__ __forceinline__

/* The second operand where either is NaN, unlike fminf and fmaxf. */
ACTIVATION float act_min(float a, float b)
{
    return a < b ? a : b;
}
ACTIVATION float act_max(float a, float b)
{
    return a > b ? a : b;
}

/* 2^n for an integral n <= 127; 0 for n < -126. */
ACTIVATION float act_pow2(float n)
{
    const uint32_t bits = n >= -126.0f ? (uint32_t)((int)n + 127) << 23 : 0;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* a * 2^n for an integral n in [-252, 252], rounded once. n may be NaN: then a is. */
ACTIVATION float act_scale2(float a, float n)
{
    const float half = truncf(n * 0.5f);
    return a * act_pow2(half) * act_pow2(n - half);
}

/* exp(-y) = 2^n * (1 + s), |s| < 0.42: s keeps the digits near 1 that 1 + s would round away. */
struct act_exp {
    float n, s;
};

/* exp(-r) - 1 for |r| <= ln(2)/2. */
ACTIVATION float act_expm1_reduced(float r)
{
    const float q01 = fmaf(-0x1.555554p-3f, r, 0.5f);
    const float q23 = fmaf(-0x1.11130ep-7f, r, 0x1.5554e8p-5f);
    const float q45 = fmaf(-0x1.9dfbcep-13f, r, 0x1.6d4cc6p-10f);
    const float r2 = r * r;
    return fmaf(r2, fmaf(r2, fmaf(r2, q45, q23), q01), -r);
}

/* For the sum of y in [-127 ln 2, 252 ln 2] and a tiny low. */
ACTIVATION act_exp act_exp_minus(float y, float low = 0)
{
    const float n = rintf(y * -0x1.715476p+0f), upper = fmaf(n, 0x1.62e4p-1f, y);
    return {n, act_expm1_reduced(fmaf(n, 0x1.7f7d1cp-20f, upper + low))};
}

/* v / (1 + 2^n (1 + s)) without overflow on the way. */
ACTIVATION float act_over_1_plus(float v, act_exp e)
{
    const float below = act_min(e.n, 0.0f), minus_m = below - e.n;
    const float scale = act_pow2(below);
    const float power = act_pow2(minus_m), sum = scale + power, lost = power - (sum - scale);
    const float divisor = fmaf(scale, e.s + lost, sum);
    return act_scale2(v / divisor, minus_m);
}

/* result, or NaN for v = -Inf, which the clamps of `result` have lost. */
ACTIVATION float act_nan_at_minus_infinity(float v, float result)
{
    return fmaf(act_min(0.0f, v), 0.0f, result);
}

ACTIVATION float act_relu(float v)
{
    return act_max(0.0f, v);
}

ACTIVATION float act_silu(float v)
{
    if (v < -87.0f) {
        const float x = act_max(-126.0f, v);
        return act_nan_at_minus_infinity(v, act_over_1_plus(x, act_exp_minus(x)));
    }
    const act_exp e = act_exp_minus(act_min(80.0f, v));
    const float power = act_pow2(e.n);
    return v / (power + fmaf(power, e.s, 1.0f));
}

ACTIVATION float act_sigmoid(float v)
{
    const float y = act_min(20.0f, act_max(-126.0f, v));
    return act_over_1_plus(1.0f, act_exp_minus(y));
}

ACTIVATION float act_tanh(float v)
{
    const act_exp e = act_exp_minus(act_min(20.0f, fabsf(v + v)));
    const float scale = act_pow2(e.n);
    const float a = fmaf(scale, e.s, scale - 1.0f);
    const float divisor = fmaf(scale, e.s, scale + 1.0f);
    return copysignf(a / divisor, v);
}

ACTIVATION float act_elu(float v)
{
    const act_exp e = act_exp_minus(act_min(20.0f, -act_min(0.0f, v)));
    const float scale = act_pow2(e.n);
    return v > 0.0f ? v : fmaf(scale, e.s, scale - 1.0f);
}

ACTIVATION float act_leaky_relu(float v)
{
    return v > 0.0f ? v : v * 0.01f;
}

ACTIVATION float act_mish(float v)
{
    const float x = act_max(-126.0f, v), y = act_min(20.0f, x);
    const act_exp e = act_exp_minus(-y);
    const bool up = e.n > -0.5f;
    const float scale = act_pow2(e.n), more = scale * e.s, base = scale + 1.0f;
    const float slope = base + base + more, d = fmaf(slope, more, fmaf(base, base, 1.0f));
    const float product = fmaf(slope - 1.0f, more, fmaf(scale, scale, scale));
    const float part = (up ? 2.0f : product) / d;
    const float s = up ? 0.0f : e.s, whole = fmaf(y, s, y);
    const float rest = fmaf(y, s, y - whole);
    const float result = (up ? x : whole) + fmaf(-whole, part, rest);
    return act_nan_at_minus_infinity(v, act_scale2(result, act_min(0.0f, e.n)));
}

/* 2^f - 1 for |f| <= 1/2. */
ACTIVATION float act_exp2m1_reduced(float f)
{
    const float f2 = f * f;
    const float q12 = fmaf(0x1.c6afa4p-5f, f, 0x1.ebfbdep-3f);
    const float q34 = fmaf(0x1.5ef176p-10f, f, 0x1.3b2c36p-7f);
    const float rest = fmaf(f2, fmaf(f2, 0x1.429ef4p-13f, q34), q12);
    return fmaf(f, 0x1.62e43p-1f, f2 * rest);
}

ACTIVATION float act_gelu_tanh(float v)
{
    const float x = act_max(-12.0f, v), y = act_min(6.0f, x);
    const float a = -2.296875f, a_low = -0.0053331982f;
    const float b = -0x1.a5a7dp-4f, b_low = 2.0161985e-09f;
    const float square = y * y, square_low = fmaf(y, y, -square);
    const float g = fmaf(square, b, a), lack = fmaf(square, b, -(g - a));
    const float g_low = lack + fmaf(square_low, b, fmaf(square, b_low, a_low));
    const float product = y * g, product_low = fmaf(y, g_low, fmaf(y, g, -product)), n = rintf(product);
    const act_exp e = {n, act_exp2m1_reduced(product - n + product_low)};
    return act_nan_at_minus_infinity(v, act_over_1_plus(x, e));
}

/* Phi(-a) exp(a^2/2) on 16 intervals: first the centre, then seven coefficients, so that an interval is two loads of 16
 * bytes. */
ACTIVATION const float *act_gelu_interval(uint32_t which)
{
    static const float interval[16][8] = {
        {0.124481201f, 0.45397082f, -0.342431456f, 0.205672279f, -0.105607197f, 0.048129335f, -0.0200983807f,
         0.00773453387f},
        {0.373779297f, 0.37991786f, -0.256936848f, 0.141940087f, -0.0679610968f, 0.0291355122f, -0.0114259766f,
         0.00409936998f},
        {0.628082275f, 0.32275039f, -0.196228474f, 0.0997513756f, -0.044527147f, 0.0179464258f, -0.00657795416f,
         0.00233990769f},
        {0.871704102f, 0.280279398f, -0.154621586f, 0.0727475733f, -0.030400617f, 0.011559139f, -0.00416430505f,
         0.00148700725f},
        {1.25170898f, 0.230571628f, -0.110333711f, 0.046232976f, -0.0174869597f, 0.00608536927f, -0.00199689716f,
         0.000611553784f},
        {1.7477417f, 0.185400695f, -0.0749097541f, 0.0272388943f, -0.00910101552f, 0.00283322786f, -0.000834723178f,
         0.000230236401f},
        {2.2421875f, 0.154068798f, -0.0534911491f, 0.0170658082f, -0.0050753383f, 0.00142135716f, -0.000380958547f,
         9.68615568e-05f},
        {2.75036621f, 0.130710289f, -0.0394411199f, 0.0111163845f, -0.00295555824f, 0.000746794918f, -0.000182319825f,
         4.21359218e-05f},
        {3.51171875f, 0.106032737f, -0.0265851356f, 0.00633662101f, -0.00144409202f, 0.000316127582f, -6.79424411e-05f,
         1.40571392e-05f},
        {4.50634766f, 0.0846935436f, -0.0172837302f, 0.00340352743f, -0.000648706045f, 0.000119998542f,
         -2.19055109e-05f, 3.84335544e-06f},
        {5.49511719f, 0.0704016164f, -0.0120771481f, 0.00201813597f, -0.00032907899f, 5.24460957e-05f, -8.24776725e-06f,
         1.2514339e-06f},
        {6.49060059f, 0.0600988828f, -0.00886443723f, 0.00128168252f, -0.000181838448f, 2.53405778e-05f,
         -3.52400548e-06f, 4.78326626e-07f},
        {8.02050781f, 0.0490005799f, -0.00593274832f, 0.000708469888f, -8.34751481e-05f, 9.71003556e-06f,
         -1.141604e-06f, 1.31287607e-07f},
        {10.0229492f, 0.039417956f, -0.00385810924f, 0.000374163326f, -3.59605219e-05f, 3.42615726e-06f,
         -3.2881141e-07f, 3.10042125e-08f},
        {11.9702148f, 0.0331000239f, -0.00272788364f, 0.000223336232f, -1.81660016e-05f, 1.46834191e-06f,
         -1.19550492e-07f, 9.53951051e-09f},
        {13.8583374f, 0.0286395587f, -0.00204561278f, 0.000145383048f, -1.0281884e-05f, 7.23678568e-07f, -5.07947e-08f,
         3.49006046e-09f},
    };
    return interval[which];
}

ACTIVATION float act_gelu(float v)
{
    const float a = act_min(14.75f, fabsf(v)), half = a * 0.5f, power = a * half;
    const act_exp e = act_exp_minus(power, fmaf(a, half, -power));
    const float place = fmaf(a, 2.0f, 2.0f); /* in [2, 32): two bits of the exponent and two of the fraction */
    uint32_t bits;
    memcpy(&bits, &place, sizeof bits);
    const float *const c = act_gelu_interval(bits >> 21 & 15);
    const float d = a - c[0], first = c[1];
    float rest = fmaf(c[7], d, c[6]);
    rest = fmaf(rest, d, c[5]);
    rest = fmaf(rest, d, c[4]);
    rest = fmaf(rest, d, c[3]);
    rest = fmaf(rest, d, c[2]);
    rest = rest * (a * d);
    const float m = a * first;
    float t = fmaf(rest, e.s, rest);
    t = t + fmaf(a, first, -m);
    t = fmaf(m, e.s, t);
    /* v - min(v, 0) is max(v, 0), but NaN for -Inf. */
    return v - act_min(v, 0.0f) - act_scale2(m + t, e.n);
}

/* The activation of a tapconv_activation; the choice is the same for all threads, so keep it outside inner loops. */
ACTIVATION float activate(int activation, float v)
{
    switch (activation) {
    case TAPCONV_ACT_RELU: return act_relu(v);
    case TAPCONV_ACT_SILU: return act_silu(v);
    case TAPCONV_ACT_GELU: return act_gelu(v);
    case TAPCONV_ACT_GELU_TANH: return act_gelu_tanh(v);
    case TAPCONV_ACT_MISH: return act_mish(v);
    case TAPCONV_ACT_TANH: return act_tanh(v);
    case TAPCONV_ACT_SIGMOID: return act_sigmoid(v);
    case TAPCONV_ACT_ELU: return act_elu(v);
    case TAPCONV_ACT_LEAKY_RELU: return act_leaky_relu(v);
    default: return v;
    }
}

/* activate() of N values, chosen once. Loops so that no code is repeated N times but the choice. */
template <int N> __device__ __forceinline__ void activate_all(int activation, float (&v)[N])
{
#define EACH(f)                                                                                                        \
    _Pragma("unroll") for (int i = 0; i < N; i++) v[i] = f(v[i]);                                                      \
    break
    switch (activation) {
    case TAPCONV_ACT_RELU: EACH(act_relu);
    case TAPCONV_ACT_SILU: EACH(act_silu);
    case TAPCONV_ACT_GELU: EACH(act_gelu);
    case TAPCONV_ACT_GELU_TANH: EACH(act_gelu_tanh);
    case TAPCONV_ACT_MISH: EACH(act_mish);
    case TAPCONV_ACT_TANH: EACH(act_tanh);
    case TAPCONV_ACT_SIGMOID: EACH(act_sigmoid);
    case TAPCONV_ACT_ELU: EACH(act_elu);
    case TAPCONV_ACT_LEAKY_RELU: EACH(act_leaky_relu);
    default: break;
    }
#undef EACH
}

#endif
