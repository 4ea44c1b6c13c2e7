#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "memory.h"
#include "option_table.h"
#include "progress.h"

tapconv_plan_options engine_plan_options(const options *o)
{
    return (tapconv_plan_options){
        .device = o->device == DEVICE_CPU ? TAPCONV_CPU : TAPCONV_CUDA,
        .device_index = o->device == DEVICE_CPU ? 0 : (int32_t)o->device,
        .threads = (int32_t)o->threads,
        .isa_mask = o->isa == CHOICE_NONE ? 0 : UINT32_C(1) << o->isa,
        .kernel = o->kernel_family == CHOICE_NONE ? NULL : option_family_name(o->kernel_family),
        .card = o->card,
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
        else if (o->card != NULL)
            snprintf(context, sizeof context, "--device cuda:%.100s", o->card);
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
    *e = (engine){.where = engine_plan_options(o)};
    const int failed = o->device == DEVICE_CPU ? check_isa(o) : 0;
    if (failed != 0) return failed;
    const tapconv_status status = tapconv_plan_create(&e->plan, &l->problem, &e->where);
    if (status != TAPCONV_OK) return fail_plan(status, o);
    tapconv_plan_get_info(e->plan, &e->info);
    return 0;
}

bool engine_on_gpu(const engine *e)
{
    return e->where.device != TAPCONV_CPU;
}

static int64_t bytes_of(const tensor *t)
{
    return tensor_count(t) * (int64_t)tapconv_type_bytes(t->type);
}

/* Memory where the engine computes. `at` holds it for engine_close. */
static int take_memory(const engine *e, void **at, int64_t bytes, const char *what)
{
    if (!engine_on_gpu(e)) {
        *at = memory_get(bytes, 1, what);
        return *at != NULL ? 0 : EXIT_CANNOT;
    }
    const tapconv_status status = tapconv_device_allocate(&e->where, at, (size_t)bytes);
    return status == TAPCONV_OK ? 0 : fail_library(status, what);
}

/* The layer's arrays, as they are brought to the GPU. */
enum { INPUT_X, INPUT_W, INPUT_BIAS, INPUT_GAMMA, INPUT_BETA, INPUTS };

static const tensor *input_of(const layer *l, int input)
{
    const tensor *const all[INPUTS] = {&l->x, &l->w, &l->bias, &l->gamma, &l->beta};
    return all[input];
}

static int take_inputs(engine *e, const layer *l)
{
    static const char *const names[INPUTS] = {"the input", "the weights", "the bias", "gamma", "beta"};
    const void *at[INPUTS];
    int failed = 0;
    for (int i = 0; failed == 0 && i < INPUTS; i++) {
        const tensor *t = input_of(l, i);
        if (engine_on_gpu(e) && t->data != NULL) failed = take_memory(e, &e->inputs[i], bytes_of(t), names[i]);
        at[i] = engine_on_gpu(e) ? e->inputs[i] : t->data;
    }
    if (failed != 0) return failed;
    e->w = at[INPUT_W];
    e->arrays.x = at[INPUT_X];
    e->arrays.bias = at[INPUT_BIAS];
    e->arrays.gamma = at[INPUT_GAMMA];
    e->arrays.beta = at[INPUT_BETA];
    return 0;
}

static int take_arrays(engine *e, const layer *l)
{
    tapconv_arrays *a = &e->arrays;
    int failed = take_memory(e, &e->packed, (int64_t)e->info.packed_weights_bytes, "the packed weights");
    if (failed == 0) failed = take_memory(e, &a->workspace, (int64_t)e->info.workspace_bytes, "the workspace");
    a->packed_weights = e->packed;
    a->workspace_bytes = e->info.workspace_bytes;
    if (failed == 0) failed = take_inputs(e, l);
    if (failed != 0) return failed;
    a->y = e->y.data;
    return engine_on_gpu(e) ? take_memory(e, &a->y, bytes_of(&e->y), "the output") : 0;
}

int engine_allocate(engine *e, const layer *l)
{
    e->y = layer_output(l, l->problem.type);
    e->result = layer_output(l, l->problem.type == TAPCONV_F64 ? TAPCONV_F64 : TAPCONV_F32);
    e->y.data = memory_get(tensor_count(&e->y), tapconv_type_bytes(e->y.type), "the output");
    if (e->y.data == NULL) return EXIT_CANNOT;
    e->result.data = e->y.data;
    if (e->result.type != e->y.type) {
        e->result.data = memory_get(tensor_count(&e->y), tapconv_type_bytes(e->result.type), "the output as float32");
        if (e->result.data == NULL) return EXIT_CANNOT;
    }
    return take_arrays(e, l);
}

static int upload(const engine *e, const layer *l)
{
    for (int i = 0; i < INPUTS; i++) {
        if (e->inputs[i] == NULL) continue;
        const tensor *t = input_of(l, i);
        const tapconv_status status = tapconv_device_upload(&e->where, e->inputs[i], t->data, (size_t)bytes_of(t));
        if (status != TAPCONV_OK) return fail_library(status, "copying to the device");
    }
    return 0;
}

int engine_pack(engine *e, const layer *l)
{
    const int failed = upload(e, l);
    if (failed != 0) return failed;
    const tapconv_status status = tapconv_pack_weights(e->plan, e->w, e->packed, e->info.packed_weights_bytes);
    return status == TAPCONV_OK ? 0 : fail_library(status, "packing the weights");
}

int engine_poison(engine *e)
{
    memset(e->y.data, 0xff, (size_t)bytes_of(&e->y));
    if (!engine_on_gpu(e)) return 0;
    const tapconv_status status = tapconv_device_fill(&e->where, e->arrays.y, 0xff, (size_t)bytes_of(&e->y));
    return status == TAPCONV_OK ? 0 : fail_library(status, "filling the output");
}

int engine_execute(engine *e)
{
    const tapconv_status status = tapconv_execute(e->plan, &e->arrays);
    return status == TAPCONV_OK ? 0 : fail_library(status, "computing");
}

int engine_wait(const engine *e)
{
    if (!engine_on_gpu(e)) return 0;
    const tapconv_status status = tapconv_device_synchronize(&e->where);
    return status == TAPCONV_OK ? 0 : fail_library(status, "computing");
}

int engine_fetch(engine *e)
{
    tapconv_status status = TAPCONV_OK;
    if (engine_on_gpu(e)) status = tapconv_device_download(&e->where, e->y.data, e->arrays.y, (size_t)bytes_of(&e->y));
    if (status != TAPCONV_OK) return fail_library(status, "copying from the device");
    if (e->result.data == e->y.data) return 0;
    status = tapconv_convert(e->result.data, e->result.type, e->y.data, e->y.type, tensor_count(&e->y));
    return status == TAPCONV_OK ? 0 : fail_library(status, "converting the result");
}

/* What cannot be given back ends with the program. */
static void release(const engine *e, void *memory)
{
    if (!engine_on_gpu(e))
        memory_release(memory);
    else
        (void)(tapconv_device_free(&e->where, memory) == TAPCONV_OK);
}

void engine_close(engine *e)
{
    tapconv_plan_destroy(e->plan);
    release(e, e->packed);
    release(e, e->arrays.workspace);
    for (int i = 0; i < INPUTS; i++) release(e, e->inputs[i]);
    if (e->arrays.y != e->y.data) release(e, e->arrays.y);
    if (e->result.data != e->y.data) memory_release(e->result.data);
    memory_release(e->y.data);
    *e = (engine){0};
}
