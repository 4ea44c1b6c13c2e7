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

    for (int64_t s = 0, end;;) {
        end = steps - s < slab ? steps : s + slab;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) sum[r][v] = VOP(zero)();

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
            TILE_UNROLL for (; s < end; s++)
            {
                __builtin_prefetch(next_w);
                next_w += w_step;
                STEP
            }
        } else {
            TILE_UNROLL for (; s < end; s++) STEP
        }
#undef STEP

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
        before = totals, before_step = vectors * LANES;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < vectors; v++) VOP(store)(totals + (r * vectors + v) * LANES, sum[r][v]);
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
