#include "cpu/simd/neon.h"

#include "cpu/kernels/table.h"
