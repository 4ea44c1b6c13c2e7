/* Which instruction sets this build has and this machine runs. */
#include "cpu/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports does not know F16C in every compiler; AVX's state is saved by the system where AVX2 is usable. */
static int has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

static const tapconv_isa *const built[] = {
#if defined(__x86_64__)
    &tapconv_isa_avx512,
    &tapconv_isa_avx2,
#elif defined(__aarch64__)
    &tapconv_isa_neon,
#endif
    &tapconv_isa_scalar,
};

#define BUILT (sizeof built / sizeof built[0])

uint32_t tapconv_cpu_features(void)
{
    uint32_t features = TAPCONV_ISA_SCALAR;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) features |= TAPCONV_ISA_AVX2;
    if ((features & TAPCONV_ISA_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        features |= TAPCONV_ISA_AVX512;
#elif defined(__aarch64__)
    features |= TAPCONV_ISA_NEON; /* part of the architecture */
#endif
    return features;
}

const char *tapconv_isa_name(uint32_t isa)
{
    switch (isa) {
    case TAPCONV_ISA_SCALAR: return "scalar";
    case TAPCONV_ISA_NEON: return "neon";
    case TAPCONV_ISA_AVX2: return "avx2";
    case TAPCONV_ISA_AVX512: return "avx512";
    default: return NULL;
    }
}

const tapconv_isa *tapconv_isa_choose(uint32_t mask)
{
    const uint32_t usable = tapconv_cpu_features() & (mask ? mask : ~0u);
    for (size_t i = 0; i < BUILT; i++)
        if (built[i]->bit & usable) return built[i];
    return NULL;
}
