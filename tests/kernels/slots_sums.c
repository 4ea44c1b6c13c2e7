/* The slots that sum products: tile, thin, row. Each is compared with the exact sum within its bound, and bit for bit
 * with the canonical order; small integers are exact in any order. */
#include "slots.h"

#include "cpu/slabs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *at(const slots *s, const check_buffer *b, int64_t index)
{
    return b->data + index * s->real->bytes;
}

/* Offsets in [0, most], in no order. */
static int32_t *make_offsets(int64_t steps, int64_t most)
{
    int32_t *const offset = malloc((size_t)(steps + 1) * sizeof *offset);
    if (!offset) exit(1);
    for (int64_t i = 0; i < steps; i++) offset[i] = (int32_t)check_between(0, most);
    return offset;
}

static double (*pick_values(void))(void)
{
    return check_chance(3) ? check_small_integer : check_normal;
}

/* What the kernels were given, rows x columns outputs. w_at: where row r's weights begin. */
typedef struct products {
    check_buffer x, w, partial, bias;
    int32_t *offset;
    int64_t rows, columns, steps, w_step, partial_step;
    slot_taps taps;     /* kernel_size 0: one slab */
    int64_t block_step; /* 0: row r's weights begin at w + r; else at w + r/8*block_step + r%8 */
    int integers;
} products;

static void free_products(products *p)
{
    check_buffer_free(&p->x);
    check_buffer_free(&p->w);
    check_buffer_free(&p->partial);
    check_buffer_free(&p->bias);
    free(p->offset);
}

static uint64_t hash_products(const products *p)
{
    return check_hash(p->x.data, p->x.bytes) * 3 + check_hash(p->w.data, p->w.bytes) * 5 +
           (p->partial.data ? check_hash(p->partial.data, p->partial.bytes) * 7 : 0) +
           (p->bias.data ? check_hash(p->bias.data, p->bias.bytes) * 11 : 0);
}

/* Compares `out` (rows out_step apart) with what the products say. */
static void judge(const slots *s, const products *p, const check_buffer *out, int64_t out_step)
{
    const int64_t outputs = p->rows * p->columns;
    double *const exact = malloc((size_t)outputs * sizeof(double)), *const tolerance =
                                                                        malloc((size_t)outputs * sizeof(double));
    double *const canonical = malloc((size_t)outputs * sizeof(double)); /* of the real type */
    if (!exact || !tolerance || !canonical) exit(1);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t j = 0; j < p->columns; j++) {
            const int64_t w_at = p->block_step ? r / TAPCONV_BLOCK * p->block_step + r % TAPCONV_BLOCK : r;
            const double partial = p->partial.data ? tapconv_get(p->partial.data, s->type, r * p->partial_step + j) : 0;
            const double bias = p->bias.data ? tapconv_get(p->bias.data, s->type, r) : 0;
            const slot_sum sum = slot_sum_of(s, p->x.data, j, p->offset, at(s, &p->w, w_at), p->w_step, p->steps,
                                             p->taps.kernel_size ? &p->taps : NULL, p->partial.data ? &partial : NULL,
                                             p->bias.data ? &bias : NULL);
            exact[r * p->columns + j] = sum.exact;
            /* Scalar products are rounded before they are added. */
            const double terms = (double)p->steps + 2 + (s->isa->bit == TAPCONV_ISA_SCALAR);
            tolerance[r * p->columns + j] = p->integers ? 0 : terms * slot_eps(s) * sum.size;
            tapconv_set(canonical, s->type, r * p->columns + j, sum.canonical);
        }
    const check_lattice l = {.type = s->type, .rows = p->rows, .row = out_step, .count = p->columns, .step = 1};
    check_values(out, &l, exact, tolerance);
    check_same_values(out, &l, canonical);
    free(exact);
    free(tolerance);
    free(canonical);
}

static int64_t pick_steps(void)
{
    static const int64_t some[] = {1, 2, 3, 4, 7, 31, 126, 127, 128};
    return check_chance(2) ? some[check_between(0, 8)] : check_between(1, 140);
}

