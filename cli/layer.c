#include "layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "failure.h"
#include "memory.h"
#include "progress.h"
#include "random.h"
#include "wav.h"

/* Which stream of random numbers each array has. */
enum { STREAM_X, STREAM_W, STREAM_BIAS, STREAM_GAMMA, STREAM_BETA };

static tapconv_type storage_type(int64_t math)
{
    switch ((tapconv_math)math) {
    case TAPCONV_MATH_F16: return TAPCONV_F16;
    case TAPCONV_MATH_BF16: return TAPCONV_BF16;
    case TAPCONV_MATH_F64: return TAPCONV_F64;
    case TAPCONV_MATH_F32:
    case TAPCONV_MATH_TF32: break;
    }
    return TAPCONV_F32;
}

static int fail_shape(option_id option, const char *path, const tensor *t, const char *allowed)
{
    char shape[80];
    return fail(EXIT_BAD_INPUT, "%s %.4000s has shape %s; allowed: %s", option_name(option), path,
                tensor_shape_text(shape, t), allowed);
}

/* -------------------------------------------------------------------------------------------- where sizes come from */

/* Only an array without elements can have sizes that the library cannot count. */
static int check_countable(const tensor *t, option_id option, const char *path)
{
    char allowed[64];
    snprintf(allowed, sizeof allowed, "sizes of at most %" PRId64, MOST_SIZE);
    for (int i = 0; i < t->dimensions; i++) {
        if (t->shape[i] > MOST_SIZE) return fail_shape(option, path, t, allowed);
    }
    return 0;
}

static int open_x(layer *l, const options *o, bool sizes_only)
{
    const bool nlc = o->layout == TAPCONV_NLC;
    tapconv_problem *p = &l->problem;
    if (o->x == NULL) {
        p->batch = o->shape[0];
        p->in_channels = o->shape[1];
        p->length = o->shape[2];
        return 0;
    }
    const int failed = wav_is(o->x) ? wav_read(&l->x, "-x", o->x, p->type, nlc, sizes_only)
                                    : npy_read(&l->x, "-x", o->x, p->type, sizes_only);
    if (failed != 0) return failed;
    if (l->x.dimensions < 2) {
        return fail_shape(OPTION_X, o->x, &l->x, nlc ? "(N,T,C_in) or (T,C_in)" : "(N,C_in,T) or (C_in,T)");
    }
    l->unbatched = l->x.dimensions == 2;
    const int64_t *sizes = l->x.shape + (l->unbatched ? 0 : 1);
    p->batch = l->unbatched ? 1 : l->x.shape[0];
    p->in_channels = sizes[nlc ? 1 : 0];
    p->length = sizes[nlc ? 0 : 1];
    if (p->in_channels < 1) return fail_shape(OPTION_X, o->x, &l->x, "C_in of 1 or more");
    return check_countable(&l->x, OPTION_X, o->x);
}

static int open_w(layer *l, const options *o, bool sizes_only)
{
    tapconv_problem *p = &l->problem;
    if (o->w == NULL) {
        p->out_channels = o->out_channels;
        p->kernel_size = o->kernel;
        return 0;
    }
    const int failed = npy_read(&l->w, "-w", o->w, p->type, sizes_only);
    if (failed != 0) return failed;
    if (l->w.dimensions != 3) return fail_shape(OPTION_W, o->w, &l->w, "(C_out,C_in/groups,K)");
    p->out_channels = l->w.shape[0];
    p->kernel_size = l->w.shape[2];
    if (p->out_channels < 1 || l->w.shape[1] < 1 || p->kernel_size < 1) {
        return fail_shape(OPTION_W, o->w, &l->w, "(C_out,C_in/groups,K), each 1 or more");
    }
    return check_countable(&l->w, OPTION_W, o->w);
}

static int open_parameter(tensor *t, const layer *l, option_id option, const char *path, bool sizes_only)
{
    if (path == NULL) return 0;
    const int failed = npy_read(t, option_name(option), path, l->problem.param_type, sizes_only);
    if (failed != 0) return failed;
    if (t->dimensions == 1 && t->shape[0] == l->problem.out_channels) return 0;
    char allowed[64];
    snprintf(allowed, sizeof allowed, "(C_out), which is (%" PRId64 ")", l->problem.out_channels);
    return fail_shape(option, path, t, allowed);
}

