/* Register tiles of the dense convolution, for one real type. Included once per type, with V (the vocabulary's prefix),
 * REAL, LANES and NAME defined.
 *
 * A tile is `rows` output channels x `vectors` vectors of samples, all in registers. Each step loads `vectors` vectors of
 * staged input (any alignment: a tap's shift is an address), broadcasts one weight a row, and does rows*vectors fma.
 * Staged input and weights come from L1 or L2; the tile leaves the registers once a slab, for L1 if more slabs follow. */

#define TILE(rows, vectors)                                                                                            \
    static void NAME(tile_##rows##x##vectors)(const tapconv_tile *tile)                                                \
    {                                                                                                                  \
        NAME(tile_body)(tile, rows, vectors);                                                                          \
    }

#define TILE_INLINE static inline __attribute__((always_inline))

TILE_INLINE void NAME(tile_zero)(V sum[16][12], const int rows, const int vectors)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
        for (int v = 0; v < vectors; v++) sum[r][v] = VOP(zero)();
}

/* Rows from 8 on have their weights at second + r. */
TILE_INLINE void NAME(tile_step)(V sum[16][12], const REAL *at, const REAL *w, const REAL *second, const int rows,
                                 const int vectors)
{
    V sample[12];
#pragma GCC unroll 12
    for (int v = 0; v < vectors; v++) sample[v] = VOP(load)(at + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        const V weight = VOP(set1)(r < 8 ? w[r] : second[r]);
#pragma GCC unroll 12
        for (int v = 0; v < vectors; v++) sum[r][v] = VOP(fma)(weight, sample[v], sum[r][v]);
    }
}

/* sum = before + sum; without before it is 0. */
TILE_INLINE void NAME(tile_add)(V sum[16][12], const REAL *before, int64_t before_step, const int rows,
                                const int vectors)
{
    if (before) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++)
                sum[r][v] = VOP(add)(VOP(load)(before + r * before_step + v * LANES), sum[r][v]);
    } else {
        const V zero = VOP(zero)();
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) sum[r][v] = VOP(add)(zero, sum[r][v]);
    }
}

/* Adds the bias and writes a tile whose last vector has `last` columns. */
TILE_INLINE void NAME(tile_write)(V sum[16][12], const REAL *bias, REAL *out, int64_t out_step, int64_t last,
                                  int stream, const int rows, const int vectors)
{
    if (bias) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const V b = VOP(set1)(bias[r]);
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) sum[r][v] = VOP(add)(sum[r][v], b);
        }
    }
    if (last >= LANES && stream) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) VOP(stream)(out + r * out_step + v * LANES, sum[r][v]);
    } else if (last >= LANES) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) VOP(store)(out + r * out_step + v * LANES, sum[r][v]);
    } else {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 12
            for (int v = 0; v < vectors - 1; v++) VOP(store)(out + r * out_step + v * LANES, sum[r][v]);
            VOP(store_part)(out + r * out_step + (vectors - 1) * LANES, sum[r][vectors - 1], last);
        }
    }
}

#if SIMD_REGISTERS == 32
TILE_INLINE void NAME(tile_body)(const tapconv_tile *tile, const int rows, const int vectors)
{
    V sum[16][12];
    _Alignas(64) REAL totals[16 * 12 * LANES]; /* of the slabs so far */
    const REAL *const x = tile->x;
    const REAL *w = tile->w, *second = rows > 8 ? w + tile->block_step - 8 : w, *next_w = tile->next_w;
    const int32_t *const offset = tile->offset;
    const int64_t w_step = tile->w_step, steps = tile->steps, slab = tile->slab > 0 ? tile->slab : steps;
    const REAL *before = tile->partial;
    int64_t before_step = tile->partial_step;

    for (int64_t s = 0, begin = 0, end;;) {
        end = steps - begin < slab ? steps : begin + slab;
        NAME(tile_zero)(sum, rows, vectors);
        if (rows >= SIMD_ROWS && next_w) { /* a loop of its own: the requests cost 1 % where they are not needed */
            for (; s < end; s++) {
                __builtin_prefetch(next_w);
                next_w += w_step;
                NAME(tile_step)(sum, x + offset[s], w, second, rows, vectors);
                w += w_step, second += w_step;
            }
        } else {
            for (; s < end; s++) {
                NAME(tile_step)(sum, x + offset[s], w, second, rows, vectors);
                w += w_step, second += w_step;
            }
        }
        NAME(tile_add)(sum, before, before_step, rows, vectors);
        if (end == steps) break;
        begin = end;
        before = totals, before_step = vectors * LANES;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) VOP(store)(totals + (r * vectors + v) * LANES, sum[r][v]);
    }
    NAME(tile_write)
    (sum, tile->bias, tile->out, tile->out_step, tile->columns - (int64_t)(vectors - 1) * LANES, tile->stream, rows,
     vectors);
}
#else
/* From chain to chain: to = (before + sum) + bias, and sum the first step of the next chain. Twelve stores in a row make a
 * Zen 3 core wait for some 30 cycles, among multiplications 15. A product is its chain's first sum: at most a -0 for +0,
 * which is gone when the chain is added to sums that are never -0; those a bias of 0 leaves as they are. The barrier makes
 * the compiler form addresses in the instructions that use them: all formed before, they do not fit the registers. */
