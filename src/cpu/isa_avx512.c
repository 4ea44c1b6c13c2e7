#include "cpu/simd/avx512.h"

#include "cpu/kernels/table.h"
