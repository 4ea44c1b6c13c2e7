/* Results against the float64 reference. Every comparison is written so that NaN fails it. */
#ifndef TAPCONV_CLI_COMPARE_H
#define TAPCONV_CLI_COMPARE_H

#include "layer.h"

/* What the reference multiplies: the operands as they are stored, or after the rounding of a TF32 unit. */
typedef enum rounding { ROUNDING_NONE, ROUNDING_TF32, ROUNDING_TF32_TRUNCATED } rounding;

/* The operands of a reference, in float32 or float64 (half types are widened, which is exact). */
typedef struct operands {
    tapconv_problem problem;
    const void *x, *w, *bias, *gamma, *beta;
    void *owned[5];
} operands;

int operands_open(operands *r, const layer *l, rounding how);
void operands_close(operands *r);

typedef struct tolerance {
    double absolute, relative;
} tolerance;

/* The mode's own, where the options leave them open. */
tolerance tolerance_of(const options *o);

typedef struct errors {
    int64_t compared, outside;
    double max_abs, sum_abs, sum_squares, reference_squares;
    int64_t first[3]; /* item, channel, time of the first output outside */
    double first_value, first_reference;
} errors;

double errors_mean(const errors *e);

/* Relative L2: sqrt(sum of squared errors / sum of squared references). */
double errors_relative(const errors *e);

/* Which outputs are compared: whole reference groups (a channel of an item, or a GroupNorm group of it). */
typedef struct sample {
    int64_t groups_of_item, group_channels;
    int64_t total, taken; /* groups */
    int64_t seed;
} sample;

sample sample_all(const layer *l);

/* At least 100,000 outputs and four groups, or everything: one group at random from each of equal stretches. */
sample sample_some(const layer *l, int64_t seed);

/* The number of the k-th group taken. */
int64_t sample_group(const sample *s, int64_t k);

int64_t sample_outputs(const sample *s, const layer *l);

#define COMPARE_MOST_RESULTS 2

/* Compares each of `count` results (float32 or float64, in the layer's output shape) with one reference. */
int compare_results(const layer *l, const operands *reference, const sample *s, tolerance allowed, int count,
                    const tensor *const results[], errors out[], int64_t threads);

void count_nonfinite(const tensor *t, int64_t *nan, int64_t *inf);

/* Whether a result at these relative distances from the true reference and from those of TF32-rounded and
 * TF32-truncated operands was computed from TF32 operands: it lies where TF32 puts it, and is at least five times
 * nearer to one of them. */
bool looks_like_tf32(double from_true, double from_rounded, double from_truncated);

/* Whether the first of them alone leaves it open. */
bool may_be_tf32(double from_true);

#endif
