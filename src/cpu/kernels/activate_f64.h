/* The activations on float64, one value at a time. Written for few rounding errors even where results underflow; the
 * oracle's are written from the definitions, and neither from the other. NaN and Inf are as in activate.h. */
#ifndef TAPCONV_ACTIVATE_F64_H
#define TAPCONV_ACTIVATE_F64_H

#include "tapconv.h"

#include <math.h>

/* v * exp(x + low) with a tiny low; exp(x) may be subnormal, or 0, where the product is not. */
static inline double activate_f64_times_exp(double v, double x, double low)
{
    const double root = x < -690 ? exp(x / 2) : 1;
    return v * root * (x < -690 ? root : exp(x)) * (1 + low);
}

/* v * sigmoid(u + low). */
static inline double activate_f64_gate(double v, double u, double low)
{
    if (u >= 0) {
        const double e = exp(-u);
        return v / (1 + (e - e * low));
    }
    return activate_f64_times_exp(v, u, low) / (1 + exp(u));
}

static inline double activate_f64_gelu(double v)
{
    if (v < -37) {
        /* erfc underflows before the result does: asymptotic series, its first term left out 1.5e-17 of the sum */
        const double q = 1 / (v * v), x = -v / 2 * v;
        const double sum = 1 - q * (1 - 3 * q * (1 - 5 * q * (1 - 7 * q * (1 - 9 * q * (1 - 11 * q)))));
        return activate_f64_times_exp(-sum * 0.3989422804014327, fmax(x, -1500), v > -50 ? fma(-v / 2, v, -x) : v * 0);
    }
    const double root_half = 0x1.6a09e667f3bcdp-1, root_half_low = -0x1.bdd3413b26456p-55; /* of sqrt(1/2) */
    const double two_over_root_pi = 1.1283791670955126;
    const double x = -v * root_half;
    /* What x lacks of -v sqrt(1/2) changes the result of a steep erfc. */
    const double lack = isinf(v) ? 0 : fma(-v, root_half, -x) - v * root_half_low;
    return v / 2 * (erfc(x) - two_over_root_pi * exp(-x * x) * lack);
}

static inline double activate_f64_gelu_tanh(double v)
{
    /* sigmoid(u) has reached 0 or 1; far from here the squares below overflow. */
    if (!(fabs(v) < 40)) return v > 0 ? v : v * 0;
    /* u = v (a + b v^2) as the sum of two float64, a = 2 sqrt(2/pi), b = 0.044715 a; a_high has few bits. */
    const double a_high = 1.59375, a_low = 0.0020191216057307117;
    const double b = 0.07135481627260025, b_low = -6.175149918155315e-19;
    const double square = v * v, square_low = fma(v, v, -square);
    const double cubic = square * b, cubic_low = fma(square, b, -cubic) + square * b_low + square_low * b;
    const double g = a_high + cubic, g_low = cubic - (g - a_high) + (cubic_low + a_low);
    const double product = v * g, product_low = fma(v, g, -product) + v * g_low, u = product + product_low;
    return activate_f64_gate(v, u, product_low - (u - product));
}

static inline double activate_f64_mish(double v)
{
    /* (1 + exp(v))^2 - 1 over (1 + exp(v))^2 + 1, divided by exp(2v) where that is large */
    const double e = exp(-fabs(v));
    if (v >= 0) return v * ((1 + 2 * e) / (1 + 2 * e + 2 * e * e));
    return activate_f64_times_exp(v, v, 0) * ((2 + e) / (2 + 2 * e + e * e));
}

static inline double activate_f64(tapconv_activation activation, double v)
{
    switch (activation) {
    case TAPCONV_ACT_NONE: break;
    case TAPCONV_ACT_RELU: return v < 0 ? 0 : v;
    case TAPCONV_ACT_SILU: return activate_f64_gate(v, v, 0);
    case TAPCONV_ACT_GELU: return activate_f64_gelu(v);
    case TAPCONV_ACT_GELU_TANH: return activate_f64_gelu_tanh(v);
    case TAPCONV_ACT_MISH: return activate_f64_mish(v);
    case TAPCONV_ACT_TANH: return tanh(v);
    case TAPCONV_ACT_SIGMOID: return activate_f64_gate(1, v, 0);
    case TAPCONV_ACT_ELU: return v > 0 ? v : expm1(v);
    case TAPCONV_ACT_LEAKY_RELU: return v > 0 ? v : v * 0.01;
    }
    return v;
}

#endif
