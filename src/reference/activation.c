/* The activations as their definitions give them in float64; rearranged only where the definition itself would lose
 * digits (a difference of nearly equal numbers) or overflow. */
#include "reference.h"

#include <math.h>

static double sigmoid(double v)
{
    return v >= 0 ? 1 / (1 + exp(-v)) : exp(v) / (1 + exp(v));
}

double tapconv_reference_activation(tapconv_activation activation, double v)
{
    if (isnan(v)) return v;
    switch (activation) {
    case TAPCONV_ACT_NONE: return v;
    case TAPCONV_ACT_RELU: return v > 0 ? v : 0;
    case TAPCONV_ACT_SILU: return v * sigmoid(v);
    case TAPCONV_ACT_GELU: return v / 2 * erfc(-v * 0.70710678118654752440); /* 1 + erf(a) = erfc(-a) */
    case TAPCONV_ACT_GELU_TANH: {
        /* (1 + tanh(u))/2 = sigmoid(2u) */
        const double u = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
        return v * sigmoid(2 * u);
    }
    case TAPCONV_ACT_MISH: return v * tanh(v > 30 ? v : log1p(exp(v)));
    case TAPCONV_ACT_TANH: return tanh(v);
    case TAPCONV_ACT_SIGMOID: return sigmoid(v);
    case TAPCONV_ACT_ELU: return v > 0 ? v : expm1(v);
    case TAPCONV_ACT_LEAKY_RELU: return v > 0 ? v : 0.01 * v;
    }
    return v;
}
