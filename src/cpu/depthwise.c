/* Depthwise convolution: each output channel reads one input channel, so the work is that of a copy with arithmetic on the
 * way. A unit is one output row. Where samples lie in the caller's array as they are wanted (no conversion, NCL, stride 1,
 * no padding in reach), they are read from there; otherwise they are staged in L1 first, by phases of the stride: a
 * stretch at a time if none can be read in place, else just the row's ends. Few taps go through the row kernel, more
 * through register tiles of one row and many vectors. Several output channels of one input channel (first layers) pass
 * over it one after the other. */
#include "cpu/blocksizes.h"
#include "cpu/cpu.h"
#include "cpu/slabs.h"

#include <stdlib.h>

/* Where the caller's samples serve as they are: same type, no rounding, unit stride. */
static int readable(const tapconv_cpu_plan *plan)
{
    const tapconv_problem *p = &plan->shape.p;
    const tapconv_type real = plan->real->bytes == 8 ? TAPCONV_F64 : TAPCONV_F32;
    return p->type == real && p->layout == TAPCONV_NCL && p->stride == 1 &&
           (p->math == TAPCONV_MATH_F32 || p->math == TAPCONV_MATH_F64);
}

static int64_t most_vectors(const tapconv_real_kernels *real)
{
    int64_t most = TAPCONV_MOST_VECTORS;
    while (!real->tile[0][most - 1]) most--;
    return most;
}

/* The kernel for few taps, if there is one. */
static tapconv_tile_kernel row_kernel(const tapconv_cpu_plan *plan)
{
    const int64_t taps = plan->shape.p.kernel_size;
    return taps <= TAPCONV_MOST_ROW_TAPS ? plan->real->row[taps - 1] : NULL;
}

static int64_t x_index(const tapconv_cpu_plan *plan, int64_t item, int64_t channel, int64_t time)
{
    const tapconv_problem *p = &plan->shape.p;
    return (item * p->in_channels + channel) * p->length + time - p->padding_left;
}

static int layout(tapconv_cpu_plan *plan)
{
    const tapconv_shape *s = &plan->shape;
    const tapconv_problem *p = &s->p;
    const int64_t reach = (p->kernel_size - 1) * p->dilation;
    if (s->group_in != 1 || reach > TAPCONV_LONGEST_LINE || p->stride > TAPCONV_TILE_COLUMNS) return 0;
    if (!tapconv_plan_phases(plan)) return -1;
    const int64_t tile = most_vectors(plan->real) * plan->real->lanes;
    plan->columns = readable(plan) ? tile : TAPCONV_DEPTHWISE_COLUMNS;
    plan->row = tapconv_round_up(plan->columns + reach / p->stride + 1, 64) + 2 * TAPCONV_OVERREAD;
    plan->line = p->stride > 1 ? (plan->row + TAPCONV_OVERREAD) * p->stride : 0;
    plan->stage_elements = plan->phases * plan->row;
    plan->chunk_terms = p->kernel_size;
    const int64_t acc = plan->columns + TAPCONV_DEPTHWISE_COLUMNS + TAPCONV_OVERREAD; /* partial sums, results */
    plan->thread_bytes = (size_t)((plan->stage_elements + plan->line + acc) * plan->real->bytes) + 64;
    plan->offset = malloc((size_t)p->kernel_size * sizeof plan->offset[0]);
    if (!plan->offset) return -1;
    for (int64_t k = 0; k < p->kernel_size; k++) plan->offset[k] = (int32_t)tapconv_phase_offset(plan, k);
    return 1;
}

static int64_t units(const tapconv_cpu_plan *plan, tapconv_span span, int team)
{
    (void)team;
    (void)plan;
    return span.end - span.first;
}

/* One output row. */
typedef struct row {
    int64_t item, channel, x_channel;
    const char *w;
    int64_t w_step;
    const void *bias; /* of the channel, if the kernels add it */
    char *stage, *line, *partial;
} row;

/* `columns` sums from x to out. */
static void compute_sums(const tapconv_cpu_plan *plan, const row *r, const char *x, char *out, int64_t columns,
                         int stream)
{
    const tapconv_real_kernels *real = plan->real;
    const int64_t bytes = real->bytes, taps = plan->shape.p.kernel_size;
    if (row_kernel(plan)) {
        const tapconv_tile tile = {.x = x,
                                   .offset = plan->offset,
                                   .w = r->w,
                                   .w_step = r->w_step,
                                   .steps = taps,
                                   .out = out,
                                   .bias = r->bias,
                                   .columns = columns,
                                   .stream = stream};
        row_kernel(plan)(&tile);
        return;
    }
    const int64_t widest = most_vectors(real) * real->lanes;
    for (int64_t from = 0; from < columns; from += widest) {
        const int64_t width = tapconv_min(columns - from, widest);
        tapconv_tile tile = {.x = x + from * bytes, .w_step = r->w_step, .columns = width};
        for (int64_t term = 0, end; term < taps; term = end) {
            end = tapconv_slab_end(taps, term, taps);
            tile.offset = plan->offset + term;
            tile.w = r->w + term * r->w_step * bytes;
            tile.steps = end - term;
            tile.partial = term > 0 ? r->partial : NULL;
            tile.out = end < taps ? r->partial : out + from * bytes;
            tile.bias = end < taps ? NULL : r->bias;
            tile.stream = end == taps && stream;
            real->tile[0][tapconv_ceil_div(width, real->lanes) - 1](&tile);
        }
    }
}