TILE_INLINE void NAME(tile_switch)(V sum[16][12], const REAL *first, const REAL *w, const REAL *before,
                                   int64_t before_step, const REAL *bias, REAL *to, int64_t to_step, const int rows,
                                   const int vectors)
{
    V sample[12];
#pragma GCC unroll 12
    for (int v = 0; v < vectors; v++) sample[v] = VOP(load)(first + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        __asm__ volatile("" : "+r"(before_step), "+r"(to_step)::"memory");
        const V weight = VOP(set1)(w[r]);
#pragma GCC unroll 12
        for (int v = 0; v < vectors; v++) {
            V total = VOP(add)(VOP(load)(before + r * before_step + v * LANES), sum[r][v]);
            if (bias) total = VOP(add)(total, VOP(set1)(bias[r]));
            VOP(store)(to + r * to_step + v * LANES, total);
            sum[r][v] = VOP(mul)(weight, sample[v]);
        }
    }
}

/* Tile by tile, slab by slab, as one loop over chains: a call costs 60 cycles and ends in a burst of stores. */
TILE_INLINE void NAME(tile_body)(const tapconv_tile *tile, const int rows, const int vectors)
{
    static const REAL zeros[12 * LANES];
    V sum[16][12];
    _Alignas(64) REAL totals[16 * 12 * LANES]; /* of the slabs so far */
    const REAL *const x = tile->x, *const partial = tile->partial, *const bias = tile->bias;
    const int64_t w_step = tile->w_step, slab = tile->slab > 0 ? tile->slab : tile->steps;
    const int64_t last_row = tile->more_tiles * rows; /* the first of the last tile */
    const REAL *w = tile->w, *before = partial ? partial : zeros;
    const int32_t *offset = tile->offset, *begin = offset;
    int64_t before_step = partial ? tile->partial_step : 0, left = tile->steps, row = 0;
    REAL *out = tile->out;

    NAME(tile_zero)(sum, rows, vectors);
    for (;;) {
        const int32_t *const end = begin + (left < slab ? left : slab);
        /* Unrolled, so that a slab has few enough rounds for its end to be foreseen. */
#pragma GCC unroll 4
        for (; offset < end; offset++, w += w_step) NAME(tile_step)(sum, x + *offset, w, w, rows, vectors);
        left -= end - begin;
        if (left > 0) {
            NAME(tile_switch)
            (sum, x + *end, w, before, before_step, NULL, totals, vectors * LANES, rows, vectors);
            begin = end;
            before = totals, before_step = vectors * LANES;
        } else {
            if (row == last_row) break;
            begin = tile->offset, left = tile->steps;
            w = (const REAL *)tile->w + (row + rows) / TAPCONV_BLOCK * tile->block_step + (row + rows) % TAPCONV_BLOCK;
            NAME(tile_switch)
            (sum, x + *begin, w, before, before_step, bias ? bias + row : zeros, out, tile->out_step, rows, vectors);
            row += rows, out += rows * tile->out_step;
            before = partial ? partial + row * tile->partial_step : zeros;
            before_step = partial ? tile->partial_step : 0;
            /* The next rows may be far away, and stores wait for them. */
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++) {
                __builtin_prefetch(out + r * tile->out_step, 1);
                __builtin_prefetch(out + r * tile->out_step + vectors * LANES - 1, 1);
            }
        }
        offset = begin + 1, w += w_step;
    }
    NAME(tile_add)(sum, before, before_step, rows, vectors);
    NAME(tile_write)
    (sum, bias ? bias + row : NULL, out, tile->out_step, tile->columns - (int64_t)(vectors - 1) * LANES, tile->stream,
     rows, vectors);
}
#endif
