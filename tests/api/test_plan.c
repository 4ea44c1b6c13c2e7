/* Plan options, and what a plan tells of itself. */
#include "check.h"

#include <tapconv.h>

#include <string.h>

static const tapconv_plan_options defaults;

static tapconv_problem small(void)
{
    return tapconv_conv1d_groupnorm(2, 8, 16, 50, 3, 1, 4);
}

/* Creation with `o` fails with `status` and leaves the plan as it was. */
static void check_refused(tapconv_status status, const tapconv_plan_options *o, const char *field, const char *value)
{
    const tapconv_problem p = small();
    char marker;
    tapconv_plan *const before = (tapconv_plan *)(void *)&marker;
    tapconv_plan *plan = before;
    CHECK_FAILS(status, tapconv_plan_create(&plan, &p, o), field, value);
    CHECK_FOR(plan == before, "%s %s", field, value);
}

TEST(plan_options_refused)
{
    tapconv_plan_options o = defaults;
    o.device = (tapconv_device)2;
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "device", "2");
    o.device = (tapconv_device)-1;
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "device", "-1");
    o = defaults;
    o.device_index = 1;
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "device_index", "1");
    o.device_index = -1;
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "device_index", "-1");
    o = defaults;
    o.threads = -1;
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "threads", "-1");
    o = defaults;
    o.isa_mask = 16;
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "isa_mask", "0x10");
    o = defaults;
    o.kernel = "no-such-kernel";
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "kernel", "no-such-kernel");
    o.kernel = "";
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "kernel", "dense-panel");
    for (int i = 0; i < 6; i++) {
        o = defaults;
        o.reserved[i] = 3;
        check_refused(TAPCONV_INVALID_ARGUMENT, &o, "reserved", "3");
    }
    /* A set that this machine cannot run. */
    const uint32_t foreign = tapconv_cpu_features() & TAPCONV_ISA_NEON ? TAPCONV_ISA_AVX2 : TAPCONV_ISA_NEON;
    o = defaults;
    o.isa_mask = foreign;
    check_refused(TAPCONV_INVALID_ARGUMENT, &o, "isa_mask", foreign == TAPCONV_ISA_AVX2 ? "0x4" : "0x2");
}

TEST(plan_without_engine)
{
    tapconv_plan_options o = defaults;
    o.device = TAPCONV_CUDA;
    check_refused(TAPCONV_NO_DEVICE, &o, "device", "cuda");
}

TEST(plan_null_arguments)
{
    const tapconv_problem p = small();
    tapconv_plan *plan = NULL;
    CHECK_INVALID(tapconv_plan_create(NULL, &p, NULL), "plan", "NULL");
    CHECK_INVALID(tapconv_plan_create(&plan, NULL, NULL), "problem", "NULL");
    CHECK(!plan);
    tapconv_plan_destroy(NULL);
}

TEST(plan_info)
{
    const tapconv_problem p = small();
    tapconv_plan *plan = NULL;
    CHECK_OK(tapconv_plan_create(&plan, &p, NULL));
    tapconv_plan_info info;
    tapconv_plan_get_info(plan, &info);
    CHECK(info.out_length == 50);
    CHECK(info.flops == 2.0 * 2 * 16 * 50 * 8 * 3);
    CHECK(info.bytes == 4.0 * (2 * 8 * 50 + 16 * 8 * 3 + 2 * 16 + 2 * 16 * 50));
    CHECK(info.workspace_bytes == tapconv_workspace_bytes(plan));
    CHECK(info.packed_weights_bytes == tapconv_packed_weights_bytes(plan) && info.packed_weights_bytes > 0);
    CHECK(info.threads >= 1);
    CHECK(info.kernel && info.kernel[0] && info.reason && info.reason[0] && info.isa && info.isa[0]);
    CHECK(info.kernel && info.isa && strstr(info.kernel, info.isa));
    CHECK(info.device && !info.device[0] && info.tile && !info.tile[0]);
    CHECK(info.blocks == 0 && info.registers == 0 && info.shared_bytes == 0 && info.waves == 0);
    tapconv_plan_destroy(plan);
}

