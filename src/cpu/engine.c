/* Planning on the CPU: instruction set, kernel family, workspace. */
#include "engine.h"
#include "cpu/blocksizes.h"
#include "cpu/cpu.h"
#include "cpu/parallel.h"
#include "error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tapconv_family *const families[] = {&tapconv_depthwise, &tapconv_dense_window, &tapconv_dense_panel};
#define FAMILIES (sizeof families / sizeof families[0])

static const char *kernel_name(int32_t index)
{
    return index >= 0 && (size_t)index < FAMILIES ? families[index]->name : NULL;
}

/* The family for a problem and why, best first. All keep to one order of sums, so this decides speed and not bits. */
static const tapconv_family *choose_family(const tapconv_shape *s, const tapconv_real_kernels *real, const char **why)
{
    const tapconv_problem *p = &s->p;
    const int64_t lanes = real->lanes;
    const double reach = (double)(p->kernel_size - 1) * (double)p->dilation / (double)p->stride;
    if (s->group_in == 1 && s->group_out <= 2 && p->groups > 1) {
        *why = "each output channel reads one input channel";
        return &tapconv_depthwise;
    }
    /* Register tiles of 4 rows leave streamed rows in parts of cache lines. */
    if (s->group_in == 1 && p->stride == 1 && p->kernel_size <= TAPCONV_ROW_TAPS && real->row[p->kernel_size - 1] &&
        real->rows < TAPCONV_BLOCK && s->out_length >= TAPCONV_TILE_COLUMNS &&
        (double)p->length * real->bytes <= TAPCONV_ROW_BYTES) {
        *why = "each output channel is one pass over the input channel";
        return &tapconv_depthwise;
    }
    if (tapconv_dense_merges(s, lanes)) {
        *why = "short items lie side by side in a panel, so that register tiles are full";
        return &tapconv_dense_panel;
    }
    if (s->out_length > lanes / 2 && s->out_length <= lanes) {
        *why = "an item is one vector wide: in a panel its loads are aligned";
        return &tapconv_dense_panel;
    }
    const double columns = (double)tapconv_min(s->out_length, TAPCONV_TILE_COLUMNS);
    const double phases = (double)tapconv_min(p->stride, p->kernel_size);
    if (phases * (columns + reach) <= (double)p->kernel_size * columns * 1.25 + 1024) {
        *why = "one staged window of the input serves all taps";
        return &tapconv_dense_window;
    }
    *why = "the receptive field is much longer than a tile, so that each tap is staged apart";
    return &tapconv_dense_panel;
}

static int use_threads(const tapconv_shape *s, int wanted)
{
    const double flops = 2 * (double)s->y_elements * (double)s->sum_length + 30 * (double)s->y_elements;
    const double useful = flops / TAPCONV_THREAD_FLOPS;
    if (useful < 2) return 1;
    return useful < wanted ? (int)useful : wanted;
}

/* `*total` += bytes, rounded up to whole cache lines; 0 on overflow. */
static int reserve(size_t *total, size_t *at, double bytes)
{
    *at = *total;
    if (bytes > 0x1p62 || (double)*total + bytes > 0x1p62) return 0;
    *total += ((size_t)bytes + 63) / 64 * 64;
    return 1;
}

static int lay_workspace(tapconv_cpu_plan *plan)
{
    const tapconv_shape *s = &plan->shape;
    const double channels = (double)s->p.out_channels;
    const double waiting = s->p.norm_groups > 0 && !plan->conv_in_y ? (double)plan->wave * (double)s->out_length : 0;
    const double pairs = s->p.norm_groups > 0 ? (double)(plan->wave / s->norm_size) : 0;
    size_t total = 0;
    plan->thread_bytes = (plan->thread_bytes + 127) / 64 * 64; /* threads never share a line */
    const int fits = reserve(&total, &plan->conv_at, waiting * plan->real->bytes) &&
                     reserve(&total, &plan->moments_at, pairs * (double)plan->group_blocks * sizeof(tapconv_moments)) &&
                     reserve(&total, &plan->bias_at, s->p.has_bias ? channels * plan->real->bytes : 0) &&
                     reserve(&total, &plan->params_at, channels * 3 * sizeof(double)) &&
                     reserve(&total, &plan->thread_at, (double)plan->thread_bytes * plan->threads);
    plan->workspace_bytes = total + 63; /* room to align */
    return fits;
}

static void destroy(void *made)
{
    tapconv_cpu_plan *plan = made;
    free(plan->phase);
    free(plan->offset);
    free(plan);
}

/* Tries a family; what a failed try has allocated is given back. */
static int lay_out(tapconv_cpu_plan *plan, const tapconv_family *family)
{
    const int made = family->layout(plan);
    plan->family = family;
    if (made != 1) {
        free(plan->phase);
        free(plan->offset);
        plan->phase = NULL, plan->offset = NULL;
    }
    return made;
}

/* `family` was forced and does not take the problem: the sentence says what it takes. */
static tapconv_status refuse_family(const tapconv_family *family)
{
    char takes[160];
    if (family == &tapconv_depthwise)
        snprintf(takes, sizeof takes, "in_channels/groups 1, stride up to %d and dilation*(kernel_size-1) up to %d",
                 TAPCONV_TILE_COLUMNS, TAPCONV_LONGEST_LINE);
    else
        snprintf(takes, sizeof takes, "stride up to %d, kernel_size up to %d and windows that 32 bits can count",
                 TAPCONV_TILE_COLUMNS, TAPCONV_MOST_TABLE_TAPS);
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "kernel is \"%s\", which takes %s; \"%s\" takes every problem",
                        family->name, takes, tapconv_dense_panel.name);
}

