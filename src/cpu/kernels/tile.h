/* Register tiles of the dense convolution, for one real type. Included once per type, with V (the vocabulary's prefix),
 * REAL, LANES and NAME defined.
 *
 * A tile is `rows` output channels x `vectors` vectors of samples, all in registers. Each step loads `vectors` vectors of
 * staged input (any alignment: a tap's shift is an address), broadcasts one weight a row, and does rows*vectors fma.
 * Staged input and weights come from L1 or L2; the tile leaves the registers once a slab, for L1 if more slabs follow. */

/* So many steps of a slab that its loop's end is foreseen. Where a step has 24 fma it does not matter. */
#if SIMD_REGISTERS == 32
#define TILE_UNROLL
#else
#define TILE_UNROLL _Pragma("GCC unroll 4")
/* From slab to slab: the last step of one and the first of the next, a vector at a time. Twelve stores in a row make a Zen 3
 * core wait for some 30 cycles; among multiply-adds they cost a third of that. A product is its slab's first sum: at most
 * a -0 for +0, which is gone when the slab is added to sums that are never -0. The barrier keeps weights from being held in
 * registers, of which none are left. */
#define TILE_MERGED_SWITCH
#endif

#define TILE(rows, vectors)                                                                                            \
    static void NAME(tile_##rows##x##vectors)(const tapconv_tile *tile)                                                \
    {                                                                                                                  \
        NAME(tile_body)(tile, rows, vectors);                                                                          \
    }

static inline __attribute__((always_inline)) void NAME(tile_body)(const tapconv_tile *tile, const int rows,
                                                                  const int vectors)
{
    V sum[16][12];
    _Alignas(64) REAL totals[16 * 12 * LANES]; /* of the slabs so far */
    const REAL *const x = tile->x;
    const REAL *w = tile->w, *second = rows > 8 ? w + tile->second_block - 8 : w, *next_w = tile->next_w;
    const int32_t *const offset = tile->offset;
    const int64_t w_step = tile->w_step, steps = tile->steps, slab = tile->slab > 0 ? tile->slab : steps;
    const REAL *before = tile->partial, *const bias = tile->bias;
    int64_t before_step = tile->partial_step;

#ifdef TILE_MERGED_SWITCH
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
        for (int v = 0; v < vectors; v++) sum[r][v] = VOP(zero)();
#endif
    for (int64_t s = 0, begin = 0, end;;) {
        end = steps - begin < slab ? steps : begin + slab;
#ifdef TILE_MERGED_SWITCH
        const int64_t whole = end < steps ? end - 1 : end; /* the last step is part of the switch */
#else
        const int64_t whole = end;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) sum[r][v] = VOP(zero)();
#endif

#define STEP                                                                                                           \
    {                                                                                                                  \
        const REAL *const at = x + offset[s];                                                                          \
        V sample[12];                                                                                                  \
        _Pragma("GCC unroll 12") for (int v = 0; v < vectors; v++) sample[v] = VOP(load)(at + v * LANES);              \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows; r++)                                                        \
        {                                                                                                              \
            const V weight = VOP(set1)(r < 8 ? w[r] : second[r]);                                                      \
            _Pragma("GCC unroll 12") for (int v = 0; v < vectors; v++) sum[r][v] =                                     \
                VOP(fma)(weight, sample[v], sum[r][v]);                                                                \
        }                                                                                                              \
        w += w_step, second += w_step;                                                                                 \
    }
        if (rows >= SIMD_ROWS &&
            tile->next_w) { /* a loop of its own: the requests cost 1 % where they are not needed */
            TILE_UNROLL for (; s < whole; s++)
            {
                __builtin_prefetch(next_w);
                next_w += w_step;
                STEP
            }
        } else {
            TILE_UNROLL for (; s < whole; s++) STEP
        }
#undef STEP

#ifdef TILE_MERGED_SWITCH
        if (end < steps) {
            static const REAL zeros[12 * LANES];
            const REAL *const from = before ? before : zeros, *const last = x + offset[s],
                              *const first = x + offset[end];
            const int64_t from_step = before ? before_step : 0;
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) {
                const V sample = VOP(load)(last + v * LANES), then = VOP(load)(first + v * LANES);
                __asm__ volatile("" ::: "memory");
#pragma GCC unroll 16
                for (int r = 0; r < rows; r++) {
                    const V all = VOP(fma)(VOP(set1)(w[r]), sample, sum[r][v]);
                    VOP(store)
                    (totals + (r * vectors + v) * LANES, VOP(add)(VOP(load)(from + r * from_step + v * LANES), all));
                    sum[r][v] = VOP(mul)(VOP(set1)(w[w_step + r]), then);
                }
            }
            w += 2 * w_step, s = end + 1, begin = end;
            if (next_w) next_w += 2 * w_step;
            before = totals, before_step = vectors * LANES;
            continue;
        }
#endif
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
        if (end == steps) break;
#ifndef TILE_MERGED_SWITCH
        begin = end;
        before = totals, before_step = vectors * LANES;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) VOP(store)(totals + (r * vectors + v) * LANES, sum[r][v]);
#endif
    }
    if (bias) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const V b = VOP(set1)(bias[r]);
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) sum[r][v] = VOP(add)(sum[r][v], b);
        }
    }
    REAL *const out = tile->out;
    const int64_t last = tile->columns - (int64_t)(vectors - 1) * LANES;
    if (last >= LANES && tile->stream) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) VOP(stream)(out + r * tile->out_step + v * LANES, sum[r][v]);
    } else if (last >= LANES) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) VOP(store)(out + r * tile->out_step + v * LANES, sum[r][v]);
    } else {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 12
            for (int v = 0; v < vectors - 1; v++) VOP(store)(out + r * tile->out_step + v * LANES, sum[r][v]);
            VOP(store_part)(out + r * tile->out_step + (vectors - 1) * LANES, sum[r][vectors - 1], last);
        }
    }
}
