/* Dense and grouped convolution as an implicit matrix product, for any problem.
 *
 * A unit is a tile of samples (of one item, or of several short items side by side) x a part of a group's output
 * channels. Its input is staged once for all of them, a chunk of channels at a time if L2 cannot hold all:
 *
 *   window   a staged row is one phase of the stride of one channel, as long as the tile and its halo. A tap is an offset
 *            into the row: input is staged once, not once a tap.
 *   panel    a staged row is one tap of one channel (im2col). It takes everything; it is chosen where items are short
 *            and lie side by side, or where the halo is longer than the rows of all taps.
 *
 * A register tile, rows of output channels x samples (a piece), leaves the registers once a slab. What streams past it from
 * L2 depends on how much an instruction set's registers hold:
 *
 *   rows first      8 output channels at a time pass over all pieces: weights (8 x terms) stay in L1, staged input streams.
 *                   A tile of 8 rows asks little enough of L2 for that.
 *   samples first   all output channels pass over one piece before the next: a piece of staged input, one chunk deep, stays in
 *                   L1 and weights stream, an eighth of the bytes and in one stretch a block. For tiles of 4 rows,
 *                   which would ask twice as much staged input of L2 as it gives. Chunks are as deep as L1 holds. */
#include "cpu/dense.h"
#include "cpu/ahead.h"
#include "cpu/blocksizes.h"
#include "cpu/slabs.h"

#include <math.h>
#include <stdlib.h>

static int64_t columns_for(int64_t out_length, int64_t most, int64_t lanes)
{
    const int64_t tiles = tapconv_ceil_div(out_length, most);
    const int64_t even = tapconv_ceil_div(out_length, tiles);
    return tapconv_min(most, tapconv_round_up(even, even < 3 * lanes ? lanes : 3 * lanes));
}

/* Sets the length of a staged row for tiles of `columns`. The staged bytes of one channel, as a double: huge taps must not
 * overflow. */
static double set_row(tapconv_cpu_plan *plan, int64_t columns)
{
    const tapconv_problem *p = &plan->shape.p;
    plan->columns = columns;
    plan->row = columns + (plan->panel ? 0 : (p->kernel_size - 1) * p->dilation / p->stride + 1) + 2 * TAPCONV_OVERREAD;
    return (double)plan->row * (double)(plan->panel ? p->kernel_size : plan->phases) * plan->real->bytes;
}

int tapconv_dense_merges(const tapconv_shape *s, int64_t lanes)
{
    const tapconv_problem *p = &s->p;
    const int64_t whole = tapconv_round_up(s->out_length, lanes), short_tile = 3 * lanes;
    if (p->batch < 2 || s->out_length > TAPCONV_TILE_COLUMNS / 2 || p->stride > TAPCONV_TILE_COLUMNS) return 0;
    const int64_t line = (s->out_length - 1) * p->stride, reach = (p->kernel_size - 1) * p->dilation;
    return line <= TAPCONV_LONGEST_LINE - reach && (s->out_length < short_tile || whole * 10 > s->out_length * 11);
}

static int64_t most_vectors(const tapconv_real_kernels *real, int64_t rows)
{
    int64_t most = TAPCONV_MOST_VECTORS;
    if (rows > TAPCONV_BLOCK) return 1; /* pair */
    while (!real->tile[rows - 1][most - 1]) most--;
    return most;
}

/* Channels of a chunk so that a piece of it stays in L1 beside the weights that pass; all chunks alike. */
static int64_t resident_channels(const tapconv_cpu_plan *plan)
{
    const tapconv_problem *p = &plan->shape.p;
    const int64_t taps = p->kernel_size, bytes = plan->real->bytes, slab_channels = tapconv_slab_channels(taps);
    const double piece = (double)(most_vectors(plan->real, plan->real->rows) * plan->real->lanes * bytes);
    const double line = 32; /* begun at both ends of a row */
    const double reach = (double)((taps - 1) * p->dilation / p->stride) / (double)plan->phases * (double)bytes;
    const double apart = (double)taps * (piece + line);
    const double row = plan->panel ? apart : fmin(apart, (double)plan->phases * (piece + reach + line));
    const int64_t most = (int64_t)(TAPCONV_PIECE_BYTES / (row + (double)(taps * TAPCONV_BLOCK * bytes)));
    const int64_t chunks = tapconv_ceil_div(plan->shape.group_in, tapconv_max(most / slab_channels, 1) * slab_channels);
    return tapconv_round_up(tapconv_ceil_div(plan->shape.group_in, chunks), slab_channels);
}

