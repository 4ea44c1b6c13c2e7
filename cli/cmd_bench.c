/* tapconv bench: how long problems take, and how near that is to what the machine can do. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ceilings.h"
#include "clock.h"
#include "commands.h"
#include "compare.h"
#include "failure.h"
#include "json.h"
#include "memory.h"
#include "output.h"
#include "progress.h"

#define LEAST_RUNS 5
#define LEAST_RUNS_SLOW 3 /* of a problem whose runs take longer than SLOW_SECONDS together */
#define SLOW_SECONDS 1.2
#define MOST_RUNS 1000000
#define WARM_SECONDS 0.05 /* enough for caches, page tables and the clock */
#define PLAIN_SECONDS 0.2 /* of timing the plain loops */
/* On a GPU: a sample lasts long enough for its clock, which ticks twice in a microsecond. */
#define GPU_SAMPLE_SECONDS 200e-6
#define GPU_MOST_EXECUTES 100
#define GPU_MOST_SAMPLES 1000
#define GPU_WAYS 3

typedef struct timing {
    double median, least;
    int64_t runs;
} timing;

typedef struct row {
    timing timing;
    timing eager, cold; /* on a GPU */
    tapconv_ceilings ceilings;
    double relative_error, plain; /* seconds of the plain loops; 0: not asked for */
} row;

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int warm_up(engine *e)
{
    const double start = clock_seconds();
    int failed = 0;
    do failed = engine_execute(e);
    while (failed == 0 && clock_seconds() - start < WARM_SECONDS);
    return failed;
}

static bool enough(const options *o, int64_t runs, double elapsed)
{
    if (o->runs > 0) return runs >= o->runs;
    if (runs >= MOST_RUNS) return true;
    if (runs >= LEAST_RUNS) return elapsed >= o->min_time;
    return runs >= LEAST_RUNS_SLOW && elapsed >= SLOW_SECONDS && elapsed >= o->min_time;
}

static void summarise(timing *t, double *seconds)
{
    qsort(seconds, (size_t)t->runs, sizeof(double), compare_doubles);
    t->least = seconds[0];
    t->median = (seconds[(t->runs - 1) / 2] + seconds[t->runs / 2]) / 2;
}

static int time_runs(timing *t, engine *e, const options *o)
{
    const int64_t most = o->runs > 0 ? o->runs : MOST_RUNS;
    double *seconds = memory_get(most, sizeof(double), "the times");
    if (seconds == NULL) return EXIT_CANNOT;
    progress_show("timing");
    int failed = warm_up(e);
    const double start = clock_seconds();
    double now = start;
    for (t->runs = 0; failed == 0 && !enough(o, t->runs, now - start); t->runs++) {
        const double before = clock_seconds();
        failed = engine_execute(e);
        now = clock_seconds();
        seconds[t->runs] = now - before;
    }
    progress_show(NULL);
    if (failed == 0) summarise(t, seconds);
    memory_release(seconds);
    return failed;
}

static int64_t clamp(double value, int64_t least, int64_t most)
{
    return value <= (double)least ? least : value >= (double)most ? most : (int64_t)value;
}

/* One way of timing on a GPU, by its own clock: `executes` in a row are a sample. */
static int time_gpu_way(timing *t, const engine *e, uint32_t flags, int64_t executes, int64_t samples)
{
    double *seconds = memory_get(samples, sizeof(double), "the times");
    if (seconds == NULL) return EXIT_CANNOT;
    const tapconv_status status =
        tapconv_device_time(e->plan, &e->arrays, 1, flags, (int32_t)executes, seconds, (int32_t)samples);
    t->runs = samples;
    if (status == TAPCONV_OK) summarise(t, seconds);
    memory_release(seconds);
    return status == TAPCONV_OK ? 0 : fail_library(status, "timing");
}

