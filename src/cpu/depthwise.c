/* Depthwise convolution: each output channel reads one input channel, so the work is that of a copy with arithmetic on the
 * way. A unit is a stretch of one output row; register tiles of one row and many vectors slide over it. Where the
 * samples under a tile lie in the caller's array as they are wanted (float32, NCL, stride 1, no padding in reach), they
 * are read from there; otherwise the stretch is staged in L1 first, by phases of the stride. */
#include "cpu/blocksizes.h"
#include "cpu/cpu.h"
#include "cpu/slabs.h"

#include <stdlib.h>

static int layout(tapconv_cpu_plan *plan)
{
    const tapconv_shape *s = &plan->shape;
    const tapconv_problem *p = &s->p;
    const int64_t reach = (p->kernel_size - 1) * p->dilation;
    if (s->group_in != 1 || s->group_out > 2 || reach > TAPCONV_LONGEST_LINE || p->stride > TAPCONV_TILE_COLUMNS) return 0;
    if (!tapconv_plan_phases(plan)) return -1;
    plan->columns = TAPCONV_DEPTHWISE_COLUMNS;
    plan->tiles = tapconv_ceil_div(s->out_length, plan->columns);
    plan->row = plan->columns + reach / p->stride + 1 + TAPCONV_OVERREAD;
    plan->line = p->stride > 1 ? plan->row * p->stride : 0;
    plan->acc_row = plan->columns + TAPCONV_OVERREAD;
    plan->stage_elements = plan->phases * plan->row;
    plan->chunk_terms = p->kernel_size;
    plan->thread_bytes = (size_t)((plan->stage_elements + plan->line + plan->acc_row) * plan->real->bytes);
    plan->offset = malloc((size_t)p->kernel_size * sizeof plan->offset[0]);
    if (!plan->offset) return -1;
    for (int64_t k = 0; k < p->kernel_size; k++) plan->offset[k] = (int32_t)tapconv_phase_offset(plan, k);
    return 1;
}

static int64_t units(const tapconv_cpu_plan *plan, tapconv_span span, int team)
{
    (void)team;
    return (span.end - span.first) * plan->tiles;
}

/* Where the caller's samples serve as they are: same type, no rounding, unit stride. */
static int readable(const tapconv_cpu_plan *plan)
{
    const tapconv_problem *p = &plan->shape.p;
    const tapconv_type real = plan->real->bytes == 8 ? TAPCONV_F64 : TAPCONV_F32;
    return p->type == real && p->layout == TAPCONV_NCL && p->stride == 1 &&
           (p->math == TAPCONV_MATH_F32 || p->math == TAPCONV_MATH_F64);
}

static const char *samples_under(const tapconv_job *job, int64_t item, int64_t channel, int64_t time, int64_t columns,
                                 char *stage)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t bytes = plan->real->bytes, lanes = plan->real->lanes;
    const int64_t reach = (p->kernel_size - 1) * p->dilation / p->stride;
    const int64_t start = time * p->stride - p->padding_left;
    const int64_t count = tapconv_round_up(columns, lanes) + reach + (p->stride > 1);
    if (readable(plan) && start >= 0 && start + count <= p->length)
        return (const char *)job->arrays->x + ((item * p->in_channels + channel) * p->length + start) * bytes;
    if (p->stride == 1) {
        tapconv_stage(job, stage, item, channel, start, 1, count);
    } else {
        char *const line = stage + plan->stage_elements * bytes;
        tapconv_stage(job, line, item, channel, start, 1, count * p->stride);
        plan->real->phases(stage, plan->row, line, plan->phase, plan->phases, p->stride, count);
    }
    return stage;
}

static void compute_stretch(const tapconv_job *job, tapconv_span span, int64_t item, int64_t channel, int64_t time,
                            char *stage, char *acc)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_real_kernels *real = plan->real;
    const int64_t bytes = real->bytes, lanes = real->lanes, taps = plan->shape.p.kernel_size;
    const int64_t columns = tapconv_min(plan->columns, plan->shape.out_length - time);
    const char *const x = samples_under(job, item, channel / plan->shape.group_out, time, columns, stage);
    int64_t w_step;
    const char *const w = tapconv_packed_channel(plan, job->arrays->packed_weights, channel, &w_step);
    char *const out = plan->direct ? tapconv_conv_at(job, span, item, channel, time) : acc;
    int most = TAPCONV_MOST_VECTORS;
    while (!real->tile[0][most - 1]) most--;

    for (int64_t from = 0; from < columns; from += most * lanes) {
        const int64_t width = tapconv_min(columns - from, most * lanes);
        tapconv_tile tile = {.x = x + from * bytes, .w_step = w_step, .columns = width};
        const tapconv_tile_kernel kernel = real->tile[0][tapconv_ceil_div(width, lanes) - 1];
        for (int64_t term = 0; term < taps;) {
            const int64_t end = tapconv_slab_end(taps, term, taps);
            tile.offset = plan->offset + term;
            tile.w = w + term * w_step * bytes;
            tile.steps = end - term;
            tile.partial = term > 0 ? acc + from * bytes : NULL;
            tile.out = (end < taps ? acc : out) + from * bytes;
            tile.bias = end == taps && plan->direct && job->bias ? (const char *)job->bias + channel * bytes : NULL;
            kernel(&tile);
            term = end;
        }
    }
    if (!plan->direct) tapconv_emit_conv(job, span, item, channel, time, (tapconv_emit){.src = acc, .rows = 1, .count = columns});
}

static void compute(const tapconv_job *job, tapconv_span span, int team, int64_t first, int64_t end, void *scratch)
{
    (void)team;
    const tapconv_cpu_plan *plan = job->plan;
    char *const stage = scratch;
    char *const acc = stage + (plan->stage_elements + plan->line) * plan->real->bytes;
    for (int64_t index = first; index < end; index++) {
        const int64_t flat = span.first + index / plan->tiles, channels = plan->shape.p.out_channels;
        compute_stretch(job, span, flat / channels, flat % channels, index % plan->tiles * plan->columns, stage, acc);
    }
}

const tapconv_family tapconv_depthwise = {"depthwise", layout, units, compute};