/* Terms that are staged at once: whole slabs. All channels, or as many as fit; in a panel a piece of one channel's taps if
 * not even one slab's channels fit. */
static int64_t chunk_terms_for(const tapconv_cpu_plan *plan, double channel_bytes)
{
    const tapconv_shape *s = &plan->shape;
    const int64_t taps = s->p.kernel_size, slab_channels = tapconv_slab_channels(taps);
    if (plan->samples_first && (taps <= TAPCONV_SLAB || !plan->panel)) {
        const int64_t resident = resident_channels(plan);
        if (channel_bytes * (double)resident <= TAPCONV_STAGE_BYTES) return tapconv_min(resident, s->group_in) * taps;
    }
    if (channel_bytes * (double)s->group_in <= TAPCONV_STAGE_BYTES) return s->sum_length;
    const int64_t channels = (int64_t)(TAPCONV_STAGE_BYTES / channel_bytes) / slab_channels * slab_channels;
    if (channels > 0 || !plan->panel || taps <= TAPCONV_SLAB)
        return tapconv_min(s->group_in, tapconv_max(channels, slab_channels)) * taps;
    const int64_t slabs = TAPCONV_STAGE_BYTES / plan->real->bytes / plan->row / TAPCONV_SLAB;
    return tapconv_min(taps, tapconv_max(slabs, 1) * TAPCONV_SLAB);
}

/* Where the samples of each term of a chunk lie among the staged rows. */
static void fill_offsets(const tapconv_cpu_plan *plan, int32_t *offset, int64_t terms)
{
    const int64_t taps = plan->shape.p.kernel_size;
    for (int64_t place = 0; place < terms; place++) {
        const int64_t term = tapconv_slab_term(taps, place, terms);
        offset[place] =
            (int32_t)(plan->panel ? term * plan->row
                                  : term / taps * plan->phases * plan->row + tapconv_phase_offset(plan, term % taps));
    }
}

/* Whether sums go from registers to their destination. Pieces of samples are narrower than the stretches that streaming
 * stores want: those are gathered in acc. */
static int results_direct(const tapconv_cpu_plan *plan)
{
    const int streamed = plan->stream && plan->shape.p.norm_groups == 0;
    return plan->direct && plan->tile_items == 1 && !(plan->samples_first && streamed);
}

/* Whether every output channel has its row of acc: partial sums wait there for the next chunk, or results for the last
 * piece. */
static int acc_has_all_rows(const tapconv_cpu_plan *plan)
{
    return plan->chunk_terms < plan->shape.sum_length || (plan->samples_first && !results_direct(plan));
}

