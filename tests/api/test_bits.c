/* The same bits whatever the thread count, the batch, the length and the run. */
#include "check.h"
#include "layer.h"

#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 4

static int layer_count(void)
{
    return 14;
}

/* Layers that between them meet every kernel family and every way of dividing work among threads. */
static tapconv_problem layer_number(int number, int64_t batch)
{
    tapconv_problem p = tapconv_causal_conv1d(batch, 48, 80, 2100, 4, 1);
    switch (number) {
    case 0: break;
    case 1: p = tapconv_causal_conv1d(batch, 33, 65, 1500, 3, 16); break;
    case 2: p = tapconv_conv1d_groupnorm(batch, 32, 96, 1000, 3, 1, 8); break;
    case 3: p = tapconv_conv1d_groupnorm(batch, 24, 64, 1300, 5, 2, 1); break;
    case 4: p.stride = 2; break;
    case 5: p.layout = TAPCONV_NLC; break;
    case 6: p.groups = 4; break;
    case 7:
        p = tapconv_causal_conv1d(batch, 256, 256, 3000, 4, 1);
        p.groups = 256;
        break;
    case 8:
        p = tapconv_causal_conv1d(batch, 256, 256, 3000, 4, 1);
        p.groups = 256;
        p.layout = TAPCONV_NLC;
        break;
    case 9: p = tapconv_conv1d(batch, 1, 32, 20000, 7, 3); break;
    case 10: p = tapconv_conv1d_groupnorm(batch, 256, 512, 8, 5, 2, 8); break;
    case 11: p.math = TAPCONV_MATH_TF32; break;
    case 12:
        p.type = TAPCONV_BF16;
        p.math = TAPCONV_MATH_BF16;
        break;
    default:
        p.type = p.param_type = TAPCONV_F64;
        p.math = TAPCONV_MATH_F64;
        break;
    }
    p.has_bias = 1;
    p.activation = TAPCONV_ACT_GELU;
    return p;
}

TEST(bits_of_thread_counts_and_runs)
{
    int several = 0;
    for (int number = 0; number < layer_count(); number++)
        for (uint32_t isa = 1; isa <= TAPCONV_ISA_AVX512; isa *= 2) {
            if (!(tapconv_cpu_features() & isa)) continue;
            tapconv_plan_options o = {.isa_mask = isa, .threads = 1};
            layer one = layer_make(layer_number(number, 2), &o, 1);
            layer_run(&one);
            for (o.threads = 1; o.threads <= MOST_THREADS; o.threads++) {
                layer l = layer_make(one.problem, &o, 1);
                tapconv_plan_info info;
                tapconv_plan_get_info(l.plan, &info);
                CHECK_FOR(info.threads <= o.threads, "layer %d: %d of %d", number, info.threads, o.threads);
                several += info.threads > 1;
                for (int run = 0; run < 2; run++) {
                    layer_run(&l);
                    CHECK_FOR(memcmp(one.y, l.y, l.y_bytes) == 0, "layer %d, %s, %d threads, run %d", number,
                              info.kernel, o.threads, run);
                }
                layer_free(&l);
            }
            layer_free(&one);
        }
#ifdef HAVE_THREADS
    CHECK(several > 0);
#else
    CHECK(several == 0);
#endif
}

/* Items computed alone have the bits that they have in a batch. */
TEST(bits_of_batch_sizes)
{
    enum { BATCH = 3 };
    for (int number = 0; number < layer_count(); number++) {
        layer all = layer_make(layer_number(number, BATCH), NULL, 2),
              one = layer_make(layer_number(number, 1), NULL, 2);
        layer_run(&all);
        CHECK(all.y_bytes == BATCH * one.y_bytes && all.packed_bytes == one.packed_bytes);
        one.arrays.packed_weights = all.packed;
        one.arrays.bias = all.bias;
        one.arrays.gamma = all.gamma;
        one.arrays.beta = all.beta;
        for (size_t item = 0; item < BATCH; item++) {
            one.arrays.x = (char *)all.x + item * one.x_bytes;
            layer_run(&one);
            CHECK_FOR(memcmp((char *)all.y + item * one.y_bytes, one.y, one.y_bytes) == 0, "layer %d, item %zu", number,
                      item);
        }
        layer_free(&all);
        layer_free(&one);
    }
}

/* Without GroupNorm, a causal layer's samples have the bits that they have in a longer signal. */
TEST(bits_of_lengths)
{
    static const int64_t lengths[] = {1, 2, 7, 16, 31, 64, 100, 1000, 2099};
    tapconv_problem p = tapconv_causal_conv1d(1, 48, 80, 2100, 4, 1);
    layer whole = layer_make(p, NULL, 3);
    layer_run(&whole);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        p.length = lengths[i];
        layer l = layer_make(p, NULL, 3);
        for (int64_t channel = 0; channel < p.in_channels; channel++)
            memcpy((float *)l.x + channel * p.length, (float *)whole.x + channel * 2100,
                   (size_t)p.length * sizeof(float));
        l.arrays.packed_weights = whole.packed;
        layer_run(&l);
        for (int64_t channel = 0; channel < p.out_channels; channel++)
            CHECK_FOR(memcmp((float *)l.y + channel * p.length, (float *)whole.y + channel * 2100,
                             (size_t)p.length * sizeof(float)) == 0,
                      "length %d, channel %d", (int)p.length, (int)channel);
        layer_free(&l);
    }
    layer_free(&whole);
}
