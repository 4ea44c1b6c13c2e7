/* The tensor-core kernels of math mode f32. */
#include "cuda/mma_table.cuh"

const void *mma_kernel_f32(tapconv_type type, tapconv_type out_type, int form)
{
    return with_type(type, [&](auto tag) {
        return kernel_for_types<TAPCONV_MATH_F32, typename decltype(tag)::type>(out_type, form);
    });
}
