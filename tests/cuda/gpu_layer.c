#include "gpu_layer.h"

#include "support/problem_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PRODUCTS 2.5e7
#define LENGTH(list) ((int64_t)(sizeof(list) / sizeof(list)[0]))
#define PICK(r, ...) (((const int64_t[]){__VA_ARGS__})[below(r, LENGTH(((const int64_t[]){__VA_ARGS__})))])

void *gpu_allocated(int64_t count, size_t size)
{
    void *const memory = calloc((size_t)count + 1, size);
    if (memory) return memory;
    fprintf(stderr, "no memory for %" PRId64 " elements of %zu bytes\n", count, size);
    exit(2);
}

static void convert(void *to, tapconv_type to_type, const void *from, tapconv_type from_type, int64_t count)
{
    if (tapconv_convert(to, to_type, from, from_type, count) == TAPCONV_OK) return;
    fprintf(stderr, "%s\n", tapconv_last_error());
    exit(2);
}

double *gpu_widened(const void *array, tapconv_type type, int64_t count)
{
    double *const wide = gpu_allocated(count, sizeof *wide);
    convert(wide, TAPCONV_F64, array, type, count);
    return wide;
}

/* ----------------------------------------------------------------------------------------------------------- random */
typedef struct random_state {
    uint64_t state;
} random_state;

