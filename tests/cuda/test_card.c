/* The engine's host side on a card: memory, streams, graphs, timing. Kernels are checked elsewhere, problem by problem. */
#include "card.h"
#include "check.h"
#include "layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A layer with its arrays on the card. */
typedef struct card_layer {
    tapconv_plan *plan;
    tapconv_arrays arrays;
    void *memory[8]; /* on the card */
    int memory_count;
    void *w, *packed;
    double *expected;
    float *y;
    size_t y_count;
} card_layer;

int card_is_there(void)
{
    int32_t count;
    if (tapconv_device_count(&cuda, &count) == TAPCONV_OK) return 1;
    printf("Skipped: %s\n", tapconv_last_error());
    CHECK(strstr(tapconv_last_error(), "cuda:0") != NULL);
    return 0;
}

void *to_card(const void *host, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(tapconv_device_allocate(&cuda, &memory, bytes));
    if (host) CHECK_OK(tapconv_device_upload(&cuda, memory, host, bytes));
    return memory;
}

static void *keep(card_layer *l, const void *host, size_t bytes)
{
    return l->memory[l->memory_count++] = to_card(host, bytes);
}

/* Random float32 values on the card; the host's copy goes to `host`. */
static void *numbers_on_card(card_layer *l, int64_t count, unsigned seed, float **host)
{
    *host = make_numbers(count, TAPCONV_F32, seed);
    return keep(l, *host, (size_t)count * sizeof **host);
}

static card_layer card_layer_make(tapconv_problem p)
{
    card_layer l = {0};
    float *x, *w, *bias = NULL, *gamma = NULL, *beta = NULL;
    int64_t out_length;
    CHECK_OK(tapconv_problem_check(&p, &out_length));
    CHECK_OK(tapconv_plan_create(&l.plan, &p, &cuda));
    if (!l.plan) exit(1);
    l.y_count = (size_t)(p.batch * p.out_channels * out_length);
    l.arrays.x = numbers_on_card(&l, p.batch * p.in_channels * p.length, 1, &x);
    l.w = numbers_on_card(&l, p.out_channels * (p.in_channels / p.groups) * p.kernel_size, 2, &w);
    if (p.has_bias) l.arrays.bias = numbers_on_card(&l, p.out_channels, 3, &bias);
    if (p.norm_affine) l.arrays.gamma = numbers_on_card(&l, p.out_channels, 4, &gamma);
    if (p.norm_affine) l.arrays.beta = numbers_on_card(&l, p.out_channels, 5, &beta);
    l.arrays.y = keep(&l, NULL, l.y_count * sizeof *l.y);
    l.arrays.workspace_bytes = tapconv_workspace_bytes(l.plan);
    l.arrays.workspace = keep(&l, NULL, l.arrays.workspace_bytes);
    l.packed = keep(&l, NULL, tapconv_packed_weights_bytes(l.plan));
    l.arrays.packed_weights = l.packed;
    CHECK_OK(tapconv_pack_weights(l.plan, l.w, l.packed, tapconv_packed_weights_bytes(l.plan)));
    l.y = must_malloc(l.y_count * sizeof *l.y);
    l.expected = must_malloc(l.y_count * sizeof *l.expected);
    CHECK_OK(tapconv_reference(&p, x, w, bias, gamma, beta, l.expected));
    free(x), free(w), free(bias), free(gamma), free(beta);
    return l;
}

static void poison(card_layer *l)
{
    CHECK_OK(tapconv_device_fill(&cuda, l->arrays.y, 0xff, l->y_count * sizeof *l->y));
}

/* Brings y to the host, and its relative distance from the float64 result. */
static double error_of(card_layer *l)
{
    double errors = 0, squares = 0;
    CHECK_OK(tapconv_device_download(&cuda, l->y, l->arrays.y, l->y_count * sizeof *l->y));
    for (size_t i = 0; i < l->y_count; i++) {
        const double error = (double)l->y[i] - l->expected[i];
        errors += error * error, squares += l->expected[i] * l->expected[i];
    }
    return sqrt(errors / squares);
}

static void card_layer_free(card_layer *l)
{
    for (int i = 0; i < l->memory_count; i++) CHECK_OK(tapconv_device_free(&cuda, l->memory[i]));
    tapconv_plan_destroy(l->plan);
    free(l->expected), free(l->y);
}

static tapconv_problem norm_layer(void)
{
    tapconv_problem p = tapconv_conv1d_groupnorm(3, 48, 96, 777, 3, 1, 8);
    p.has_bias = 1;
    p.activation = TAPCONV_ACT_SILU;
    return p;
}

TEST(card_memory)
{
    if (!card_is_there()) return;
    unsigned char there_and_back[1000], pattern[1000];
    for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (unsigned char)(i * 7);
    void *memory = to_card(pattern, sizeof pattern), *much = NULL;
    CHECK((uintptr_t)memory % 256 == 0);
    CHECK_OK(tapconv_device_fill(&cuda, (char *)memory + 10, 0xab, 20));
    memset(pattern + 10, 0xab, 20);
    CHECK_OK(tapconv_device_download(&cuda, there_and_back, memory, sizeof pattern));
    CHECK(memcmp(there_and_back, pattern, sizeof pattern) == 0);
    CHECK_FAILS(TAPCONV_OUT_OF_MEMORY, tapconv_device_allocate(&cuda, &much, (size_t)1 << 50), "cuda:0", "bytes");
    CHECK(!much);
    CHECK_OK(tapconv_device_synchronize(&cuda)); /* the failure is forgotten */
    CHECK_OK(tapconv_device_free(&cuda, memory));
    CHECK_OK(tapconv_device_free(&cuda, NULL));
}

