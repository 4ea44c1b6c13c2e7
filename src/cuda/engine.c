/* Planning and executing on a CUDA device: family, packed weights, workspace. This file and its neighbours make the shared
 * object libtapconv_cuda.so, which gives the library a table of functions and nothing else. */
#include "engine.h"
#include "cuda/cards.h"
#include "cuda/device.h"
#include "cuda/select.h"
#include "cuda/timing.h"
#include "error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)256)

typedef struct cuda_plan {
    tapconv_shape shape;
    tapconv_cuda_card card;
    const tapconv_cuda_family *family;
    char kernel[48], reason[192];
    tapconv_cuda_launch_info launch;
    size_t packed_at; /* the family's section */
    /* The workspace, from its first multiple of ALIGNMENT: the convolution as float32, where GroupNorm follows, then scratch
     * memory that the convolution needs first and GroupNorm afterwards. */
    size_t scratch_at, workspace_bytes;
} cuda_plan;

/* -------------------------------------------------------------------------------------------------------- sentences */

static void (*keep)(const char *sentence);

/* The library keeps the sentence; this shared object has none of its functions. */
tapconv_status tapconv_fail(tapconv_status status, const char *format, ...)
{
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    keep(sentence);
    return status;
}

/* Makes the plan's device the current one, if it is there; tapconv_cuda_leave() goes back. */
static tapconv_status enter(const cuda_plan *plan, int *before)
{
    if (plan->card.device >= 0) return tapconv_cuda_enter(plan->card.device, before);
    return tapconv_fail(TAPCONV_NO_DEVICE, "device is %s, which is described and not there; a plan of it only explains",
                        plan->card.name);
}

/* --------------------------------------------------------------------------------------------------------- planning */

/* The card that the options name: described, or the device's own. */
static tapconv_status find_card(const tapconv_plan_options *options, tapconv_cuda_card *card, tapconv_cuda_rates *rates)
{
    if (options->card) {
        if (tapconv_cuda_card_by_name(options->card, card, rates)) return TAPCONV_OK;
        char names[128] = "";
        for (int32_t i = 0; tapconv_cuda_card_name(i); i++) {
            const size_t length = strlen(names);
            snprintf(names + length, sizeof names - length, " %s", tapconv_cuda_card_name(i));
        }
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "card is \"%.40s\"; it must be one of%s", options->card, names);
    }
    const int32_t device = options->device_index;
    int before = 0;
    tapconv_status status = tapconv_cuda_enter(device, &before);
    if (status != TAPCONV_OK) return status;
    status = tapconv_cuda_check(tapconv_cuda_card_read(device, card), device, "asking for its properties");
    tapconv_cuda_leave(device, before);
    if (status == TAPCONV_OK && card->major < 8)
        return tapconv_fail(TAPCONV_NO_DEVICE,
                            "device is cuda:%" PRId32 ", %s of compute capability %d.%d; it must be 8.0 or later",
                            device, card->name, (int)card->major, (int)card->minor);
    return status;
}

/* `*total` += bytes, rounded up; 0 on overflow. */
static int reserve(size_t *total, size_t bytes)
{
    if (bytes > SIZE_MAX / 4 || *total > SIZE_MAX / 4) return 0;
    *total += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return 1;
}

static int lay_workspace(cuda_plan *plan)
{
    const tapconv_shape *s = &plan->shape;
    size_t scratch = s->y_elements > 0 ? plan->family->workspace_bytes(s, &plan->card) : 0;
    if (s->p.norm_groups > 0 && s->y_elements > 0) {
        const size_t norm = tapconv_cuda_norm_workspace_bytes(s, &plan->card);
        if (norm > scratch) scratch = norm;
        if ((uint64_t)s->y_elements > SIZE_MAX / 8 ||
            !reserve(&plan->scratch_at, (size_t)s->y_elements * sizeof(float)))
            return 0;
    }
    size_t total = plan->scratch_at;
    if (!reserve(&total, scratch)) return 0;
    plan->workspace_bytes = total > 0 ? total + ALIGNMENT - 1 : 0; /* room to align */
    return 1;
}