static int layout(tapconv_cpu_plan *plan, int panel)
{
    const tapconv_shape *s = &plan->shape;
    const tapconv_problem *p = &s->p;
    const int64_t lanes = plan->real->lanes, bytes = plan->real->bytes;
    const int64_t taps = p->kernel_size, reach = (taps - 1) * p->dilation;

    plan->panel = panel;
    plan->samples_first = plan->real->rows < TAPCONV_BLOCK && s->group_out > plan->real->rows &&
                          (s->out_length > plan->real->thin_columns || tapconv_dense_merges(s, lanes));
    if (!panel &&
        (p->stride > TAPCONV_TILE_COLUMNS || reach / p->stride > INT32_MAX / 4 || taps > TAPCONV_MOST_TABLE_TAPS))
        return 0;
    if (!panel && !tapconv_plan_phases(plan)) return -1;
    if (panel && tapconv_dense_merges(s, lanes)) {
        const int64_t most = tapconv_min(p->batch, TAPCONV_TILE_COLUMNS / s->out_length);
        plan->tile_items = most;
        if (plan->threads > 1)
            plan->tile_items = tapconv_ceil_div(p->batch, tapconv_ceil_div(p->batch, most)); /* alike */
        plan->tiles = 1;
        plan->chunk_terms = chunk_terms_for(plan, set_row(plan, plan->tile_items * s->out_length));
    } else {
        /* Rather narrow tiles than chunks; but if chunks it must be, then wide tiles. */
        int64_t most = TAPCONV_TILE_COLUMNS;
        if (!panel && reach / p->stride > most) most *= 2; /* the halo is staged with every tile */
        double channel_bytes = set_row(plan, columns_for(s->out_length, most, lanes));
        while (!plan->samples_first && channel_bytes * (double)s->group_in > TAPCONV_STAGE_BYTES &&
               most / 2 >= TAPCONV_LEAST_COLUMNS)
            channel_bytes = set_row(plan, columns_for(s->out_length, most /= 2, lanes));
        if (!plan->samples_first && channel_bytes * (double)s->group_in > TAPCONV_STAGE_BYTES)
            channel_bytes = set_row(plan, columns_for(s->out_length, TAPCONV_TILE_COLUMNS, lanes));
        plan->tile_items = 1;
        plan->tiles = tapconv_ceil_div(s->out_length, plan->columns);
        plan->chunk_terms = chunk_terms_for(plan, channel_bytes);
    }
    const int64_t chunk_rows = panel ? plan->chunk_terms : plan->chunk_terms / taps * plan->phases;
    if (chunk_rows > INT32_MAX / plan->row) return 0; /* offsets are 32 bits */
    plan->stage_elements = chunk_rows * plan->row;
    if (!panel) {
        plan->line = p->stride > 1 ? (plan->row + TAPCONV_OVERREAD) * p->stride : 0;
    } else if (p->stride <= TAPCONV_TILE_COLUMNS) {
        /* Input of one channel under a tile, unless loading the taps one by one moves less. */
        const int64_t under = ((plan->tile_items > 1 ? s->out_length : plan->columns) - 1) * p->stride + reach + 1;
        if (plan->tile_items > 1 ||
            (under <= TAPCONV_LONGEST_LINE && (double)under <= 4 * (double)taps * (double)plan->columns))
            plan->line = under + TAPCONV_OVERREAD * p->stride;
    }
    plan->acc_row = tapconv_round_up(plan->columns, lanes) + TAPCONV_OVERREAD;
    plan->acc_rows =
        acc_has_all_rows(plan) ? tapconv_round_up(s->group_out, TAPCONV_BLOCK) : tapconv_thin_blocks(1) * TAPCONV_BLOCK;
    if (plan->acc_rows > INT32_MAX / plan->acc_row) return 0;
    plan->thread_bytes =
        (size_t)((plan->stage_elements + plan->line + plan->acc_rows * plan->acc_row) * bytes) + 3 * 64;

    /* One table for whole chunks, one for a last chunk whose last slab may have fewer channels. */
    if (taps <= TAPCONV_SLAB && plan->chunk_terms < s->sum_length)
        plan->last_chunk = s->sum_length - (s->sum_length - 1) / plan->chunk_terms * plan->chunk_terms;
    plan->offset = malloc((size_t)(plan->chunk_terms + plan->last_chunk) * sizeof plan->offset[0]);
    if (!plan->offset) return -1;
    fill_offsets(plan, plan->offset, plan->chunk_terms);
    fill_offsets(plan, plan->offset + plan->chunk_terms, plan->last_chunk);
    return 1;
}

static int layout_window(tapconv_cpu_plan *plan)
{
    return layout(plan, 0);
}

static int layout_panel(tapconv_cpu_plan *plan)
{
    return layout(plan, 1);
}

/* Parts that a group's output channels are cut into so that a team has equal work. */
static int64_t parts_for(const tapconv_cpu_plan *plan, int64_t tiles, int team)
{
    const int64_t blocks = tapconv_ceil_div(plan->shape.group_out, TAPCONV_BLOCK);
    int64_t parts = 1;
    for (; parts < blocks && parts < team; parts++) {
        const int64_t units = tiles * parts;
        if (tapconv_round_up(units, team) * 32 <= units * 33) break;
    }
    return parts;
}

static int64_t tiles_of(const tapconv_cpu_plan *plan, tapconv_span span)
{
    const int64_t channels = plan->shape.p.out_channels;
    const int64_t items = tapconv_ceil_div(span.end, channels) - span.first / channels;
    return tapconv_ceil_div(items, plan->tile_items) * plan->tiles * plan->shape.p.groups;
}

static int64_t units(const tapconv_cpu_plan *plan, tapconv_span span, int team)
{
    const int64_t tiles = tiles_of(plan, span);
    return tiles * parts_for(plan, tiles, team);
}

