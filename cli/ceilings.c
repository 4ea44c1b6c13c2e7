#include "ceilings.h"

#include <inttypes.h>
#include <string.h>

#include "failure.h"
#include "progress.h"

#define MOST_KINDS 64
#define TENSOR_CHANNELS 16

/* What a measurement depends on. */
typedef struct kind {
    tapconv_math math;
    int64_t device, threads, isa;
    const char *card;
} kind;

static bool same(const kind *a, const kind *b)
{
    const bool same_card = a->card == b->card || (a->card != NULL && b->card != NULL && strcmp(a->card, b->card) == 0);
    return a->math == b->math && a->device == b->device && a->threads == b->threads && a->isa == b->isa && same_card;
}

int ceilings_get(const options *o, tapconv_ceilings *ceilings, bool *fresh)
{
    static struct {
        kind kind;
        tapconv_ceilings ceilings;
    } measured[MOST_KINDS];
    static int kinds;
    kind wanted = {(tapconv_math)o->math, o->device, o->threads, o->isa, o->card};
    /* The CPU computes in float32 or in float64. */
    if (o->device == DEVICE_CPU && wanted.math != TAPCONV_MATH_F64) wanted.math = TAPCONV_MATH_F32;
    if (fresh != NULL) *fresh = false;
    for (int i = 0; i < kinds; i++) {
        if (!same(&measured[i].kind, &wanted)) continue;
        *ceilings = measured[i].ceilings;
        return 0;
    }
    tapconv_plan_options plan_options = engine_plan_options(o);
    plan_options.kernel = NULL;
    progress_show("measuring the machine's ceilings");
    const tapconv_status status = tapconv_measure_ceilings(&plan_options, wanted.math, ceilings);
    progress_show(NULL);
    if (status != TAPCONV_OK) return fail_library(status, "measuring the machine's ceilings");
    if (fresh != NULL) *fresh = true;
    if (kinds < MOST_KINDS) {
        measured[kinds].kind = wanted;
        measured[kinds].ceilings = *ceilings;
        kinds++;
    }
    return 0;
}

double ceilings_floor(const tapconv_ceilings *ceilings, const tapconv_plan_info *info, const layer *l,
                      const char **name)
{
    const bool on_tensor =
        ceilings->gflops > ceilings->fma_gflops && l->problem.in_channels / l->problem.groups >= TENSOR_CHANNELS;
    const double arithmetic = info->flops / (1e9 * (on_tensor ? ceilings->gflops : ceilings->fma_gflops)),
                 memory = info->bytes / (1e9 * ceilings->gbytes_per_s);
    double floor = ceilings->least_seconds;
    *name = "launch";
    if (arithmetic >= floor) *name = on_tensor ? "tensor" : "fma";
    if (arithmetic >= floor) floor = arithmetic;
    if (memory > floor) *name = "copy";
    return memory > floor ? memory : floor;
}

void ceilings_print(const tapconv_ceilings *c, const options *o)
{
    const char *when = c->measured != 0 ? "measured now" : "as known of the card";
    if (o->device != DEVICE_CPU) {
        printf("%s: tensor %.1f GFLOP/s in %s, fma %.1f GFLOP/s in float32, copy %.1f GB/s\n", when, c->gflops,
               tapconv_math_name((tapconv_math)o->math), c->fma_gflops, c->gbytes_per_s);
        return;
    }
    char threads[40] = "one thread a core";
    if (o->threads > 0)
        snprintf(threads, sizeof threads, "%" PRId64 " thread%s", o->threads, o->threads > 1 ? "s" : "");
    printf("%s: fma %.1f GFLOP/s in %s, copy %.1f GB/s; %s\n", when, c->gflops,
           o->math == TAPCONV_MATH_F64 ? "float64" : "float32", c->gbytes_per_s, threads);
}
