/* The CUDA engine without a card: what it refuses, and plans for cards that its table describes. */
#include "check.h"

#include <tapconv.h>

#include <stdlib.h>
#include <string.h>

static const tapconv_plan_options cuda = {.device = TAPCONV_CUDA}, h200 = {.device = TAPCONV_CUDA, .card = "h200"};

static tapconv_problem small(void)
{
    return tapconv_conv1d_groupnorm(2, 8, 16, 50, 3, 1, 4);
}

/* The plan, and with it the strings of its info, lives until the next one is made. */
static tapconv_status plan_problem(tapconv_problem p, tapconv_plan_options o, tapconv_plan_info *info)
{
    static tapconv_plan *latest;
    tapconv_plan_destroy(latest);
    latest = NULL;
    const tapconv_status status = tapconv_plan_create(&latest, &p, &o);
    if (status == TAPCONV_OK && info) tapconv_plan_get_info(latest, info);
    return status;
}

TEST(engine_refusals)
{
    tapconv_problem p = small();
    tapconv_plan_options o = h200;
    o.card = "h2000";
    CHECK_INVALID(plan_problem(p, o, NULL), "card", "h2000", "h200", "h100", "a100");
    o = h200, o.kernel = "dense-panel";
    CHECK_INVALID(plan_problem(p, o, NULL), "kernel", "dense-panel", "tapconv_device_kernel_name");
    o = h200, o.isa_mask = TAPCONV_ISA_SCALAR;
    CHECK_INVALID(plan_problem(p, o, NULL), "isa_mask", "0x1", "GPU");
    o = h200, o.device_index = -1;
    CHECK_INVALID(plan_problem(p, o, NULL), "device_index", "-1");
    o = h200, o.threads = -1;
    CHECK_INVALID(plan_problem(p, o, NULL), "threads", "-1");
    p.math = TAPCONV_MATH_F64;
    CHECK_INVALID(plan_problem(p, h200, NULL), "f64", "cpu");
    tapconv_ceilings c;
    CHECK_INVALID(tapconv_measure_ceilings(&h200, TAPCONV_MATH_F64, &c), "f64", "cpu");
}

/* Any legal layer is planned on any card. */
TEST(engine_plans_for_every_card)
{
    static const tapconv_math maths[] = {TAPCONV_MATH_F32, TAPCONV_MATH_TF32, TAPCONV_MATH_F16, TAPCONV_MATH_BF16};
    int cards = 0;
    for (const char *card; (card = tapconv_card_name(&cuda, cards)) != NULL; cards++) {
        const tapconv_plan_options o = {.device = TAPCONV_CUDA, .card = card};
        for (size_t m = 0; m < sizeof maths / sizeof maths[0]; m++) {
            tapconv_problem problems[] = {small(), tapconv_causal_conv1d(32, 256, 256, 8192, 4, 1),
                                          tapconv_causal_conv1d(1, 64, 64, 1000, 7, 512),
                                          tapconv_conv1d(3, 1, 5, 9, 2, 0)};
            problems[1].groups = 256;
            problems[2].stride = 3;
            problems[3].layout = TAPCONV_NLC;
            for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
                tapconv_plan_info info = {0};
                problems[i].math = maths[m];
                if (!CHECK_OK(plan_problem(problems[i], o, &info))) continue;
                const int told = info.kernel && info.reason && info.tile && info.device && info.isa;
                if (!CHECK_FOR(told, "%s", card) || !told) continue;
                CHECK_FOR(info.kernel[0] && info.reason[0] && info.tile[0] && strstr(info.device, "NVIDIA"), "%s",
                          card);
                CHECK_FOR(info.isa[0] == '\0' && info.threads == 0, "%s", card);
                CHECK_FOR(info.blocks >= 1 && info.block_threads >= 32 && info.block_threads <= 1024, "%s", card);
            }
        }
    }
    CHECK(cards >= 3);
}

TEST(engine_families)
{
    int families = 0, general = 0;
    for (const char *name; (name = tapconv_device_kernel_name(&cuda, families)) != NULL; families++) {
        tapconv_plan_options o = h200;
        tapconv_plan_info info = {0};
        general |= strcmp(name, "general") == 0;
        o.kernel = name;
        if (plan_problem(small(), o, &info) == TAPCONV_OK)
            CHECK_FOR(strncmp(info.kernel, name, strlen(name)) == 0 && strstr(info.reason, "by name"), "%s", name);
        else
            CHECK_FOR(strstr(tapconv_last_error(), name) && strcmp(name, "general") != 0, "%s", name);
    }
    CHECK(general && !tapconv_device_kernel_name(&cuda, -1));
}

/* One packed buffer serves every plan of a layer. */
TEST(engine_packed_weights_know_the_layer_alone)
{
    static const struct {
        int64_t batch, length;
        const char *card;
    } others[] = {{1, 1, "h200"}, {64, 100000, "h200"}, {2, 700, "a100"}, {1, 3, "l40s"}};
    tapconv_problem p = tapconv_causal_conv1d(2, 96, 80, 500, 5, 3);
    tapconv_plan_info info = {0};
    CHECK_OK(plan_problem(p, h200, &info));
    const size_t bytes = info.packed_weights_bytes;
    CHECK(bytes >= 96u * 80 * 5 * 4 && bytes % 256 == 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const tapconv_plan_options o = {.device = TAPCONV_CUDA, .card = others[i].card};
        p.batch = others[i].batch, p.length = others[i].length;
        CHECK_OK(plan_problem(p, o, &info));
        CHECK(info.packed_weights_bytes == bytes);
    }
}

