/* What tapconv_problem_check refuses, with which words, and that nothing else does or changes anything. */
#include "check.h"

#include <tapconv.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct change {
    size_t offset, bytes;
    int64_t value;
} change;

typedef struct refusal {
    const char *words[3]; /* all of them stand in the sentence */
    change changes[6];    /* of a legal problem, that make it illegal; the first of 0 bytes ends them */
} refusal;

#define SET(field, value)                                                                                              \
    {                                                                                                                  \
        offsetof(tapconv_problem, field), sizeof((tapconv_problem *)0)->field, value                                   \
    }
/* ISO C has no name for it. */
__extension__ typedef __int128 wide;

#define MOST INT64_MAX
#define LEAST INT64_MIN
/* INT64_MAX / 64, which sentences of refusals name. */
#define MOST_COUNTABLE "at most 144115188075855871"

static tapconv_problem legal(void)
{
    tapconv_problem p = tapconv_conv1d(2, 6, 12, 32, 3, 1);
    p.norm_groups = 4;
    return p;
}

static tapconv_problem changed(const change *changes, size_t count)
{
    tapconv_problem p = legal();
    for (size_t i = 0; i < count && changes[i].bytes; i++) {
        const int32_t narrow = (int32_t)changes[i].value;
        memcpy((char *)&p + changes[i].offset,
               changes[i].bytes == sizeof narrow ? (const void *)&narrow : (const void *)&changes[i].value,
               changes[i].bytes);
    }
    return p;
}

