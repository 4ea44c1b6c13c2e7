/* emit: bias, normalisation, activation, conversion. */
#include "slots.h"

#include "second_oracle.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How the rows are normalised. */
typedef enum norm { NO_NORM, USUAL, FAR_MEAN, HUGE_VALUES, TINY_VALUES, LONE_SPIKE, NORMS } norm;

static const char *const norm_names[NORMS] = {"none",           "usual",           "mean 1e6 spreads away",
                                              "values of 1e37", "values of 1e-37", "one spike of 3.4e38"};

/* Values' origin and spread for each. */
static double mean_of(norm how)
{
    return how == FAR_MEAN      ? 1e6
           : how == HUGE_VALUES ? 3e37
           : how == TINY_VALUES ? 1e-37
           : how == LONE_SPIKE  ? -9e36
                                : 0.3;
}

static double spread_of(norm how)
{
    return how == HUGE_VALUES ? 2e37 : how == TINY_VALUES ? 3e-38 : how == LONE_SPIKE ? 1e36 : 1;
}

static double overflowed(double value, tapconv_type type)
{
    double as_stored[1];
    tapconv_set(as_stored, type, 0, value);
    return isinf(tapconv_get(as_stored, type, 0)) ? copysign(INFINITY, value) : value;
}

/* How far the nearest value of a type may be from `value`. */
static double rounding_of(tapconv_type type, double value)
{
    const int bits = type == TAPCONV_F64 ? 53 : type == TAPCONV_F32 ? 24 : type == TAPCONV_F16 ? 11 : 8;
    const double least = type == TAPCONV_F64   ? 0x1p-1074
                         : type == TAPCONV_F32 ? 0x1p-150
                         : type == TAPCONV_F16 ? 0x1p-25
                                               : 0x1p-134;
    return ldexp(fabs(value), -bits) + least;
}

/* What v becomes, and how far a result may be from it. */
static double value_of(const slots *s, const tapconv_emit *e, int64_t r, double src, double *tolerance)
{
    const double eps = slot_eps(s), least = s->type == TAPCONV_F64 ? 0x1p-1073 : 0x1p-148;
    double v = src, error = 0;
    if (e->bias) {
        v += e->bias[r];
        error += eps * (fabs(v) + fabs(e->bias[r])); /* it is rounded, and the sum */
    }
    if (e->scale) {
        const double distance = v - e->mean;
        error = fabs(e->scale[r]) * (error + 4 * eps * fabs(distance) + 8 * eps * eps * fabs(e->mean) + least);
        v = distance * e->scale[r] + e->shift[r];
        error += eps * (fabs(v) + fabs(e->shift[r])) + least;
    }
    const double y = (double)second_oracle_activation(e->activation, v);
    /* No activation is steeper than 1.13; each is within 2 ulp. In float64 they are within 4. */
    if (e->activation != TAPCONV_ACT_NONE) error = 1.13 * error + 9 * eps * fabs(y) + least;
    *tolerance = (error + rounding_of(e->type, fabs(y) + error)) * 1.000001;
    return overflowed(y, e->type);
}

/* Room for the result, and where its elements lie. */
static check_lattice pick_lattice(const tapconv_emit *e)
{
    check_lattice l = {.type = e->type, .rows = e->rows, .count = e->count, .step = 1};
    if (check_chance(3)) { /* samples apart, rows side by side */
        l.row = 1, l.step = e->rows + check_between(0, 5);
    } else {
        l.row = e->count + check_between(0, 20);
    }
    return l;
}

static check_buffer run(const slots *s, tapconv_emit e, const check_lattice *l)
{
    const size_t size = tapconv_type_bytes(e.type);
    const int64_t elements = e.count > 0 ? (e.rows - 1) * l->row + (e.count - 1) * l->step + 1 : 0;
    check_buffer dst = check_buffer_make((size_t)elements * size, (size_t)check_between(0, 31) * size);
    e.dst = dst.data, e.dst_row = l->row, e.dst_step = l->step;
    s->real->emit(&e);
    s->isa->stream_fence();
    return dst;
}

