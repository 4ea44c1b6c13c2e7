/* What plan.c knows of an engine. */
#ifndef TAPCONV_ENGINE_H
#define TAPCONV_ENGINE_H

#include "problem.h"

typedef struct tapconv_engine {
    /* Each takes what `plan` made. Arguments were checked by plan.c. */
    tapconv_status (*plan)(void **made, const tapconv_shape *shape, const tapconv_plan_options *options);
    void (*destroy)(void *made);
    /* kernel, reason, isa, workspace_bytes and threads; the rest is filled by plan.c. */
    void (*info)(const void *made, tapconv_plan_info *info);
    size_t (*packed_bytes)(const void *made);
    void (*pack)(const void *made, const void *w, void *packed);
    void (*execute)(const void *made, const tapconv_arrays *arrays);
    const char *(*kernel_name)(int32_t index);
    tapconv_status (*ceilings)(const tapconv_plan_options *options, tapconv_math math, tapconv_ceilings *ceilings);
} tapconv_engine;

extern const tapconv_engine tapconv_cpu_engine;

#endif
