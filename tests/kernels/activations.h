/* out[i] = activation(in[i]) by the vector code of one instruction set. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include "tapconv.h"

typedef void activations(tapconv_activation activation, const float *in, float *out, int64_t n);

activations activations_scalar, activations_avx2, activations_avx512, activations_neon;
activations activations_card; /* the CUDA engine's, compiled for the host */

#endif
