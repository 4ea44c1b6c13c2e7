/* Values that break careless arithmetic, through every instruction set and kernel family: channels 1e-30..1e30 apart,
 * one huge sample in a quiet signal, a decay to silence, subnormals, large means before GroupNorm, constant groups,
 * and NaN and Inf, which arrive exactly where the formula puts them. */
#include "layers.h"

#include <math.h>
#include <stdlib.h>

static int64_t x_index(const tapconv_problem *p, int64_t item, int64_t channel, int64_t time)
{
    const int64_t base = item * p->in_channels * p->length;
    return base + (p->layout == TAPCONV_NCL ? channel * p->length + time : time * p->in_channels + channel);
}

static double x_get(const layer *l, int64_t index)
{
    return tapconv_get(l->x.data, l->shape.p.type, index);
}

static void x_scale(const layer *l, int64_t index, double factor)
{
    tapconv_set(l->x.data, l->shape.p.type, index, x_get(l, index) * factor);
}

/* Powers of ten that the type holds with room to spare. */
static double most_decades(const layer *l)
{
    return l->shape.p.type == TAPCONV_F16 ? 3 : 30;
}

#define EACH_SAMPLE(l, n, c, t)                                                                                        \
    for (int64_t n = 0; n < (l)->shape.p.batch; n++)                                                                   \
        for (int64_t c = 0; c < (l)->shape.p.in_channels; c++)                                                         \
            for (int64_t t = 0; t < (l)->shape.p.length; t++)

static void spread_channels(layer *l)
{
    EACH_SAMPLE(l, n, c, t)
    {
        const double place = (double)((c * 7 + 3) % l->shape.p.in_channels) / (double)l->shape.p.in_channels;
        x_scale(l, x_index(&l->shape.p, n, c, t), pow(10, most_decades(l) * (2 * place - 1)));
    }
}

static void one_huge_sample(layer *l)
{
    const tapconv_problem *p = &l->shape.p;
    if (l->shape.x_elements == 0) return;
    tapconv_set(l->x.data, p->type, check_between(0, l->shape.x_elements - 1), pow(10, most_decades(l)));
}

static void decay_to_silence(layer *l)
{
    const tapconv_problem *p = &l->shape.p;
    EACH_SAMPLE(l, n, c, t) x_scale(l, x_index(p, n, c, t), pow(10, -44.0 * (double)t / (double)p->length));
}

static void subnormals(layer *l)
{
    const double scale = l->shape.p.type == TAPCONV_F64   ? 0x1p-1030
                         : l->shape.p.type == TAPCONV_F16 ? 0x1p-18
                                                          : 0x1p-134;
    for (int64_t i = 0; i < l->shape.x_elements; i++) x_scale(l, i, scale);
}

static void large_mean(layer *l)
{
    const double mean =
        l->shape.p.type == TAPCONV_F32 || l->shape.p.type == TAPCONV_F64 ? pow(10, (double)check_between(4, 6)) : 100;
    for (int64_t i = 0; i < l->shape.x_elements; i++) tapconv_set(l->x.data, l->shape.p.type, i, mean + x_get(l, i));
}

static double not_finite(void)
{
    return check_chance(3) ? NAN : check_chance(2) ? INFINITY : -INFINITY;
}

static void not_finite_samples(layer *l)
{
    for (int64_t i = check_between(1, 3); i > 0 && l->shape.x_elements > 0; i--)
        tapconv_set(l->x.data, l->shape.p.type, check_between(0, l->shape.x_elements - 1), not_finite());
}

/* Zeros of the padding meet them too. */
static void not_finite_weights(layer *l)
{
    for (int64_t i = check_between(1, 2); i > 0; i--)
        tapconv_set(l->w.data, l->shape.p.type, check_between(0, l->shape.w_elements - 1), not_finite());
    if (check_chance(3)) not_finite_samples(l);
}

/* Finite as they are stored; in f16 arithmetic infinite. */
static void large_weights(layer *l)
{
    const double large = l->shape.p.type == TAPCONV_F16 ? 6e4 : 1e5;
    for (int64_t i = check_between(1, 2); i > 0; i--)
        tapconv_set(l->w.data, l->shape.p.type, check_between(0, l->shape.w_elements - 1), large);
}

static void (*const scenes[])(layer *) = {spread_channels, one_huge_sample,    decay_to_silence,   subnormals,
                                          large_mean,      not_finite_samples, not_finite_weights, large_weights};
enum { SCENES = sizeof scenes / sizeof scenes[0] };

static void check_beta(const layer *l, uint32_t isa, const check_buffer *y)
{
    const tapconv_problem *p = &l->shape.p;
    double *const want = calloc((size_t)l->shape.y_elements + 1, sizeof *want);
    if (!want) exit(1);
    for (int64_t i = 0; i < l->shape.y_elements; i++) {
        const int64_t channel =
            p->layout == TAPCONV_NCL ? i / l->shape.out_length % p->out_channels : i % p->out_channels;
        double stored[1];
        tapconv_set(stored, p->type, 0, tapconv_get(l->beta.data, p->param_type, channel));
        want[i] = tapconv_get(stored, p->type, 0);
    }
    const check_lattice all = layer_all(l);
    const layer_call call = {.isa = isa};
    check_context("a constant group: %s", layer_text(p, &call));
    check_values(y, &all, want, NULL);
    free(want);
}

/* Equal samples and equal weights: no padding, which would end the constancy. beta is the result, exactly, whatever
 * eps. */
static void check_constant_groups(void)
{
    tapconv_problem p = layer_random_problem(1e5);
    if (p.padding_left + p.padding_right >= p.length) p.length = p.padding_left + p.padding_right + p.length;
    p.length += p.padding_left + p.padding_right;
    p.padding_left = p.padding_right = 0;
    p.activation = TAPCONV_ACT_NONE;
    p.has_bias = 0;
    if (p.norm_groups == 0) p.norm_groups = 1;
    p.norm_affine = 1;
    p.norm_eps = check_chance(2) ? 0 : 1e-5;
    layer l = layer_make(&p, 0);
    const double x = check_normal() * pow(10, (double)check_between(-3, 3)), w = check_normal();
    for (int64_t i = 0; i < l.shape.x_elements; i++) tapconv_set(l.x.data, p.type, i, x);
    for (int64_t i = 0; i < l.shape.w_elements; i++) tapconv_set(l.w.data, p.type, i, w);
    layer_check(&l, check_beta);
    layer_free(&l);
}

int main(int argc, char **argv)
{
    const int64_t rounds = check_begin(argc, argv, 25);
    for (int64_t round = 0; round < rounds; round++) {
        for (int64_t scene = 0; scene < SCENES; scene++) {
            tapconv_problem p = layer_random_problem(2e5);
            if (scenes[scene] == large_mean && p.norm_groups == 0) p.norm_groups = p.out_channels;
            layer l = layer_make(&p, 0);
            scenes[scene](&l);
            layer_check(&l, NULL);
            layer_free(&l);
        }
        check_constant_groups();
    }
    return check_end();
}
