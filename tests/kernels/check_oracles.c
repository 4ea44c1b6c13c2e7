/* The library's oracle and the second one check each other over random problems. */
#include "layers.h"
#include "second_oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double *allocate(int64_t count)
{
    double *const memory = calloc((size_t)count + 1, sizeof *memory);
    if (!memory) exit(1);
    return memory;
}

static double *widened(const check_buffer *from, tapconv_type type, int64_t count)
{
    if (!from->data) return NULL;
    double *const to = allocate(count);
    for (int64_t i = 0; i < count; i++) to[i] = tapconv_get(from->data, type, i);
    return to;
}

/* One item and group through tapconv_reference_group, against what the whole gave. */
static void check_group(const layer *l, const double *whole)
{
    const tapconv_shape *s = &l->shape;
    const tapconv_problem *p = &s->p;
    const int64_t groups = p->norm_groups ? p->norm_groups : p->out_channels, length = s->out_length;
    if (p->batch == 0) return;
    const int64_t item = check_between(0, p->batch - 1), group = check_between(0, groups - 1);
    double *const rows = allocate(s->norm_size * length);
    CHECK(tapconv_reference_group(p, l->x.data, l->w.data, l->bias.data, l->gamma.data, l->beta.data, item, group,
                                  rows) == TAPCONV_OK);
    int same = 1;
    for (int64_t r = 0; r < s->norm_size; r++)
        for (int64_t t = 0; t < length; t++) {
            const int64_t channel = group * s->norm_size + r;
            const int64_t at = p->layout == TAPCONV_NCL ? channel * length + t : t * p->out_channels + channel;
            same = same && check_same(&rows[r * length + t], &whole[item * p->out_channels * length + at], TAPCONV_F64);
        }
    CHECK(same);
    free(rows);
}

static void check_problem(const tapconv_problem *p)
{
    layer l = layer_make(p, check_chance(4));
    const tapconv_shape *s = &l.shape;
    double *const x = widened(&l.x, p->type, s->x_elements), *const w = widened(&l.w, p->type, s->w_elements);
    double *const bias = widened(&l.bias, p->param_type, p->out_channels);
    double *const gamma = widened(&l.gamma, p->param_type, p->out_channels);
    double *const beta = widened(&l.beta, p->param_type, p->out_channels);
    double *const first = allocate(s->y_elements), *const second = allocate(s->y_elements);
    check_context("%s", layer_text(p, NULL));
    CHECK(tapconv_reference(p, l.x.data, l.w.data, l.bias.data, l.gamma.data, l.beta.data, first) == TAPCONV_OK);
    second_oracle(p, x, w, bias, gamma, beta, second);

    /* The tolerance of float64 arithmetic, as for the engines. */
    tapconv_problem precise = *p;
    precise.math = TAPCONV_MATH_F64, precise.type = precise.param_type = TAPCONV_F64;
    layer doubles = l;
    doubles.shape.p = precise, doubles.exact = 0;
    doubles.x.data = (char *)x, doubles.w.data = (char *)w, doubles.bias.data = (char *)bias;
    doubles.gamma.data = (char *)gamma, doubles.beta.data = (char *)beta;
    layer_truth truth = layer_truth_make(&doubles);
    for (int64_t i = 0; i < s->y_elements; i++)
        if (!check_close(first[i], second[i], truth.tolerance[i])) {
            check_fail("element %lld: %.17g, the second oracle %.17g, allowed %.3g", (long long)i, first[i], second[i],
                       truth.tolerance[i]);
            break;
        }
    check_passed(s->y_elements);
    check_group(&l, first);
    layer_truth_free(&truth);
    double *const all[] = {x, w, bias, gamma, beta, first, second};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
    layer_free(&l);
}

int main(int argc, char **argv)
{
    const int64_t rounds = check_begin(argc, argv, 200);
    for (int64_t round = 0; round < rounds; round++) {
        const tapconv_problem p = layer_random_problem(3e5);
        check_problem(&p);
    }
    return check_end();
}
