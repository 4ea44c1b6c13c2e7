/* Names, sizes and version. */
#include "check.h"

#include <tapconv.h>

#include <stdio.h>
#include <string.h>

#define CHECK_NAMES(function, type, ...)                                                                               \
    do {                                                                                                               \
        static const char *const expected[] = {__VA_ARGS__};                                                           \
        const int count = (int)(sizeof expected / sizeof expected[0]);                                                 \
        for (int i = 0; i < count; i++) {                                                                              \
            const char *name = function((type)i);                                                                      \
            CHECK_FOR(name &&strcmp(name, expected[i]) == 0, #function " of %d", i);                                   \
        }                                                                                                              \
        CHECK(function((type)count) == NULL && function((type)-1) == NULL && function((type)0x7fffffff) == NULL);      \
    } while (0)

TEST(names_of_values)
{
    CHECK_NAMES(tapconv_type_name, tapconv_type, "f32", "f64", "f16", "bf16");
    CHECK_NAMES(tapconv_math_name, tapconv_math, "f32", "tf32", "f16", "bf16", "f64");
    CHECK_NAMES(tapconv_layout_name, tapconv_layout, "ncl", "nlc");
    CHECK_NAMES(tapconv_activation_name, tapconv_activation, "none", "relu", "silu", "gelu", "gelu-tanh", "mish",
                "tanh", "sigmoid", "elu", "leaky-relu");
}

TEST(names_type_bytes)
{
    CHECK(tapconv_type_bytes(TAPCONV_F32) == 4);
    CHECK(tapconv_type_bytes(TAPCONV_F64) == 8);
    CHECK(tapconv_type_bytes(TAPCONV_F16) == 2);
    CHECK(tapconv_type_bytes(TAPCONV_BF16) == 2);
    CHECK(tapconv_type_bytes((tapconv_type)TAPCONV_TYPE_COUNT) == 0);
    CHECK(tapconv_type_bytes((tapconv_type)-1) == 0);
}

TEST(names_version)
{
    char expected[64];
    snprintf(expected, sizeof expected, "%d.%d.%d", TAPCONV_VERSION_MAJOR, TAPCONV_VERSION_MINOR,
             TAPCONV_VERSION_PATCH);
    CHECK_FOR(strcmp(tapconv_version(), expected) == 0, "%s", tapconv_version());
}

TEST(names_instruction_sets)
{
    CHECK(strcmp(tapconv_isa_name(TAPCONV_ISA_SCALAR), "scalar") == 0);
    CHECK(strcmp(tapconv_isa_name(TAPCONV_ISA_NEON), "neon") == 0);
    CHECK(strcmp(tapconv_isa_name(TAPCONV_ISA_AVX2), "avx2") == 0);
    CHECK(strcmp(tapconv_isa_name(TAPCONV_ISA_AVX512), "avx512") == 0);
    CHECK(!tapconv_isa_name(0) && !tapconv_isa_name(3) && !tapconv_isa_name(16) && !tapconv_isa_name(~0u));
    const uint32_t features = tapconv_cpu_features();
    CHECK(features & TAPCONV_ISA_SCALAR);
    CHECK(!(features & ~(TAPCONV_ISA_SCALAR | TAPCONV_ISA_NEON | TAPCONV_ISA_AVX2 | TAPCONV_ISA_AVX512)));
    CHECK(features == tapconv_cpu_features());
#ifdef __aarch64__
    CHECK(features & TAPCONV_ISA_NEON);
#endif
}

TEST(names_kernels)
{
    int count = 0, general = 0;
    for (const char *name; (name = tapconv_kernel_name(count)); count++) {
        CHECK(name[0] != '\0');
        general |= strcmp(name, "dense-panel") == 0;
        for (int i = 0; i < count; i++) CHECK_FOR(strcmp(name, tapconv_kernel_name(i)) != 0, "kernel %d", count);
    }
    CHECK(general);
    CHECK(!tapconv_kernel_name(count + 1) && !tapconv_kernel_name(-1) && !tapconv_kernel_name(0x7fffffff));
}