static void describe_launch(cuda_plan *plan)
{
    int before = 0;
    if (plan->shape.y_elements == 0) return;
    const int there = plan->card.device >= 0 && tapconv_cuda_enter(plan->card.device, &before) == TAPCONV_OK;
    plan->family->describe(&plan->shape, &plan->card, &plan->launch);
    if (there) tapconv_cuda_leave(plan->card.device, before);
}

static tapconv_status plan_cuda(void **made, const tapconv_shape *shape, const tapconv_plan_options *options)
{
    if (shape->p.math == TAPCONV_MATH_F64)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "math is f64 and device cuda; it must be f32, tf32, f16 or bf16: f64 runs on the cpu");
    tapconv_cuda_card card;
    tapconv_status status = find_card(options, &card, NULL);
    if (status != TAPCONV_OK) return status;
    const tapconv_cuda_family *family;
    const char *reason;
    status = tapconv_cuda_select(shape, &card, options->kernel, &family, &reason);
    if (status != TAPCONV_OK) return status;

    cuda_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return tapconv_fail(TAPCONV_OUT_OF_MEMORY, "no memory for a plan of %zu bytes", sizeof *plan);
    plan->shape = *shape;
    plan->card = card;
    plan->family = family;
    plan->packed_at = tapconv_cuda_packed_at(shape, family);
    snprintf(plan->kernel, sizeof plan->kernel, "%s/sm_%d%d", family->name, (int)card.major, (int)card.minor);
    snprintf(plan->reason, sizeof plan->reason, "%s", reason);
    describe_launch(plan);
    if (!lay_workspace(plan)) {
        free(plan);
        return tapconv_fail(TAPCONV_OUT_OF_MEMORY, "the workspace would have more bytes than there are addresses");
    }
    *made = plan;
    return TAPCONV_OK;
}

static void info(const void *made, tapconv_plan_info *info)
{
    const cuda_plan *plan = made;
    const tapconv_cuda_launch_info *l = &plan->launch;
    info->kernel = plan->kernel;
    info->reason = plan->reason;
    info->workspace_bytes = plan->workspace_bytes;
    info->device = plan->card.name;
    info->tile = l->tile;
    info->blocks = l->blocks;
    info->block_threads = l->threads;
    info->registers = l->registers;
    info->shared_bytes = l->shared_bytes;
    info->blocks_per_multiprocessor = l->blocks_per_multiprocessor;
    if (l->blocks_per_multiprocessor > 0)
        info->waves = (double)l->blocks / ((double)l->blocks_per_multiprocessor * (double)plan->card.multiprocessors);
}

static size_t packed_bytes(const void *made)
{
    const cuda_plan *plan = made;
    return tapconv_cuda_packed_bytes(&plan->shape);
}

/* -------------------------------------------------------------------------------------------------------- executing */

static tapconv_status pack(const void *made, const void *w, void *packed, void *stream)
{
    const cuda_plan *plan = made;
    int before = 0;
    tapconv_status status = enter(plan, &before);
    if (status != TAPCONV_OK) return status;
    const cudaError_t error = tapconv_cuda_pack(&plan->shape, &plan->card, w, packed, (cudaStream_t)stream);
    status = tapconv_cuda_check(error, plan->card.device, "packing weights");
    tapconv_cuda_leave(plan->card.device, before);
    return status;
}

static cudaError_t enqueue(const void *made, const tapconv_arrays *arrays, cudaStream_t stream)
{
    const cuda_plan *plan = made;
    const tapconv_problem *p = &plan->shape.p;
    const int norm = p->norm_groups > 0;
    char *workspace = arrays->workspace;
    if (workspace) workspace += (ALIGNMENT - (uintptr_t)workspace % ALIGNMENT) % ALIGNMENT;
    const tapconv_cuda_conv conv = {
        .x = arrays->x,
        .packed = (const char *)arrays->packed_weights + plan->packed_at,
        .bias = arrays->bias,
        .out = norm ? workspace : arrays->y,
        .out_type = norm ? TAPCONV_F32 : p->type,
        .out_layout = norm ? TAPCONV_NCL : p->layout,
        .activation = norm ? TAPCONV_ACT_NONE : p->activation,
        .workspace = workspace ? workspace + plan->scratch_at : NULL,
    };
    const cudaError_t error = plan->family->launch(&plan->shape, &plan->card, &conv, stream);
    if (error != cudaSuccess || !norm) return error;
    const tapconv_cuda_norm rest = {
        .conv = conv.out, .gamma = arrays->gamma, .beta = arrays->beta, .y = arrays->y, .workspace = conv.workspace};
    return tapconv_cuda_norm_launch(&plan->shape, &plan->card, &rest, stream);
}