static const refusal refusals[] = {
    {{"batch", "-1"}, {SET(batch, -1)}},
    {{"batch", "-9223372036854775808"}, {SET(batch, LEAST)}},
    {{"in_channels", "0"}, {SET(in_channels, 0)}},
    {{"in_channels", "-6"}, {SET(in_channels, -6)}},
    {{"out_channels", "0"}, {SET(out_channels, 0)}},
    {{"out_channels", "-12"}, {SET(out_channels, -12)}},
    {{"length", "-1"}, {SET(length, -1)}},
    {{"kernel_size", "0"}, {SET(kernel_size, 0)}},
    {{"kernel_size", "-3"}, {SET(kernel_size, -3)}},
    {{"stride", "0"}, {SET(stride, 0)}},
    {{"stride", "-2"}, {SET(stride, -2)}},
    {{"dilation", "0"}, {SET(dilation, 0)}},
    {{"dilation", "-1"}, {SET(dilation, -1)}},
    {{"groups", "0"}, {SET(groups, 0)}},
    {{"groups", "-1"}, {SET(groups, -1)}},
    {{"groups", "4", "in_channels"}, {SET(groups, 4)}},
    {{"groups", "7", "in_channels"}, {SET(groups, 7)}},
    {{"groups", "4", "out_channels"}, {SET(groups, 4), SET(in_channels, 8), SET(out_channels, 6), SET(norm_groups, 0)}},
    {{"padding_left", "-1"}, {SET(padding_left, -1)}},
    {{"padding_right", "-5"}, {SET(padding_right, -5)}},
    {{"norm_groups", "-1"}, {SET(norm_groups, -1)}},
    {{"norm_groups", "5", "out_channels"}, {SET(norm_groups, 5)}},
    {{"norm_groups", "24", "out_channels"}, {SET(norm_groups, 24)}},
    {{"norm_affine", "2"}, {SET(norm_affine, 2)}},
    {{"norm_affine", "-1"}, {SET(norm_affine, -1)}},
    {{"norm_affine", "1", "norm_groups"}, {SET(norm_affine, 1), SET(norm_groups, 0)}},
    {{"has_bias", "2"}, {SET(has_bias, 2)}},
    {{"has_bias", "-1"}, {SET(has_bias, -1)}},
    {{"activation", "10", "0 to 9"}, {SET(activation, TAPCONV_ACTIVATION_COUNT)}},
    {{"activation", "-1"}, {SET(activation, -1)}},
    {{"layout", "2", "0 to 1"}, {SET(layout, TAPCONV_LAYOUT_COUNT)}},
    {{"layout", "-1"}, {SET(layout, -1)}},
    {{"type", "4", "0 to 3"}, {SET(type, TAPCONV_TYPE_COUNT)}},
    {{"type", "-1"}, {SET(type, -1)}},
    {{"param_type", "4"}, {SET(param_type, TAPCONV_TYPE_COUNT)}},
    {{"param_type", "1"}, {SET(param_type, TAPCONV_F64)}},
    {{"param_type", "2", "3 (bf16)"}, {SET(type, TAPCONV_BF16), SET(param_type, TAPCONV_F16)}},
    {{"math", "5", "0 to 4"}, {SET(math, TAPCONV_MATH_COUNT)}},
    {{"math", "-1"}, {SET(math, -1)}},
    {{"type is f64", "math f32", "f32, f16, bf16"}, {SET(type, TAPCONV_F64)}},
    {{"type is f64", "math tf32", "f32, f16, bf16"}, {SET(type, TAPCONV_F64), SET(math, TAPCONV_MATH_TF32)}},
    {{"type is f64", "math f16", "f32, f16"}, {SET(type, TAPCONV_F64), SET(math, TAPCONV_MATH_F16)}},
    {{"type is f64", "math bf16", "f32, bf16"}, {SET(type, TAPCONV_F64), SET(math, TAPCONV_MATH_BF16)}},
    {{"type is bf16", "math f16", "f32, f16"}, {SET(type, TAPCONV_BF16), SET(math, TAPCONV_MATH_F16)}},
    {{"type is f16", "math bf16", "f32, bf16"}, {SET(type, TAPCONV_F16), SET(math, TAPCONV_MATH_BF16)}},
    {{"reserved", "1"}, {SET(reserved[0], 1)}},
    {{"reserved", "-7"}, {SET(reserved[4], -7)}},
    /* no output sample */
    {{"length", "0", "dilation*(kernel_size-1)+1"}, {SET(length, 0), SET(padding_left, 0), SET(padding_right, 0)}},
    {{"length", "2", "5"}, {SET(length, 2), SET(dilation, 2), SET(padding_right, 0)}},
    {{"length", "32", "33"}, {SET(kernel_size, 33), SET(padding_left, 0), SET(padding_right, 0)}},
    {{"length", "0"}, {SET(length, 0), SET(kernel_size, 1), SET(padding_left, 0), SET(padding_right, 0)}},
    /* sums and products beyond int64 */
    {{"length", "9223372036854775807", MOST_COUNTABLE}, {SET(length, MOST)}},
    {{"length", "144115188075855872", MOST_COUNTABLE}, {SET(length, MOST / 64 + 1)}},
    {{"padding_left", "9223372036854775807", MOST_COUNTABLE}, {SET(padding_left, MOST)}},
    {{"padding_left", "144115188075855872", MOST_COUNTABLE}, {SET(padding_left, MOST / 64 + 1)}},
    {{"padding_right", "9223372036854775807", MOST_COUNTABLE}, {SET(padding_right, MOST)}},
    {{"padding_right", "144115188075855872", MOST_COUNTABLE}, {SET(padding_right, MOST / 64 + 1)}},
    {{"kernel_size", "9223372036854775807", MOST_COUNTABLE}, {SET(kernel_size, MOST)}},
    {{"kernel_size", "144115188075855872", MOST_COUNTABLE}, {SET(kernel_size, MOST / 64 + 1)}},
    {{"dilation", "9223372036854775807", MOST_COUNTABLE}, {SET(dilation, MOST)}},
    {{"dilation", "144115188075855872", MOST_COUNTABLE}, {SET(dilation, MOST / 64 + 1), SET(kernel_size, 1)}},
    {{"dilation is 72057594037927936", "kernel_size 3", "at most 72057594037927935"},
     {SET(dilation, MOST / 128 + 1), SET(kernel_size, 3)}},
    {{"stride", "9223372036854775807", MOST_COUNTABLE}, {SET(stride, MOST)}},
    {{"stride", "144115188075855872", MOST_COUNTABLE}, {SET(stride, MOST / 64 + 1)}},
    {{"batch", "9223372036854775807"}, {SET(batch, MOST)}},
    {{"in_channels", "9223372036854775806"}, {SET(in_channels, MOST - 1)}},
    {{"out_channels", "9223372036854775804"}, {SET(out_channels, MOST - 3)}},
    {{"dilation", "4611686018427387904", MOST_COUNTABLE}, {SET(dilation, INT64_C(1) << 62), SET(kernel_size, 3)}},
    {{"of y", "samples 288230376151711772", MOST_COUNTABLE},
     {SET(padding_left, MOST / 64), SET(padding_right, MOST / 64)}},
    {{"batch", "4294967296"}, {SET(batch, INT64_C(1) << 32), SET(length, INT64_C(1) << 32)}},
    {{"in_channels", "2147483648"},
     {SET(in_channels, INT64_C(1) << 31), SET(out_channels, INT64_C(1) << 31), SET(kernel_size, 4)}},
};

