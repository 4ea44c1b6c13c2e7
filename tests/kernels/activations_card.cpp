/* The card's activations on the host: the same source, and the same bits. */
#define __host__
#define __device__
#define __forceinline__ inline

extern "C" {
#include "activations.h"
}

#include "cuda/activation.cuh"

extern "C" void activations_card(tapconv_activation activation, const float *in, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = activate(activation, in[i]);
}
