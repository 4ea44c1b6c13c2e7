/* The tensor-core kernels of math mode f32. */
#include "cuda/mma_table.cuh"

const void *mma_kernel_f32(tapconv_type type, int form)
{
    return with_type(type, [&](auto tag) { return kernel_of<TAPCONV_MATH_F32, typename decltype(tag)::type>(form); });
}