static tapconv_status choose(tapconv_cpu_plan *plan, const tapconv_plan_options *options)
{
    const char *why = "";
    const tapconv_family *family = choose_family(&plan->shape, plan->real, &why);
    if (options->kernel) {
        family = NULL;
        for (size_t i = 0; i < FAMILIES; i++)
            if (strcmp(options->kernel, families[i]->name) == 0) family = families[i];
        if (!family) {
            char names[96] = "";
            for (size_t i = 0; i < FAMILIES; i++)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s\"%s\"", i > 0 ? ", " : "",
                         families[i]->name);
            return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "kernel is \"%.40s\"; it must be one of %s", options->kernel,
                                names);
        }
        why = "asked for by name";
    }
    int made = lay_out(plan, family);
    if (made == 0 && options->kernel) return refuse_family(family);
    if (made == 0) {
        why = "the general kernel: the sizes are beyond the others";
        made = lay_out(plan, &tapconv_dense_panel);
    }
    if (made != 1) return tapconv_fail(TAPCONV_OUT_OF_MEMORY, "no memory for the plan's tables");
    snprintf(plan->kernel, sizeof plan->kernel, "%s/%s", plan->family->name, tapconv_isa_name(plan->isa->bit));
    snprintf(plan->reason, sizeof plan->reason, "%s; %s is the widest instruction set allowed", why,
             tapconv_isa_name(plan->isa->bit));
    return TAPCONV_OK;
}

static tapconv_status choose_isa(const tapconv_plan_options *options, const tapconv_isa **isa)
{
    *isa = tapconv_isa_choose(options->isa_mask);
    if (*isa) return TAPCONV_OK;
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                        "isa_mask is 0x%" PRIx32 "; it must have a bit of tapconv_cpu_features, 0x%" PRIx32,
                        options->isa_mask, tapconv_cpu_features());
}

static tapconv_status plan_cpu(void **made, const tapconv_shape *shape, const tapconv_plan_options *options)
{
    const tapconv_isa *isa;
    tapconv_status status = choose_isa(options, &isa);
    if (status != TAPCONV_OK) return status;
    tapconv_cpu_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return tapconv_fail(TAPCONV_OUT_OF_MEMORY, "no memory for a plan of %zu bytes", sizeof *plan);
    const tapconv_problem *p = &shape->p;
    const int wide = p->math == TAPCONV_MATH_F64;
    plan->shape = *shape;
    plan->isa = isa;
    plan->real = isa->real[wide];
    plan->tile_items = 1;
    plan->threads = use_threads(shape, options->threads ? options->threads : tapconv_default_threads());
    const int plain = p->type == (wide ? TAPCONV_F64 : TAPCONV_F32) && p->layout == TAPCONV_NCL;
    plan->stream = plain && shape->sum_length <= TAPCONV_STREAM_TERMS &&
                   (shape->out_length % plan->real->lanes == 0 || shape->out_length >= TAPCONV_STREAM_ROW) &&
                   (double)shape->y_elements * plan->real->bytes > TAPCONV_STREAM_BYTES;
    /* Streamed after GroupNorm, y does not need to be fetched if the convolution's result waits elsewhere. */
    plan->conv_in_y = plain && !(p->norm_groups > 0 && plan->stream);
    plan->direct = p->norm_groups > 0 || (plain && p->activation == TAPCONV_ACT_NONE);
    status = choose(plan, options);
    if (status == TAPCONV_OK) {
        tapconv_norm_layout(plan);
        if (!lay_workspace(plan))
            status =
                tapconv_fail(TAPCONV_OUT_OF_MEMORY, "the workspace would have more bytes than there are addresses");
    }
    if (status != TAPCONV_OK) {
        destroy(plan);
        return status;
    }
    *made = plan;
    return TAPCONV_OK;
}

static void info(const void *made, tapconv_plan_info *info)
{
    const tapconv_cpu_plan *plan = made;
    info->kernel = plan->kernel;
    info->reason = plan->reason;
    info->isa = tapconv_isa_name(plan->isa->bit);
    info->workspace_bytes = plan->workspace_bytes;
    info->threads = plan->threads;
}

static size_t packed_bytes(const void *made)
{
    const tapconv_cpu_plan *plan = made;
    return tapconv_packed_elements(&plan->shape) * (size_t)plan->real->bytes;
}

static tapconv_status pack(const void *made, const void *w, void *packed, void *stream)
{
    (void)stream;
    tapconv_pack(made, w, packed);
    return TAPCONV_OK;
}

static tapconv_status execute(const void *made, const tapconv_arrays *arrays)
{
    tapconv_cpu_execute(made, arrays);
    return TAPCONV_OK;
}

const tapconv_engine tapconv_cpu_engine = {
    .table_bytes = sizeof(tapconv_engine),
    .version = TAPCONV_VERSION_TEXT,
    .packs_on_host = 1,
    .packed_alignment = 8,
    .plan = plan_cpu,
    .destroy = destroy,
    .info = info,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .execute = execute,
    .kernel_name = kernel_name,
    .ceilings = tapconv_cpu_ceilings,
};
