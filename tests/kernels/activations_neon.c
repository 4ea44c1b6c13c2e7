#include "cpu/simd/neon.h"

#define ACTIVATIONS activations_neon
#include "activations_unit.h"