/* rows above a block: the pair slot. */
static void check_tile(const slots *s, int64_t rows, int64_t vectors)
{
    const int pair = rows > TAPCONV_BLOCK;
    const tapconv_tile_kernel kernel = pair ? s->real->pair : s->real->tile[rows - 1][vectors - 1];
    const int64_t lanes = s->real->lanes, whole = vectors * lanes, most_offset = check_between(0, 200);
    const int several = s->real->rows < TAPCONV_BLOCK && TAPCONV_BLOCK % rows == 0 && check_chance(2);
    const int64_t tiles = several ? check_between(2, 20 / rows) : 1, all_rows = tiles * rows;
    const int64_t columns = several ? whole : check_between((vectors - 1) * lanes + 1, whole);
    double (*const value)(void) = pick_values();
    products p = {.rows = all_rows,
                  .columns = columns,
                  .steps = pick_steps(),
                  .w_step = check_between(all_rows < TAPCONV_BLOCK ? all_rows : TAPCONV_BLOCK, TAPCONV_BLOCK)};
    int64_t slab = 0;
    if (check_chance(2)) { /* several slabs in one call */
        p.taps.kernel_size = p.taps.end = check_between(1, TAPCONV_SLAB);
        slab = tapconv_slab_channels(p.taps.kernel_size) * p.taps.kernel_size;
    }
    if (all_rows > rows || pair) p.block_step = p.steps * TAPCONV_BLOCK + check_between(0, 20);
    p.integers = value == check_small_integer;
    p.offset = make_offsets(p.steps, most_offset);
    p.x = slot_values(s, most_offset + whole, value);
    const int64_t last_block = (all_rows - 1) / TAPCONV_BLOCK;
    p.w = slot_values(s, last_block * p.block_step + (p.steps - 1) * p.w_step + all_rows - last_block * TAPCONV_BLOCK,
                      value);
    p.partial_step = whole + check_between(0, 5);
    if (check_chance(2)) p.partial = slot_values(s, (all_rows - 1) * p.partial_step + whole, value);
    if (check_chance(2)) p.bias = slot_values(s, all_rows, value);
    const int stream = !several && check_chance(3);
    const int64_t out_step = stream ? whole + lanes * check_between(0, 2) : columns + check_between(0, 40);
    check_buffer out = slot_results(s, (all_rows - 1) * out_step + columns, stream);
    const tapconv_tile tile = {.x = p.x.data,
                               .offset = p.offset,
                               .w = p.w.data,
                               .next_w = check_chance(2) ? p.w.data : NULL,
                               .w_step = p.w_step,
                               .block_step = p.block_step,
                               .more_tiles = tiles - 1,
                               .steps = p.steps,
                               .slab = slab,
                               .partial = p.partial.data,
                               .partial_step = p.partial_step,
                               .out = out.data,
                               .out_step = out_step,
                               .bias = p.bias.data,
                               .columns = columns,
                               .stream = stream};
    check_context("%s tile %" PRId64 "x%" PRId64 ": tiles %" PRId64 ", columns %" PRId64 ", steps %" PRId64
                  ", slab %" PRId64 ", w_step %" PRId64 ", out_step %" PRId64 ", partial %d, bias %d, stream %d",
                  s->name, rows, vectors, tiles, columns, p.steps, slab, p.w_step, out_step, p.partial.data != NULL,
                  p.bias.data != NULL, stream);
    const uint64_t before = hash_products(&p);
    kernel(&tile);
    s->isa->stream_fence();
    CHECK(hash_products(&p) == before);
    judge(s, &p, &out, out_step);

    if (p.partial.data) { /* once more, to where the partial sums are; what lies behind a row's columns stays */
        check_buffer same = slot_results(s, (all_rows - 1) * p.partial_step + whole, 0);
        for (int64_t r = 0; r < all_rows; r++)
            memcpy(at(s, &same, r * p.partial_step), at(s, &p.partial, r * p.partial_step),
                   (size_t)(columns * s->real->bytes));
        tapconv_tile again = tile;
        again.out = same.data, again.partial = same.data, again.out_step = p.partial_step, again.stream = 0;
        kernel(&again);
        judge(s, &p, &same, p.partial_step);
        check_buffer_free(&same);
    }
    check_buffer_free(&out);
    free_products(&p);
}