static void check_emit_of(const slots *s, tapconv_type type, tapconv_activation activation, norm how)
{
    double bias[5], scale[5], shift[5];
    tapconv_emit e = {.type = type, .activation = activation, .rows = check_between(1, 5), .stream = check_chance(2)};
    e.count = check_chance(2) ? check_between(0, 40) : check_between(0, 700);
    e.src_row = e.count + check_between(0, 9);
    const int with_bias = how == USUAL || how == NO_NORM ? check_chance(2) : 0;
    if (with_bias) e.bias = bias;
    if (how != NO_NORM) e.scale = scale, e.shift = shift, e.mean = mean_of(how) * (1 + 1e-9);
    for (int64_t r = 0; r < e.rows; r++) {
        bias[r] = check_normal();
        scale[r] = check_normal() / spread_of(how), shift[r] = check_normal();
        if (how == USUAL && check_chance(6)) scale[r] = 0;
    }
    const int64_t elements = (e.rows - 1) * e.src_row + e.count;
    check_buffer src = slot_results(s, elements, 0);
    for (int64_t i = 0; i < elements; i++) {
        const double spread = how == NO_NORM && check_chance(3) ? 30 : spread_of(how);
        double v = how == NO_NORM ? spread * check_normal() : mean_of(how) + spread * check_normal();
        if (how == LONE_SPIKE && check_chance(20)) v = (double)FLT_MAX;
        tapconv_set(src.data, s->type, i, v);
        if (how == NO_NORM && !with_bias && check_chance(20)) check_set_special(src.data, s->type, i);
        if (how == USUAL && check_chance(50)) tapconv_set(src.data, s->type, i, check_chance(2) ? NAN : INFINITY);
    }
    e.src = src.data;
    double *const want = calloc((size_t)(e.rows * e.count + 1), sizeof *want);
    double *const tolerance = calloc((size_t)(e.rows * e.count + 1), sizeof *tolerance);
    if (!want || !tolerance) exit(1);
    for (int64_t r = 0; r < e.rows; r++)
        for (int64_t i = 0; i < e.count; i++)
            want[r * e.count + i] =
                value_of(s, &e, r, tapconv_get(src.data, s->type, r * e.src_row + i), &tolerance[r * e.count + i]);

    check_context("%s emit to %s, activation %s: rows %" PRId64 ", count %" PRId64 ", bias %d, norm: %s, stream %d",
                  s->name, tapconv_type_name(type), tapconv_activation_name(activation), e.rows, e.count, with_bias,
                  norm_names[how], e.stream);
    const uint64_t before = check_hash(src.data, src.bytes);
    const check_lattice l = pick_lattice(&e);
    check_buffer dst = run(s, e, &l);
    CHECK(check_hash(src.data, src.bytes) == before);
    check_values(&dst, &l, want, tolerance);

    /* A part of the samples, elsewhere, has the same bits. */
    if (e.count > 0) {
        tapconv_emit part = e;
        const int64_t first = check_between(0, e.count - 1), size = (int64_t)tapconv_type_bytes(type);
        part.src = src.data + first * s->real->bytes, part.count = check_between(1, e.count - first),
        part.stream = !e.stream;
        const check_lattice part_l = pick_lattice(&part);
        check_buffer part_dst = run(s, part, &part_l);
        char *const same = malloc((size_t)(part.rows * part.count * size));
        if (!same) exit(1);
        for (int64_t r = 0; r < part.rows; r++)
            for (int64_t i = 0; i < part.count; i++)
                memcpy(same + (r * part.count + i) * size, dst.data + (r * l.row + (first + i) * l.step) * size,
                       (size_t)size);
        check_same_values(&part_dst, &part_l, same);
        free(same);
        check_buffer_free(&part_dst);
    }
    free(want);
    free(tolerance);
    check_buffer_free(&dst);
    check_buffer_free(&src);
}

void check_emit(const slots *s)
{
    for (int type = 0; type < TAPCONV_TYPE_COUNT; type++)
        for (int activation = 0; activation < TAPCONV_ACTIVATION_COUNT; activation++) {
            if (type == TAPCONV_F64 && s->type == TAPCONV_F32) continue; /* there is no such problem */
            check_emit_of(s, (tapconv_type)type, (tapconv_activation)activation, (norm)check_between(0, NORMS - 1));
        }
}
