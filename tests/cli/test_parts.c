/* The command's parts that no output shows: random numbers, samples, and the text of numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"
#include "numbers.h"
#include "random.h"

static int failures;

static void check(bool holds, const char *what)
{
    if (holds) return;
    printf("FAILED: %s\n", what);
    failures++;
}

/* ----------------------------------------------------------------------------------------------------------- random */

#define COUNT 2000000

static double normal_below(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

/* The largest distance between the share of values below each of many points and what it should be; for COUNT values
 * drawn rightly it exceeds 2/sqrt(COUNT) once in 1500 seeds, and the seed is fixed. */
static double largest_distance(const double *values, double (*below)(double), double from, double to)
{
    enum { POINTS = 400 };
    static long counts[POINTS + 1];
    memset(counts, 0, sizeof counts);
    const double step = (to - from) / (POINTS - 1);
    for (long i = 0; i < COUNT; i++) {
        const double at = ceil((values[i] - from) / step);
        counts[at < 0 ? 0 : at > POINTS ? POINTS : (int)at]++;
    }
    double largest = 0;
    long sum = 0;
    for (int i = 0; i < POINTS; i++) {
        sum += counts[i];
        const double distance = fabs((double)sum / COUNT - below(from + i * step));
        if (distance > largest) largest = distance;
    }
    return largest;
}

static double uniform_below(double x)
{
    return x <= -1 ? 0 : x >= 1 ? 1 : (x + 1) / 2;
}

static void test_distributions(double *values)
{
    double moments[5] = {0}, extreme = 0;
    random_fill(values, TAPCONV_F64, COUNT, 1, 0, RANDOM_NORMAL, 0, 1, 2);
    for (long i = 0; i < COUNT; i++) {
        double power = 1;
        for (int k = 1; k < 5; k++) moments[k] += (power *= values[i]) / COUNT;
        extreme = fmax(extreme, fabs(values[i]));
    }
    check(fabs(moments[1]) < 4 / sqrt(COUNT), "the mean of normal values is 0");
    check(fabs(moments[2] - 1) < 4 * sqrt(2.0 / COUNT), "their variance is 1");
    check(fabs(moments[3]) < 4 * sqrt(15.0 / COUNT), "their third moment is 0");
    check(fabs(moments[4] - 3) < 4 * sqrt(96.0 / COUNT), "their fourth moment is 3");
    check(extreme > 4.5 && extreme < 7, "their tail is there");
    check(largest_distance(values, normal_below, -5, 5) < 2 / sqrt(COUNT), "normal values are normal");
    random_fill(values, TAPCONV_F64, COUNT, 2, 0, RANDOM_UNIFORM, 0, 1, 2);
    check(largest_distance(values, uniform_below, -1.1, 1.1) < 2 / sqrt(COUNT), "uniform values are uniform");
}

static void test_streams(double *values, double *others)
{
    random_fill(values, TAPCONV_F64, COUNT, 1, 0, RANDOM_NORMAL, 0, 1, 1);
    random_fill(others, TAPCONV_F64, COUNT, 1, 0, RANDOM_NORMAL, 0, 1, 3);
    bool same = true;
    for (long i = 0; i < COUNT; i++) same = same && others[i] == values[i];
    check(same, "threads do not show");
    random_fill(others, TAPCONV_F32, COUNT, 1, 0, RANDOM_NORMAL, 0, 1, 2);
    for (long i = 0; i < COUNT; i++) same = same && ((float *)(void *)others)[i] == (float)values[i];
    check(same, "float32 values are the float64 ones, rounded");
    static const uint64_t changed[][2] = {{2, 0}, {1, 1}};
    for (int k = 0; k < 2; k++) {
        double product = 0;
        random_fill(others, TAPCONV_F64, COUNT, changed[k][0], changed[k][1], RANDOM_NORMAL, 0, 1, 2);
        for (long i = 0; i < COUNT; i++) product += values[i] * others[i];
        check(fabs(product) < 4 * sqrt(COUNT),
              "another seed or tensor gives values that have nothing to do with these");
    }
    double neighbours = 0;
    for (long i = 0; i + 4096 < COUNT; i++) neighbours += values[i] * values[i + 4096];
    check(fabs(neighbours) < 4 * sqrt(COUNT), "blocks have nothing to do with each other");
}

/* ---------------------------------------------------------------------------------------------------------- samples */

static void test_sample(int64_t batch, int64_t channels, int64_t norm_groups, int64_t out_length)
{
    layer l = {.problem = tapconv_conv1d(batch, 1, channels, out_length, 1, 0), .out_length = out_length};
    l.problem.norm_groups = norm_groups;
    const sample s = sample_some(&l, 3);
    const int64_t outputs = batch * channels * out_length;
    check(sample_outputs(&s, &l) >= (outputs < 100000 ? outputs : 100000), "a sample has 100,000 outputs, or all");
    check(s.taken >= (s.total < 4 ? s.total : 4), "a sample has four groups, or all");
    int64_t last = -1;
    bool ascending = true;
    for (int64_t k = 0; k < s.taken; k++) {
        const int64_t group = sample_group(&s, k);
        ascending = ascending && group > last && group < s.total;
        last = group;
    }
    check(ascending, "a sample's groups are distinct, in order, and there");
}

static void test_samples(void)
{
    test_sample(32, 256, 0, 8192);
    test_sample(16, 256, 32, 1024);
    test_sample(1000000, 64, 0, 1);
    test_sample(3, 7, 0, 20000);
    test_sample(1, 4, 1, 10);
    test_sample(0, 4, 0, 10);
    test_sample(7, 512, 1, 100000);
}

/* ---------------------------------------------------------------------------------------------------------- numbers */

static void test_numbers(void)
{
    random_stream stream = random_start(1, 2, 3);
    char text[32];
    bool exact = true;
    for (int i = 0; i < 100000; i++) {
        const uint64_t bits = random_bits(&stream);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        exact = exact && parse_real(format_real(text, value), &back) && back == value;
    }
    check(exact, "a number's text reads back as the number");
    check(strcmp(format_real(text, 0.1), "0.1") == 0 && strcmp(format_real(text, 1e-5), "1e-05") == 0, "and is short");
    int64_t integer;
    check(parse_int64("9223372036854775807", &integer) && integer == INT64_MAX, "the largest integer");
    check(parse_int64("-9223372036854775808", &integer) && integer == INT64_MIN, "the least integer");
    check(!parse_int64("9223372036854775808", &integer) && !parse_int64("-9223372036854775809", &integer),
          "beyond both");
    check(!parse_int64("", &integer) && !parse_int64("-", &integer) && !parse_int64("1 ", &integer), "no integers");
}

static void test_tf32_verdict(void)
{
    check(looks_like_tf32(2.8e-4, 1e-6, 4e-4) && looks_like_tf32(5e-4, 3e-4, 1e-5), "TF32, rounded and truncated");
    check(!looks_like_tf32(2.8e-4, 1e-4, 2e-4), "not near enough");
    check(!looks_like_tf32(1e-6, 1e-8, 1e-8) && !looks_like_tf32(0.9, 1e-3, 1e-3), "not where TF32 lies");
    check(!looks_like_tf32(NAN, 1e-6, 1e-6) && !looks_like_tf32(2.8e-4, NAN, NAN), "NaN is no TF32");
}

int main(void)
{
    static double values[COUNT], others[COUNT];
    test_distributions(values);
    test_streams(values, others);
    test_samples();
    test_numbers();
    test_tf32_verdict();
    return failures != 0;
}