static tapconv_dense_unit unit_at(const tapconv_cpu_plan *plan, tapconv_span span, int team, int64_t index)
{
    const tapconv_shape *s = &plan->shape;
    const int64_t channels = s->p.out_channels, parts = parts_for(plan, tiles_of(plan, span), team);
    const int64_t part = index % parts;
    index /= parts;
    const int64_t tile = index % plan->tiles;
    index /= plan->tiles;
    const int64_t group = index % s->p.groups;
    index /= s->p.groups;

    tapconv_dense_unit u = {.group = group, .time = tile * plan->columns};
    u.item = span.first / channels + index * plan->tile_items;
    u.items = tapconv_min(plan->tile_items, tapconv_ceil_div(span.end, channels) - u.item);
    u.length = plan->tile_items > 1 ? s->out_length : tapconv_min(plan->columns, s->out_length - u.time);
    u.columns = u.items * u.length;
    /* The span may begin or end within the item. */
    const int64_t base = group * s->group_out, item_base = u.item * channels;
    int64_t low = base, high = base + s->group_out;
    if (u.items == 1) {
        low = tapconv_max(low, span.first - item_base);
        high = tapconv_min(high, span.end - item_base);
    }
    const int64_t blocks = tapconv_ceil_div(tapconv_max(high - low, 0), TAPCONV_BLOCK);
    u.first = tapconv_min(high, low + blocks * part / parts * TAPCONV_BLOCK);
    u.end = tapconv_min(high, low + blocks * (part + 1) / parts * TAPCONV_BLOCK);
    return u;
}

/* Kernel calls for `rows` output channels and terms [first, end). */
static int64_t calls_for(const tapconv_cpu_plan *plan, const tapconv_dense_unit *u, int64_t rows, int64_t first,
                         int64_t end)
{
    const int64_t vectors = tapconv_ceil_div(u->columns, plan->real->lanes), taps = plan->shape.p.kernel_size;
    const int64_t slab = tapconv_slab_end(taps, 0, end - first);
    const int64_t each = !plan->samples_first ? slab : taps <= TAPCONV_SLAB ? end - first : taps;
    return tapconv_ceil_div(vectors, most_vectors(plan->real, rows)) * tapconv_ceil_div(end - first, each);
}

/* Input that is staged next: terms [first, end) of tapconv_dense_unit u, spread over `calls`. */
static tapconv_ahead input_ahead(const tapconv_job *job, const tapconv_dense_unit *u, int64_t first, int64_t end,
                                 int64_t calls)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    if (p->layout != TAPCONV_NCL || u->items > 1) return (tapconv_ahead){0};
    const int64_t size = (int64_t)tapconv_type_bytes(p->type), taps = p->kernel_size;
    const int64_t start = tapconv_max(u->time * p->stride - p->padding_left, 0);
    const int64_t under = (u->length - 1) * p->stride + (taps - 1) * p->dilation + 1;
    const int64_t stop = tapconv_min(u->time * p->stride - p->padding_left + under, p->length);
    if (start >= stop) return (tapconv_ahead){0};
    const int64_t channel = u->group * plan->shape.group_in + first / taps;
    const char *const x =
        (const char *)job->arrays->x + ((u->item * p->in_channels + channel) * p->length + start) * size;
    return tapconv_read_ahead(x, (stop - start) * size, p->length * size, tapconv_ceil_div(end, taps) - first / taps,
                              calls);
}

/* What the kernels of a unit have in common for one chunk. */
typedef struct chunk {
    int64_t first, end;         /* its terms */
    const int32_t *offset;      /* of each */
    int64_t first_tap, end_tap; /* taps to take; the others meet only padding */
} chunk;

/* Taps that meet a sample of the input in any column of the unit, [*first, *end); all, if a weight is not finite, because
 * then 0 times it is NaN. */
static void taps_in_reach(const tapconv_job *job, const tapconv_dense_unit *u, int64_t *first, int64_t *end)
{
    const tapconv_problem *p = &job->plan->shape.p;
    const int64_t start = u->time * p->stride - p->padding_left, last = start + (u->length - 1) * p->stride;
    *first = 0, *end = p->kernel_size;
    if (!tapconv_packed_finite(job->plan, job->arrays->packed_weights)) return;
    /* Tap k reads samples start + k*D to last + k*D. */
    if (last < 0) *first = tapconv_min(*end, tapconv_ceil_div(-last, p->dilation));
    if (start + (*end - 1) * p->dilation >= p->length)
        *end = start >= p->length ? 0 : tapconv_min(*end, (p->length - 1 - start) / p->dilation + 1);
    if (*end < *first) *end = *first;
}

/* What the loops over a unit and a chunk share. */
typedef struct pass {
    const tapconv_job *job;
    tapconv_span span;
    const tapconv_dense_unit *u;
    const chunk *c;
    const tapconv_dense_scratch *s;
    int64_t acc_first; /* the channel whose row of acc is the first; -1: every channel's is */
    int64_t slab;      /* terms of a whole slab */
    int some;          /* some taps are left out */
    int fetch;         /* weights do not stay in L2 */
    int finishes;      /* the chunk is the last, and its sums go from registers to their destination */
    tapconv_ahead input;
} pass;

