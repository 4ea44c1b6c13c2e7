/* One output row from one input row and few taps: depthwise convolution at the speed of memory. A load that crosses a
 * cache line costs several times as much while its lines are still on their way from memory, so every load here is
 * aligned, and taps are shifted out of two neighbouring vectors in registers. Included once per real type, as tile.h,
 * where the vocabulary has `shift`. */

static inline __attribute__((always_inline)) void NAME(row_body)(const tapconv_tile *tile, const int taps)
{
    const REAL *at[16];
    V weight[16], low[16];
    VINDEX index[16];
#pragma GCC unroll 16
    for (int k = 0; k < taps; k++) {
        const REAL *const x = (const REAL *)tile->x + tile->offset[k];
        const int64_t lead = (int64_t)((uintptr_t)x / sizeof(REAL) % LANES);
        at[k] = x - lead;
        index[k] = VOP(shift_index)(lead);
        low[k] = VOP(load)(at[k]);
        weight[k] = VOP(set1)(((const REAL *)tile->w)[k * tile->w_step]);
    }
    REAL *const out = tile->out;
    const int64_t columns = tile->columns;
    const V bias = VOP(set1)(tile->bias ? *(const REAL *)tile->bias : (REAL)0);
    const int has_bias = tile->bias != NULL, stream = tile->stream;
    for (int64_t i = 0; i < columns; i += LANES) {
        V sum = VOP(zero)();
#pragma GCC unroll 16
        for (int k = 0; k < taps; k++) {
            const V high = VOP(load)(at[k] + i + LANES);
            sum = VOP(fma)(weight[k], VOP(shift)(low[k], high, index[k]), sum);
            low[k] = high;
        }
        sum = VOP(add)(VOP(zero)(), sum);
        if (has_bias) sum = VOP(add)(sum, bias);
        if (i + LANES > columns)
            VOP(store_part)(out + i, sum, columns - i);
        else if (stream)
            VOP(stream)(out + i, sum);
        else
            VOP(store)(out + i, sum);
    }
}

#define ROW(taps)                                                                                                      \
    static void NAME(row_##taps)(const tapconv_tile *tile)                                                             \
    {                                                                                                                  \
        NAME(row_body)(tile, taps);                                                                                    \
    }
