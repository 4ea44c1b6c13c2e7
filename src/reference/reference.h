/* The oracle: the operator in float64, written to be read. It knows the formula and nothing of the engines. */
#ifndef TAPCONV_REFERENCE_H
#define TAPCONV_REFERENCE_H

#include "problem.h"

typedef struct tapconv_reference_arrays {
    const void *x, *w, *bias, *gamma, *beta; /* w as (C_out, C_in/groups, K) */
} tapconv_reference_arrays;

/* bias + convolution of one output channel of one item: `row` has T_out samples. */
void tapconv_reference_conv(const tapconv_shape *shape, const tapconv_reference_arrays *arrays, int64_t item,
                            int64_t channel, double *row);

/* The whole operator for GroupNorm group `group` (without GroupNorm: channel `group`) of one item, as
 * (norm_size, T_out). */
void tapconv_reference_rows(const tapconv_shape *shape, const tapconv_reference_arrays *arrays, int64_t item,
                            int64_t group, double *rows);

double tapconv_reference_activation(tapconv_activation activation, double v);

#endif
