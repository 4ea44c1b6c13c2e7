/* The public face of the oracle: arguments checked, layouts put right. */
#include "error.h"
#include "reference/reference.h"

#include <inttypes.h>

static tapconv_status check_array(const char *name, const void *array, int wanted)
{
    if (wanted && !array) return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is NULL; the problem has one", name);
    if (!wanted && array) return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is given; the problem has none", name);
    return TAPCONV_OK;
}

static tapconv_status check_arrays(const tapconv_shape *s, const tapconv_reference_arrays *a)
{
    if (s->x_elements > 0 && !a->x) return check_array("x", a->x, 1);
    tapconv_status status = check_array("w", a->w, 1);
    if (status == TAPCONV_OK) status = check_array("bias", a->bias, s->p.has_bias);
    if (status == TAPCONV_OK) status = check_array("gamma", a->gamma, s->p.norm_affine);
    if (status == TAPCONV_OK) status = check_array("beta", a->beta, s->p.norm_affine);
    return status;
}

tapconv_status tapconv_reference_group(const tapconv_problem *problem, const void *x, const void *w, const void *bias,
                                       const void *gamma, const void *beta, int64_t item, int64_t group, double *rows)
{
    tapconv_shape shape;
    const tapconv_reference_arrays arrays = {x, w, bias, gamma, beta};
    tapconv_status status = tapconv_shape_from_problem(&shape, problem);
    if (status == TAPCONV_OK) status = check_arrays(&shape, &arrays);
    if (status != TAPCONV_OK) return status;
    const int64_t groups = problem->out_channels / shape.norm_size;
    if (item < 0 || item >= problem->batch)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "item is %" PRId64 "; it must be 0 or more and below batch, %" PRId64, item,
                            problem->batch);
    if (group < 0 || group >= groups)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "group is %" PRId64 "; it must be 0 or more and below %" PRId64,
                            group, groups);
    if (!rows) return check_array("rows", rows, 1);
    tapconv_reference_rows(&shape, &arrays, item, group, rows);
    return TAPCONV_OK;
}

/* Turns `matrix` (rows, columns) into its transpose, in place and without scratch memory, by following the cycles of the
 * permutation. The start of a cycle is its least index, found by walking it. */
static void transpose_in_place(double *matrix, int64_t rows, int64_t columns)
{
    const int64_t count = rows * columns;
    for (int64_t start = 0; start < count; start++) {
        int64_t at = start;
        do at = (at % rows) * columns + at / rows;
        while (at > start);
        if (at < start) continue;
        const double kept = matrix[start];
        int64_t to = start;
        for (;;) {
            const int64_t from = (to % rows) * columns + to / rows;
            if (from == start) break;
            matrix[to] = matrix[from];
            to = from;
        }
        matrix[to] = kept;
    }
}

tapconv_status tapconv_reference(const tapconv_problem *problem, const void *x, const void *w, const void *bias,
                                 const void *gamma, const void *beta, double *y64)
{
    tapconv_shape shape;
    const tapconv_reference_arrays arrays = {x, w, bias, gamma, beta};
    tapconv_status status = tapconv_shape_from_problem(&shape, problem);
    if (status == TAPCONV_OK) status = check_arrays(&shape, &arrays);
    if (status == TAPCONV_OK && shape.y_elements > 0 && !y64) status = check_array("y64", y64, 1);
    if (status != TAPCONV_OK) return status;
    const int64_t item_size = problem->out_channels * shape.out_length;
    for (int64_t item = 0; item < problem->batch; item++) {
        for (int64_t group = 0; group < problem->out_channels / shape.norm_size; group++)
            tapconv_reference_rows(&shape, &arrays, item, group,
                                   y64 + item * item_size + group * shape.norm_size * shape.out_length);
        if (problem->layout == TAPCONV_NLC)
            transpose_in_place(y64 + item * item_size, problem->out_channels, shape.out_length);
    }
    return TAPCONV_OK;
}