TEST(problem_refusals_name_field_and_value)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        const tapconv_problem p = changed(r->changes, sizeof r->changes / sizeof r->changes[0]);
        int64_t out_length = -77;
        const int refused = tapconv_problem_check(&p, &out_length) == TAPCONV_INVALID_ARGUMENT;
        if (CHECK_FOR(refused, "case %zu, %s %s", i, r->words[0], r->words[1]))
            check_words(__FILE__, __LINE__, tapconv_last_error(), r->words, 3);
        CHECK_FOR(out_length == -77, "case %zu: a refused call changes nothing", i);
    }
}

TEST(problem_refusals_hold_for_every_call)
{
    static const double x[1], w[1];
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        const tapconv_problem p = changed(r->changes, sizeof r->changes / sizeof r->changes[0]);
        char marker;
        tapconv_plan *const before = (tapconv_plan *)(void *)&marker;
        tapconv_plan *plan = before;
        CHECK_INVALID(tapconv_plan_create(&plan, &p, NULL), r->words[0], r->words[1]);
        CHECK_FOR(plan == before, "case %zu: a failed creation leaves the plan untouched", i);
        double y = 5;
        CHECK_INVALID(tapconv_reference(&p, x, w, NULL, NULL, NULL, &y), r->words[0], r->words[1]);
        CHECK_INVALID(tapconv_reference_group(&p, x, w, NULL, NULL, NULL, 0, 0, &y), r->words[0], r->words[1]);
        CHECK_FOR(y == 5, "case %zu: a refused call writes nothing", i);
    }
}

TEST(problem_eps)
{
    static const struct {
        double eps;
        const char *text;
    } bad[] = {{-1e-5, "-1e-05"}, {-INFINITY, "-inf"}, {INFINITY, "inf"}, {NAN, "nan"}};
    tapconv_problem p = legal();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        p.norm_eps = bad[i].eps;
        p.norm_groups = 4;
        CHECK_INVALID(tapconv_problem_check(&p, NULL), "norm_eps", bad[i].text);
        p.norm_groups = 0; /* eps is not read */
        CHECK_OK(tapconv_problem_check(&p, NULL));
    }
    p.norm_groups = 4;
    p.norm_eps = 0;
    CHECK_OK(tapconv_problem_check(&p, NULL));
    p.norm_eps = 1.7e308;
    CHECK_OK(tapconv_problem_check(&p, NULL));
}

