#include "compare.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "failure.h"
#include "memory.h"
#include "progress.h"
#include "random.h"
#include "workers.h"

#define SAMPLE_OUTPUTS 100000
#define SAMPLE_GROUPS 4
#define BATCH_GROUPS 4096 /* compared at a time, so that their errors take little memory */
#define STREAM_SAMPLE 5   /* beyond the arrays' streams of random numbers */

/* --------------------------------------------------------------------------------------------------------- operands */

static void truncate_tf32(float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= UINT32_C(0xffffe000);
        memcpy(&values[i], &bits, sizeof bits);
    }
}

/* The array itself where its type will do, or a copy that operands_close releases. */
static int take_operand(operands *r, int slot, const tensor *t, tapconv_type type, rounding how, const void **array)
{
    *array = t->data;
    if (t->data == NULL || (t->type == type && how == ROUNDING_NONE)) return 0;
    const int64_t count = tensor_count(t);
    r->owned[slot] = memory_get(count, tapconv_type_bytes(type), "the reference's operands");
    if (r->owned[slot] == NULL) return EXIT_CANNOT;
    const tapconv_status status = tapconv_convert(r->owned[slot], type, t->data, t->type, count);
    if (status != TAPCONV_OK) return fail_library(status, "converting the reference's operands");
    if (how == ROUNDING_TF32) tapconv_round_tf32(r->owned[slot], count);
    if (how == ROUNDING_TF32_TRUNCATED) truncate_tf32(r->owned[slot], count);
    *array = r->owned[slot];
    return 0;
}

int operands_open(operands *r, const layer *l, rounding how)
{
    *r = (operands){.problem = l->problem};
    const tapconv_type type = l->problem.type == TAPCONV_F64 && how == ROUNDING_NONE ? TAPCONV_F64 : TAPCONV_F32;
    r->problem.type = type;
    r->problem.param_type = type;
    r->problem.math = type == TAPCONV_F64 ? TAPCONV_MATH_F64 : TAPCONV_MATH_F32;
    int failed = take_operand(r, 0, &l->x, type, how, &r->x);
    if (failed == 0) failed = take_operand(r, 1, &l->w, type, how, &r->w);
    if (failed == 0) failed = take_operand(r, 2, &l->bias, type, ROUNDING_NONE, &r->bias);
    if (failed == 0) failed = take_operand(r, 3, &l->gamma, type, ROUNDING_NONE, &r->gamma);
    if (failed == 0) failed = take_operand(r, 4, &l->beta, type, ROUNDING_NONE, &r->beta);
    return failed;
}

void operands_close(operands *r)
{
    for (size_t i = 0; i < sizeof r->owned / sizeof r->owned[0]; i++) memory_release(r->owned[i]);
    *r = (operands){0};
}

/* ----------------------------------------------------------------------------------------------------------- errors */

tolerance tolerance_of(const options *o)
{
    /* The half types round y by 2^-11 and 2^-9 at most, relatively: the relative tolerance is twice that. */
    static const tolerance by_mode[TAPCONV_MATH_COUNT] = {
        [TAPCONV_MATH_F32] = {1e-4, 1e-4},  [TAPCONV_MATH_TF32] = {1e-4, 1e-4},  [TAPCONV_MATH_F16] = {1e-4, 1e-3},
        [TAPCONV_MATH_BF16] = {1e-4, 4e-3}, [TAPCONV_MATH_F64] = {1e-12, 1e-12},
    };
    tolerance t = by_mode[o->math];
    if (o->atol >= 0) t.absolute = o->atol;
    if (o->rtol >= 0) t.relative = o->rtol;
    return t;
}

double errors_mean(const errors *e)
{
    return e->compared > 0 ? e->sum_abs / (double)e->compared : 0;
}

double errors_relative(const errors *e)
{
    return e->sum_squares == 0 ? 0 : sqrt(e->sum_squares / e->reference_squares);
}

static void add_output(errors *e, double value, double reference, tolerance allowed, int64_t item, int64_t channel,
                       int64_t time)
{
    const double error = fabs(value - reference);
    /* An infinite reference allows any error; only finite errors count as within. */
    const bool within = isfinite(error) && error <= allowed.absolute + allowed.relative * fabs(reference);
    if (!within && e->outside++ == 0) {
        e->first[0] = item;
        e->first[1] = channel;
        e->first[2] = time;
        e->first_value = value;
        e->first_reference = reference;
    }
    e->compared++;
    if (!(error <= e->max_abs) && !isnan(e->max_abs)) e->max_abs = error;
    e->sum_abs += error;
    e->sum_squares += error * error;
    e->reference_squares += reference * reference;
}

/* `next` comes after what is in `sum`: always added in the order of the outputs, so that threads do not show. */
static void add_errors(errors *sum, const errors *next)
{
    if (sum->outside == 0 && next->outside > 0) {
        memcpy(sum->first, next->first, sizeof sum->first);
        sum->first_value = next->first_value;
        sum->first_reference = next->first_reference;
    }
    sum->compared += next->compared;
    sum->outside += next->outside;
    if (!(next->max_abs <= sum->max_abs) && !isnan(sum->max_abs)) sum->max_abs = next->max_abs;
    sum->sum_abs += next->sum_abs;
    sum->sum_squares += next->sum_squares;
    sum->reference_squares += next->reference_squares;
}

/* ---------------------------------------------------------------------------------------------------------- samples */

sample sample_all(const layer *l)
{
    const tapconv_problem *p = &l->problem;
    sample s = {.groups_of_item = p->norm_groups > 0 ? p->norm_groups : p->out_channels};
    s.group_channels = p->out_channels / s.groups_of_item;
    s.total = p->batch * s.groups_of_item;
    s.taken = s.total;
    return s;
}

