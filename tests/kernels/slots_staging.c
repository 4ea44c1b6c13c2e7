/* The slots that move samples: load, taps, phases, and stream_copy. All are exact. */
#include "slots.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t pick_count(void)
{
    static const int64_t some[] = {0, 1, 2, 7, 8, 13, 15, 16, 17, 31, 61, 64, 127, 251};
    return check_chance(2) ? some[check_between(0, 13)] : check_between(0, 300);
}

/* One element as it should arrive. */
static void convert_one(const slots *s, const void *src, tapconv_type type, tapconv_math math, int64_t from, void *dst,
                        int64_t to)
{
    const double value = tapconv_get(src, type, from);
    if (s->type == TAPCONV_F64) {
        ((double *)dst)[to] = value;
        return;
    }
    float rounded = (float)value;
    if (type == TAPCONV_F32 && math == TAPCONV_MATH_TF32) rounded = tapconv_f32_to_tf32(((const float *)src)[from]);
    if (type == TAPCONV_F32 && math == TAPCONV_MATH_F16) rounded = tapconv_f16_to_f32(tapconv_f32_to_f16(rounded));
    if (type == TAPCONV_F32 && math == TAPCONV_MATH_BF16) rounded = tapconv_bf16_to_f32(tapconv_f32_to_bf16(rounded));
    ((float *)dst)[to] = rounded;
}

static void check_load_of(const slots *s, tapconv_type type, tapconv_math math)
{
    const size_t size = tapconv_type_bytes(type);
    const int64_t count = pick_count(), step = check_chance(2) ? 1 : check_between(2, 40);
    const int64_t elements = count > 0 ? (count - 1) * step + 1 : 0;
    check_buffer src = check_buffer_make((size_t)elements * size, (size_t)check_between(0, 15) * size);
    check_buffer dst = slot_results(s, count, 0);
    void *const want = malloc((size_t)(count + 1) * (size_t)s->real->bytes);
    if (!want) exit(1);
    for (int64_t i = 0; i < elements; i++) {
        if (check_chance(4))
            check_set_special(src.data, type, i);
        else
            tapconv_set(src.data, type, i, check_normal());
    }
    for (int64_t i = 0; i < count; i++) convert_one(s, src.data, type, math, i * step, want, i);
    const tapconv_load load = {
        .dst = dst.data, .src = src.data, .type = type, .math = math, .step = step, .count = count};
    const check_lattice l = {.type = s->type, .rows = 1, .count = count, .step = 1};
    check_context("%s load from %s, math %s: step %" PRId64 ", count %" PRId64, s->name, tapconv_type_name(type),
                  tapconv_math_name(math), step, count);
    const uint64_t before = check_hash(src.data, src.bytes);
    s->real->load(&load);
    CHECK(check_hash(src.data, src.bytes) == before);
    check_same_values(&dst, &l, want);
    free(want);
    check_buffer_free(&src);
    check_buffer_free(&dst);
}

void check_load(const slots *s)
{
    for (int type = 0; type < TAPCONV_TYPE_COUNT; type++)
        for (int math = 0; math < TAPCONV_MATH_COUNT; math++) {
            tapconv_problem p = tapconv_conv1d(1, 1, 1, 1, 1, 0);
            p.type = (tapconv_type)type, p.math = (tapconv_math)math;
            const int legal = tapconv_problem_check(&p, NULL) == TAPCONV_OK;
            if (legal && (math == TAPCONV_MATH_F64) == (s->type == TAPCONV_F64)) check_load_of(s, p.type, p.math);
        }
}

/* Any bits arrive as they are. */
static double any_value(void)
{
    return check_chance(10) ? 0x1p-140 : check_normal();
}

static int64_t pick_stride(void)
{
    return check_chance(3) ? 1 : check_chance(4) ? check_between(17, 70) : check_between(2, 16);
}

void check_taps(const slots *s)
{
    const int64_t taps = check_between(1, 12), dilation = check_between(1, 50), stride = pick_stride();
    const int64_t count = pick_count(), row = count + TAPCONV_OVERREAD + check_between(0, 9);
    check_buffer src = slot_values(s, (taps - 1) * dilation + (count + TAPCONV_OVERREAD) * stride, any_value);
    check_buffer dst = slot_results(s, taps * row, 0), want = slot_results(s, taps * count, 0);
    for (int64_t k = 0; k < taps; k++)
        for (int64_t i = 0; i < count; i++)
            tapconv_set(want.data, s->type, k * count + i, tapconv_get(src.data, s->type, k * dilation + i * stride));
    const check_lattice l = {
        .type = s->type, .rows = taps, .row = row, .count = count, .step = 1, .slack = TAPCONV_OVERREAD};
    check_context("%s taps: kernel_size %" PRId64 ", dilation %" PRId64 ", stride %" PRId64 ", count %" PRId64
                  ", dst_row %" PRId64,
                  s->name, taps, dilation, stride, count, row);
    const uint64_t before = check_hash(src.data, src.bytes);
    s->real->taps(dst.data, row, src.data, taps, dilation, stride, count);
    CHECK(check_hash(src.data, src.bytes) == before);
    check_same_values(&dst, &l, want.data);
    check_buffer_free(&src);
    check_buffer_free(&dst);
    check_buffer_free(&want);
}

void check_phases(const slots *s)
{
    int32_t phase[40];
    const int64_t stride = pick_stride(), phases = check_between(1, stride < 40 ? stride : 40);
    const int64_t count = pick_count(), row = count + TAPCONV_OVERREAD + check_between(0, 9);
    for (int64_t i = 0; i < phases; i++) phase[i] = (int32_t)check_between(0, stride - 1);
    check_buffer src = slot_values(s, stride + (count + TAPCONV_OVERREAD) * stride, any_value);
    check_buffer dst = slot_results(s, phases * row, 0), want = slot_results(s, phases * count, 0);
    for (int64_t p = 0; p < phases; p++)
        for (int64_t i = 0; i < count; i++)
            tapconv_set(want.data, s->type, p * count + i, tapconv_get(src.data, s->type, phase[p] + i * stride));
    const check_lattice l = {
        .type = s->type, .rows = phases, .row = row, .count = count, .step = 1, .slack = TAPCONV_OVERREAD};
    check_context("%s phases: %" PRId64 " phases, stride %" PRId64 ", count %" PRId64 ", dst_row %" PRId64, s->name,
                  phases, stride, count, row);
    const uint64_t before = check_hash(src.data, src.bytes);
    s->real->phases(dst.data, row, src.data, phase, phases, stride, count);
    CHECK(check_hash(src.data, src.bytes) == before);
    check_same_values(&dst, &l, want.data);
    check_buffer_free(&src);
    check_buffer_free(&dst);
    check_buffer_free(&want);
}

void check_stream_copy(const slots *s)
{
    const size_t bytes = 64 * (size_t)check_between(0, 100);
    check_buffer src = check_buffer_make(bytes, 0), dst = check_buffer_make(bytes, 0);
    for (size_t i = 0; i < bytes; i++) src.data[i] = (char)(check_bits() % 0xf0); /* no poison */
    check_context("%s stream_copy: %zu bytes", s->name, bytes);
    const uint64_t before = check_hash(src.data, bytes);
    s->isa->stream_copy(dst.data, src.data, (int64_t)bytes);
    CHECK(check_hash(src.data, bytes) == before);
    CHECK(memcmp(dst.data, src.data, bytes) == 0);
    check_guards(&dst, "the copy");
    check_buffer_free(&src);
    check_buffer_free(&dst);
}
