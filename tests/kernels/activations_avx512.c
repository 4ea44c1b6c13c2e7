#include "cpu/simd/avx512.h"

#define ACTIVATIONS activations_avx512
#include "activations_unit.h"