sample sample_some(const layer *l, int64_t seed)
{
    sample s = sample_all(l);
    const double outputs = (double)s.group_channels * (double)l->out_length;
    double wanted = ceil(SAMPLE_OUTPUTS / outputs);
    if (wanted < SAMPLE_GROUPS) wanted = SAMPLE_GROUPS;
    if (wanted < (double)s.total) s.taken = (int64_t)wanted;
    s.seed = seed;
    return s;
}

int64_t sample_group(const sample *s, int64_t k)
{
    if (s->taken == s->total) return k;
    const int64_t length = s->total / s->taken, longer = s->total % s->taken;
    const int64_t first = k * length + (k < longer ? k : longer);
    random_stream stream = random_start((uint64_t)s->seed, STREAM_SAMPLE, (uint64_t)k);
    return first + (int64_t)(random_bits(&stream) % (uint64_t)(length + (k < longer)));
}

int64_t sample_outputs(const sample *s, const layer *l)
{
    return s->taken * s->group_channels * l->out_length;
}

/* -------------------------------------------------------------------------------------------------------- comparing */

typedef struct comparison {
    const layer *layer;
    const operands *reference;
    const sample *sample;
    tolerance allowed;
    int count;
    const tensor *const *results;
    int64_t first; /* of the groups that are compared now */
    double *rows;  /* a reference group for each worker */
    int64_t rows_size;
    errors *errors; /* [group - first][result] */
    atomic_int failed;
    atomic_int_fast64_t done;
} comparison;

static double value_at(const tensor *t, int64_t index)
{
    return t->type == TAPCONV_F64 ? ((const double *)t->data)[index] : (double)((const float *)t->data)[index];
}

static void compare_group(void *context, int64_t job, int worker)
{
    comparison *c = context;
    const tapconv_problem *p = &c->layer->problem;
    const int64_t number = sample_group(c->sample, c->first + job), length = c->layer->out_length;
    const int64_t item = number / c->sample->groups_of_item, group = number % c->sample->groups_of_item;
    double *rows = c->rows + worker * c->rows_size;
    const operands *r = c->reference;
    const tapconv_status status =
        tapconv_reference_group(&r->problem, r->x, r->w, r->bias, r->gamma, r->beta, item, group, rows);
    if (status != TAPCONV_OK) {
        atomic_store(&c->failed, 1);
        return;
    }
    const int64_t channel_step = p->layout == TAPCONV_NLC ? 1 : length;
    const int64_t time_step = p->layout == TAPCONV_NLC ? p->out_channels : 1;
    errors *sums = c->errors + job * c->count;
    for (int64_t i = 0; i < c->sample->group_channels; i++) {
        const int64_t channel = group * c->sample->group_channels + i;
        const int64_t start = item * p->out_channels * length + channel * channel_step;
        for (int k = 0; k < c->count; k++) {
            for (int64_t t = 0; t < length; t++) {
                add_output(&sums[k], value_at(c->results[k], start + t * time_step), rows[i * length + t], c->allowed,
                           item, channel, t);
            }
        }
    }
    progress_set((double)atomic_fetch_add(&c->done, 1) / (double)c->sample->taken);
}

int compare_results(const layer *l, const operands *reference, const sample *s, tolerance allowed, int count,
                    const tensor *const results[], errors out[], int64_t threads)
{
    comparison c = {
        .layer = l, .reference = reference, .sample = s, .allowed = allowed, .count = count, .results = results};
    const int workers = workers_count(threads, s->taken);
    const int64_t batch = s->taken < BATCH_GROUPS ? s->taken : BATCH_GROUPS;
    for (int k = 0; k < count; k++) out[k] = (errors){0};
    c.rows_size = s->taken > 0 ? s->group_channels * l->out_length : 0;
    c.rows = memory_get(workers * c.rows_size, sizeof(double), "the reference");
    c.errors = memory_get(batch * count, sizeof(errors), "the errors");
    int failed = c.rows == NULL || c.errors == NULL ? EXIT_CANNOT : 0;
    progress_show("computing the float64 reference");
    for (; failed == 0 && c.first < s->taken; c.first += batch) {
        const int64_t jobs = s->taken - c.first < batch ? s->taken - c.first : batch;
        memset(c.errors, 0, (size_t)(jobs * count) * sizeof(errors));
        workers_run(workers, jobs, compare_group, &c);
        if (atomic_load(&c.failed) != 0) failed = fail(EXIT_CANNOT, "the float64 reference refused the problem");
        for (int64_t job = 0; job < jobs; job++) {
            for (int k = 0; k < count; k++) add_errors(&out[k], &c.errors[job * count + k]);
        }
    }
    progress_show(NULL);
    memory_release(c.rows);
    memory_release(c.errors);
    return failed;
}

void count_nonfinite(const tensor *t, int64_t *nan, int64_t *inf)
{
    const int64_t count = tensor_count(t);
    *nan = *inf = 0;
    for (int64_t i = 0; i < count; i++) {
        const double value = value_at(t, i);
        *nan += isnan(value) != 0;
        *inf += isinf(value) != 0;
    }
}

/* TF32 keeps 10 bits of the fraction: 2e-4 to 6e-4 from the truth in a plain convolution, less where an activation
 * squeezes the result, much more where GroupNorm takes away a large mean. */
bool may_be_tf32(double from_true)
{
    return from_true >= 2e-5 && from_true <= 0.5;
}

bool looks_like_tf32(double from_true, double from_rounded, double from_truncated)
{
    return may_be_tf32(from_true) && (5 * from_rounded <= from_true || 5 * from_truncated <= from_true);
}
