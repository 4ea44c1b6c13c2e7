#include "cpu/simd/scalar.h"

#include "cpu/kernels/table.h"