TEST(card_describes_itself)
{
    if (!card_is_there()) return;
    tapconv_device_info info;
    CHECK_OK(tapconv_device_describe(&cuda, &info));
    CHECK(info.name[0] && info.major >= 5 && info.multiprocessors >= 1 && info.l2_bytes > 0);
    CHECK(info.memory_bytes > 0 && info.free_bytes > 0 && info.free_bytes <= info.memory_bytes);
    CHECK(info.driver_version >= 12000 && info.runtime_version >= 12040);
}

TEST(card_plan_tells_of_the_launch)
{
    if (!card_is_there()) return;
    const tapconv_problem p = tapconv_causal_conv1d(2, 64, 64, 5000, 4, 1);
    for (int i = 0; tapconv_device_kernel_name(&cuda, i); i++) {
        tapconv_plan_options o = cuda;
        tapconv_plan *plan = NULL;
        tapconv_plan_info info;
        o.kernel = tapconv_device_kernel_name(&cuda, i);
        if (tapconv_plan_create(&plan, &p, &o) != TAPCONV_OK) continue;
        tapconv_plan_get_info(plan, &info);
        CHECK_FOR(info.registers > 0 && info.blocks_per_multiprocessor > 0 && info.waves > 0, "%s", o.kernel);
        tapconv_plan_destroy(plan);
    }
}

TEST(card_executes_and_repeats)
{
    if (!card_is_there()) return;
    const tapconv_problem problems[] = {tapconv_causal_conv1d(2, 64, 128, 1000, 4, 2), norm_layer()};
    for (size_t i = 0; i < 2; i++) {
        card_layer l = card_layer_make(problems[i]);
        float *first = must_malloc(l.y_count * sizeof *first);
        for (int run = 0; run < 20; run++) {
            poison(&l);
            CHECK_OK(tapconv_execute(l.plan, &l.arrays));
            CHECK_OK(tapconv_device_synchronize(&cuda));
            const double error = error_of(&l);
            CHECK_FOR(error <= 1e-6, "problem %zu: %g", i, error);
            if (run == 0) memcpy(first, l.y, l.y_count * sizeof *first);
            CHECK_FOR(memcmp(first, l.y, l.y_count * sizeof *first) == 0, "problem %zu, run %d", i, run);
        }
        free(first);
        card_layer_free(&l);
    }
}

/* A graph is captured before anything else was launched, so that kernels that are loaded late are met within the capture. */
TEST(card_captures_the_first_execute)
{
    if (!card_is_there()) return;
    card_layer l = card_layer_make(norm_layer());
    double seconds[5] = {0};
    poison(&l);
    CHECK_OK(tapconv_device_time(l.plan, &l.arrays, 1, TAPCONV_TIME_GRAPH, 3, seconds, 5));
    for (int i = 0; i < 5; i++) CHECK_FOR(seconds[i] > 0 && seconds[i] < 1, "%g", seconds[i]);
    const double error = error_of(&l);
    CHECK_FOR(error <= 1e-6, "%g", error);
    card_layer_free(&l);
}

TEST(card_times_in_every_way)
{
    if (!card_is_there()) return;
    card_layer l = card_layer_make(tapconv_causal_conv1d(2, 64, 128, 4000, 4, 1));
    tapconv_arrays two[] = {l.arrays, l.arrays};
    for (uint32_t flags = 0; flags <= (TAPCONV_TIME_GRAPH | TAPCONV_TIME_COLD); flags++) {
        double seconds[8] = {0};
        poison(&l);
        CHECK_OK(tapconv_device_time(l.plan, two, 2, flags, 2, seconds, 8));
        for (int i = 0; i < 8; i++) CHECK_FOR(seconds[i] > 0 && seconds[i] < 1, "flags %u: %g", flags, seconds[i]);
        CHECK_FOR(error_of(&l) <= 1e-6, "flags %u", flags);
    }
    card_layer_free(&l);
}

TEST(card_ceilings)
{
    if (!card_is_there()) return;
    static const tapconv_math maths[] = {TAPCONV_MATH_F32, TAPCONV_MATH_TF32, TAPCONV_MATH_F16, TAPCONV_MATH_BF16};
    for (size_t i = 0; i < sizeof maths / sizeof maths[0]; i++) {
        tapconv_ceilings c = {0};
        CHECK_OK(tapconv_measure_ceilings(&cuda, maths[i], &c));
        CHECK_FOR(c.measured == 1 && c.gflops >= c.fma_gflops && c.fma_gflops > 1000 && c.gbytes_per_s > 100,
                  "%s: %g, %g GFLOP/s, %g GB/s", tapconv_math_name(maths[i]), c.gflops, c.fma_gflops, c.gbytes_per_s);
    }
}
