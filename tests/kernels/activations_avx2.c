#include "cpu/simd/avx2.h"

#define ACTIVATIONS activations_avx2
#include "activations_unit.h"
