/* The tensor-core kernels of math mode bf16: stored so, or float32 rounded on the way in. */
#include "cuda/mma_table.cuh"

const void *mma_kernel_bf16(tapconv_type type, tapconv_type out_type, int form)
{
    return type == TAPCONV_F32 ? kernel_for_types<TAPCONV_MATH_BF16, float>(out_type, form)
                               : kernel_for_types<TAPCONV_MATH_BF16, __nv_bfloat16>(out_type, form);
}
