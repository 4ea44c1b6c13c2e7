/* Arrays of more than 2^31 elements on a card. The input repeats itself, and so does the output: its beginning is compared
 * with float64, and the rest with its beginning, bit for bit. Periods divide neither 2^31 nor 2^32, so that an address that
 * has lost its upper bits meets other numbers. */
#include "card.h"
#include "check.h"
#include "layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD ((int64_t)3 << 12) /* samples of a long item */
#define ITEMS ((int64_t)3)        /* of a large batch */
#define PIECE ((size_t)64 << 20)  /* bytes on their way to or from the card */

/* An array as rows that repeat themselves, in elements. */
typedef struct rows {
    int64_t count, length, period;
    size_t size;
} rows;

static rows rows_of(const tapconv_problem *p, int64_t channels, int64_t length, int64_t period)
{
    const size_t size = tapconv_type_bytes(p->type);
    if (p->batch > 1) return (rows){1, p->batch * channels * length, ITEMS * channels * length, size};
    if (p->layout == TAPCONV_NLC) return (rows){1, channels * length, channels * period, size};
    return (rows){channels, length, period, size};
}

static size_t row_bytes(const rows *r)
{
    return (size_t)r->length * r->size;
}

/* The period as often as a piece holds it. */
static char *piece_of(const rows *r, const char *period, size_t *bytes)
{
    const size_t once = (size_t)r->period * r->size, times = PIECE / once + 1;
    char *const piece = must_malloc(times * once);
    for (size_t i = 0; i < times; i++) memcpy(piece + i * once, period, once);
    *bytes = times * once;
    return piece;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Lays rows on the card, the first period of each taken from `two`, which holds two periods of every row. */
static void lay(char *card, const rows *r, const char *two)
{
    for (int64_t i = 0; i < r->count; i++) {
        size_t bytes;
        char *const piece = piece_of(r, two + (size_t)(2 * i * r->period) * r->size, &bytes);
        for (size_t at = 0; at < row_bytes(r); at += bytes)
            CHECK_OK(tapconv_device_upload(&cuda, card + at, piece, least(bytes, row_bytes(r) - at)));
        free(piece);
        card += row_bytes(r);
    }
}

/* Compares two periods of each row with `exact`, and what follows them with the second. */
static void compare(const char *card, const rows *r, tapconv_type type, const double *exact)
{
    const double unit = type == TAPCONV_F16 ? 0x1p-11 : type == TAPCONV_BF16 ? 0x1p-8 : 0;
    const size_t once = (size_t)r->period * r->size;
    char *const begun = must_malloc(2 * once);
    double *const got = must_malloc((size_t)(2 * r->period) * sizeof *got);
    for (int64_t i = 0; i < r->count; i++, card += row_bytes(r), exact += 2 * r->period) {
        CHECK_OK(tapconv_device_download(&cuda, begun, card, 2 * once));
        CHECK_OK(tapconv_convert(got, TAPCONV_F64, begun, type, 2 * r->period));
        double worst = 0;
        for (int64_t t = 0; t < 2 * r->period; t++) {
            const double error = fabs(got[t] - exact[t]) - unit * fabs(exact[t]);
            if (!(error <= worst)) worst = error;
        }
        /* A hundred and more terms of magnitude 1 err by some 1e-5, and neighbours differ by some 1. */
        CHECK_FOR(worst <= 2e-4, "row %" PRId64 ": %g", i, worst);
        size_t bytes;
        char *const piece = piece_of(r, begun + once, &bytes), *const rest = must_malloc(bytes);
        int same = 1;
        for (size_t at = 2 * once; at < row_bytes(r) && same; at += bytes) {
            const size_t some = least(bytes, row_bytes(r) - at);
            CHECK_OK(tapconv_device_download(&cuda, rest, card + at, some));
            same = memcmp(rest, piece, some) == 0;
            CHECK_FOR(same, "row %" PRId64 " from byte %zu on", i, at);
        }
        free(rest), free(piece);
    }
    free(got), free(begun);
}

/* GroupNorm over a long item has the moments of one of its periods; `v` has two of each channel. */
static void normalise(const tapconv_problem *p, double *v, int64_t period)
{
    const int64_t channels = p->out_channels / p->norm_groups;
    for (int64_t g = 0; g < p->norm_groups; g++, v += 2 * channels * period) {
        const double n = (double)(channels * period);
        double mean = 0, variance = 0;
        for (int look = 0; look < 2; look++)
            for (int64_t c = 0; c < channels; c++)
                for (int64_t t = period; t < 2 * period; t++) {
                    const double value = v[2 * c * period + t];
                    if (look == 0)
                        mean += value / n;
                    else
                        variance += (value - mean) * (value - mean) / n;
                }
        for (int64_t i = 0; i < 2 * channels * period; i++) v[i] = (v[i] - mean) / sqrt(variance + p->norm_eps);
    }
}

/* The first two periods of y. */
static double *begin_exactly(const tapconv_problem *p, const void *x, const void *w)
{
    tapconv_problem begun = *p;
    int64_t out_length;
    if (p->batch > 1)
        begun.batch = 2 * ITEMS;
    else
        begun.length = 2 * PERIOD, begun.norm_groups = 0;
    CHECK_OK(tapconv_problem_check(&begun, &out_length));
    double *const y = must_malloc((size_t)(begun.batch * p->out_channels * out_length) * sizeof *y);
    CHECK_OK(tapconv_reference(&begun, x, w, NULL, NULL, NULL, y));
    if (p->batch == 1 && p->norm_groups > 0) normalise(p, y, PERIOD / p->stride);
    return y;
}

/* A batch of many items, or one long causal item, which GroupNorm wants to be whole periods. */
static void check_large(tapconv_problem p, const char *kernel)
{
    if (!card_is_there()) return;
    int64_t out_length;
    tapconv_plan *plan = NULL;
    tapconv_plan_info info;
    tapconv_device_info card;
    CHECK_OK(tapconv_problem_check(&p, &out_length));
    CHECK_OK(tapconv_device_describe(&cuda, &card));
    CHECK_OK(tapconv_plan_create(&plan, &p, &cuda));
    if (!plan) return;
    tapconv_plan_get_info(plan, &info);
    const rows x = rows_of(&p, p.in_channels, p.length, PERIOD);
    const rows y = rows_of(&p, p.out_channels, out_length, PERIOD / p.stride);
    const size_t x_bytes = (size_t)x.count * row_bytes(&x), y_bytes = (size_t)y.count * row_bytes(&y);
    CHECK(x.count * x.length > (int64_t)1 << 31 && y.count * y.length > (int64_t)1 << 31);
    const size_t needed = x_bytes + y_bytes + info.workspace_bytes + info.packed_weights_bytes + ((size_t)1 << 28);
    if ((size_t)card.free_bytes < needed) {
        printf("Skipped: %zu bytes of the card's memory are needed, %" PRId64 " are free\n", needed, card.free_bytes);
        tapconv_plan_destroy(plan);
        return;
    }
    if (card.major == 9) CHECK_FOR(strncmp(info.kernel, kernel, strlen(kernel)) == 0, "%s", info.kernel);

    char *const two = make_numbers(2 * x.count * x.period, p.type, 1);
    const size_t once = (size_t)x.period * x.size;
    for (int64_t i = 0; i < x.count; i++) memcpy(two + (size_t)(2 * i + 1) * once, two + (size_t)(2 * i) * once, once);
    const int64_t w_count = p.out_channels * (p.in_channels / p.groups) * p.kernel_size;
    void *const w = make_numbers(w_count, p.type, 2);
    double *const exact = begin_exactly(&p, two, w);

    void *const card_w = to_card(w, (size_t)w_count * x.size);
    void *const packed = to_card(NULL, info.packed_weights_bytes), *const workspace =
                                                                       to_card(NULL, info.workspace_bytes);
    char *const card_x = to_card(NULL, x_bytes), *const card_y = to_card(NULL, y_bytes);
    lay(card_x, &x, two);
    CHECK_OK(tapconv_device_fill(&cuda, card_y, 0xff, y_bytes));
    CHECK_OK(tapconv_pack_weights(plan, card_w, packed, info.packed_weights_bytes));
    const tapconv_arrays arrays = {.x = card_x,
                                   .packed_weights = packed,
                                   .y = card_y,
                                   .workspace = workspace,
                                   .workspace_bytes = info.workspace_bytes};
    CHECK_OK(tapconv_execute(plan, &arrays));
    CHECK_OK(tapconv_device_synchronize(&cuda));
    compare(card_y, &y, p.type, exact);

    void *const memory[] = {card_w, packed, workspace, card_x, card_y};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) CHECK_OK(tapconv_device_free(&cuda, memory[i]));
    free(exact), free(w), free(two);
    tapconv_plan_destroy(plan);
}

