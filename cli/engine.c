#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "memory.h"
#include "progress.h"

tapconv_plan_options engine_plan_options(const options *o)
{
    return (tapconv_plan_options){
        .device = o->device == DEVICE_CPU ? TAPCONV_CPU : TAPCONV_CUDA,
        .device_index = o->device == DEVICE_CPU ? 0 : (int32_t)o->device,
        .threads = (int32_t)o->threads,
        .isa_mask = o->isa == CHOICE_NONE ? 0 : UINT32_C(1) << o->isa,
        .kernel = o->kernel_family == CHOICE_NONE ? NULL : tapconv_kernel_name((int32_t)o->kernel_family),
    };
}

static int check_isa(const options *o)
{
    const uint32_t there = tapconv_cpu_features();
    if (o->isa == CHOICE_NONE || (there >> o->isa & 1) != 0) return 0;
    char names[64] = "";
    for (uint32_t bit = 0; bit < 32; bit++) {
        if ((there >> bit & 1) == 0) continue;
        strncat(names, " ", sizeof names - strlen(names) - 1);
        strncat(names, tapconv_isa_name(UINT32_C(1) << bit), sizeof names - strlen(names) - 1);
    }
    return fail(EXIT_CANNOT, "--isa is %s, which this machine or this build does not have; it has:%s",
                tapconv_isa_name(UINT32_C(1) << o->isa), names);
}

static int fail_plan(tapconv_status status, const options *o)
{
    char context[400];
    if (status == TAPCONV_NO_DEVICE) {
        if (o->device == DEVICE_CPU)
            snprintf(context, sizeof context, "--device cpu");
        else
            snprintf(context, sizeof context, "--device cuda:%d", (int)o->device);
    } else if (o->given[OPTION_FORCE_KERNEL] != NULL) {
        snprintf(context, sizeof context, "--force-kernel %.100s", o->given[OPTION_FORCE_KERNEL]);
    } else {
        char *text = options_problem_text(o);
        if (text == NULL) return EXIT_CANNOT;
        snprintf(context, sizeof context, "the problem '%.300s'", text);
        free(text);
    }
    return fail_library(status, context);
}

int engine_plan(engine *e, const options *o, const layer *l)
{
    *e = (engine){0};
    const int failed = check_isa(o);
    if (failed != 0) return failed;
    const tapconv_plan_options plan_options = engine_plan_options(o);
    const tapconv_status status = tapconv_plan_create(&e->plan, &l->problem, &plan_options);
    if (status != TAPCONV_OK) return fail_plan(status, o);
    tapconv_plan_get_info(e->plan, &e->info);
    return 0;
}

int engine_allocate(engine *e, const layer *l)
{
    e->y = layer_output(l, l->problem.type);
    e->result = layer_output(l, l->problem.type == TAPCONV_F64 ? TAPCONV_F64 : TAPCONV_F32);
    e->packed = memory_get((int64_t)e->info.packed_weights_bytes, 1, "the packed weights");
    if (e->packed == NULL) return EXIT_CANNOT;
    e->workspace = memory_get((int64_t)e->info.workspace_bytes, 1, "the workspace");
    if (e->workspace == NULL) return EXIT_CANNOT;
    e->y.data = memory_get(tensor_count(&e->y), tapconv_type_bytes(e->y.type), "the output");
    if (e->y.data == NULL) return EXIT_CANNOT;
    e->result.data = e->y.data;
    if (e->result.type != e->y.type) {
        e->result.data = memory_get(tensor_count(&e->y), tapconv_type_bytes(e->result.type), "the output as float32");
        if (e->result.data == NULL) return EXIT_CANNOT;
    }
    return 0;
}

int engine_pack(engine *e, const layer *l)
{
    const tapconv_status status = tapconv_pack_weights(e->plan, l->w.data, e->packed, e->info.packed_weights_bytes);
    return status == TAPCONV_OK ? 0 : fail_library(status, "packing the weights");
}

void engine_poison(engine *e)
{
    memset(e->y.data, 0xff, (size_t)tensor_count(&e->y) * tapconv_type_bytes(e->y.type));
}

int engine_execute(engine *e, const layer *l)
{
    const tapconv_arrays arrays = {
        .x = l->x.data,
        .packed_weights = e->packed,
        .bias = l->bias.data,
        .gamma = l->gamma.data,
        .beta = l->beta.data,
        .y = e->y.data,
        .workspace = e->workspace,
        .workspace_bytes = e->info.workspace_bytes,
    };
    const tapconv_status status = tapconv_execute(e->plan, &arrays);
    return status == TAPCONV_OK ? 0 : fail_library(status, "computing");
}

int engine_fetch(engine *e)
{
    if (e->result.data == e->y.data) return 0;
    const tapconv_status status =
        tapconv_convert(e->result.data, e->result.type, e->y.data, e->y.type, tensor_count(&e->y));
    return status == TAPCONV_OK ? 0 : fail_library(status, "converting the result");
}

void engine_close(engine *e)
{
    tapconv_plan_destroy(e->plan);
    memory_release(e->packed);
    memory_release(e->workspace);
    if (e->result.data != e->y.data) memory_release(e->result.data);
    memory_release(e->y.data);
    *e = (engine){0};
}
