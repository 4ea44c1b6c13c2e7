#include "cpu/simd/scalar.h"

#define ACTIVATIONS activations_scalar
#include "activations_unit.h"