static char *acc_of(const pass *p, int64_t channel)
{
    const tapconv_cpu_plan *plan = p->job->plan;
    return p->s->acc + (p->acc_first < 0 ? 0 : (channel - p->acc_first) * plan->acc_row * plan->real->bytes);
}

/* As tapconv_packed_channel, for a channel of the unit's group: no division, as it goes before every kernel call. */
static const char *weights_of(const pass *p, int64_t channel, int64_t *step)
{
    const tapconv_shape *shape = &p->job->plan->shape;
    const int64_t in_group = channel - p->u->group * shape->group_out, in_block = in_group % TAPCONV_BLOCK;
    *step = tapconv_min(TAPCONV_BLOCK, shape->group_out - (in_group - in_block));
    return (const char *)p->job->arrays->packed_weights +
           ((channel - in_block) * shape->sum_length + in_block) * p->job->plan->real->bytes;
}

/* How the columns of a unit are cut: perhaps some up to where streaming stores are aligned, then pieces as equal as whole
 * vectors allow. */
typedef struct cut {
    int64_t head;  /* columns before the first aligned cache line where the result is streamed, or -1 */
    int64_t start; /* where equal pieces begin */
    int64_t heads, vectors, pieces;
} cut;

static cut cut_columns(const tapconv_cpu_plan *plan, const tapconv_dense_unit *u, int64_t head, int64_t rows)
{
    cut k = {.head = tapconv_min(u->columns, head)};
    k.start = tapconv_max(k.head, 0), k.heads = k.start > 0;
    k.vectors = tapconv_ceil_div(u->columns - k.start, plan->real->lanes);
    k.pieces = k.heads + tapconv_ceil_div(k.vectors, most_vectors(plan->real, rows));
    return k;
}

typedef struct piece {
    int64_t from, columns, vectors;
    int stream;
} piece;

static piece piece_at(const tapconv_cpu_plan *plan, const tapconv_dense_unit *u, const cut *k, int64_t index)
{
    const int64_t at = index - k->heads, parts = k->pieces - k->heads, lanes = plan->real->lanes;
    const int64_t from = at < 0 ? 0 : k->start + k->vectors * at / parts * lanes;
    const int64_t to = at < 0 ? k->start : k->start + k->vectors * (at + 1) / parts * lanes;
    return (piece){.from = from,
                   .columns = tapconv_min(to, u->columns) - from,
                   .vectors = tapconv_ceil_div(to - from, lanes),
                   .stream = k->head >= 0 && at >= 0};
}

/* Where the call ends that begins at `term`: after a slab, or after as many alike as there are. */
static int64_t call_end(const pass *p, int64_t term)
{
    const tapconv_cpu_plan *plan = p->job->plan;
    const int64_t taps = plan->shape.p.kernel_size, end = p->c->end;
    if (!plan->samples_first || p->some) return tapconv_slab_end(taps, term, end);
    return taps <= TAPCONV_SLAB ? end : tapconv_min(end, term - term % taps + taps);
}

/* The sums of `rows` output channels from `channel` on over the chunk, for one piece of the unit's columns; partial sums are
 * in acc. After the last chunk they are in acc still, or at their destination. next_w: as many weights that are wanted next,
 * or NULL. */
static void sum_piece(pass *p, int64_t channel, int64_t rows, piece at, const char *next_w, int64_t next_step)
{
    const tapconv_cpu_plan *plan = p->job->plan;
    const tapconv_real_kernels *real = plan->real;
    const int64_t bytes = real->bytes, first = p->c->first, end = p->c->end;
    int64_t w_step;
    const char *const w = weights_of(p, channel, &w_step);
    char *const acc = acc_of(p, channel) + at.from * bytes;
    tapconv_tile tile = {
        .x = p->s->stage + at.from * bytes,
        .w_step = w_step,
        .block_step = plan->shape.sum_length * TAPCONV_BLOCK,
        .slab = p->slab,
        .partial_step = plan->acc_row,
        .out = acc,
        .out_step = plan->acc_row,
        .columns = at.columns,
    };
    const tapconv_tile_kernel kernel = rows > TAPCONV_BLOCK ? real->pair : real->tile[rows - 1][at.vectors - 1];
    for (int64_t term = first; term < end;) {
        const int64_t then = call_end(p, term);
        int64_t skip = 0, stop = then - term;
        if (p->some)
            tapconv_slab_taps(plan->shape.p.kernel_size, term, then, p->c->first_tap, p->c->end_tap, &skip, &stop);
        tile.offset = p->c->offset + (term - first) + skip;
        tile.w = w + (term + skip) * w_step * bytes;
        tile.steps = stop - skip;
        tile.next_w = NULL;
        if (next_w) { /* two slabs ahead, then those of the next rows */
            const int64_t later = then + (then - term);
            tile.next_w = later < end ? w + later * w_step * bytes : next_w + (first + later - end) * next_step * bytes;
        }
        tile.partial = term > 0 ? acc : NULL;
        if (p->finishes && then == end) {
            tile.out = (char *)tapconv_conv_at(p->job, p->span, p->u->item, channel, p->u->time) + at.from * bytes;
            tile.stream = at.stream;
            tile.out_step = plan->shape.out_length;
            tile.bias = p->job->bias ? (const char *)p->job->bias + channel * bytes : NULL;
        }
        kernel(&tile);
        tapconv_ahead_step(&p->input);
        term = then;
    }
}