/* The largest values that the sentences allow are allowed. */
TEST(problem_largest_sizes)
{
    tapconv_problem p = tapconv_conv1d(1, 1, 1, 1, 1, 0);
    p.stride = p.dilation = p.padding_left = MOST / 64;
    CHECK_OK(tapconv_problem_check(&p, NULL));
    p.dilation = MOST / 128, p.kernel_size = 3;
    CHECK_OK(tapconv_problem_check(&p, NULL));
    p = tapconv_conv1d(1, 1, 1, MOST / 64, MOST / 64, 0);
    CHECK_OK(tapconv_problem_check(&p, NULL));
}

/* The padding that overflows was never given: the sentence is of what was. */
TEST(problem_causal_padding_that_cannot_be_counted)
{
    const tapconv_problem p = tapconv_causal_conv1d(1, 1, 1, 16, INT64_C(1) << 40, INT64_C(1) << 40);
    CHECK_INVALID(tapconv_problem_check(&p, NULL), "dilation is 1099511627776", "kernel_size 1099511627776",
                  "at most 131072");
}

TEST(problem_null)
{
    CHECK_INVALID(tapconv_problem_check(NULL, NULL), "problem", "NULL");
}

TEST(problem_out_length)
{
    static const struct {
        int64_t length, kernel_size, stride, dilation, left, right, expected;
    } cases[] = {
        {8192, 4, 1, 1, 3, 0, 8192}, {32, 3, 1, 1, 1, 1, 32}, {32, 3, 2, 1, 1, 1, 16}, {10, 3, 3, 2, 0, 0, 2},
        {0, 3, 1, 1, 2, 1, 1},       {1, 1, 1, 1, 0, 0, 1},   {5, 5, 7, 1, 0, 0, 1},   {5, 9, 1, 1, 100, 3, 100},
        {4, 2, 1000, 1, 0, 0, 1},    {17, 2, 4, 16, 0, 0, 1}, {1, 1, 2, 1, 9, 0, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tapconv_problem p = tapconv_conv1d(1, 2, 2, cases[i].length, cases[i].kernel_size, 0);
        p.stride = cases[i].stride;
        p.dilation = cases[i].dilation;
        p.padding_left = cases[i].left;
        p.padding_right = cases[i].right;
        int64_t out_length = -1;
        CHECK_OK(tapconv_problem_check(&p, &out_length));
        CHECK_FOR(out_length == cases[i].expected, "case %zu: %" PRId64, i, out_length);
    }
}

TEST(problem_constructors)
{
    const tapconv_problem plain = tapconv_conv1d(2, 3, 4, 50, 5, 6);
    CHECK(plain.batch == 2 && plain.in_channels == 3 && plain.out_channels == 4 && plain.length == 50);
    CHECK(plain.kernel_size == 5 && plain.padding_left == 6 && plain.padding_right == 6);
    CHECK(plain.stride == 1 && plain.dilation == 1 && plain.groups == 1 && plain.norm_groups == 0);
    CHECK(plain.norm_eps == 1e-5 && !plain.norm_affine && !plain.has_bias);
    CHECK(plain.activation == TAPCONV_ACT_NONE && plain.layout == TAPCONV_NCL && plain.type == TAPCONV_F32);
    CHECK(plain.param_type == TAPCONV_F32 && plain.math == TAPCONV_MATH_F32);
    for (int i = 0; i < 5; i++) CHECK(plain.reserved[i] == 0);

    const tapconv_problem causal = tapconv_causal_conv1d(1, 2, 2, 100, 4, 8);
    CHECK(causal.padding_left == 24 && causal.padding_right == 0 && causal.dilation == 8);
    int64_t out_length = 0;
    CHECK_OK(tapconv_problem_check(&causal, &out_length));
    CHECK(out_length == 100);

    const tapconv_problem norm = tapconv_conv1d_groupnorm(16, 128, 256, 1024, 3, 1, 32);
    CHECK(norm.norm_groups == 32 && norm.norm_affine == 1 && norm.norm_eps == 1e-5 && norm.padding_right == 1);
    CHECK_OK(tapconv_problem_check(&norm, NULL));
}

/* A constructor takes whatever it is given: the values are refused when the problem is checked. */
TEST(problem_constructors_of_nonsense)
{
    static const int64_t values[] = {LEAST, -1, 0, 1, 3, MOST};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            const tapconv_problem p = tapconv_causal_conv1d(1, 2, 2, 16, values[i], values[j]);
            const int fine = (values[i] == 1 && values[j] == 1) || (values[i] == 1 && values[j] == 3) ||
                             (values[i] == 3 && values[j] == 1) || (values[i] == 3 && values[j] == 3);
            CHECK_FOR((tapconv_problem_check(&p, NULL) == TAPCONV_OK) == fine, "K %" PRId64 ", D %" PRId64, values[i],
                      values[j]);
        }
}

