/* The tensor-core kernels of math mode f16: stored so, or float32 rounded on the way in. */
#include "cuda/mma_table.cuh"

const void *mma_kernel_f16(tapconv_type type, tapconv_type out_type, int form)
{
    return type == TAPCONV_F32 ? kernel_for_types<TAPCONV_MATH_F16, float>(out_type, form)
                               : kernel_for_types<TAPCONV_MATH_F16, __half>(out_type, form);
}
