/* The tensor-core kernels of math mode tf32. */
#include "cuda/mma_table.cuh"

const void *mma_kernel_tf32(tapconv_type type, int form)
{
    return with_type(type, [&](auto tag) { return kernel_of<TAPCONV_MATH_TF32, typename decltype(tag)::type>(form); });
}
