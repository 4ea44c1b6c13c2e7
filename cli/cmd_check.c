/* tapconv check: a problem's result against the float64 reference, over several seeds, and a result from elsewhere. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "compare.h"
#include "engine.h"
#include "failure.h"
#include "json.h"
#include "memory.h"
#include "output.h"
#include "progress.h"

#define WHOLE_BELOW_FLOPS 10e9
#define DEFAULT_SEEDS 3

typedef struct verdict {
    errors errors;
    int64_t nan, inf; /* in the whole result, also where only a sample is compared */
    bool pass;
} verdict;

/* The result from elsewhere. */
typedef struct against {
    tensor result;
    verdict verdict;
    double from_rounded, from_truncated; /* relative L2; NaN where nothing made them worth computing */
    bool is_tf32;
} against;

typedef struct tally {
    int64_t checks, failures;
    char first[600]; /* what the first failure was */
    bool header_printed;
} tally;

static void judge(verdict *v, const tensor *result)
{
    count_nonfinite(result, &v->nan, &v->inf);
    v->pass = v->errors.outside == 0 && v->nan == 0 && v->inf == 0;
}

/* -------------------------------------------------------------------------------------------------------- comparing */

static int compare_once(const layer *l, rounding how, const sample *s, tolerance allowed, int count,
                        const tensor *const results[], errors out[], int64_t threads)
{
    operands reference;
    int failed = operands_open(&reference, l, how);
    if (failed == 0) failed = compare_results(l, &reference, s, allowed, count, results, out, threads);
    operands_close(&reference);
    return failed;
}

static int compare_tf32(against *a, const layer *l, const sample *s, tolerance allowed, int64_t threads)
{
    const tensor *const result[] = {&a->result};
    errors e;
    a->from_rounded = a->from_truncated = NAN;
    const double from_true = errors_relative(&a->verdict.errors);
    if (!may_be_tf32(from_true)) return 0;
    int failed = compare_once(l, ROUNDING_TF32, s, allowed, 1, result, &e, threads);
    if (failed != 0) return failed;
    a->from_rounded = errors_relative(&e);
    failed = compare_once(l, ROUNDING_TF32_TRUNCATED, s, allowed, 1, result, &e, threads);
    if (failed != 0) return failed;
    a->from_truncated = errors_relative(&e);
    a->is_tf32 = looks_like_tf32(from_true, a->from_rounded, a->from_truncated);
    return 0;
}

/* The kernel is judged by what its mode promises: tf32 by sums of TF32-rounded operands. The result from elsewhere is
 * always judged by the operands as they are. */
static int compare_all(verdict *v, against *a, const options *o, const layer *l, const engine *e, const sample *s)
{
    const bool tf32 = o->math == TAPCONV_MATH_TF32;
    const tolerance allowed = tolerance_of(o);
    const tensor *const results[] = {&e->result, a != NULL ? &a->result : NULL};
    errors both[2];
    int failed = compare_once(l, tf32 ? ROUNDING_TF32 : ROUNDING_NONE, s, allowed, a != NULL && !tf32 ? 2 : 1, results,
                              both, o->threads);
    if (failed == 0 && a != NULL && tf32) {
        failed = compare_once(l, ROUNDING_NONE, s, allowed, 1, &results[1], &both[1], o->threads);
    }
    if (failed != 0) return failed;
    v->errors = both[0];
    judge(v, &e->result);
    if (a == NULL) return 0;
    a->verdict.errors = both[1];
    judge(&a->verdict, &a->result);
    return compare_tf32(a, l, s, allowed, o->threads);
}

/* --------------------------------------------------------------------------------------------------------- printing */

/* The index as the result has it: without N where x has none, time before channel in nlc. */
static int first_index(int64_t index[3], const errors *e, const layer *l)
{
    const bool nlc = l->problem.layout == TAPCONV_NLC;
    const int64_t whole[] = {e->first[0], e->first[nlc ? 2 : 1], e->first[nlc ? 1 : 2]};
    const int skipped = l->unbatched ? 1 : 0;
    memcpy(index, whole + skipped, (size_t)(3 - skipped) * sizeof *index);
    return 3 - skipped;
}

static void first_text(char *text, size_t size, const errors *e, const layer *l)
{
    if (e->outside == 0) {
        snprintf(text, size, "-");
        return;
    }
    tensor index = {0};
    char shape[80];
    index.dimensions = first_index(index.shape, e, l);
    snprintf(text, size, "%s %.6g for %.6g", tensor_shape_text(shape, &index), e->first_value, e->first_reference);
}

