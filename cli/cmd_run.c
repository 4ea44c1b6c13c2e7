/* tapconv run: one layer on real arrays. */
#include <stdio.h>

#include "clock.h"
#include "commands.h"
#include "engine.h"
#include "failure.h"
#include "json.h"
#include "output.h"
#include "progress.h"

static int compute(engine *e, const options *o, const layer *l, double *seconds)
{
    int failed = engine_plan(e, o, l);
    if (failed == 0) failed = engine_allocate(e, l);
    if (failed == 0) failed = engine_pack(e, l);
    if (failed != 0) return failed;
    progress_show("computing");
    const double start = clock_seconds();
    failed = engine_execute(e);
    if (failed == 0) failed = engine_wait(e);
    *seconds = clock_seconds() - start;
    progress_show(NULL);
    return failed != 0 ? failed : engine_fetch(e);
}

static int print(const options *o, const engine *e, double seconds)
{
    char shape[80];
    if (o->json) {
        json_begin();
        json_string("kernel", e->info.kernel);
        json_integers("out_shape", e->result.shape, e->result.dimensions);
        json_real("ms", 1e3 * seconds);
        json_string("math", tapconv_math_name((tapconv_math)o->math));
        return json_end();
    }
    printf("kernel   %s\n", e->info.kernel);
    printf("math     %s\n", tapconv_math_name((tapconv_math)o->math));
    printf("output   %s in %s\n", tensor_shape_text(shape, &e->result), o->o);
    printf("time     %.4g ms\n", 1e3 * seconds);
    return output_flush();
}

int command_run(const options *o)
{
    layer l = {0};
    engine e = {0};
    double seconds = 0;
    int failed = options_check(o, CALL_RUN, false);
    if (failed == 0) failed = npy_check_writable("-o", o->o);
    if (failed == 0) failed = layer_open(&l, o, false);
    if (failed == 0) failed = compute(&e, o, &l, &seconds);
    if (failed == 0) failed = npy_write(&e.result, "-o", o->o);
    /* Whoever reads y there wants nothing behind it. */
    if (failed == 0 && !npy_is_output(o->o)) failed = print(o, &e, seconds);
    engine_close(&e);
    layer_close(&l);
    return failed;
}