static uint64_t bits(random_state *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int64_t below(random_state *r, int64_t end)
{
    return (int64_t)(bits(r) % (uint64_t)end);
}

static int64_t between(random_state *r, int64_t low, int64_t high)
{
    return low + below(r, high - low + 1);
}

static double unit(random_state *r)
{
    return (double)(bits(r) >> 11) * 0x1p-53;
}

static double normal(random_state *r)
{
    return sqrt(-2 * log(1 - unit(r))) * cos(6.283185307179586 * unit(r));
}

/* --------------------------------------------------------------------------------------------------------- problems */
typedef enum kind {
    DENSE,
    DENSE_AGAIN,
    DEPTHWISE,
    GROUPED,
    FEW_CHANNELS,
    UGLY,
    LARGE,
    SHORT,
    HARD_VALUES,
    NOT_FINITE,
    KINDS
} kind;

static tapconv_problem pick_sizes(random_state *r, kind k)
{
    tapconv_problem p = tapconv_conv1d(PICK(r, 1, 1, 2, 3, 5), 1, 1, 1, 1, 0);
    p.in_channels = PICK(r, 1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 256, 257);
    p.out_channels = PICK(r, 1, 2, 3, 5, 8, 12, 16, 17, 31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 129, 192, 256, 257);
    p.length = PICK(r, 1, 2, 3, 7, 16, 31, 64, 100, 127, 128, 129, 255, 257, 500, 1000);
    p.kernel_size = PICK(r, 1, 2, 3, 3, 4, 4, 5, 7, 8, 9, 11, 16, 17);
    p.dilation = PICK(r, 1, 1, 1, 2, 3, 8, 32);
    p.stride = PICK(r, 1, 1, 1, 2, 3, 5, 8);
    p.padding_left = PICK(r, 0, 1, (p.kernel_size - 1) * p.dilation, 5);
    p.padding_right = PICK(r, 0, 0, 1, (p.kernel_size - 1) * p.dilation);
    switch (k) {
    case DEPTHWISE:
        p.groups = p.in_channels;
        p.out_channels = p.in_channels * PICK(r, 1, 1, 1, 2, 3);
        p.kernel_size = PICK(r, 1, 2, 3, 4, 4, 5, 7, 9, 16, 17, 31, 64, 65, 127, 128);
        p.length = PICK(r, 1, 5, 64, 129, 500, 1024, 1250, 2049, 3000);
        p.stride = PICK(r, 1, 1, 1, 1, 2, 3);
        p.padding_left = PICK(r, (p.kernel_size - 1) * p.dilation, (p.kernel_size - 1) * p.dilation, 0, 3);
        break;
    case GROUPED:
        p.groups = PICK(r, 2, 3, 4, 16);
        p.in_channels = p.groups * PICK(r, 1, 2, 3, 5, 16, 17, 48, 64);
        p.out_channels = p.groups * PICK(r, 1, 2, 3, 5, 16, 17, 48, 64);
        break;
    case FEW_CHANNELS:
        p.in_channels = PICK(r, 1, 1, 2, 3, 5, 15, 16);
        p.out_channels = PICK(r, 1, 2, 8, 15, 16, 32, 33, 64);
        p.kernel_size = PICK(r, 1, 3, 7, 10, 16, 51, 128);
        p.dilation = PICK(r, 1, 1, 2, 8);
        p.length = PICK(r, 1, 100, 1000, 2400, 3001);
        break;
    case UGLY:
        p.dilation = PICK(r, 1, 37, 257, 600);
        p.stride = PICK(r, 1, 7, 64, 1000);
        p.padding_left = between(r, 0, 300);
        p.padding_right = between(r, 0, 300);
        p.length = between(r, 0, 80);
        break;
    case LARGE:
        p.batch = PICK(r, 1, 1, 2);
        p.in_channels = PICK(r, 64, 96, 128, 130, 192);
        p.out_channels = PICK(r, 128, 129, 192, 256, 300);
        p.length = between(r, 200, 900);
        p.kernel_size = PICK(r, 1, 2, 3, 4);
        break;
    case SHORT:
        p.batch = PICK(r, 1, 2, 7, 16, 40);
        p.in_channels = PICK(r, 17, 64, 256, 512);
        p.out_channels = PICK(r, 8, 64, 256, 512);
        p.length = between(r, 1, 16);
        p.kernel_size = PICK(r, 1, 3, 5, 7);
        break;
    default: break;
    }
    return p;
}

static void pick_options(random_state *r, tapconv_problem *p, kind k)
{
    p->type = (tapconv_type)PICK(r, TAPCONV_F32, TAPCONV_F32, TAPCONV_F16, TAPCONV_BF16);
    if (p->type == TAPCONV_F32)
        p->math = (tapconv_math)PICK(r, TAPCONV_MATH_F32, TAPCONV_MATH_F32, TAPCONV_MATH_TF32, TAPCONV_MATH_F16,
                                     TAPCONV_MATH_BF16);
    else
        p->math = (tapconv_math)PICK(r, TAPCONV_MATH_F32, TAPCONV_MATH_TF32,
                                     p->type == TAPCONV_F16 ? TAPCONV_MATH_F16 : TAPCONV_MATH_BF16,
                                     p->type == TAPCONV_F16 ? TAPCONV_MATH_F16 : TAPCONV_MATH_BF16);
    p->param_type = below(r, 2) ? p->type : TAPCONV_F32;
    p->layout = below(r, 3) ? TAPCONV_NCL : TAPCONV_NLC;
    p->activation = below(r, 2) ? (tapconv_activation)below(r, TAPCONV_ACTIVATION_COUNT) : TAPCONV_ACT_NONE;
    p->has_bias = below(r, 3) > 0;
    if (below(r, 3) == 0 && k != NOT_FINITE) {
        int64_t groups;
        do groups = PICK(r, 1, 1, 2, 4, 8, 16, 32, p->out_channels);
        while (p->out_channels % groups != 0);
        p->norm_groups = groups;
        p->norm_affine = below(r, 4) > 0;
        p->norm_eps = below(r, 4) ? 1e-5 : 0;
    }
}

/* ----------------------------------------------------------------------------------------------------------- values */
static void *array_of(const double *values, tapconv_type type, int64_t count)
{
    void *const array = gpu_allocated(count, tapconv_type_bytes(type));
    convert(array, type, values, TAPCONV_F64, count);
    return array;
}

static void *random_param(random_state *r, const tapconv_problem *p, double center, double scale)
{
    double *const values = gpu_allocated(p->out_channels, sizeof *values);
    for (int64_t i = 0; i < p->out_channels; i++) values[i] = center + scale * normal(r);
    void *const array = array_of(values, p->param_type, p->out_channels);
    free(values);
    return array;
}

/* Channel and sample of an element of x. */
static int64_t channel_of(const tapconv_problem *p, int64_t i)
{
    return p->layout == TAPCONV_NCL ? i / p->length % p->in_channels : i % p->in_channels;
}

static int64_t sample_of(const tapconv_problem *p, int64_t i)
{
    return p->layout == TAPCONV_NCL ? i % p->length : i / p->in_channels % p->length;
}

/* The hard values of docs/numerics.md, as far as float16 goes where it is used. */
static void harden(random_state *r, const tapconv_problem *p, double *x, int64_t x_count, double *w, int64_t w_count)
{
    const int half = p->type == TAPCONV_F16 || p->math == TAPCONV_MATH_F16;
    const int64_t group_in = p->in_channels / p->groups, row = group_in * p->kernel_size;
    const double decades = half ? 3 : 30;
    double *const scale = gpu_allocated(p->in_channels, sizeof *scale);
    const int64_t what = below(r, 6);
    for (int64_t c = 0; c < p->in_channels; c++) scale[c] = pow(10, decades * (2 * unit(r) - 1));
    switch (what) {
    case 0: /* channels far apart, which the weights bring together */
        for (int64_t i = 0; i < x_count; i++) x[i] *= scale[channel_of(p, i)];
        for (int64_t i = 0; i < w_count; i++)
            w[i] /= scale[i / row / (p->out_channels / p->groups) * group_in + i % row / p->kernel_size];
        break;
    case 1: /* channels far apart */
        for (int64_t i = 0; i < x_count; i++) x[i] *= scale[channel_of(p, i)];
        break;
    case 2: /* one loud sample */
        if (x_count > 0) x[below(r, x_count)] = half ? 3e4 : 1e9;
        break;
    case 3: /* decaying over time */
        for (int64_t i = 0; i < x_count; i++)
            x[i] *= pow(10, (half ? -4.0 : -12.0) * (double)sample_of(p, i) / (double)p->length);
        break;
    case 4: /* subnormal numbers */
        for (int64_t i = 0; i < x_count; i++) x[i] *= half ? 1e-6 : 1e-40;
        break;
    default: /* nothing cancels */
        for (int64_t i = 0; i < x_count; i++) x[i] = 1.1 + 1e-3 * x[i];
        for (int64_t i = 0; i < w_count; i++) w[i] = fabs(w[i]);
    }
    free(scale);
}

static void fill(random_state *r, gpu_layer *l, kind k)
{
    const tapconv_problem *const p = &l->p;
    double *const x = gpu_allocated(l->x_count, sizeof *x), *const w = gpu_allocated(l->w_count, sizeof *w);
    const double scale = 1 / sqrt((double)(p->in_channels / p->groups * p->kernel_size));
    const double offset = below(r, 4) ? 0 : 2;
    for (int64_t i = 0; i < l->x_count; i++) x[i] = offset + normal(r);
    for (int64_t i = 0; i < l->w_count; i++) w[i] = scale * normal(r);
    const int64_t norm_data = p->norm_groups ? below(r, 6) : -1;
    double bias_center = 0, bias_scale = 1;
    if (norm_data == 0) { /* groups without any spread */
        memset(x, 0, (size_t)l->x_count * sizeof *x);
        bias_center = 3, bias_scale = 0;
        l->constant = 1;
    } else if (norm_data == 1 && p->type == TAPCONV_F32) { /* a mean far from the values' spread */
        bias_center = 1e4, bias_scale = 1;
    } else if (k == HARD_VALUES) {
        harden(r, p, x, l->x_count, w, l->w_count);
    }
    if (k == NOT_FINITE) {
        for (int64_t i = between(r, 0, 4); i > 0 && l->x_count > 0; i--)
            x[below(r, l->x_count)] = below(r, 2) ? NAN : below(r, 2) ? INFINITY : -INFINITY;
        if (below(r, 3) == 0) w[below(r, l->w_count)] = below(r, 2) ? NAN : INFINITY;
        if (below(r, 3) == 0) w[below(r, l->w_count)] = 0;
    }
    l->x = array_of(x, p->type, l->x_count);
    l->w = array_of(w, p->type, l->w_count);
    if (p->has_bias) l->bias = random_param(r, p, bias_center, bias_scale);
    if (p->norm_affine) l->gamma = random_param(r, p, 1, 0.5), l->beta = random_param(r, p, 0, 1);
    free(x);
    free(w);
}

gpu_layer gpu_layer_make(uint64_t seed, int64_t number)
{
    gpu_layer l = {0};
    random_state r = {seed};
    r.state = bits(&r) ^ (uint64_t)number;
    r.state = bits(&r);
    const kind k = (kind)(number % KINDS);
    for (;;) {
        l.p = pick_sizes(&r, k);
        const int64_t field = (l.p.kernel_size - 1) * l.p.dilation + 1;
        const int64_t lack = field - (l.p.length + l.p.padding_left + l.p.padding_right);
        if (lack > 0) *(below(&r, 2) ? &l.p.padding_left : &l.p.padding_right) += lack;
        if (tapconv_problem_check(&l.p, &l.out_length) != TAPCONV_OK || l.out_length < 1) continue;
        l.y_count = l.p.batch * l.p.out_channels * l.out_length;
        if ((double)l.y_count * (double)(l.p.in_channels / l.p.groups * l.p.kernel_size) <= MOST_PRODUCTS) break;
    }
    pick_options(&r, &l.p, k);
    if (tapconv_problem_check(&l.p, NULL) != TAPCONV_OK) {
        fprintf(stderr, "an illegal problem: %s\n", tapconv_last_error());
        exit(2);
    }
    l.x_count = l.p.batch * l.p.in_channels * l.p.length;
    l.w_count = l.p.out_channels * (l.p.in_channels / l.p.groups) * l.p.kernel_size;
    l.misaligned = below(&r, 2) ? 0 : between(&r, 1, 15);
    fill(&r, &l, k);
    problem_text(l.text, sizeof l.text, &l.p);
    return l;
}

void gpu_layer_free(gpu_layer *l)
{
    void *const all[] = {l->x, l->w, l->bias, l->gamma, l->beta, l->exact, l->tolerance};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

/* ------------------------------------------------------------------------------------------------------------ truth */
/* An operand as the math mode takes it, in float32 or the narrower type that it is stored in. */
static void *rounded(const gpu_layer *l, const void *array, int64_t count, int magnitude)
{
    const tapconv_problem *const p = &l->p;
    void *const copy = gpu_allocated(count, tapconv_type_bytes(p->type));
    memcpy(copy, array, (size_t)count * tapconv_type_bytes(p->type));
    if (p->type == TAPCONV_F32 && p->math == TAPCONV_MATH_TF32) tapconv_round_tf32(copy, count);
    if (p->type == TAPCONV_F32 && (p->math == TAPCONV_MATH_F16 || p->math == TAPCONV_MATH_BF16)) {
        const tapconv_type narrow = p->math == TAPCONV_MATH_F16 ? TAPCONV_F16 : TAPCONV_BF16;
        uint16_t *const between_types = gpu_allocated(count, sizeof *between_types);
        convert(between_types, narrow, copy, TAPCONV_F32, count);
        convert(copy, TAPCONV_F32, between_types, narrow, count);
        free(between_types);
    }
    for (int64_t i = 0; magnitude && i < count; i++) {
        if (p->type == TAPCONV_F32)
            ((float *)copy)[i] = fabsf(((float *)copy)[i]);
        else
            ((uint16_t *)copy)[i] &= 0x7fff;
    }
    return copy;
}

static double *referred(const gpu_layer *l, const tapconv_problem *p, const void *x, const void *w)
{
    double *const y = gpu_allocated(l->y_count, sizeof *y);
    if (tapconv_reference(p, x, w, p->has_bias ? l->bias : NULL, p->norm_affine ? l->gamma : NULL,
                          p->norm_affine ? l->beta : NULL, y) == TAPCONV_OK)
        return y;
    fprintf(stderr, "the oracle: %s\n", tapconv_last_error());
    exit(2);
}

/* Where y has a channel's sample. */
static int64_t y_at(const gpu_layer *l, int64_t item, int64_t channel, int64_t t)
{
    const int64_t channels = l->p.out_channels;
    return l->p.layout == TAPCONV_NCL ? (item * channels + channel) * l->out_length + t
                                      : (item * l->out_length + t) * channels + channel;
}

/* GroupNorm carries errors of the convolution on: an error e of every value moves the mean by its mean and the spread by its
 * root mean square at most. */
static void through_norm(const gpu_layer *l, const double *conv, double *tolerance)
{
    const tapconv_problem *const p = &l->p;
    const int64_t size = p->out_channels / p->norm_groups;
    const double n = (double)size * (double)l->out_length;
    double *const gamma = l->gamma ? gpu_widened(l->gamma, p->param_type, p->out_channels) : NULL;
    double *const beta = l->beta ? gpu_widened(l->beta, p->param_type, p->out_channels) : NULL;
    for (int64_t pair = 0; pair < p->batch * p->norm_groups; pair++) {
        const int64_t item = pair / p->norm_groups, first = pair % p->norm_groups * size;
        double mean = 0, variance = 0, mean_error = 0, square_error = 0;
        for (int look = 0; look < 2; look++)
            for (int64_t c = first; c < first + size; c++)
                for (int64_t t = 0; t < l->out_length; t++) {
                    const int64_t i = y_at(l, item, c, t);
                    if (look == 0) {
                        mean += conv[i] / n;
                        mean_error += tolerance[i] / n;
                        square_error += tolerance[i] * tolerance[i] / n;
                    } else {
                        variance += (conv[i] - mean) * (conv[i] - mean) / n;
                    }
                }
        const double spread = sqrt(variance + p->norm_eps), spread_error = sqrt(square_error);
        /* Where the convolution's own rounding is the spread, anything may come of it. */
        const double least = spread - spread_error > spread / 2 ? spread - spread_error : 0;
        for (int64_t c = first; c < first + size; c++)
            for (int64_t t = 0; t < l->out_length; t++) {
                const int64_t i = y_at(l, item, c, t);
                const double z = spread > 0 ? fabs(conv[i] - mean) / spread : 0;
                double error = (tolerance[i] + mean_error + z * spread_error) / least + 0x1p-22 * (z + 1);
                if (l->constant)
                    error = 0;
                else if (!(least > 0))
                    error = INFINITY;
                if (gamma && beta) error = error * fabs(gamma[c]) + 0x1p-23 * (fabs(gamma[c]) * z + fabs(beta[c]));
                if (gamma && l->constant) error = 0;
                tolerance[i] = error;
            }
    }
    free(gamma);
    free(beta);
}

void gpu_layer_judge(gpu_layer *l)
{
    tapconv_problem plain = l->p;
    plain.norm_groups = 0, plain.norm_affine = 0, plain.activation = TAPCONV_ACT_NONE;
    tapconv_problem sizes = plain;
    sizes.has_bias = 0;
    void *const x = rounded(l, l->x, l->x_count, 0), *const w = rounded(l, l->w, l->w_count, 0);
    void *const x_size = rounded(l, l->x, l->x_count, 1), *const w_size = rounded(l, l->w, l->w_count, 1);
    double *const magnitude = referred(l, &sizes, x_size, w_size), *const conv = referred(l, &plain, x, w);
    const double n = (double)(l->p.in_channels / l->p.groups * l->p.kernel_size);
    /* The promise of f32; the tensor cores' accumulators, which truncate, add a part of an ulp every few terms. */
    double bound = 4 + sqrt(n);
    if (l->p.math != TAPCONV_MATH_F32) bound += n / 8;
    l->tolerance = gpu_allocated(l->y_count, sizeof *l->tolerance);
    for (int64_t i = 0; i < l->y_count; i++) {
        l->tolerance[i] = bound * 0x1p-24 * magnitude[i] + n * 0x1p-149 + 0x1p-23 * fabs(conv[i]);
        /* Where a partial sum may leave the range of float32, so may the result. */
        if (isfinite(conv[i]) && !(magnitude[i] + fabs(conv[i]) < 3e38)) l->tolerance[i] = INFINITY;
    }
    if (l->p.norm_groups > 0) through_norm(l, conv, l->tolerance);
    l->exact = referred(l, &l->p, x, w);
    for (int64_t i = 0; i < l->y_count; i++) {
        /* No activation is steeper than 1.13. */
        if (l->p.activation != TAPCONV_ACT_NONE) l->tolerance[i] *= 1.13;
        if (l->p.activation > TAPCONV_ACT_RELU) l->tolerance[i] += 2.5 * 0x1p-23 * fabs(l->exact[i]) + 0x1p-147;
    }
    free(x), free(w), free(x_size), free(w_size), free(magnitude), free(conv);
}

/* Half a unit in the last place of y's type. */
static double half_ulp(tapconv_type type, double value)
{
    const int digits = type == TAPCONV_F16 ? 11 : type == TAPCONV_BF16 ? 8 : 24;
    const int least = type == TAPCONV_F16 ? -14 : -126;
    int exponent = fabs(value) > 0 ? ilogb(value) : least;
    if (exponent < least) exponent = least;
    return ldexp(0.5, exponent - digits + 1);
}

double gpu_layer_compare(const gpu_layer *l, const void *y, char complaint[256])
{
    const double largest = l->p.type == TAPCONV_F16 ? 65520 : 3.4e38;
    double worst = 0;
    double *const got = gpu_widened(y, l->p.type, l->y_count);
    for (int64_t i = 0; i < l->y_count; i++) {
        const double want = l->exact[i];
        double error;
        if (isnan(want)) {
            error = isnan(got[i]) ? 0 : INFINITY;
        } else if (isinf(want)) {
            error = got[i] == want ? 0 : INFINITY;
        } else if (isinf(l->tolerance[i])) {
            error = 0;
        } else if (isinf(got[i])) {
            error = copysign(1, got[i]) == copysign(1, want) && fabs(want) + l->tolerance[i] >= largest ? 0 : INFINITY;
        } else {
            const double allowed = l->tolerance[i] + 1.0001 * half_ulp(l->p.type, fabs(want) + l->tolerance[i]);
            error = fabs(got[i] - want) / allowed;
            if (isnan(error)) error = INFINITY;
        }
        if (error > 1 && worst <= 1)
            snprintf(complaint, 256, "y[%" PRId64 "] is %.9g, exactly %.12g, allowed %.3g", i, got[i], want,
                     l->tolerance[i]);
        if (error > worst) worst = error;
    }
    free(got);
    return worst;
}