static const char *reference_text(int64_t math)
{
    switch ((tapconv_math)math) {
    case TAPCONV_MATH_TF32: return "float64 sums of TF32-rounded operands";
    case TAPCONV_MATH_F16: return "float64 sums of the operands as rounded to f16";
    case TAPCONV_MATH_BF16: return "float64 sums of the operands as rounded to bf16";
    case TAPCONV_MATH_F32:
    case TAPCONV_MATH_F64: break;
    }
    return "float64 sums of the operands as given";
}

static void json_verdict(const char *prefix, const verdict *v, const layer *l)
{
    static const char *const keys[] = {"max_abs",       "mean_abs", "rel_l2", "outside",
                                       "first_outside", "nan",      "inf",    "pass"};
    char key[8][40];
    for (int i = 0; i < 8; i++) snprintf(key[i], sizeof key[i], "%s%s", prefix, keys[i]);
    json_real(key[0], v->errors.max_abs);
    json_real(key[1], errors_mean(&v->errors));
    json_real(key[2], errors_relative(&v->errors));
    json_integer(key[3], v->errors.outside);
    if (v->errors.outside == 0) {
        json_null(key[4]);
    } else {
        int64_t index[3];
        const int count = first_index(index, &v->errors, l);
        json_begin_object(key[4]);
        json_integers("index", index, count);
        json_real("value", v->errors.first_value);
        json_real("reference", v->errors.first_reference);
        json_end_object();
    }
    json_integer(key[5], v->nan);
    json_integer(key[6], v->inf);
    json_bool(key[7], v->pass);
}

static int print_json(const suite_problem *problem, const layer *l, const engine *e, int64_t seed, const verdict *v,
                      const against *a)
{
    const options *o = &problem->options;
    const tolerance allowed = tolerance_of(o);
    json_begin();
    const int failed = json_problem(problem);
    if (failed != 0) return failed;
    json_string("kernel", e->info.kernel);
    json_string("math", tapconv_math_name((tapconv_math)o->math));
    json_string("reference", reference_text(o->math));
    json_integer("seed", seed);
    json_string("data", l->is_random ? "random" : "files");
    json_verdict("", v, l);
    json_real("atol", allowed.absolute);
    json_real("rtol", allowed.relative);
    json_integer("compared", v->errors.compared);
    json_integer("outputs", tensor_count(&e->result));
    if (a != NULL) {
        json_verdict("against_", &a->verdict, l);
        json_bool("tf32_signature", a->is_tf32);
        json_real("against_rel_l2_tf32", a->from_rounded);
        json_real("against_rel_l2_tf32_truncated", a->from_truncated);
    }
    return json_end();
}

static int print_header(const suite_problem *problem, int name_width, const engine *e, const sample *s, const layer *l)
{
    const options *o = &problem->options;
    const tolerance allowed = tolerance_of(o);
    const int64_t outputs = tensor_count(&e->result);
    char *text = options_problem_text(o);
    if (text == NULL) return EXIT_CANNOT;
    if (name_width == 0) printf("problem    %s\nkernel     %s\n", text, e->info.kernel);
    if (name_width == 0) printf("reference  %s\n", reference_text(o->math));
    if (name_width == 0 && s->taken == s->total) printf("compared   all %" PRId64 " outputs\n", outputs);
    if (name_width == 0 && s->taken < s->total) {
        printf("compared   %" PRId64 " of %" PRId64 " outputs, drawn at random\n", sample_outputs(s, l), outputs);
    }
    if (name_width == 0) printf("tolerance  |y - ref| <= %g + %g * |ref|\n\n", allowed.absolute, allowed.relative);
    print_name("name", name_width);
    printf("%-7s  %-5s  %9s  %9s  %9s  %12s  %6s  %6s  %-7s  %s\n", "seed", "math", "max abs", "mean abs", "rel L2",
           "outside", "NaN", "Inf", "verdict", "first outside");
    free(text);
    return 0;
}

static void print_row(const suite_problem *problem, int name_width, const layer *l, const char *label, const char *math,
                      const verdict *v)
{
    char first[160];
    first_text(first, sizeof first, &v->errors, l);
    print_name(problem->name, name_width);
    printf("%-7s  %-5s  %9.2e  %9.2e  %9.2e  %12" PRId64 "  %6" PRId64 "  %6" PRId64 "  %-7s  %s\n", label, math,
           v->errors.max_abs, errors_mean(&v->errors), errors_relative(&v->errors), v->errors.outside, v->nan, v->inf,
           v->pass ? "pass" : "FAIL", first);
}