void check_tiles(const slots *s)
{
    check_context("%s tiles", s->name);
    CHECK(s->real->rows >= 1 && s->real->rows <= TAPCONV_BLOCK);
    for (int64_t rows = 1; rows <= TAPCONV_BLOCK; rows++)
        for (int64_t vectors = 1; vectors <= TAPCONV_MOST_VECTORS; vectors++) {
            const int there = s->real->tile[rows - 1][vectors - 1] != NULL;
            /* Every number of rows that is used has tiles, from one vector on and without gaps. */
            const int before = vectors == 1 ? rows <= s->real->rows : s->real->tile[rows - 1][vectors - 2] != NULL;
            check_context("%s tile %" PRId64 "x%" PRId64, s->name, rows, vectors);
            CHECK(there <= before && (vectors > 1 || there == before));
            if (there) check_tile(s, rows, vectors);
        }
    if (s->real->pair) check_tile(s, 2 * TAPCONV_BLOCK, 1);
}

/* What the thin kernel computes, by tiles: a slab after the other, a row at a time. */
static void thin_by_tiles(const slots *s, const products *p, check_buffer *out, int64_t out_step)
{
    const int64_t lanes = s->real->lanes, vectors = (p->columns + lanes - 1) / lanes;
    for (int64_t r = 0; r < p->rows; r++) {
        const int64_t w_at = r / TAPCONV_BLOCK * p->block_step + r % TAPCONV_BLOCK;
        double room[64] = {0}; /* a whole vector is read and columns are written */
        if (p->partial.data)
            memcpy(room, at(s, &p->partial, r * p->partial_step), (size_t)(p->columns * s->real->bytes));
        for (int64_t from = 0, end; from < p->steps; from = end) {
            end = tapconv_slab_end(p->taps.kernel_size, from, p->steps);
            const tapconv_tile tile = {.x = p->x.data,
                                       .offset = p->offset + from,
                                       .w = at(s, &p->w, w_at + from * TAPCONV_BLOCK),
                                       .w_step = TAPCONV_BLOCK,
                                       .steps = end - from,
                                       .partial = p->partial.data || from > 0 ? room : NULL,
                                       .out = room,
                                       .bias = end == p->steps && p->bias.data ? at(s, &p->bias, r) : NULL,
                                       .columns = p->columns};
            s->real->tile[0][vectors - 1](&tile);
        }
        memcpy(at(s, out, r * out_step), room, (size_t)(p->columns * s->real->bytes));
    }
}

static void check_thin_kernel(const slots *s, int64_t columns, int many)
{
    static const int64_t kernel_sizes[] = {1, 2, 3, 4, 5, 7, 11, 63, 64, 65, 127, 128, 129, 200, 300};
    const int64_t blocks = many ? tapconv_thin_blocks(columns) : 1, most_offset = check_between(0, 90);
    double (*const value)(void) = pick_values();
    products p = {.rows = blocks * TAPCONV_BLOCK, .columns = columns, .w_step = TAPCONV_BLOCK};
    p.taps.kernel_size = kernel_sizes[check_between(0, 14)];
    /* A piece of a channel, or whole channels. */
    p.steps = check_chance(3) ? check_between(1, p.taps.kernel_size)
                              : p.taps.kernel_size * check_between(1, 1 + 300 / p.taps.kernel_size);
    p.taps.end = p.taps.kernel_size;
    if (p.steps % p.taps.kernel_size == 0 && check_chance(3)) {
        p.taps.first = check_between(0, p.taps.kernel_size);
        p.taps.end = check_between(p.taps.first, p.taps.kernel_size);
    }
    p.integers = value == check_small_integer;
    p.block_step = p.steps * TAPCONV_BLOCK + check_between(0, 20);
    p.offset = make_offsets(p.steps, most_offset);
    /* Tiles read whole vectors. Taps that are left out meet zeros behind the others, which leave no trace there. */
    const int64_t width = s->real->lanes * ((columns + s->real->lanes - 1) / s->real->lanes),
                  zeros = most_offset + width;
    p.x = slot_values(s, zeros + width, value);
    for (int64_t i = zeros; i < zeros + width; i++) tapconv_set(p.x.data, s->type, i, check_chance(2) ? 0.0 : -0.0);
    for (int64_t i = 0; i < p.steps; i++) {
        const int64_t tap = slot_tap(&p.taps, i, p.steps);
        if (tap < p.taps.first || tap >= p.taps.end) p.offset[i] = (int32_t)zeros;
    }
    p.w = slot_values(s, (blocks - 1) * p.block_step + p.steps * TAPCONV_BLOCK, value);
    p.partial_step = columns + check_between(0, 20);
    if (check_chance(2)) p.partial = slot_values(s, (p.rows - 1) * p.partial_step + columns, value);
    if (check_chance(2)) p.bias = slot_values(s, p.rows, value);
    const int64_t out_step = columns + check_between(0, 20), room = (p.rows - 1) * out_step + columns;
    check_buffer out = slot_results(s, room, 0), tiled = slot_results(s, room, 0);
    const tapconv_thin thin = {.tile = {.x = p.x.data,
                                        .offset = p.offset,
                                        .w = p.w.data,
                                        .steps = p.steps,
                                        .partial = p.partial.data,
                                        .partial_step = p.partial_step,
                                        .out = out.data,
                                        .out_step = out_step,
                                        .bias = p.bias.data,
                                        .columns = columns},
                               .kernel_size = p.taps.kernel_size,
                               .first_tap = p.taps.first,
                               .end_tap = p.taps.end,
                               .block_step = p.block_step};
    check_context("%s thin, %" PRId64 " blocks x %" PRId64 " columns: kernel_size %" PRId64 ", taps %" PRId64
                  " to %" PRId64 ", steps %" PRId64 ", partial %d, bias %d",
                  s->name, blocks, columns, p.taps.kernel_size, p.taps.first, p.taps.end, p.steps,
                  p.partial.data != NULL, p.bias.data != NULL);
    const uint64_t before = hash_products(&p);
    s->real->thin[columns - 1][many](&thin);
    CHECK(hash_products(&p) == before);
    judge(s, &p, &out, out_step);
    thin_by_tiles(s, &p, &tiled, out_step);
    CHECK(memcmp(out.data, tiled.data, out.bytes) == 0);
    check_buffer_free(&tiled);
    check_buffer_free(&out);
    free_products(&p);
}

