/* tapconv explain: what a problem comes to, without running it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ceilings.h"
#include "commands.h"
#include "failure.h"
#include "json.h"
#include "output.h"

/* What is not known of a card that is not there is null. */
static void json_known(const char *key, int64_t value)
{
    if (value > 0)
        json_integer(key, value);
    else
        json_null(key);
}

static void json_launch(const tapconv_plan_info *info)
{
    json_string("device", info->device);
    json_string("tile", info->tile);
    json_integer("blocks", info->blocks);
    json_integer("block_threads", info->block_threads);
    json_known("registers", info->registers);
    json_known("shared_bytes", info->shared_bytes);
    json_known("blocks_per_multiprocessor", info->blocks_per_multiprocessor);
    json_real("waves", info->waves > 0 ? info->waves : NAN);
}

static void print_launch(const tapconv_plan_info *info)
{
    printf("device     %s\n", info->device);
    printf("tile       %s, %d threads a block, %" PRId64 " blocks\n", info->tile, (int)info->block_threads,
           info->blocks);
    if (info->registers == 0 || info->blocks_per_multiprocessor == 0) {
        puts("occupancy  not known: the card is not there");
        return;
    }
    printf(
        "occupancy  %d registers a thread, %d bytes of shared memory a block, %d blocks a multiprocessor, %.2f waves\n",
        (int)info->registers, (int)info->shared_bytes, (int)info->blocks_per_multiprocessor, info->waves);
}

static int print_json(const suite_problem *problem, const layer *l, const engine *e, double floor, const char *ceiling)
{
    const tensor y = layer_output(l, l->problem.type);
    json_begin();
    const int failed = json_problem(problem);
    if (failed != 0) return failed;
    json_integers("out_shape", y.shape, y.dimensions);
    json_string("kernel", e->info.kernel);
    json_string("reason", e->info.reason);
    json_real("gflop", 1e-9 * e->info.flops);
    json_real("mbytes", 1e-6 * e->info.bytes);
    json_real("floor_ms", 1e3 * floor);
    json_string("ceiling", ceiling);
    json_integer("workspace_bytes", (int64_t)e->info.workspace_bytes);
    json_integer("packed_weights_bytes", (int64_t)e->info.packed_weights_bytes);
    json_integer("threads", e->info.threads);
    json_string("math", tapconv_math_name((tapconv_math)problem->options.math));
    if (engine_on_gpu(e)) json_launch(&e->info);
    return json_end();
}

static int print_text(const suite_problem *problem, const layer *l, const engine *e, double floor, const char *ceiling,
                      const tapconv_ceilings *ceilings)
{
    const tensor y = layer_output(l, l->problem.type);
    char shape[80];
    char *text = options_problem_text(&problem->options);
    if (text == NULL) return EXIT_CANNOT;
    if (problem->name != NULL) printf("%s\n", problem->name);
    printf("problem    %s\n", text);
    printf("output     %s\n", tensor_shape_text(shape, &y));
    printf("kernel     %s: %s\n", e->info.kernel, e->info.reason);
    if (engine_on_gpu(e))
        print_launch(&e->info);
    else
        printf("threads    %d\n", (int)e->info.threads);
    printf("work       %.6g GFLOP, %.6g MB read and written\n", 1e-9 * e->info.flops, 1e-6 * e->info.bytes);
    printf("floor      %.4g ms by %s\n           ", 1e3 * floor, ceiling);
    ceilings_print(ceilings, &problem->options);
    printf("workspace  %zu bytes, packed weights %zu bytes\n", e->info.workspace_bytes, e->info.packed_weights_bytes);
    if (problem->name != NULL) putchar('\n');
    free(text);
    return output_flush();
}

static int explain_problem(const suite_problem *problem, int name_width, void *context)
{
    (void)name_width;
    (void)context;
    layer l = {0};
    engine e = {0};
    tapconv_ceilings ceilings;
    int failed = layer_open(&l, &problem->options, true);
    if (failed == 0) failed = engine_plan(&e, &problem->options, &l);
    if (failed == 0) failed = ceilings_get(&problem->options, &ceilings, NULL);
    if (failed == 0) {
        const char *ceiling;
        const double floor = ceilings_floor(&ceilings, &e.info, &l, &ceiling);
        failed = problem->options.json ? print_json(problem, &l, &e, floor, ceiling)
                                       : print_text(problem, &l, &e, floor, ceiling, &ceilings);
    }
    engine_close(&e);
    layer_close(&l);
    return failed;
}

int command_explain(const options *o)
{
    return for_each_problem(o, CALL_EXPLAIN, explain_problem, NULL);
}
