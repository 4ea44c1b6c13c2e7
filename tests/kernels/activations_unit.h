/* One instruction set's activations as a function: included after the set's vocabulary, with ACTIVATIONS its name. */
#include "activations.h"

#include "cpu/kernels/activate.h"

#define APPLY(f)                                                                                                       \
    do {                                                                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + VF_LANES <= n; i += VF_LANES) vf_store(out + i, f(vf_load(in + i)));                                \
        if (i < n) vf_store_part(out + i, f(vf_load_part(in + i, n - i)), n - i);                                      \
    } while (0)

void ACTIVATIONS(tapconv_activation activation, const float *in, float *out, int64_t n)
{
    switch (activation) {
    case TAPCONV_ACT_NONE: break;
    case TAPCONV_ACT_RELU: APPLY(activate_relu); break;
    case TAPCONV_ACT_SILU: APPLY(activate_silu); break;
    case TAPCONV_ACT_GELU: APPLY(activate_gelu); break;
    case TAPCONV_ACT_GELU_TANH: APPLY(activate_gelu_tanh); break;
    case TAPCONV_ACT_MISH: APPLY(activate_mish); break;
    case TAPCONV_ACT_TANH: APPLY(activate_tanh); break;
    case TAPCONV_ACT_SIGMOID: APPLY(activate_sigmoid); break;
    case TAPCONV_ACT_ELU: APPLY(activate_elu); break;
    case TAPCONV_ACT_LEAKY_RELU: APPLY(activate_leaky_relu); break;
    }
}