/* ------------------------------------------------------------------- what the sizes must have to do with each other */

static int check_groups(const layer *l, const options *o)
{
    const tapconv_problem *p = &l->problem;
    if (p->in_channels % p->groups != 0 || p->out_channels % p->groups != 0) {
        return fail(EXIT_BAD_INPUT,
                    "--groups is %" PRId64 "; allowed: a divisor of C_in, %" PRId64 ", and of C_out, %" PRId64,
                    p->groups, p->in_channels, p->out_channels);
    }
    if (o->w != NULL && l->w.shape[1] != p->in_channels / p->groups) {
        char allowed[160];
        snprintf(allowed, sizeof allowed,
                 "(C_out,C_in/groups,K), in which C_in/groups is %" PRId64 "/%" PRId64 " = %" PRId64, p->in_channels,
                 p->groups, p->in_channels / p->groups);
        return fail_shape(OPTION_W, o->w, &l->w, allowed);
    }
    if (p->norm_groups > 0 && p->out_channels % p->norm_groups != 0) {
        return fail(EXIT_BAD_INPUT, "--norm-groups is %" PRId64 "; allowed: a divisor of C_out, %" PRId64,
                    p->norm_groups, p->out_channels);
    }
    return 0;
}

static int set_padding(layer *l, const options *o)
{
    tapconv_problem *p = &l->problem;
    if (p->kernel_size > 1 && p->dilation > MOST_SIZE / (p->kernel_size - 1)) {
        return fail(EXIT_BAD_INPUT,
                    "--dilation is %" PRId64 "; allowed with %" PRId64 " taps: 1 to %" PRId64
                    ", so that (K-1)*D is at most %" PRId64,
                    p->dilation, p->kernel_size, MOST_SIZE / (p->kernel_size - 1), MOST_SIZE);
    }
    const int64_t reach = (p->kernel_size - 1) * p->dilation;
    p->padding_left = o->causal ? reach : o->padding[0];
    p->padding_right = o->causal ? 0 : o->padding[1];
    const int64_t padded = p->padding_left + p->length + p->padding_right;
    if (padded > reach) return 0;
    return fail(EXIT_BAD_INPUT,
                "%s%.4000s: T_out would be below 1, since T = %" PRId64 " with --padding %" PRId64 ",%" PRId64
                " is %" PRId64 " samples; allowed: at least D*(K-1)+1 = %" PRId64,
                o->x != NULL ? "-x " : "--shape", o->x != NULL ? o->x : "", p->length, p->padding_left,
                p->padding_right, padded, reach + 1);
}

static int check_problem(layer *l, const options *o)
{
    const tapconv_status status = tapconv_problem_check(&l->problem, &l->out_length);
    if (status == TAPCONV_OK) return 0;
    char *text = options_problem_text(o);
    if (text == NULL) return EXIT_CANNOT;
    char context[400];
    snprintf(context, sizeof context, "the problem '%.300s'", text);
    free(text);
    return fail_library(status, context);
}

/* ------------------------------------------------------------------------------------------------------- the arrays */

/* Memory for an array that comes from no file. */
static int take_memory(layer *l, tensor *t, tapconv_type type, int dimensions, const int64_t *shape, bool sizes_only)
{
    if (t->dimensions != 0) return 0; /* from a file */
    *t = (tensor){.dimensions = dimensions, .type = type};
    for (int i = 0; i < dimensions; i++) t->shape[i] = shape[i];
    l->is_random = true;
    if (sizes_only) return 0;
    t->data = memory_get(tensor_count(t), tapconv_type_bytes(type), "the random data");
    return t->data != NULL ? 0 : EXIT_CANNOT;
}