/* From a graph, which is what counts; called one by one; and from a graph with nothing of the problem in the L2 cache. */
static int time_runs_gpu(row *r, const engine *e, const options *o)
{
    timing first = {0};
    progress_show("timing");
    int failed = time_gpu_way(&first, e, TAPCONV_TIME_GRAPH, 1, LEAST_RUNS);
    const int64_t executes = clamp(GPU_SAMPLE_SECONDS / (first.least + 1e-9), 1, GPU_MOST_EXECUTES);
    const double sample_seconds = (first.least + 1e-9) * (double)executes;
    const int64_t samples =
        o->runs > 0 ? o->runs : clamp(o->min_time / GPU_WAYS / sample_seconds, LEAST_RUNS, GPU_MOST_SAMPLES);
    if (failed == 0) failed = time_gpu_way(&r->timing, e, TAPCONV_TIME_GRAPH, executes, samples);
    if (failed == 0) failed = time_gpu_way(&r->eager, e, 0, executes, samples);
    if (failed == 0) failed = time_gpu_way(&r->cold, e, TAPCONV_TIME_GRAPH | TAPCONV_TIME_COLD, 1, samples);
    progress_show(NULL);
    return failed;
}

/* The float64 loops on random groups of outputs, one thread, scaled up to all of them. */
static int time_plain(double *seconds, const operands *r, const layer *l, int64_t seed)
{
    const sample all = sample_all(l), some = sample_some(l, seed);
    double *rows =
        memory_get(all.total > 0 ? all.group_channels * l->out_length : 0, sizeof(double), "the plain loops");
    if (rows == NULL) return EXIT_CANNOT;
    progress_show("timing the plain loops");
    tapconv_status status = TAPCONV_OK;
    const double start = clock_seconds();
    double elapsed = 0;
    int64_t groups = 0;
    for (; status == TAPCONV_OK && groups < some.taken && (groups == 0 || elapsed < PLAIN_SECONDS); groups++) {
        const int64_t number = sample_group(&some, groups);
        status = tapconv_reference_group(&r->problem, r->x, r->w, r->bias, r->gamma, r->beta,
                                         number / all.groups_of_item, number % all.groups_of_item, rows);
        elapsed = clock_seconds() - start;
    }
    progress_show(NULL);
    memory_release(rows);
    if (status != TAPCONV_OK) return fail_library(status, "timing the plain loops");
    *seconds = groups > 0 ? elapsed / (double)groups * (double)all.total : 0;
    return 0;
}

static int measure_error(row *r, const options *o, const layer *l, engine *e)
{
    operands reference;
    errors found;
    const sample s = sample_some(l, o->seed);
    const tensor *const results[] = {&e->result};
    int failed = engine_fetch(e);
    if (failed != 0) return failed;
    failed = operands_open(&reference, l, o->math == TAPCONV_MATH_TF32 ? ROUNDING_TF32 : ROUNDING_NONE);
    if (failed == 0) failed = compare_results(l, &reference, &s, tolerance_of(o), 1, results, &found, o->threads);
    if (failed == 0) r->relative_error = errors_relative(&found);
    if (failed == 0 && o->plain) failed = time_plain(&r->plain, &reference, l, o->seed);
    operands_close(&reference);
    return failed;
}

/* --------------------------------------------------------------------------------------------------------- printing */

static double rate(double amount, double seconds)
{
    return amount > 0 ? 1e-9 * amount / seconds : 0;
}

static int print_json(const suite_problem *problem, const engine *e, const row *r, double percent, const char *ceiling)
{
    const options *o = &problem->options;
    char device[32] = "cpu";
    if (engine_on_gpu(e)) snprintf(device, sizeof device, "cuda:%" PRId64, o->device);
    json_begin();
    const int failed = json_problem(problem);
    if (failed != 0) return failed;
    json_string("kernel", e->info.kernel);
    json_string("device", device);
    json_string("math", tapconv_math_name((tapconv_math)o->math));
    json_integer("threads", e->info.threads);
    json_real("median_ms", 1e3 * r->timing.median);
    json_real("min_ms", 1e3 * r->timing.least);
    json_integer("runs", r->timing.runs);
    json_real("gflops", rate(e->info.flops, r->timing.median));
    json_real("gbytes_per_s", rate(e->info.bytes, r->timing.median));
    json_real("percent_of_ceiling", percent);
    json_string("ceiling", ceiling);
    json_real("rel_l2", r->relative_error);
    json_real("ceiling_gflops", r->ceilings.gflops);
    json_real("ceiling_gbytes_per_s", r->ceilings.gbytes_per_s);
    if (engine_on_gpu(e)) {
        json_real("eager_ms", 1e3 * r->eager.median);
        json_real("cold_ms", 1e3 * r->cold.median);
    }
    if (o->plain) {
        json_real("plain_ms", 1e3 * r->plain);
        json_real("times_faster", r->plain / r->timing.median);
    }
    return json_end();
}

