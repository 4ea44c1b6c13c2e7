/* Mean and squared distances of a block of values, in float64 lanes: two looks, the second from L1 or L2. A product of two
 * float32 values is exact in float64 and cannot overflow there. The first look counts from the block's first value, so that
 * equal values have exactly that mean. Rows are taken one after the other whatever their
 * distance, so the bits do not depend on where the block lies. Included once per real type, as tile.h, with
 * NAME(widen)(src) defined before. */

static tapconv_moments NAME(moments)(const void *src, int64_t src_row, int64_t rows, int64_t count)
{
    const double n = (double)rows * (double)count;
    double mean = (double)*(const REAL *)src, total = 0;
    for (int look = 0; look < 2; look++) {
        const vd center = vd_set1(mean);
        vd sum[4] = {vd_zero(), vd_zero(), vd_zero(), vd_zero()};
        double tail = 0;
        for (int64_t r = 0; r < rows; r++) {
            const REAL *const row = (const REAL *)src + r * src_row;
            int64_t i = 0;
            for (; i + 4 * VD_LANES <= count; i += 4 * VD_LANES)
#pragma GCC unroll 4
                for (int u = 0; u < 4; u++) {
                    const vd v = vd_sub(NAME(widen)(row + i + u * VD_LANES), center);
                    sum[u] = look == 0 ? vd_add(sum[u], v) : vd_fma(v, v, sum[u]);
                }
            for (; i + VD_LANES <= count; i += VD_LANES) {
                const vd v = vd_sub(NAME(widen)(row + i), center);
                sum[0] = look == 0 ? vd_add(sum[0], v) : vd_fma(v, v, sum[0]);
            }
            for (; i < count; i++) {
                const double v = (double)row[i] - mean;
                tail += look == 0 ? v : v * v;
            }
        }
        double lane[VD_LANES];
        vd_store(lane, vd_add(vd_add(sum[0], sum[1]), vd_add(sum[2], sum[3])));
        total = tail;
        for (int i = 0; i < VD_LANES; i++) total += lane[i];
        if (look == 0) mean += total / n;
    }
    return (tapconv_moments){n, mean, total};
}
