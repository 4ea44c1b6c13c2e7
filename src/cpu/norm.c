/* GroupNorm and activation of a wave whose convolution has just been written: statistics of blocks of whole rows by two
 * looks, merged in order (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", 1979), then one pass that normalises, activates and writes y. The blocks depend on the layer and T_out
 * alone, so the bits depend on nothing else. */
#include "cpu/blocksizes.h"
#include "cpu/cpu.h"
#include "cpu/parallel.h"

#include <math.h>

/* A block has about this many values at least, and a group about MOST_BLOCKS blocks: few enough to merge anew for each. */
#define LEAST_VALUES 1024
#define MOST_BLOCKS 16

void tapconv_norm_layout(tapconv_cpu_plan *plan)
{
    const tapconv_shape *s = &plan->shape;
    const int64_t channels = s->p.out_channels;
    if (s->p.norm_groups == 0) {
        plan->wave = channels * tapconv_max(s->p.batch, 1);
        return;
    }
    plan->block_rows = tapconv_min(s->norm_size, tapconv_max(tapconv_ceil_div(LEAST_VALUES, s->out_length),
                                                             tapconv_ceil_div(s->norm_size, MOST_BLOCKS)));
    plan->group_blocks = tapconv_ceil_div(s->norm_size, plan->block_rows);

    /* Results should still be in L2 when they are finished, and every thread should have work. */
    const double row_bytes = (double)s->out_length * plan->real->bytes;
    const double budget = (double)TAPCONV_WAVE_BYTES * plan->threads;
    const double item_bytes = row_bytes * (double)channels;
    if (item_bytes > budget && s->sum_length <= TAPCONV_CHEAP_TERMS && plan->tile_items == 1) {
        /* A few groups of an item at a time. Waves may not cross items: norm_groups per wave divides evenly into them
         * in run.c. */
        const double cheap_budget = (double)TAPCONV_CHEAP_WAVE_BYTES * plan->threads;
        const int64_t groups = (int64_t)(cheap_budget / (row_bytes * (double)s->norm_size));
        plan->wave = tapconv_min(s->p.norm_groups, tapconv_max(groups, 1)) * s->norm_size;
    } else {
        int64_t items = item_bytes >= budget ? 1 : (int64_t)(budget / item_bytes);
        items = tapconv_round_up(tapconv_max(items, plan->threads), plan->tile_items);
        plan->wave = tapconv_max(tapconv_min(items, s->p.batch), 1) * channels;
    }
}

/* The work of a wave, by (group of an item, block of rows of the group). */
typedef struct block {
    int64_t pair; /* of the span */
    int64_t item, channel, rows;
} block;

static block block_at(const tapconv_cpu_plan *plan, tapconv_span span, int64_t index)
{
    const tapconv_shape *s = &plan->shape;
    const int64_t pair = index / plan->group_blocks, row = index % plan->group_blocks * plan->block_rows;
    const int64_t flat = span.first + pair * s->norm_size + row;
    return (block){.pair = pair,
                   .item = flat / s->p.out_channels,
                   .channel = flat % s->p.out_channels,
                   .rows = tapconv_min(plan->block_rows, s->norm_size - row)};
}

static tapconv_moments merge(tapconv_moments a, tapconv_moments b)
{
    const double count = a.count + b.count, distance = b.mean - a.mean;
    return (tapconv_moments){
        .count = count,
        .mean = a.mean + distance * (b.count / count),
        .squares = a.squares + b.squares + distance * distance * (a.count * (b.count / count)),
    };
}

static void finish(const tapconv_job *job, tapconv_span span, const block *b, tapconv_moments group)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t length = plan->shape.out_length, channels = p->out_channels;
    const int ncl = p->layout == TAPCONV_NCL;
    const double spread = sqrt(group.squares / group.count + p->norm_eps);
    /* A group without any spread gives beta, with eps 0 too. */
    const double inverse = spread == 0 ? 0 : 1 / spread;
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t channel = b->channel + r;
        const double scale = job->gamma ? job->gamma[channel] * inverse : inverse;
        const double shift = job->beta ? job->beta[channel] : 0;
        const int64_t index = b->item * channels * length + (ncl ? channel * length : channel);
        const tapconv_emit emit = {
            .src = tapconv_conv_at(job, span, b->item, channel, 0),
            .dst = (char *)job->arrays->y + (size_t)index * tapconv_type_bytes(p->type),
            .dst_step = ncl ? 1 : channels,
            .type = p->type,
            .rows = 1,
            .count = length,
            .mean = group.mean,
            .scale = &scale,
            .shift = &shift,
            .activation = p->activation,
            .stream = plan->stream,
        };
        plan->real->emit(&emit);
    }
}

void tapconv_norm_wave(const tapconv_job *job, tapconv_span span, int thread, int team)
{
    const tapconv_cpu_plan *plan = job->plan;
    const int64_t length = plan->shape.out_length, group_blocks = plan->group_blocks;
    const int64_t blocks = (span.end - span.first) / plan->shape.norm_size * group_blocks;
    const int64_t first = blocks * thread / team, end = blocks * (thread + 1) / team;
    tapconv_moments *const moments = (tapconv_moments *)(void *)(job->workspace + plan->moments_at);
    for (int64_t i = first; i < end; i++) {
        const block b = block_at(plan, span, i);
        moments[i] = plan->real->moments(tapconv_conv_at(job, span, b.item, b.channel, 0), length, b.rows, length);
    }
    tapconv_barrier(team);
    for (int64_t i = first; i < end; i++) {
        const block b = block_at(plan, span, i);
        tapconv_moments group = moments[b.pair * group_blocks];
        for (int64_t j = 1; j < group_blocks; j++) group = merge(group, moments[b.pair * group_blocks + j]);
        finish(job, span, &b, group);
    }
}