/* The same for whole blocks by the thin kernels. */
static void sum_blocks(const tapconv_job *job, tapconv_span span, const tapconv_dense_unit *u, int64_t channel,
                       int64_t blocks, const chunk *c, const tapconv_dense_scratch *s, char *acc)
{
    const tapconv_cpu_plan *plan = job->plan;
    const int64_t bytes = plan->real->bytes, terms = plan->shape.sum_length;
    int64_t w_step;
    const char *const w = tapconv_packed_channel(plan, job->arrays->packed_weights, channel, &w_step);
    tapconv_thin thin = {
        .tile = {.x = s->stage,
                 .offset = c->offset,
                 .w = w + c->first * w_step * bytes,
                 .steps = c->end - c->first,
                 .partial = c->first > 0 ? acc : NULL,
                 .partial_step = plan->acc_row,
                 .out = acc,
                 .out_step = plan->acc_row,
                 .columns = u->columns},
        .kernel_size = plan->shape.p.kernel_size,
        .block_step = terms * TAPCONV_BLOCK,
        /* Counted from the chunk's first tap, where it begins within a channel. */
        .first_tap = tapconv_max(c->first_tap - c->first % plan->shape.p.kernel_size, 0),
        .end_tap = tapconv_max(c->end_tap - c->first % plan->shape.p.kernel_size, 0),
    };
    if (results_direct(plan) && c->end == terms) {
        thin.tile.out = tapconv_conv_at(job, span, u->item, channel, u->time);
        thin.tile.out_step = plan->shape.out_length;
        thin.tile.bias = job->bias ? (const char *)job->bias + channel * bytes : NULL;
    }
    plan->real->thin[u->columns - 1][blocks > 1](&thin);
}

static void emit_rows(const tapconv_job *job, tapconv_span span, const tapconv_dense_unit *u, int64_t channel,
                      int64_t rows, const char *acc)
{
    const tapconv_cpu_plan *plan = job->plan;
    for (int64_t i = 0; i < u->items; i++) {
        const tapconv_emit out = {
            .src = acc + i * u->length * plan->real->bytes, .src_row = plan->acc_row, .rows = rows, .count = u->length};
        tapconv_emit_conv(job, span, u->item + i, channel, u->time, out);
    }
}

/* Rows of the next kernel calls from `channel` on. */
static int64_t rows_at(const tapconv_cpu_plan *plan, const tapconv_dense_unit *u, int64_t channel)
{
    const int64_t in_block = (channel - u->group * plan->shape.group_out) % TAPCONV_BLOCK, left = u->end - channel;
    const int64_t many = tapconv_thin_blocks(u->columns);
    if (u->columns <= plan->real->thin_columns && in_block == 0 && left >= TAPCONV_BLOCK)
        return (left >= many * TAPCONV_BLOCK ? many : 1) * TAPCONV_BLOCK;
    if (u->columns <= plan->real->lanes && plan->real->pair && in_block == 0 && left >= 2 * TAPCONV_BLOCK)
        return 2 * TAPCONV_BLOCK;
    return tapconv_min(tapconv_min(left, TAPCONV_BLOCK - in_block), plan->real->rows);
}

static int is_thin(const tapconv_cpu_plan *plan, const tapconv_dense_unit *u, int64_t channel, int64_t rows)
{
    const int64_t in_block = (channel - u->group * plan->shape.group_out) % TAPCONV_BLOCK;
    return u->columns <= plan->real->thin_columns && in_block == 0 && rows % TAPCONV_BLOCK == 0;
}

