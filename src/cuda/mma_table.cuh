/* One math mode's kernels by types and form, for mma_f32.cu and its neighbours. */
#include "cuda/mma.cuh"

template <int MATH, typename T, typename OUT> static const void *kernel_of(int form)
{
    switch (form) {
    case 0: return (const void *)mma_kernel<MATH, T, OUT, 2, 2>;
    case 1: return (const void *)mma_kernel<MATH, T, OUT, 1, 2>;
    default: return (const void *)mma_kernel<MATH, T, OUT, 1, 1>;
    }
}

/* Results are of the type of x, or float32 on their way to GroupNorm. */
template <int MATH, typename T> static const void *kernel_for_types(tapconv_type out_type, int form)
{
    return out_type == TAPCONV_F32 ? kernel_of<MATH, T, float>(form) : kernel_of<MATH, T, T>(form);
}