static tapconv_status execute(const void *made, const tapconv_arrays *arrays)
{
    const cuda_plan *plan = made;
    int before = 0;
    tapconv_status status = enter(plan, &before);
    if (status != TAPCONV_OK) return status;
    const cudaError_t error = enqueue(plan, arrays, (cudaStream_t)arrays->stream);
    status = tapconv_cuda_check(error, plan->card.device, plan->kernel);
    tapconv_cuda_leave(plan->card.device, before);
    return status;
}

static tapconv_status time_executes(const void *made, const tapconv_arrays *arrays, int32_t sets, uint32_t flags,
                                    int32_t executes, double *seconds, int32_t samples)
{
    const cuda_plan *plan = made;
    int before = 0;
    tapconv_status status = enter(plan, &before);
    if (status != TAPCONV_OK) return status;
    const tapconv_cuda_timing timing = {.enqueue = enqueue,
                                        .context = plan,
                                        .arrays = arrays,
                                        .sets = sets,
                                        .flags = flags,
                                        .executes = executes,
                                        .samples = samples,
                                        .l2_bytes = plan->card.l2_bytes};
    if (plan->shape.y_elements == 0)
        for (int32_t i = 0; i < samples; i++) seconds[i] = 0;
    else
        status = tapconv_cuda_check(tapconv_cuda_time(&timing, seconds), plan->card.device, "timing");
    tapconv_cuda_leave(plan->card.device, before);
    return status;
}

static tapconv_status ceilings(const tapconv_plan_options *options, tapconv_math math, tapconv_ceilings *ceilings)
{
    tapconv_cuda_card card;
    tapconv_cuda_rates rates;
    if (math == TAPCONV_MATH_F64)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "math is f64; it must be another for cuda: f64 runs on the cpu");
    tapconv_status status = find_card(options, &card, &rates);
    if (status != TAPCONV_OK) return status;
    if (card.device >= 0) {
        int before = 0;
        status = tapconv_cuda_enter(card.device, &before);
        if (status != TAPCONV_OK) return status;
        status = tapconv_cuda_check(tapconv_cuda_measure(&card, math, &rates), card.device, "measuring its ceilings");
        tapconv_cuda_leave(card.device, before);
        if (status != TAPCONV_OK) return status;
    }
    *ceilings = tapconv_cuda_ceilings_of(&rates, math);
    ceilings->measured = card.device >= 0;
    return TAPCONV_OK;
}

static const tapconv_engine engine = {
    .table_bytes = sizeof engine,
    .version = TAPCONV_VERSION_TEXT,
    .packs_on_host = 0,
    .packed_alignment = ALIGNMENT,
    .plan = plan_cuda,
    .destroy = free,
    .info = info,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .execute = execute,
    .kernel_name = tapconv_cuda_family_name,
    .ceilings = ceilings,
    .card_name = tapconv_cuda_card_name,
    .count = tapconv_cuda_count,
    .describe = tapconv_cuda_describe,
    .allocate = tapconv_cuda_allocate,
    .release = tapconv_cuda_release,
    .upload = tapconv_cuda_upload,
    .download = tapconv_cuda_download,
    .fill = tapconv_cuda_fill,
    .synchronize = tapconv_cuda_synchronize,
    .time = time_executes,
};

tapconv_cuda_entry tapconv_cuda_engine_entry;

__attribute__((visibility("default"))) const tapconv_engine *
tapconv_cuda_engine_entry(void (*keep_sentence)(const char *sentence))
{
    keep = keep_sentence;
    return &engine;
}