/* Problems made of extreme sizes are either refused with a sentence, or have the output length that 128-bit arithmetic
 * gives and arrays that 63 bits can count; and a plan for them is made or refused, never worse. */
TEST(problem_extreme_sizes)
{
    static const int64_t values[] = {0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     7,
                                     255,
                                     65536,
                                     INT64_C(1) << 20,
                                     INT64_C(1) << 31,
                                     (INT64_C(1) << 31) + 1,
                                     INT64_C(1) << 32,
                                     INT64_C(1) << 40,
                                     INT64_C(1) << 56,
                                     (INT64_C(1) << 57) - 1,
                                     INT64_C(1) << 62,
                                     MOST - 1,
                                     MOST,
                                     -1,
                                     LEAST};
    uint64_t state = 20260;
    int accepted = 0, planned = 0;
    for (int round = 0; round < 100000; round++) {
        int64_t sizes[10];
        for (int i = 0; i < 10; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const uint64_t draw = state >> 33;
            /* Mostly small values, or hardly a problem would be legal. */
            sizes[i] = values[draw % 4 ? draw / 4 % 6 : draw / 4 % (sizeof values / sizeof values[0])];
        }
        tapconv_problem p = tapconv_conv1d(sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], 0);
        p.stride = sizes[5];
        p.dilation = sizes[6];
        p.padding_left = sizes[7];
        p.padding_right = sizes[8];
        if (sizes[9] > 0 && sizes[9] < 8) p.groups = sizes[9];
        int64_t out_length = -1;
        if (tapconv_problem_check(&p, &out_length) != TAPCONV_OK) {
            CHECK_FOR(tapconv_last_error()[0] != '\0' && out_length == -1, "round %d", round);
            continue;
        }
        accepted++;
        const wide reach = (wide)p.dilation * (p.kernel_size - 1) + 1;
        const wide padded = (wide)p.length + p.padding_left + p.padding_right;
        CHECK_FOR(out_length == (padded - reach) / p.stride + 1, "round %d", round);
        const wide y_count = (wide)p.out_channels * out_length, x_count = (wide)p.in_channels * p.length;
        CHECK_FOR(y_count <= MOST / 8 && x_count <= MOST / 8, "round %d", round);
        CHECK_FOR((p.batch < 2 || y_count <= MOST / 8 / p.batch), "round %d", round);
        tapconv_plan *plan = NULL;
        const tapconv_status status = tapconv_plan_create(&plan, &p, NULL);
        CHECK_FOR(status == TAPCONV_OK || status == TAPCONV_INVALID_ARGUMENT || status == TAPCONV_OUT_OF_MEMORY,
                  "round %d: status %d", round, (int)status);
        if (status == TAPCONV_OK) {
            CHECK_FOR(tapconv_packed_weights_bytes(plan) > 0, "round %d", round);
            tapconv_plan_destroy(plan);
            planned++;
        } else {
            CHECK_FOR(!plan, "round %d", round);
        }
    }
    printf("%d problems were legal, %d could be planned\n", accepted, planned);
    CHECK(accepted > 1000 && planned > accepted / 2);
}