/* A causal layer of one type and its own math. */
static tapconv_problem causal(int64_t batch, int64_t in_channels, int64_t out_channels, int64_t length, int64_t taps,
                              tapconv_type type)
{
    tapconv_problem p = tapconv_causal_conv1d(batch, in_channels, out_channels, length, taps, 1);
    p.type = p.param_type = type;
    p.math = type == TAPCONV_F16 ? TAPCONV_MATH_F16 : type == TAPCONV_BF16 ? TAPCONV_MATH_BF16 : TAPCONV_MATH_F32;
    return p;
}

TEST(card_large_item_on_tensor_cores)
{
    check_large(causal(1, 64, 64, ((int64_t)1 << 26) + 77, 3, TAPCONV_BF16), "mma");
}

TEST(card_large_item_in_split_float32)
{
    check_large(causal(1, 32, 32, ((int64_t)1 << 26) + 77, 3, TAPCONV_F32), "mma");
}

TEST(card_large_item_channels_last)
{
    tapconv_problem p = causal(1, 32, 32, ((int64_t)1 << 26) + 77, 3, TAPCONV_F16);
    p.layout = TAPCONV_NLC;
    check_large(p, "mma");
}

TEST(card_large_batch_on_tensor_cores)
{
    check_large(causal(((int64_t)1 << 20) + 11, 32, 32, 68, 3, TAPCONV_F16), "mma");
}

TEST(card_large_depthwise)
{
    tapconv_problem p = causal(1, 64, 64, ((int64_t)1 << 25) + 77, 4, TAPCONV_BF16);
    p.groups = 64;
    check_large(p, "depthwise");
    p.layout = TAPCONV_NLC;
    check_large(p, "depthwise");
}

TEST(card_large_few_channels)
{
    check_large(causal(1, 4, 4, ((int64_t)1 << 29) + 77, 3, TAPCONV_BF16), "general");
    tapconv_problem p = causal(1, 1, 2, ((int64_t)1 << 31) + 4096, 16, TAPCONV_BF16);
    p.stride = 2;
    check_large(p, "general");
}

TEST(card_large_batch_of_groupnorm)
{
    tapconv_problem p = causal(((int64_t)1 << 20) + 11, 32, 32, 68, 3, TAPCONV_F16);
    p.norm_groups = 4;
    p.activation = TAPCONV_ACT_SILU;
    check_large(p, "mma");
}

/* One group of more than 2^31 values. */
TEST(card_large_group)
{
    tapconv_problem p = causal(1, 32, 32, (((int64_t)1 << 26) / PERIOD + 1) * PERIOD, 3, TAPCONV_F16);
    p.norm_groups = 1;
    check_large(p, "mma");
}
