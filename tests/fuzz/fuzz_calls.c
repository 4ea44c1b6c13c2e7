/* The public functions besides plans, one a call: whatever their arguments, a result or a sentence. The first byte chooses
 * the function. No GPU is needed: without one, the device functions say so. */
#include "bytes.h"
#include "expect.h"
#include "fuzz.h"

#include <math.h>

#define MOST_ELEMENTS 4096

static void name_anything(bytes *in)
{
    const int32_t value = bytes_choice(in, 12);
    const char *const names[] = {tapconv_type_name((tapconv_type)value),
                                 tapconv_math_name((tapconv_math)value),
                                 tapconv_layout_name((tapconv_layout)value),
                                 tapconv_activation_name((tapconv_activation)value),
                                 tapconv_kernel_name(value),
                                 tapconv_isa_name((uint32_t)value)};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) EXPECT(!names[i] || names[i][0] != '\0');
    const size_t bytes_each = tapconv_type_bytes((tapconv_type)value);
    EXPECT((bytes_each > 0) == (names[0] != NULL) && bytes_each <= 8);
}

static void describe_anything(bytes *in)
{
    int64_t v[7], out_length;
    for (int i = 0; i < 7; i++) v[i] = bytes_size(in, 1);
    const tapconv_problem made[] = {tapconv_conv1d(v[0], v[1], v[2], v[3], v[4], v[5]),
                                    tapconv_causal_conv1d(v[0], v[1], v[2], v[3], v[4], v[5]),
                                    tapconv_conv1d_groupnorm(v[0], v[1], v[2], v[3], v[4], v[5], v[6])};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        expect_sentence(tapconv_problem_check(&made[i], &out_length));
}

static int holds(tapconv_type wide, tapconv_type type)
{
    return wide == type || wide == TAPCONV_F64 || (wide == TAPCONV_F32 && type != TAPCONV_F64);
}

/* `count` values in another type, in memory of exactly their size. */
static void *converted(const void *source, tapconv_type from, tapconv_type to, int64_t count)
{
    void *const there = malloc((size_t)count * tapconv_type_bytes(to));
    EXPECT(there && tapconv_convert(there, to, source, from, count) == TAPCONV_OK);
    return there;
}

static void expect_same(const void *a, const void *b, tapconv_type type, int64_t count)
{
    double *const left = converted(a, type, TAPCONV_F64, count), *const right = converted(b, type, TAPCONV_F64, count);
    for (int64_t i = 0; i < count; i++) EXPECT(left[i] == right[i] || (isnan(left[i]) && isnan(right[i])));
    free(left);
    free(right);
}

/* There and back is no change where the other type holds more, and there again none where it holds less. */
static void convert_anything(bytes *in)
{
    const tapconv_type from = (tapconv_type)bytes_choice(in, 3), to = (tapconv_type)bytes_choice(in, 3);
    const int64_t count = bytes_size(in, 0);
    const size_t size = tapconv_type_bytes(from);
    if (size == 0 || tapconv_type_bytes(to) == 0 || count < 1 || count > MOST_ELEMENTS) {
        char nothing[8] = {0}, same[8] = {0};
        const tapconv_status status = tapconv_convert(nothing, to, same, from, count < 0 ? count : 0);
        expect_sentence(status);
        EXPECT((status == TAPCONV_OK) == (size > 0 && tapconv_type_bytes(to) > 0 && count >= 0) && nothing[0] == 0);
        return;
    }
    char *const source = malloc((size_t)count * size);
    EXPECT(source);
    for (size_t i = 0; i < (size_t)count * size; i++) source[i] = (char)bytes_next(in);
    void *const there = converted(source, from, to, count), *const back = converted(there, to, from, count);
    void *const again = converted(back, from, to, count);
    if (holds(to, from)) expect_same(source, back, from, count);
    if (holds(from, to)) expect_same(there, again, to, count);
    if (from == TAPCONV_F32) {
        tapconv_round_tf32((float *)back, count);
        void *const twice = converted(back, from, from, count);
        tapconv_round_tf32(twice, count);
        expect_same(back, twice, from, count);
        free(twice);
    }
    void *const all[] = {source, there, back, again};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

/* Groups of the oracle one by one are the oracle's rows. */
static void refer_to_groups(bytes *in)
{
    enum { C = 4, T = 6, K = 3 };
    tapconv_problem p = tapconv_conv1d(2, C, C, T, K, 1);
    p.norm_groups = bytes_choice(in, 2), p.norm_affine = 0;
    float x[2 * C * T], w[C * C * K];
    double y[2 * C * T], rows[C * T];
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) x[i] = bytes_next(in);
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) w[i] = (float)bytes_next(in) - 100;
    const int64_t item = bytes_size(in, 0), group = bytes_size(in, 0);
    const tapconv_status whole = tapconv_reference(&p, x, w, NULL, NULL, NULL, y);
    expect_sentence(whole);
    const tapconv_status part = tapconv_reference_group(&p, x, w, NULL, NULL, NULL, item, group, rows);
    expect_sentence(part);
    if (whole != TAPCONV_OK) {
        EXPECT(part != TAPCONV_OK);
        return;
    }
    const int64_t channels = p.norm_groups ? C / p.norm_groups : 1;
    EXPECT((part == TAPCONV_OK) == (item >= 0 && item < 2 && group >= 0 && group < C / channels));
    if (part == TAPCONV_OK)
        EXPECT(memcmp(rows, y + (item * C + group * channels) * T, (size_t)(channels * T) * sizeof rows[0]) == 0);
}

/* A GPU that is not there, or an argument that is not allowed; memory of a GPU that is there would be given back. */
static void ask_for_a_device(bytes *in)
{
    tapconv_plan_options where = {.device = (tapconv_device)bytes_choice(in, 1), .device_index = bytes_choice(in, 1)};
    const uint8_t what = bytes_next(in);
    int32_t count = 0;
    tapconv_device_info info;
    void *memory = NULL;
    switch (what % 6) {
    case 0: expect_sentence(tapconv_device_count(&where, &count)); break;
    case 1: expect_sentence(tapconv_device_describe(&where, &info)); break;
    case 2:
        expect_sentence(tapconv_device_allocate(&where, &memory, (size_t)bytes_next(in)));
        expect_sentence(tapconv_device_free(&where, memory));
        break;
    case 3: expect_sentence(tapconv_device_synchronize(&where)); break;
    case 4: EXPECT(!tapconv_device_kernel_name(&where, -1)); break;
    default: EXPECT(!tapconv_card_name(&where, -1)); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes in = {data, data + size};
    switch (bytes_next(&in) % 5) {
    case 0: name_anything(&in); break;
    case 1: describe_anything(&in); break;
    case 2: convert_anything(&in); break;
    case 3: refer_to_groups(&in); break;
    default: ask_for_a_device(&in); break;
    }
    return 0;
}