TEST(engine_workspace)
{
    tapconv_plan_info plain = {0}, norm = {0};
    tapconv_problem p = tapconv_conv1d(4, 64, 64, 3000, 3, 1);
    CHECK_OK(plan_problem(p, h200, &plain));
    p.norm_groups = 8;
    CHECK_OK(plan_problem(p, h200, &norm));
    CHECK(norm.workspace_bytes >= plain.workspace_bytes && norm.workspace_bytes >= 4u * 64 * 3000 * 4);
    p.batch = 0;
    CHECK_OK(plan_problem(p, h200, &norm));
    CHECK(norm.workspace_bytes == 0 && norm.blocks == 0);
}

/* A described card explains; it neither packs nor computes. */
TEST(engine_described_card_does_not_execute)
{
    const tapconv_problem p = tapconv_conv1d(1, 8, 8, 50, 3, 1);
    tapconv_plan *plan = NULL;
    CHECK_OK(tapconv_plan_create(&plan, &p, &h200));
    const size_t bytes = tapconv_packed_weights_bytes(plan), work = tapconv_workspace_bytes(plan);
    char *packed = aligned_alloc(256, bytes + 256), *workspace = malloc(work + 1);
    float *x = calloc(400, sizeof *x), *y = calloc(400, sizeof *y);
    if (!packed || !workspace || !x || !y) abort();
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_pack_weights(plan, x, packed, bytes), "H200", "described");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_pack_weights_on(plan, x, packed, bytes, NULL), "H200", "described");
    CHECK_INVALID(tapconv_pack_weights(plan, x, packed + 8, bytes), "packed", "256");
    CHECK_INVALID(tapconv_pack_weights(plan, x, packed, bytes - 1), "packed_bytes");
    tapconv_arrays a = {.x = x, .packed_weights = packed, .y = y, .workspace = workspace, .workspace_bytes = work};
    double seconds = -1;
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_execute(plan, &a), "H200", "described");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_time(plan, &a, 1, TAPCONV_TIME_GRAPH, 1, &seconds, 1), "described");
    CHECK_INVALID(tapconv_device_time(plan, &a, 0, 0, 1, &seconds, 1), "sets", "0");
    CHECK_INVALID(tapconv_device_time(plan, &a, 1, 4, 1, &seconds, 1), "flags", "0x4");
    CHECK_INVALID(tapconv_device_time(plan, &a, 1, 0, -2, &seconds, 1), "executes", "-2");
    CHECK_INVALID(tapconv_device_time(plan, &a, 1, 0, 1, &seconds, 0), "samples", "0");
    CHECK_INVALID(tapconv_device_time(plan, &a, 1, 0, 1, NULL, 1), "seconds", "NULL");
    CHECK_INVALID(tapconv_device_time(plan, NULL, 1, 0, 1, &seconds, 1), "arrays", "NULL");
    a.packed_weights = packed + 8;
    CHECK_INVALID(tapconv_execute(plan, &a), "packed_weights", "256");
    CHECK(seconds == -1);
    tapconv_plan_destroy(plan);
    free(packed), free(workspace), free(x), free(y);
}

TEST(engine_ceilings_of_a_described_card)
{
    tapconv_ceilings f32 = {0}, f16 = {0}, tf32 = {0};
    CHECK_OK(tapconv_measure_ceilings(&h200, TAPCONV_MATH_F32, &f32));
    CHECK_OK(tapconv_measure_ceilings(&h200, TAPCONV_MATH_F16, &f16));
    CHECK_OK(tapconv_measure_ceilings(&h200, TAPCONV_MATH_TF32, &tf32));
    CHECK(f32.measured == 0 && f32.gbytes_per_s > 1000 && f32.least_seconds == 2e-6);
    CHECK(f32.gflops == f16.gflops / 3 && tf32.gflops < f16.gflops && f32.gflops > f32.fma_gflops);
}

/* Every call says that there is no device, or works where there is one. */
TEST(engine_without_a_device)
{
    tapconv_plan_options far = cuda;
    far.device_index = 1000;
    int32_t count = -1;
    tapconv_device_info info;
    void *memory = NULL;
    const tapconv_status counted = tapconv_device_count(&cuda, &count);
    CHECK(counted == TAPCONV_OK || counted == TAPCONV_NO_DEVICE);
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_problem(small(), far, NULL), "cuda:1000");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_describe(&far, &info), "cuda:1000");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_allocate(&far, &memory, 4), "cuda:1000");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_synchronize(&far), "cuda:1000");
    if (counted == TAPCONV_OK) return;
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_count(&cuda, &count), "driver");
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_problem(small(), cuda, NULL), "cuda:0", "driver");
    CHECK(count == -1 && !memory);
}
