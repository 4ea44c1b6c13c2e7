#include "second_oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef long double wide;

static wide *matrix(int64_t rows, int64_t columns)
{
    wide *const m = calloc((size_t)rows * (size_t)columns + 1, sizeof *m);
    if (m) return m;
    printf("no memory for a matrix\n");
    exit(1);
}

wide second_oracle_activation(tapconv_activation activation, wide v)
{
    switch (activation) {
    case TAPCONV_ACT_NONE: return v;
    case TAPCONV_ACT_RELU: return v < 0 ? 0 : v;
    case TAPCONV_ACT_SILU: return v / (1 + expl(-v));
    case TAPCONV_ACT_GELU: return v / 2 * erfcl(-v / sqrtl(2));
    case TAPCONV_ACT_GELU_TANH: {
        const wide u = sqrtl(2 / acosl(-1)) * (v + 0.044715L * v * v * v);
        return v / (1 + expl(-2 * u));
    }
    case TAPCONV_ACT_MISH: return v * tanhl(log1pl(expl(v)));
    case TAPCONV_ACT_TANH: return tanhl(v);
    case TAPCONV_ACT_SIGMOID: return 1 / (1 + expl(-v));
    case TAPCONV_ACT_ELU: return v <= 0 ? expm1l(v) : v;
    case TAPCONV_ACT_LEAKY_RELU: return v <= 0 ? v / 100 : v;
    }
    return v;
}

/* Channels and times of x, one item: padded on both sides, so that im2col need not look where it reads. */
typedef struct sizes {
    int64_t padded, out_length, group_in, group_out, terms;
} sizes;

static sizes sizes_of(const tapconv_problem *p)
{
    sizes z = {.padded = p->padding_left + p->length + p->padding_right};
    const int64_t span = p->dilation * (p->kernel_size - 1) + 1;
    for (int64_t start = 0; start + span <= z.padded; start += p->stride) z.out_length++;
    z.group_in = p->in_channels / p->groups;
    z.group_out = p->out_channels / p->groups;
    z.terms = z.group_in * p->kernel_size;
    return z;
}

/* One row a term, one column an output sample. */
static wide *im2col(const tapconv_problem *p, const sizes *z, const double *item, int64_t group)
{
    wide *const columns = matrix(z->terms, z->out_length), *const padded = matrix(1, z->padded);
    wide *to = columns;
    for (int64_t c = group * z->group_in; c < (group + 1) * z->group_in; c++) {
        for (int64_t t = 0; t < p->length; t++)
            padded[p->padding_left + t] =
                p->layout == TAPCONV_NCL ? item[c * p->length + t] : item[t * p->in_channels + c];
        for (int64_t k = 0; k < p->kernel_size; k++)
            for (int64_t t = 0; t < z->out_length; t++) *to++ = padded[t * p->stride + k * p->dilation];
    }
    free(padded);
    return columns;
}

/* result (m x n) = a (m x terms) * b (terms x n) */
static void multiply(wide *result, const double *a, const wide *b, int64_t m, int64_t terms, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            wide sum = 0;
            for (int64_t s = 0; s < terms; s++) sum += (wide)a[i * terms + s] * b[s * n + j];
            result[i * n + j] = sum;
        }
}

static void normalise(wide *values, int64_t count, double eps)
{
    wide mean = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        const wide before = values[i] - mean;
        mean += before / (wide)(i + 1);
        squares += before * (values[i] - mean);
    }
    const wide variance = squares / (wide)count + eps;
    for (int64_t i = 0; i < count; i++) values[i] = variance == 0 ? 0 : (values[i] - mean) / sqrtl(variance);
}

void second_oracle(const tapconv_problem *p, const double *x, const double *w, const double *bias, const double *gamma,
                   const double *beta, double *y)
{
    const sizes z = sizes_of(p);
    wide *const result = matrix(p->out_channels, z.out_length);
    for (int64_t n = 0; n < p->batch; n++) {
        for (int64_t g = 0; g < p->groups; g++) {
            wide *const columns = im2col(p, &z, x + n * p->in_channels * p->length, g);
            multiply(result + g * z.group_out * z.out_length, w + g * z.group_out * z.terms, columns, z.group_out,
                     z.terms, z.out_length);
            free(columns);
        }
        for (int64_t o = 0; bias && o < p->out_channels; o++)
            for (int64_t t = 0; t < z.out_length; t++) result[o * z.out_length + t] += bias[o];
        const int64_t norm_values = p->norm_groups ? p->out_channels / p->norm_groups * z.out_length : 0;
        for (int64_t g = 0; g < p->norm_groups; g++) normalise(result + g * norm_values, norm_values, p->norm_eps);
        for (int64_t o = 0; o < p->out_channels; o++)
            for (int64_t t = 0; t < z.out_length; t++) {
                wide v = result[o * z.out_length + t];
                if (gamma) v *= gamma[o];
                if (beta) v += beta[o];
                const int64_t at = p->layout == TAPCONV_NCL ? o * z.out_length + t : t * p->out_channels + o;
                y[n * p->out_channels * z.out_length + at] = (double)second_oracle_activation(p->activation, v);
            }
    }
    free(result);
}