/* A chunk of the sums of channels [channel, end): all pieces of some rows before the next rows. */
static void rows_first(pass *p, int64_t channel, int64_t end)
{
    const tapconv_cpu_plan *plan = p->job->plan;
    const tapconv_dense_unit *u = p->u;
    const int emits = !results_direct(plan) && p->c->end == plan->shape.sum_length;
    for (int64_t rows; channel < end; channel += rows) {
        rows = rows_at(plan, u, channel);
        if (is_thin(plan, u, channel, rows)) {
            sum_blocks(p->job, p->span, u, channel, rows / TAPCONV_BLOCK, p->c, p->s, acc_of(p, channel));
        } else {
            int64_t head = -1, next_step;
            if (p->finishes)
                head = tapconv_stream_head(plan, tapconv_conv_at(p->job, p->span, u->item, channel, u->time), rows);
            const cut k = cut_columns(plan, u, head, rows);
            const char *const next_w = weights_of(p, tapconv_min(channel + rows, u->end - 1), &next_step);
            /* Weights are fetched on the first pass. */
            for (int64_t i = 0; i < k.pieces; i++)
                sum_piece(p, channel, rows, piece_at(plan, u, &k, i), p->fetch && i == 0 ? next_w : NULL, next_step);
        }
        if (emits) emit_rows(p->job, p->span, u, channel, rows, acc_of(p, channel));
    }
}

/* What samples_first does for one piece where a chunk is one call: little but calls, as there are many. */
static void pass_piece(pass *p, int64_t first, int64_t end, piece at)
{
    const tapconv_cpu_plan *plan = p->job->plan;
    const tapconv_shape *shape = &plan->shape;
    const int64_t bytes = plan->real->bytes, base = p->u->group * shape->group_out;
    const int64_t terms_bytes = shape->sum_length * bytes;
    const int64_t acc_step = p->acc_first < 0 ? 0 : plan->acc_row * bytes;
    tapconv_tile tile = {
        .x = p->s->stage + at.from * bytes,
        .offset = p->c->offset,
        .steps = p->c->end - p->c->first,
        .block_step = shape->sum_length * TAPCONV_BLOCK,
        .slab = p->slab,
        .partial_step = plan->acc_row,
        .out_step = plan->acc_row,
        .columns = at.columns,
    };
    char *acc = acc_of(p, first) + at.from * bytes, *out = acc;
    int64_t out_step = acc_step;
    if (p->finishes) {
        out = (char *)tapconv_conv_at(p->job, p->span, p->u->item, first, p->u->time) + at.from * bytes;
        tile.out_step = shape->out_length, out_step = shape->out_length * bytes;
    }
    /* A call goes from tile to tile within whole blocks. */
    const int64_t blocks_end = tapconv_min(end, base + shape->group_out / TAPCONV_BLOCK * TAPCONV_BLOCK);
    const int whole_vectors = at.columns == at.vectors * plan->real->lanes;
    for (int64_t channel = first, rows; channel < end; channel += rows) {
        const int64_t in_block = (channel - base) % TAPCONV_BLOCK, block = channel - in_block;
        rows = tapconv_min(tapconv_min(end - channel, TAPCONV_BLOCK - in_block), plan->real->rows);
        const tapconv_tile_kernel kernel = plan->real->tile[rows - 1][at.vectors - 1];
        tile.w_step = tapconv_min(TAPCONV_BLOCK, base + shape->group_out - block);
        const char *const weights = (const char *)p->job->arrays->packed_weights + block * terms_bytes;
        tile.w = weights + (p->c->first * tile.w_step + in_block) * bytes;
        tile.partial = p->c->first > 0 ? acc : NULL;
        tile.out = out;
        tile.bias = p->finishes && p->job->bias ? (const char *)p->job->bias + channel * bytes : NULL;
        /* Short stretches of rows, far from the last call's: asked for early, or stores wait for them. */
        for (int64_t r = 0; r < rows; r++) {
            __builtin_prefetch(out + r * out_step, 1);
            __builtin_prefetch(out + r * out_step + at.columns * bytes - 1, 1);
        }
        tile.more_tiles = 0;
        if (whole_vectors && in_block == 0 && rows == plan->real->rows && channel < blocks_end) {
            tile.more_tiles = tapconv_min(blocks_end - channel, TAPCONV_CALL_CHANNELS) / rows - 1;
            rows *= tile.more_tiles + 1;
        }
        kernel(&tile);
        tapconv_ahead_step(&p->input);
        acc += rows * acc_step, out += rows * out_step;
    }
}

