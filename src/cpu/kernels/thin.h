/* Few columns (streaming, the shortest sequences): vectors run along the 8 output channels of a packed block, columns are
 * broadcast. What limits it is the stream of weights out of L2 or memory, 32 bytes a block and term; several blocks at a
 * time keep enough chains of fma and enough reads in flight. Included once per real type, as tile.h. */

static inline __attribute__((always_inline)) void NAME(thin_body)(const tapconv_thin *thin, const int blocks,
                                                                  const int columns)
{
    const tapconv_tile *const tile = &thin->tile;
    const REAL *const x = tile->x;
    const REAL *const w = tile->w;
    const int64_t block_step = thin->block_step, taps = thin->kernel_size;
    const int some = thin->end_tap - thin->first_tap < taps;
    V8 total[8][8];
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 8
        for (int j = 0; j < columns; j++) {
            REAL lane[8];
            total[b][j] = V8OP(zero)();
            if (!tile->partial) continue;
            const REAL *const partial = (const REAL *)tile->partial + b * 8 * tile->partial_step + j;
            for (int r = 0; r < 8; r++) lane[r] = partial[r * tile->partial_step];
            total[b][j] = V8OP(load)(lane);
        }

    for (int64_t from = 0, end; from < tile->steps; from = end) {
        V8 sum[8][8];
#pragma GCC unroll 8
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 8
            for (int j = 0; j < columns; j++) sum[b][j] = V8OP(zero)();

        end = tapconv_slab_end(taps, from, tile->steps);
        int64_t skip = 0, stop = end - from;
        if (some) tapconv_slab_taps(taps, from, end, thin->first_tap, thin->end_tap, &skip, &stop);
        for (int64_t s = from + skip; s < from + stop; s++) {
            const REAL *const at = x + tile->offset[s], *const weights = w + s * TAPCONV_BLOCK;
            V8 sample[8];
#pragma GCC unroll 8
            for (int j = 0; j < columns; j++) sample[j] = V8OP(set1)(at[j]);
#pragma GCC unroll 8
            for (int b = 0; b < blocks; b++) {
                const V8 weight = V8OP(load)(weights + b * block_step);
                /* A slab on, where leaving out taps makes jumps that the hardware's prefetchers do not follow. */
                if (some) __builtin_prefetch(weights + b * block_step + TAPCONV_SLAB * TAPCONV_BLOCK);
#pragma GCC unroll 8
                for (int j = 0; j < columns; j++) sum[b][j] = V8OP(fma)(weight, sample[j], sum[b][j]);
            }
        }
#pragma GCC unroll 8
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 8
            for (int j = 0; j < columns; j++) total[b][j] = V8OP(add)(total[b][j], sum[b][j]);
    }

    REAL *const out = tile->out;
    for (int b = 0; b < blocks; b++) {
        const REAL *const bias = tile->bias ? (const REAL *)tile->bias + b * 8 : NULL;
        for (int j = 0; j < columns; j++) {
            REAL lane[8];
            V8OP(store)(lane, bias ? V8OP(add)(total[b][j], V8OP(load)(bias)) : total[b][j]);
            for (int r = 0; r < 8; r++) out[(b * 8 + r) * tile->out_step + j] = lane[r];
        }
    }
}

#define THIN(columns, many)                                                                                            \
    static void NAME(thin_1x##columns)(const tapconv_thin *thin)                                                       \
    {                                                                                                                  \
        NAME(thin_body)(thin, 1, columns);                                                                             \
    }                                                                                                                  \
    static void NAME(thin_##many##x##columns)(const tapconv_thin *thin)                                                \
    {                                                                                                                  \
        NAME(thin_body)(thin, many, columns);                                                                          \
    }
