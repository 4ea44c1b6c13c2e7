/* The oracle's and the converters' interface. */
#include "check.h"
#include "layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tapconv_problem full(void)
{
    tapconv_problem p = tapconv_conv1d_groupnorm(2, 4, 6, 20, 3, 1, 3);
    p.has_bias = 1;
    p.activation = TAPCONV_ACT_MISH;
    return p;
}

TEST(reference_refusals)
{
    const tapconv_problem p = full();
    layer l = layer_make(p, NULL, 1);
    double y[2 * 6 * 20] = {0};
    CHECK_INVALID(tapconv_reference(NULL, l.x, l.w, l.bias, l.gamma, l.beta, y), "problem", "NULL");
    CHECK_INVALID(tapconv_reference(&p, NULL, l.w, l.bias, l.gamma, l.beta, y), "x ", "NULL");
    CHECK_INVALID(tapconv_reference(&p, l.x, NULL, l.bias, l.gamma, l.beta, y), "w ", "NULL");
    CHECK_INVALID(tapconv_reference(&p, l.x, l.w, NULL, l.gamma, l.beta, y), "bias", "NULL");
    CHECK_INVALID(tapconv_reference(&p, l.x, l.w, l.bias, NULL, l.beta, y), "gamma", "NULL");
    CHECK_INVALID(tapconv_reference(&p, l.x, l.w, l.bias, l.gamma, NULL, y), "beta", "NULL");
    CHECK_INVALID(tapconv_reference(&p, l.x, l.w, l.bias, l.gamma, l.beta, NULL), "y64", "NULL");
    tapconv_problem plain = p;
    plain.has_bias = plain.norm_affine = 0;
    CHECK_INVALID(tapconv_reference(&plain, l.x, l.w, l.bias, NULL, NULL, y), "bias");
    CHECK_INVALID(tapconv_reference(&plain, l.x, l.w, NULL, l.gamma, NULL, y), "gamma");
    CHECK_INVALID(tapconv_reference(&plain, l.x, l.w, NULL, NULL, l.beta, y), "beta");
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++) CHECK(y[i] == 0);
    layer_free(&l);
}

TEST(reference_group_refusals)
{
    const tapconv_problem p = full();
    layer l = layer_make(p, NULL, 2);
    double rows[2 * 20] = {0};
    CHECK_INVALID(tapconv_reference_group(NULL, l.x, l.w, l.bias, l.gamma, l.beta, 0, 0, rows), "problem", "NULL");
    CHECK_INVALID(tapconv_reference_group(&p, NULL, l.w, l.bias, l.gamma, l.beta, 0, 0, rows), "x ", "NULL");
    CHECK_INVALID(tapconv_reference_group(&p, l.x, l.w, l.bias, l.gamma, l.beta, 0, 0, NULL), "rows", "NULL");
    CHECK_INVALID(tapconv_reference_group(&p, l.x, l.w, l.bias, l.gamma, l.beta, -1, 0, rows), "item", "-1");
    CHECK_INVALID(tapconv_reference_group(&p, l.x, l.w, l.bias, l.gamma, l.beta, 2, 0, rows), "item", "2");
    CHECK_INVALID(tapconv_reference_group(&p, l.x, l.w, l.bias, l.gamma, l.beta, 0, -1, rows), "group", "-1");
    CHECK_INVALID(tapconv_reference_group(&p, l.x, l.w, l.bias, l.gamma, l.beta, 0, 3, rows), "group", "3");
    tapconv_problem plain = tapconv_conv1d(2, 4, 6, 20, 3, 1);
    CHECK_INVALID(tapconv_reference_group(&plain, l.x, l.w, NULL, NULL, NULL, 0, 6, rows), "group", "6");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) CHECK(rows[i] == 0);
    layer_free(&l);
}

/* The group's rows are the whole's, bit for bit, in both layouts, with and without GroupNorm. */
TEST(reference_group_is_part_of_the_whole)
{
    enum { N = 2, C = 6, T = 20 };
    for (int variant = 0; variant < 4; variant++) {
        tapconv_problem p = full();
        p.layout = variant & 1 ? TAPCONV_NLC : TAPCONV_NCL;
        if (variant & 2) p.norm_groups = p.norm_affine = 0;
        layer l = layer_make(p, NULL, 3);
        double whole[N * C * T], rows[C * T];
        CHECK_OK(tapconv_reference(&p, l.x, l.w, l.bias, l.gamma, l.beta, whole));
        const int groups = p.norm_groups ? (int)p.norm_groups : C, channels = C / groups;
        for (int item = 0; item < N; item++)
            for (int group = 0; group < groups; group++) {
                CHECK_OK(tapconv_reference_group(&p, l.x, l.w, l.bias, l.gamma, l.beta, item, group, rows));
                for (int row = 0; row < channels; row++)
                    for (int t = 0; t < T; t++) {
                        const int c = group * channels + row;
                        const int at = p.layout == TAPCONV_NCL ? (item * C + c) * T + t : (item * T + t) * C + c;
                        CHECK(whole[at] == rows[row * T + t]);
                    }
            }
        layer_free(&l);
    }
}