static int take_random(layer *l, bool sizes_only)
{
    const tapconv_problem *p = &l->problem;
    const bool nlc = p->layout == TAPCONV_NLC;
    const int64_t x_shape[] = {p->batch, nlc ? p->length : p->in_channels, nlc ? p->in_channels : p->length};
    const int64_t w_shape[] = {p->out_channels, p->in_channels / p->groups, p->kernel_size};
    int failed = take_memory(l, &l->x, p->type, 3, x_shape, sizes_only);
    if (failed == 0) failed = take_memory(l, &l->w, p->type, 3, w_shape, sizes_only);
    if (failed == 0 && p->has_bias) failed = take_memory(l, &l->bias, p->param_type, 1, &p->out_channels, sizes_only);
    if (failed == 0 && p->norm_affine)
        failed = take_memory(l, &l->gamma, p->param_type, 1, &p->out_channels, sizes_only);
    if (failed == 0 && p->norm_affine)
        failed = take_memory(l, &l->beta, p->param_type, 1, &p->out_channels, sizes_only);
    return failed;
}

int layer_open(layer *l, const options *o, bool sizes_only)
{
    *l = (layer){.problem = tapconv_conv1d(0, 1, 1, 0, 1, 0)};
    tapconv_problem *p = &l->problem;
    p->math = (tapconv_math)o->math;
    p->type = storage_type(o->math);
    p->param_type = p->type == TAPCONV_F64 ? TAPCONV_F64 : TAPCONV_F32;
    p->layout = (tapconv_layout)o->layout;
    p->stride = o->stride;
    p->dilation = o->dilation;
    p->groups = o->groups;
    p->norm_groups = o->norm_groups;
    p->norm_eps = o->eps;
    p->norm_affine = o->affine || o->gamma != NULL;
    p->has_bias = o->bias || o->b != NULL;
    p->activation = (tapconv_activation)o->activation;
    progress_show("reading the arrays");
    int failed = open_x(l, o, sizes_only);
    if (failed == 0) failed = open_w(l, o, sizes_only);
    if (failed == 0) failed = open_parameter(&l->bias, l, OPTION_B, o->b, sizes_only);
    if (failed == 0) failed = open_parameter(&l->gamma, l, OPTION_GAMMA, o->gamma, sizes_only);
    if (failed == 0) failed = open_parameter(&l->beta, l, OPTION_BETA, o->beta, sizes_only);
    if (failed == 0) failed = check_groups(l, o);
    if (failed == 0) failed = set_padding(l, o);
    if (failed == 0) failed = check_problem(l, o);
    if (failed == 0) failed = take_random(l, sizes_only);
    progress_show(NULL);
    if (failed != 0) layer_close(l);
    return failed;
}

static void randomize(tensor *t, const char *file, int stream, const options *o, int64_t seed, random_kind kind,
                      double center, double scale)
{
    if (file != NULL || t->data == NULL) return;
    random_fill(t->data, t->type, tensor_count(t), (uint64_t)seed, (uint64_t)stream, kind, center, scale, o->threads);
}

void layer_randomize(layer *l, const options *o, int64_t seed)
{
    const int64_t group_channels = l->problem.in_channels / l->problem.groups;
    const double bound = 1 / sqrt((double)group_channels * (double)l->problem.kernel_size);
    progress_show("making random data");
    randomize(&l->x, o->x, STREAM_X, o, seed, RANDOM_NORMAL, 0, 1);
    randomize(&l->w, o->w, STREAM_W, o, seed, RANDOM_UNIFORM, 0, bound);
    randomize(&l->bias, o->b, STREAM_BIAS, o, seed, RANDOM_UNIFORM, 0, bound);
    randomize(&l->gamma, o->gamma, STREAM_GAMMA, o, seed, RANDOM_UNIFORM, 1, 0.5);
    randomize(&l->beta, o->beta, STREAM_BETA, o, seed, RANDOM_UNIFORM, 0, 0.5);
    progress_show(NULL);
}

tensor layer_output(const layer *l, tapconv_type type)
{
    const tapconv_problem *p = &l->problem;
    const bool nlc = p->layout == TAPCONV_NLC;
    const int64_t shape[] = {p->batch, nlc ? l->out_length : p->out_channels, nlc ? p->out_channels : l->out_length};
    tensor t = {.dimensions = l->unbatched ? 2 : 3, .type = type};
    for (int i = 0; i < t.dimensions; i++) t.shape[i] = shape[i + 3 - t.dimensions];
    return t;
}

void layer_close(layer *l)
{
    tensor *all[] = {&l->x, &l->w, &l->bias, &l->gamma, &l->beta};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) memory_release(all[i]->data);
    *l = (layer){0};
}
