/* The tensor-core kernels of math mode f16. */
#include "cuda/mma_table.cuh"

const void *mma_kernel_f16(tapconv_type type, int form)
{
    return type == TAPCONV_F32 ? kernel_of<TAPCONV_MATH_F16, float>(form) : kernel_of<TAPCONV_MATH_F16, __half>(form);
}
