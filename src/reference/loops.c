#include "reference.h"

#include "convert.h"

#include <math.h>

/* The t with 0 <= t*S + shift < T, as [*first, *end) within [0, T_out). */
static void valid_range(int64_t shift, int64_t stride, int64_t length, int64_t out_length, int64_t *first, int64_t *end)
{
    *first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    *end = shift >= length ? 0 : (length - 1 - shift) / stride + 1;
    if (*first > out_length) *first = out_length;
    if (*end > out_length) *end = out_length;
    if (*end < *first) *end = *first;
}

/* row[i] += w * x[start + i*step]; one loop a type, so that each runs at full speed. */
static void add_tap(double *row, double w, const void *x, tapconv_type type, int64_t start, int64_t step, int64_t count)
{
    switch (type) {
    case TAPCONV_F32:
        for (int64_t i = 0; i < count; i++) row[i] += w * ((const float *)x)[start + i * step];
        break;
    case TAPCONV_F64:
        for (int64_t i = 0; i < count; i++) row[i] += w * ((const double *)x)[start + i * step];
        break;
    case TAPCONV_F16:
    case TAPCONV_BF16:
        for (int64_t i = 0; i < count; i++) row[i] += w * tapconv_get(x, type, start + i * step);
        break;
    }
}

void tapconv_reference_conv(const tapconv_shape *shape, const tapconv_reference_arrays *arrays, int64_t item,
                            int64_t channel, double *row)
{
    const tapconv_problem *p = &shape->p;
    const int64_t group = channel / shape->group_out;
    const int64_t channel_step = p->layout == TAPCONV_NCL ? p->length : 1;
    const int64_t time_step = p->layout == TAPCONV_NCL ? 1 : p->in_channels;
    const double bias = p->has_bias ? tapconv_get(arrays->bias, p->param_type, channel) : 0;

    for (int64_t t = 0; t < shape->out_length; t++) row[t] = 0;
    for (int64_t c = 0; c < shape->group_in; c++) {
        const int64_t x_row = item * p->in_channels * p->length + (group * shape->group_in + c) * channel_step;
        for (int64_t k = 0; k < p->kernel_size; k++) {
            const double w = tapconv_get(arrays->w, p->type, (channel * shape->group_in + c) * p->kernel_size + k);
            const int64_t shift = k * p->dilation - p->padding_left;
            int64_t first, end;
            valid_range(shift, p->stride, p->length, shape->out_length, &first, &end);
            /* Padding is x = 0, and 0 times a weight that is Inf or NaN is NaN: it counts like any other sample. */
            for (int64_t t = 0; t < first; t++) row[t] += w * 0;
            /* Counted from the first sample that exists, so that no index overflows however long the padding is. */
            const int64_t start = x_row + (first * p->stride + shift) * time_step;
            const int64_t step = end - first > 1 ? p->stride * time_step : 0;
            if (end > first) add_tap(row + first, w, arrays->x, p->type, start, step, end - first);
            for (int64_t t = end; t < shape->out_length; t++) row[t] += w * 0;
        }
    }
    for (int64_t t = 0; t < shape->out_length; t++) row[t] += bias;
}

/* The mean, counted from a value near it: what the additions round is then small beside the mean. */
static double mean_near(const double *values, int64_t count, double origin)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i] - origin;
    return origin + sum / (double)count;
}

/* (v - mean) / sqrt(variance + eps), with the variance by a second look at the values. Equal values have exactly their mean;
 * a group without any spread gives 0 even where eps is 0. */
static void normalise(double *values, int64_t count, double eps)
{
    const double mean = mean_near(values, count, mean_near(values, count, values[0]));
    double squares = 0;
    for (int64_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
    const double spread = sqrt(squares / (double)count + eps);
    for (int64_t i = 0; i < count; i++) values[i] = spread == 0 ? 0 : (values[i] - mean) / spread;
}

void tapconv_reference_rows(const tapconv_shape *shape, const tapconv_reference_arrays *arrays, int64_t item,
                            int64_t group, double *rows)
{
    const tapconv_problem *p = &shape->p;
    const int64_t length = shape->out_length, first = group * shape->norm_size;
    for (int64_t i = 0; i < shape->norm_size; i++)
        tapconv_reference_conv(shape, arrays, item, first + i, rows + i * length);
    if (p->norm_groups > 0) normalise(rows, shape->norm_size * length, p->norm_eps);
    for (int64_t i = 0; i < shape->norm_size; i++) {
        const double gamma = p->norm_affine ? tapconv_get(arrays->gamma, p->param_type, first + i) : 1;
        const double beta = p->norm_affine ? tapconv_get(arrays->beta, p->param_type, first + i) : 0;
        for (int64_t t = 0; t < length; t++) {
            double v = rows[i * length + t];
            if (p->norm_affine) v = v * gamma + beta;
            rows[i * length + t] = tapconv_reference_activation(p->activation, v);
        }
    }
}
