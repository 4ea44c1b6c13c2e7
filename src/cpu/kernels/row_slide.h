/* One output row from one input row and few taps, as row.h, where vectors slide by a number of lanes that is known at
 * compile time. Neighbouring taps (dilation 1) are slid out of aligned vectors, in a body for each place of the first tap
 * in its vector: a load across a cache line costs twice even from L1, and several times as much while its lines are on
 * their way. Other dilations load each tap where it lies. Input is requested ahead because the hardware's prefetchers
 * begin anew with every page. Included once per real type, as tile.h. */

#ifndef ROW_AHEAD
/* How far ahead input is requested: some 60 ns of a copy. */
#define ROW_AHEAD 2048
/* More taps than this load each where it lies: so many slides take as long. */
#define ROW_MOST_SLID 9
#endif

typedef struct NAME(row_end) {
    V bias;
    REAL *out;
    int64_t columns;
    int stream;
} NAME(row_end);

static inline __attribute__((always_inline)) NAME(row_end) NAME(row_end_of)(const tapconv_tile *tile)
{
    return (NAME(row_end)){.out = tile->out,
                           .bias = VOP(set1)(tile->bias ? *(const REAL *)tile->bias : (REAL)0),
                           .stream = tile->stream,
                           .columns = tile->columns};
}

/* A vector of sums, column i on; not `whole`: the row's last. Without a bias this adds 0 once more, which changes nothing. */
static inline __attribute__((always_inline)) void NAME(row_put)(const NAME(row_end) * end, int64_t i, V sum,
                                                                const int whole)
{
    sum = VOP(add)(VOP(add)(VOP(zero)(), sum), end->bias);
    if (!whole && i + LANES > end->columns)
        VOP(store_part)(end->out + i, sum, end->columns - i);
    else if (end->stream)
        VOP(stream)(end->out + i, sum);
    else
        VOP(store)(end->out + i, sum);
}

/* `count` vectors of sums from column i on. x: the aligned vector of the first tap. */
static inline __attribute__((always_inline)) void NAME(row_slide)(const REAL *x, const V *weight,
                                                                  const NAME(row_end) * end, int64_t i, const int count,
                                                                  const int taps, const int lead)
{
    V v[8], sum[4];
    const int vectors = (lead + taps - 1 + LANES - 1) / LANES + count;
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) v[j] = VOP(load)(x + i + j * LANES);
#pragma GCC unroll 4
    for (int u = 0; u < count; u++) sum[u] = VOP(zero)();
#pragma GCC unroll 16
    for (int k = 0; k < taps; k++)
#pragma GCC unroll 4
        for (int u = 0; u < count; u++) {
            const int at = (lead + k) / LANES + u, by = (lead + k) % LANES;
            sum[u] = VOP(fma)(weight[k], by == 0 ? v[at] : VOP(slide)(v[at], v[at + (by != 0)], by), sum[u]);
        }
#pragma GCC unroll 4
    for (int u = 0; u < count; u++) NAME(row_put)(end, i + u * LANES, sum[u], count > 1);
}

static inline __attribute__((always_inline)) void NAME(row_neighbours)(const tapconv_tile *tile, const V *weight,
                                                                       const int taps, const int lead)
{
    const REAL *const x = (const REAL *)tile->x + tile->offset[0] - lead;
    const NAME(row_end) end = NAME(row_end_of)(tile);
    int64_t i = 0;
    for (; i + 2 * LANES <= end.columns; i += 2 * LANES) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): pointer arithmetic may not leave the row, requests may */
        __builtin_prefetch((const void *)((uintptr_t)(x + i) + ROW_AHEAD));
        NAME(row_slide)(x, weight, &end, i, 2, taps, lead);
    }
    for (; i < end.columns; i += LANES) NAME(row_slide)(x, weight, &end, i, 1, taps, lead);
}

/* Taps wherever they are. */
static inline __attribute__((always_inline)) void NAME(row_anywhere)(const tapconv_tile *tile, const V *weight,
                                                                     const int taps)
{
    const REAL *at[16];
#pragma GCC unroll 16
    for (int k = 0; k < taps; k++) at[k] = (const REAL *)tile->x + tile->offset[k];
    const NAME(row_end) end = NAME(row_end_of)(tile);
    int64_t i = 0;
    for (; i + 2 * LANES <= end.columns; i += 2 * LANES) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): pointer arithmetic may not leave the row, requests may */
        __builtin_prefetch((const void *)((uintptr_t)(at[taps - 1] + i) + ROW_AHEAD));
        V first = VOP(zero)(), second = VOP(zero)();
#pragma GCC unroll 16
        for (int k = 0; k < taps; k++) {
            first = VOP(fma)(weight[k], VOP(load)(at[k] + i), first);
            second = VOP(fma)(weight[k], VOP(load)(at[k] + i + LANES), second);
        }
        NAME(row_put)(&end, i, first, 1);
        NAME(row_put)(&end, i + LANES, second, 1);
    }
    for (; i < end.columns; i += LANES) {
        V sum = VOP(zero)();
#pragma GCC unroll 16
        for (int k = 0; k < taps; k++) sum = VOP(fma)(weight[k], VOP(load)(at[k] + i), sum);
        NAME(row_put)(&end, i, sum, 0);
    }
}

static inline __attribute__((always_inline)) void NAME(row_body)(const tapconv_tile *tile, const int taps)
{
    V weight[16];
    int neighbours = 1;
#pragma GCC unroll 16
    for (int k = 0; k < taps; k++) {
        weight[k] = VOP(set1)(((const REAL *)tile->w)[k * tile->w_step]);
        neighbours &= tile->offset[k] - tile->offset[0] == k;
    }
    const uintptr_t first = (uintptr_t)((const REAL *)tile->x + tile->offset[0]);
    const int lead = neighbours ? (int)(first / sizeof(REAL) % LANES) : LANES;
    if (taps == 1 || taps > ROW_MOST_SLID) {
        NAME(row_anywhere)(tile, weight, taps);
        return;
    }
    switch (lead) {
    case 0: NAME(row_neighbours)(tile, weight, taps, 0); break;
    case 1: NAME(row_neighbours)(tile, weight, taps, 1); break;
    case 2: NAME(row_neighbours)(tile, weight, taps, 2); break;
    case 3: NAME(row_neighbours)(tile, weight, taps, 3); break;
#if LANES > 4
    case 4: NAME(row_neighbours)(tile, weight, taps, 4); break;
    case 5: NAME(row_neighbours)(tile, weight, taps, 5); break;
    case 6: NAME(row_neighbours)(tile, weight, taps, 6); break;
    case 7: NAME(row_neighbours)(tile, weight, taps, 7); break;
#endif
    default: NAME(row_anywhere)(tile, weight, taps); break;
    }
}

#define ROW(taps)                                                                                                      \
    static void NAME(row_##taps)(const tapconv_tile *tile)                                                             \
    {                                                                                                                  \
        NAME(row_body)(tile, taps);                                                                                    \
    }