static int print_header(const suite_problem *problem, int name_width)
{
    char *text = options_problem_text(&problem->options);
    if (text == NULL) return EXIT_CANNOT;
    if (name_width == 0) printf("problem  %s\n", text);
    free(text);
    print_name("name", name_width);
    printf("%-24s  %-4s  %7s  %10s  %10s  %7s  %9s  %8s  %9s  %-7s  %8s%s%s\n", "kernel", "math", "threads",
           "median ms", "min ms", "runs", "GFLOP/s", "GB/s", "% ceiling", "ceiling", "rel L2",
           problem->options.device != DEVICE_CPU ? "    eager ms     cold ms" : "",
           problem->options.plain ? "   x plain" : "");
    return output_flush();
}

static int print_row(const suite_problem *problem, int name_width, const engine *e, const row *r, double percent,
                     const char *ceiling)
{
    const options *o = &problem->options;
    print_name(problem->name, name_width);
    printf("%-24s  %-4s  %7d  %10.4g  %10.4g  %7" PRId64 "  %9.2f  %8.2f  %9.1f  %-7s  %8.1e", e->info.kernel,
           tapconv_math_name((tapconv_math)o->math), (int)e->info.threads, 1e3 * r->timing.median,
           1e3 * r->timing.least, r->timing.runs, rate(e->info.flops, r->timing.median),
           rate(e->info.bytes, r->timing.median), percent, ceiling, r->relative_error);
    if (engine_on_gpu(e)) printf("  %10.4g  %10.4g", 1e3 * r->eager.median, 1e3 * r->cold.median);
    if (o->plain) printf("  %8.3g", r->plain / r->timing.median);
    putchar('\n');
    return output_flush();
}

static int bench_problem(const suite_problem *problem, int name_width, void *context)
{
    bool *header_printed = context;
    const options *o = &problem->options;
    layer l = {0};
    engine e = {0};
    row r = {0};
    bool fresh = false;
    int failed = layer_open(&l, o, false);
    if (failed == 0) failed = engine_plan(&e, o, &l);
    if (failed == 0) failed = ceilings_get(o, &r.ceilings, &fresh);
    if (failed == 0 && fresh && !o->json) {
        fputs("ceilings ", stdout);
        ceilings_print(&r.ceilings, o);
    }
    if (failed == 0 && !o->json && !*header_printed) failed = print_header(problem, name_width);
    *header_printed = true;
    if (failed == 0) layer_randomize(&l, o, o->seed);
    if (failed == 0) failed = engine_allocate(&e, &l);
    if (failed == 0) failed = engine_pack(&e, &l);
    if (failed == 0) failed = engine_on_gpu(&e) ? time_runs_gpu(&r, &e, o) : time_runs(&r.timing, &e, o);
    if (failed == 0) failed = measure_error(&r, o, &l, &e);
    if (failed == 0) {
        const char *ceiling;
        const double percent = 100 * ceilings_floor(&r.ceilings, &e.info, &l, &ceiling) / r.timing.median;
        if (o->json)
            failed = print_json(problem, &e, &r, percent, ceiling);
        else
            failed = print_row(problem, name_width, &e, &r, percent, ceiling);
    }
    engine_close(&e);
    layer_close(&l);
    return failed;
}

int command_bench(const options *o)
{
    bool header_printed = false;
    return for_each_problem(o, CALL_BENCH, bench_problem, &header_printed);
}