void check_thin(const slots *s)
{
    check_context("%s thin", s->name);
    CHECK(s->real->thin_columns >= 0 && s->real->thin_columns <= TAPCONV_MOST_THIN);
    for (int64_t columns = 1; columns <= TAPCONV_MOST_THIN; columns++)
        for (int many = 0; many < 2; many++) {
            const int there = s->real->thin[columns - 1][many] != NULL;
            CHECK(there || columns > s->real->thin_columns);
            if (there) check_thin_kernel(s, columns, many);
        }
}

void check_rows(const slots *s)
{
    for (int64_t taps = 1; taps <= TAPCONV_MOST_ROW_TAPS; taps++) {
        if (!s->real->row[taps - 1]) continue;
        const int64_t columns = check_between(1, 200), most_offset = check_between(0, 300);
        double (*const value)(void) = pick_values();
        products p = {.rows = 1, .columns = columns, .steps = taps, .w_step = check_between(1, 8)};
        p.integers = value == check_small_integer;
        p.offset = make_offsets(taps, most_offset);
        if (check_chance(2)) /* neighbours, anywhere in a vector */
            for (int64_t k = 0; k < taps; k++) p.offset[k] = (int32_t)(most_offset / 2 + k);
        p.x = slot_values(s, most_offset / 2 + taps + most_offset + columns,
                          value); /* what is read beside it are poisoned guards */
        p.w = slot_values(s, (taps - 1) * p.w_step + 1, value);
        if (check_chance(2)) p.bias = slot_values(s, 1, value);
        const int stream = check_chance(2);
        check_buffer out = slot_results(s, columns, stream);
        const tapconv_tile tile = {.x = p.x.data,
                                   .offset = p.offset,
                                   .w = p.w.data,
                                   .w_step = p.w_step,
                                   .steps = taps,
                                   .out = out.data,
                                   .bias = p.bias.data,
                                   .columns = columns,
                                   .stream = stream};
        check_context("%s row, %" PRId64 " taps: columns %" PRId64 ", w_step %" PRId64 ", bias %d, stream %d", s->name,
                      taps, columns, p.w_step, p.bias.data != NULL, stream);
        const uint64_t before = hash_products(&p);
        s->real->row[taps - 1](&tile);
        s->isa->stream_fence();
        CHECK(hash_products(&p) == before);
        judge(s, &p, &out, columns);
        check_buffer_free(&out);
        free_products(&p);
    }
}
