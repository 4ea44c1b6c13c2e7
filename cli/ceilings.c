#include "ceilings.h"

#include "failure.h"
#include "progress.h"

#define MOST_KINDS 64

int ceilings_get(const options *o, tapconv_ceilings *ceilings, bool *fresh)
{
    static struct {
        bool is_double;
        int64_t device, threads, isa;
        tapconv_ceilings ceilings;
    } measured[MOST_KINDS];
    static int kinds;
    const bool is_double = o->math == TAPCONV_MATH_F64;
    if (fresh != NULL) *fresh = false;
    for (int i = 0; i < kinds; i++) {
        if (measured[i].is_double == is_double && measured[i].device == o->device &&
            measured[i].threads == o->threads && measured[i].isa == o->isa) {
            *ceilings = measured[i].ceilings;
            return 0;
        }
    }
    tapconv_plan_options plan_options = engine_plan_options(o);
    plan_options.kernel = NULL;
    progress_show("measuring the machine's ceilings");
    const tapconv_status status =
        tapconv_measure_ceilings(&plan_options, is_double ? TAPCONV_MATH_F64 : TAPCONV_MATH_F32, ceilings);
    progress_show(NULL);
    if (status != TAPCONV_OK) return fail_library(status, "measuring the machine's ceilings");
    if (fresh != NULL) *fresh = true;
    if (kinds < MOST_KINDS) {
        measured[kinds].is_double = is_double;
        measured[kinds].device = o->device;
        measured[kinds].threads = o->threads;
        measured[kinds].isa = o->isa;
        measured[kinds].ceilings = *ceilings;
        kinds++;
    }
    return 0;
}

double ceilings_floor(const tapconv_ceilings *ceilings, const tapconv_plan_info *info, const char **name)
{
    const double arithmetic = info->flops / (1e9 * ceilings->gflops),
                 memory = info->bytes / (1e9 * ceilings->gbytes_per_s);
    *name = arithmetic >= memory ? "fma" : "copy";
    return arithmetic >= memory ? arithmetic : memory;
}