/* The kernel and the instruction set that are asked for are the ones that are planned, or the plan is refused. */
TEST(plan_forced_choices)
{
    const tapconv_problem p = small();
    int planned = 0;
    for (uint32_t isa = 1; isa <= TAPCONV_ISA_AVX512; isa *= 2) {
        if (!(tapconv_cpu_features() & isa)) continue;
        for (int i = 0; tapconv_kernel_name(i); i++) {
            tapconv_plan_options o = {.isa_mask = isa, .kernel = tapconv_kernel_name(i), .threads = 1};
            tapconv_plan *plan = NULL;
            if (tapconv_plan_create(&plan, &p, &o) != TAPCONV_OK) {
                CHECK_FOR(strstr(tapconv_last_error(), o.kernel), "%s: %s", o.kernel, tapconv_last_error());
                CHECK_FOR(strcmp(o.kernel, "dense-panel") != 0, "%s", tapconv_isa_name(isa));
                continue;
            }
            tapconv_plan_info info;
            tapconv_plan_get_info(plan, &info);
            CHECK_FOR(strncmp(info.kernel, o.kernel, strlen(o.kernel)) == 0, "%s: %s", o.kernel, info.kernel);
            CHECK_FOR(strcmp(info.isa, tapconv_isa_name(isa)) == 0, "%s", info.isa);
            CHECK(info.threads == 1);
            tapconv_plan_destroy(plan);
            planned++;
        }
    }
    CHECK(planned > 0);
}

/* A family that is refused says what it takes, and of what. */
TEST(plan_refused_family)
{
    tapconv_problem p = small();
    tapconv_plan_options o = {.kernel = "depthwise"};
    tapconv_plan *plan = NULL;
    p.in_channels = 12, p.out_channels = 12, p.groups = 6;
    CHECK_INVALID(tapconv_plan_create(&plan, &p, &o), "depthwise", "in_channels/groups 1", "stride up to 384",
                  "up to 65536", "\"dense-panel\" takes every problem");
    o.kernel = "dense-window";
    p.stride = 385;
    CHECK_INVALID(tapconv_plan_create(&plan, &p, &o), "dense-window", "stride up to 384", "kernel_size up to 4194304");
    o.kernel = "walk";
    CHECK_INVALID(tapconv_plan_create(&plan, &p, &o), "walk", "\"depthwise\", \"dense-window\", \"dense-panel\"");
}

/* The widest set that is left is used; bits that this machine lacks do no harm beside one that it has. */
TEST(plan_widest_set)
{
    const tapconv_problem p = small();
    uint32_t widest = TAPCONV_ISA_SCALAR;
    for (uint32_t isa = 1; isa <= TAPCONV_ISA_AVX512; isa *= 2)
        if (tapconv_cpu_features() & isa) widest = isa;
    tapconv_plan_options o = {.isa_mask = 15};
    tapconv_plan *plan = NULL;
    CHECK_OK(tapconv_plan_create(&plan, &p, &o));
    tapconv_plan_info info;
    tapconv_plan_get_info(plan, &info);
    CHECK_FOR(strcmp(info.isa, tapconv_isa_name(widest)) == 0, "%s", info.isa);
    tapconv_plan_destroy(plan);
}

TEST(ceilings)
{
    tapconv_ceilings c = {.gflops = -1, .gbytes_per_s = -1};
    CHECK_INVALID(tapconv_measure_ceilings(NULL, TAPCONV_MATH_F32, NULL), "ceilings", "NULL");
    CHECK_INVALID(tapconv_measure_ceilings(NULL, (tapconv_math)9, &c), "math", "9");
    const tapconv_plan_options bad = {.threads = -4};
    CHECK_INVALID(tapconv_measure_ceilings(&bad, TAPCONV_MATH_F32, &c), "threads", "-4");
    CHECK(c.gflops == -1 && c.gbytes_per_s == -1);
    const tapconv_plan_options one = {.threads = 1};
    CHECK_OK(tapconv_measure_ceilings(&one, TAPCONV_MATH_F32, &c));
    CHECK(c.gflops > 0 && c.gbytes_per_s > 0 && c.fma_gflops == c.gflops && c.least_seconds == 0 && c.measured == 1);
    CHECK_OK(tapconv_measure_ceilings(&one, TAPCONV_MATH_F64, &c));
    CHECK(c.gflops > 0 && c.gbytes_per_s > 0);
}