TEST(convert_refusals)
{
    float from[4] = {1, 2, 3, 4};
    double to[4] = {9, 9, 9, 9};
    CHECK_INVALID(tapconv_convert(NULL, TAPCONV_F64, from, TAPCONV_F32, 4), "destination", "NULL");
    CHECK_INVALID(tapconv_convert(to, TAPCONV_F64, NULL, TAPCONV_F32, 4), "source", "NULL");
    CHECK_INVALID(tapconv_convert(to, (tapconv_type)7, from, TAPCONV_F32, 4), "destination_type", "7");
    CHECK_INVALID(tapconv_convert(to, TAPCONV_F64, from, (tapconv_type)-2, 4), "source_type", "-2");
    CHECK_INVALID(tapconv_convert(to, TAPCONV_F64, from, TAPCONV_F32, -3), "count", "-3");
    for (int i = 0; i < 4; i++) CHECK(to[i] == 9);
    CHECK_OK(tapconv_convert(to, TAPCONV_F64, from, TAPCONV_F32, 0));
    CHECK_OK(tapconv_convert(NULL, TAPCONV_F64, NULL, TAPCONV_F32, 0));
    CHECK(to[0] == 9);
}

static uint16_t to_16_bits(double value, tapconv_type type)
{
    uint16_t bits = 0;
    CHECK_OK(tapconv_convert(&bits, type, &value, TAPCONV_F64, 1));
    return bits;
}

TEST(convert_rounds_to_nearest_even)
{
    CHECK(to_16_bits(1.0, TAPCONV_F16) == 0x3c00);
    CHECK(to_16_bits(1 + 0x1p-11, TAPCONV_F16) == 0x3c00);           /* a tie, to even */
    CHECK(to_16_bits(1 + 3 * 0x1p-11, TAPCONV_F16) == 0x3c02);       /* a tie, to even, upwards */
    CHECK(to_16_bits(1 + 0x1p-11 + 0x1p-40, TAPCONV_F16) == 0x3c01); /* a tie in float32, none in float64 */
    CHECK(to_16_bits(65504, TAPCONV_F16) == 0x7bff);
    CHECK(to_16_bits(65519.999, TAPCONV_F16) == 0x7bff);
    CHECK(to_16_bits(65520, TAPCONV_F16) == 0x7c00);
    CHECK(to_16_bits(0x1p-24, TAPCONV_F16) == 0x0001);
    CHECK(to_16_bits(0x1p-25, TAPCONV_F16) == 0x0000);
    CHECK(to_16_bits(-0x1.8p-25, TAPCONV_F16) == 0x8001);
    CHECK(to_16_bits(-0.0, TAPCONV_F16) == 0x8000);
    CHECK(to_16_bits(INFINITY, TAPCONV_F16) == 0x7c00);
    CHECK((to_16_bits(NAN, TAPCONV_F16) & 0x7fff) > 0x7c00);
    CHECK(to_16_bits(1 + 0x1p-8, TAPCONV_BF16) == 0x3f80);
    CHECK(to_16_bits(1 + 3 * 0x1p-8, TAPCONV_BF16) == 0x3f82);
    CHECK(to_16_bits(1 + 0x1p-8 + 0x1p-40, TAPCONV_BF16) == 0x3f81);
    CHECK(to_16_bits(3.4e38, TAPCONV_BF16) == 0x7f80);
    CHECK(to_16_bits(-INFINITY, TAPCONV_BF16) == 0xff80);
    CHECK((to_16_bits(NAN, TAPCONV_BF16) & 0x7fff) > 0x7f80);
}

/* Every 16-bit value survives the way through the wider types and back. */
TEST(convert_round_trips)
{
    static const tapconv_type narrow[] = {TAPCONV_F16, TAPCONV_BF16}, wide[] = {TAPCONV_F32, TAPCONV_F64};
    uint16_t *const values = must_malloc(65536 * sizeof *values), *const back = must_malloc(65536 * sizeof *back);
    double *const widened = must_malloc(65536 * sizeof *widened);
    for (int i = 0; i < 65536; i++) values[i] = (uint16_t)i;
    for (int n = 0; n < 2; n++)
        for (int w = 0; w < 2; w++) {
            CHECK_OK(tapconv_convert(widened, wide[w], values, narrow[n], 65536));
            CHECK_OK(tapconv_convert(back, narrow[n], widened, wide[w], 65536));
            const int infinity = narrow[n] == TAPCONV_F16 ? 0x7c00 : 0x7f80;
            for (int i = 0; i < 65536; i++) {
                const int both_nan = (i & 0x7fff) > infinity && (back[i] & 0x7fff) > infinity;
                if (!(back[i] == values[i] || both_nan)) CHECK_FOR(0, "%#x through %s", i, tapconv_type_name(wide[w]));
            }
        }
    free(values);
    free(back);
    free(widened);
}

TEST(round_tf32)
{
    static const struct {
        float value, rounded;
    } cases[] = {
        {1, 1},
        {1 + 0x1p-10f, 1 + 0x1p-10f},
        {1 + 0x1p-11f, 1 + 0x1p-10f}, /* a tie goes away from zero */
        {-1 - 0x1p-11f, -1 - 0x1p-10f},
        {1 + 0x1p-11f - 0x1p-23f, 1},
        {1 + 3 * 0x1p-11f, 1 + 2 * 0x1p-10f},
        {0, 0},
        {0x1.fffffep127f, INFINITY},
        {INFINITY, INFINITY},
        {-INFINITY, -INFINITY},
        {0x1p-126f, 0x1p-126f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float value = cases[i].value;
        tapconv_round_tf32(&value, 1);
        CHECK_FOR(memcmp(&value, &cases[i].rounded, sizeof value) == 0, "case %zu: %a", i, (double)value);
    }
    float nan = NAN, untouched = 1 + 0x1p-23f;
    tapconv_round_tf32(&nan, 1);
    CHECK(isnan(nan));
    tapconv_round_tf32(&untouched, 0);
    CHECK(untouched == 1 + 0x1p-23f);
}
