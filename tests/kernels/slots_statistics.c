/* moments and peak. */
#include "slots.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static double offset_of_values, scale_of_values;

static double spread_value(void)
{
    return offset_of_values + scale_of_values * check_normal();
}

void check_moments(const slots *s)
{
    static const double offsets[] = {0, 0.1, 1, -1e4, 1e5, -1e6, 1e7, 1e30, 1e-30};
    offset_of_values = offsets[check_between(0, 8)];
    /* Constant, far from zero by so many spreads, or around zero. */
    scale_of_values = check_chance(4)                                               ? 0
                      : fabs(offset_of_values) < 1 || fabs(offset_of_values) > 1e20 ? fabs(offset_of_values) / 3
                                                                                    : 1;
    if (offset_of_values == 0 && !check_chance(4)) scale_of_values = 1;
    const int64_t rows = check_between(1, 9), count = check_chance(3) ? check_between(1, 9) : check_between(1, 900);
    const int64_t row = count + check_between(0, 20), n = rows * count;
    check_buffer src = slot_values(s, (rows - 1) * row + count, spread_value), packed = slot_results(s, n, 0);
    const size_t size = (size_t)s->real->bytes;
    for (int64_t r = 0; r < rows; r++)
        memcpy(packed.data + (size_t)(r * count) * size, src.data + (size_t)(r * row) * size, (size_t)count * size);
    check_context("%s moments: rows %" PRId64 ", count %" PRId64 ", src_row %" PRId64 ", values %g + %g * normal",
                  s->name, rows, count, row, offset_of_values, scale_of_values);

    const double first = tapconv_get(packed.data, s->type, 0);
    long double sum = 0, squares = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = tapconv_get(packed.data, s->type, i);
        sum += v;
        most = fmaxl(most, fabsl((long double)v - first));
    }
    const long double mean = sum / (long double)n;
    for (int64_t i = 0; i < n; i++) {
        const long double d = tapconv_get(packed.data, s->type, i) - mean;
        squares += d * d;
    }
    const uint64_t before = check_hash(src.data, src.bytes);
    const tapconv_moments got = s->real->moments(src.data, row, rows, count);
    CHECK(check_hash(src.data, src.bytes) == before);
    CHECK(got.count == (double)n);
    if (most == 0) {
        CHECK(got.mean == first && got.squares == 0);
    } else {
        /* A sum of n terms, and the rounding of the mean itself. */
        const double mean_error = 0x1p-53 * (2 * fabs((double)mean) + (double)(n + 2) * (double)most);
        const double square_error = 0x1p-53 * (double)(n + 8) * (double)squares + (double)n * mean_error * mean_error;
        CHECK(check_close(got.mean, (double)mean, mean_error));
        CHECK(check_close(got.squares, (double)squares,
                          square_error + 2 * mean_error * sqrt((double)squares) * sqrt((double)n) * 0x1p-40));
    }
    const tapconv_moments again = s->real->moments(packed.data, count, rows, count);
    CHECK(memcmp(&got, &again, sizeof got) == 0);
    check_buffer_free(&src);
    check_buffer_free(&packed);
}

void check_peak(const slots *s)
{
    const int64_t rounds = check_between(1, 5);
    double want = 0;
    for (int i = 0; i < 12; i++) {
        double v = i;
        for (int64_t step = 0; step < 64 * rounds; step++)
            v = slot_fma(s, v, s->type == TAPCONV_F64 ? 0.999 : (double)0.999f, 0.5);
        want += v * s->real->lanes;
    }
    check_context("%s peak: rounds %" PRId64, s->name, rounds);
    CHECK(check_close(s->real->peak(rounds), want, 1e-12 * want));
}
