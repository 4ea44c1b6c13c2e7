/* The tensor-core kernels of math mode bf16. */
#include "cuda/mma_table.cuh"

const void *mma_kernel_bf16(tapconv_type type, int form)
{
    return type == TAPCONV_F32 ? kernel_of<TAPCONV_MATH_BF16, float>(form)
                               : kernel_of<TAPCONV_MATH_BF16, __nv_bfloat16>(form);
}
