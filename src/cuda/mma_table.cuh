/* One math mode's kernels by form, for mma_f32.cu and its neighbours. */
#include "cuda/mma.cuh"

#include <utility>

template <int MATH, typename T, int... FORM> static const void *kernel_of(int form, std::integer_sequence<int, FORM...>)
{
    static const void *const kernels[] = {(const void *)mma_kernel<MATH, T, FORM>...};
    return kernels[form];
}
template <int MATH, typename T> static const void *kernel_of(int form)
{
    return kernel_of<MATH, T>(form, std::make_integer_sequence<int, MMA_FORMS>());
}