static void print_against(const against *a, const char *path)
{
    const double from_true = errors_relative(&a->verdict.errors);
    if (a->is_tf32) {
        const bool rounded = a->from_rounded <= a->from_truncated;
        printf("\n%s has the signature of TF32: it is %.2g from the float64 reference (relative L2), but only %.2g "
               "from that of "
               "operands\n%s to TF32. Whatever computed it ran with TF32 (PyTorch's default for convolutions on a "
               "GPU): that "
               "result, not the\nkernel, is the one that is off.\n",
               path, from_true, rounded ? a->from_rounded : a->from_truncated, rounded ? "rounded" : "truncated");
    } else {
        printf("\n%s is %.2g from the float64 reference (relative L2), %s; no signature of TF32.\n", path, from_true,
               a->verdict.pass ? "within the tolerance" : "outside the tolerance");
    }
}

/* --------------------------------------------------------------------------------------------------------- checking */

static void count_check(tally *t, const verdict *v, const options *o, const char *label)
{
    const tolerance allowed = tolerance_of(o);
    t->checks++;
    if (!v->pass && t->failures++ == 0) {
        snprintf(t->first, sizeof t->first,
                 "%s: %" PRId64 " of %" PRId64 " outputs compared are outside |y - ref| <= %g + %g * |ref|, %" PRId64
                 " NaN and %" PRId64 " Inf in y; allowed: none",
                 label, v->errors.outside, v->errors.compared, allowed.absolute, allowed.relative, v->nan, v->inf);
    }
}

static int check_seed(const suite_problem *problem, int name_width, tally *t, layer *l, engine *e, int64_t seed,
                      against *a)
{
    const options *o = &problem->options;
    verdict v = {0};
    char label[64], where[200];
    const sample s = e->info.flops > WHOLE_BELOW_FLOPS ? sample_some(l, seed) : sample_all(l);
    layer_randomize(l, o, seed);
    int failed = engine_pack(e, l);
    if (failed == 0) failed = engine_poison(e);
    progress_show("computing");
    if (failed == 0) failed = engine_execute(e);
    if (failed == 0) failed = engine_wait(e);
    progress_show(NULL);
    if (failed == 0) failed = engine_fetch(e);
    if (failed == 0) failed = compare_all(&v, a, o, l, e, &s);
    if (failed != 0) return failed;
    if (l->is_random)
        snprintf(label, sizeof label, "%" PRId64, seed);
    else
        snprintf(label, sizeof label, "files");
    snprintf(where, sizeof where, "%.100s%sseed %s", problem->name != NULL ? problem->name : "",
             problem->name != NULL ? ", " : "", label);
    count_check(t, &v, o, where);
    if (o->json) return print_json(problem, l, e, seed, &v, a);
    if (!t->header_printed) failed = print_header(problem, name_width, e, &s, l);
    t->header_printed = true;
    print_row(problem, name_width, l, label, tapconv_math_name((tapconv_math)o->math), &v);
    if (a != NULL) print_row(problem, name_width, l, "against", "-", &a->verdict);
    if (a != NULL) print_against(a, o->against);
    return failed != 0 ? failed : output_flush();
}

static int open_against(against *a, const options *o, const layer *l)
{
    const tensor wanted = layer_output(l, l->problem.type == TAPCONV_F64 ? TAPCONV_F64 : TAPCONV_F32);
    const int failed = npy_read(&a->result, "--against", o->against, wanted.type, false);
    if (failed != 0) return failed;
    if (a->result.dimensions == wanted.dimensions && memcmp(a->result.shape, wanted.shape, sizeof wanted.shape) == 0)
        return 0;
    char shape[80], allowed[80];
    return fail(EXIT_BAD_INPUT, "--against %.4000s has shape %s; allowed: the output's, %s", o->against,
                tensor_shape_text(shape, &a->result), tensor_shape_text(allowed, &wanted));
}

static int check_problem(const suite_problem *problem, int name_width, void *context)
{
    const options *o = &problem->options;
    layer l = {0};
    engine e = {0};
    against a = {0};
    int failed = layer_open(&l, o, false);
    if (failed == 0 && o->against != NULL) failed = open_against(&a, o, &l);
    if (failed == 0) failed = engine_plan(&e, o, &l);
    if (failed == 0) failed = engine_allocate(&e, &l);
    const int64_t seeds = !l.is_random ? 1 : o->seeds > 0 ? o->seeds : DEFAULT_SEEDS;
    for (int64_t i = 0; failed == 0 && i < seeds; i++) {
        const int64_t seed = o->seed + i;
        failed = check_seed(problem, name_width, context, &l, &e, seed, o->against != NULL ? &a : NULL);
    }
    memory_release(a.result.data);
    engine_close(&e);
    layer_close(&l);
    return failed;
}

int command_check(const options *o)
{
    tally t = {0};
    const int failed = for_each_problem(o, CALL_CHECK, check_problem, &t);
    if (failed != 0) return failed;
    if (t.failures == 0) return EXIT_DONE;
    return fail(EXIT_CHECK_FAILED, "%" PRId64 " of %" PRId64 " checks failed; the first: %s", t.failures, t.checks,
                t.first);
}
