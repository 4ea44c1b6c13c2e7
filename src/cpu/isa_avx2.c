#include "cpu/simd/avx2.h"

#include "cpu/kernels/table.h"