/* Input under `columns` outputs from `time` on, staged. */
static const char *staged(const tapconv_job *job, const row *r, int64_t time, int64_t columns)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t start = time * p->stride - p->padding_left;
    const int64_t reach = (p->kernel_size - 1) * p->dilation / p->stride;
    const int64_t count = tapconv_round_up(columns, plan->real->lanes) + reach + (p->stride > 1);
    if (p->stride == 1) {
        tapconv_stage(job, r->stage, r->item, r->x_channel, start, 1, count);
    } else {
        tapconv_stage(job, r->line, r->item, r->x_channel, start, 1, count * p->stride);
        plan->real->phases(r->stage, plan->row, r->line, plan->phase, plan->phases, p->stride, count);
    }
    return r->stage;
}

/* The outputs [*first, *end) whose input may be read in place, in whole vectors from `from` on: no padding in reach, and
 * the vectors that kernels read around it inside the caller's array. */
static void in_place(const tapconv_job *job, const row *r, int64_t from, int64_t *first, int64_t *end)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t lanes = plan->real->lanes, reach = (p->kernel_size - 1) * p->dilation;
    const int64_t before = (r->item * p->in_channels + r->x_channel) * p->length; /* samples of earlier rows */
    *first = *end = from;
    if (!readable(plan)) return;
    /* Output t reads samples t - L to t - L + reach of the row, and up to a vector before and three after them. */
    const int64_t low = tapconv_max(p->padding_left, p->padding_left + lanes - before);
    const int64_t high = tapconv_min(p->length, plan->shape.x_elements - before - 3 * lanes) + p->padding_left - reach;
    *first = tapconv_max(from, from + tapconv_round_up(low - from, lanes));
    *end = tapconv_min(plan->shape.out_length, high);
    if (*end > *first) *end -= (*end - *first) % lanes;
    if (*end <= *first) *first = *end = from;
}

/* Outputs [from, end) of a row to out. */
static void compute_stretch(const tapconv_job *job, const row *r, int64_t from, int64_t end, char *out, int stream)
{
    const tapconv_cpu_plan *plan = job->plan;
    const int64_t bytes = plan->real->bytes;
    int64_t first, last;
    in_place(job, r, from, &first, &last);
    for (int64_t at = from, width; at < end; at += width) {
        const int here = at >= first && at < last;
        const int64_t stop = tapconv_min(end, here ? last : at < first ? first : end);
        width = here ? stop - at : tapconv_min(stop - at, plan->columns);
        const char *const x = here ? (const char *)job->arrays->x + x_index(plan, r->item, r->x_channel, at) * bytes
                                   : staged(job, r, at, width);
        compute_sums(plan, r, x, out + (at - from) * bytes, width, stream);
    }
}

/* The input of the next stretch, of this row or the next, if there are `count` samples of it. */
static const void *wanted_next(const tapconv_job *job, const row *r, int64_t time, int64_t count)
{
    const tapconv_cpu_plan *plan = job->plan;
    const int64_t start = tapconv_max(x_index(plan, r->item, r->x_channel, time), 0);
    if (start + count > plan->shape.x_elements) return NULL;
    return (const char *)job->arrays->x + start * plan->real->bytes;
}

/* How many outputs of a row at `out` come before its first whole cache line; -1 where it is not to be streamed. A part of a
 * line would be written to memory alone. */
static int64_t line_head(const tapconv_cpu_plan *plan, const char *out)
{
    const int64_t line = 64 / plan->real->bytes;
    if (tapconv_stream_head(plan, out, 1) < 0) return -1;
    return (line - (int64_t)((uintptr_t)out / (uintptr_t)plan->real->bytes % (uintptr_t)line)) % line;
}

static void compute_row(const tapconv_job *job, tapconv_span span, int64_t flat, char *scratch)
{
    const tapconv_cpu_plan *plan = job->plan;
    const int64_t bytes = plan->real->bytes, length = plan->shape.out_length, channels = plan->shape.p.out_channels;
    row r = {.item = flat / channels, .channel = flat % channels};
    r.x_channel = r.channel / plan->shape.group_out;
    r.w = tapconv_packed_channel(plan, job->arrays->packed_weights, r.channel, &r.w_step);
    r.stage = tapconv_aligned(scratch);
    r.line = r.stage + plan->stage_elements * bytes;
    r.partial = r.line + plan->line * bytes;
    if (plan->direct) {
        if (job->bias) r.bias = (const char *)job->bias + r.channel * bytes;
        char *const result = tapconv_conv_at(job, span, r.item, r.channel, 0);
        const int64_t head = tapconv_min(length, line_head(plan, result));
        const int64_t first = tapconv_max(head, 0), last = head < 0 ? 0 : length - (length - first) % (64 / bytes);
        if (first > 0) compute_stretch(job, &r, 0, first, result, 0);
        if (first < last) compute_stretch(job, &r, first, last, result + first * bytes, 1);
        if (last < length) compute_stretch(job, &r, last, length, result + last * bytes, 0);
        return;
    }
    char *const acc = r.partial + plan->columns * bytes;
    for (int64_t from = 0, end; from < length; from = end) {
        end = tapconv_min(length, from + TAPCONV_DEPTHWISE_COLUMNS);
        compute_stretch(job, &r, from, end, acc, 0);
        tapconv_emit emit = {.src = acc, .rows = 1, .count = end - from};
        if (readable(plan)) emit.fetch = wanted_next(job, &r, end, end - from);
        tapconv_emit_conv(job, span, r.item, r.channel, from, emit);
    }
}

static void compute(const tapconv_job *job, tapconv_span span, int team, int64_t first, int64_t end, void *scratch)
{
    (void)team;
    for (int64_t index = first; index < end; index++) compute_row(job, span, span.first + index, scratch);
}

const tapconv_family tapconv_depthwise = {"depthwise", layout, units, compute};