/* The same: all channels over a piece before the next piece. */
static void samples_first(pass *p, int64_t first, int64_t end)
{
    const tapconv_cpu_plan *plan = p->job->plan;
    const tapconv_dense_unit *u = p->u;
    const cut k = cut_columns(plan, u, -1, plan->real->rows);
    for (int64_t i = 0; i < k.pieces; i++) {
        const piece at = piece_at(plan, u, &k, i);
        if (!p->some && plan->shape.p.kernel_size <= TAPCONV_SLAB) {
            pass_piece(p, first, end, at);
            continue;
        }
        for (int64_t channel = first, rows; channel < end; channel += rows) {
            rows = rows_at(plan, u, channel);
            sum_piece(p, channel, rows, at, NULL, 0);
        }
    }
    if (!results_direct(plan) && p->c->end == plan->shape.sum_length)
        emit_rows(p->job, p->span, u, first, end - first, acc_of(p, first));
}

static void compute_unit(const tapconv_job *job, tapconv_span span, const tapconv_dense_unit *u,
                         const tapconv_dense_unit *next, int staged, const tapconv_dense_scratch *s)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_shape *shape = &plan->shape;
    const int64_t terms = shape->sum_length;
    const int several = plan->chunk_terms < terms;
    const int whole_samples = plan->samples_first && u->columns > plan->real->thin_columns;
    for (int64_t first = 0; first < terms;) {
        int64_t end = tapconv_min(terms, first + plan->chunk_terms);
        /* A chunk smaller than a channel ends where the channel does. */
        if (plan->chunk_terms < shape->p.kernel_size)
            end = tapconv_min(end, (first / shape->p.kernel_size + 1) * shape->p.kernel_size);
        if (!staged || several) tapconv_dense_stage(job, u, first, end, s);
        const int tail = end == terms && plan->last_chunk > 0;
        chunk c = {.first = first, .end = end, .offset = plan->offset + (tail ? plan->chunk_terms : 0)};
        taps_in_reach(job, u, &c.first_tap, &c.end_tap);
        const tapconv_dense_unit *const then = end < terms ? u : next;
        const int64_t rows_each = tapconv_min(plan->real->rows, shape->group_out);
        const int64_t channels_each = whole_samples ? TAPCONV_CALL_CHANNELS : rows_each;
        const int64_t calls =
            calls_for(plan, u, rows_each, first, end) * tapconv_ceil_div(u->end - u->first, channels_each);
        const int64_t then_first = end < terms ? end : 0;
        pass p = {.job = job, .span = span, .u = u, .c = &c, .s = s};
        p.acc_first = acc_has_all_rows(plan) ? u->first : -1;
        p.slab = tapconv_slab_channels(shape->p.kernel_size) * tapconv_min(shape->p.kernel_size, TAPCONV_SLAB);
        p.some = c.end_tap - c.first_tap < shape->p.kernel_size;
        p.fetch = (u->end - u->first) * terms * plan->real->bytes > TAPCONV_WEIGHTS_IN_L2;
        p.finishes = end == terms && results_direct(plan);
        if (then)
            p.input = input_ahead(job, then, then_first, tapconv_min(terms, then_first + plan->chunk_terms), calls);
        if (whole_samples) {
            const int64_t row_bytes = (end - first + plan->acc_row) * plan->real->bytes;
            const int64_t most = tapconv_max(TAPCONV_PASS_BYTES / row_bytes / TAPCONV_BLOCK, 1) * TAPCONV_BLOCK;
            const int64_t base = u->group * shape->group_out;
            for (int64_t channel = u->first, stop; channel < u->end; channel = stop) {
                stop = tapconv_min(u->end, channel - (channel - base) % TAPCONV_BLOCK + most);
                samples_first(&p, channel, stop);
            }
        } else {
            rows_first(&p, u->first, u->end);
        }
        first = end;
    }
}

static void compute(const tapconv_job *job, tapconv_span span, int team, int64_t first, int64_t end, void *memory)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_dense_scratch s = tapconv_dense_scratch_in(plan, memory);
    tapconv_dense_unit now = unit_at(plan, span, team, first), next = now;
    int staged = 0;
    for (int64_t index = first; index < end; index++, now = next) {
        int again = 0;
        if (index + 1 < end) {
            next = unit_at(plan, span, team, index + 1);
            again = next.item == now.item && next.time == now.time && next.group == now.group;
        }
        if (now.end > now.first) compute_unit(job, span, &now, index + 1 < end && !again ? &next : NULL, staged, &s);
        staged = again && (staged || now.end > now.first);
    }
}

const tapconv_family tapconv_dense_window = {"dense-window", layout_window, units, compute};
const tapconv_family tapconv_dense_panel = {"dense-panel", layout_panel, units, compute};
