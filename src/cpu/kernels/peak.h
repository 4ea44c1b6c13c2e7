/* The ceiling: fused multiply-adds from registers, 12 chains, nothing else. Included once per real type, as tile.h. */

static double NAME(peak)(int64_t rounds)
{
    V sum[12];
    const V factor = VOP(set1)((REAL)0.999), term = VOP(set1)((REAL)0.5);
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) sum[i] = VOP(set1)((REAL)i);
    for (int64_t round = 0; round < rounds; round++)
#pragma GCC unroll 4
        for (int repeat = 0; repeat < 64; repeat++)
#pragma GCC unroll 12
            for (int i = 0; i < 12; i++) sum[i] = VOP(fma)(sum[i], factor, term);
    REAL lane[LANES];
    double total = 0;
    for (int i = 0; i < 12; i++) {
        VOP(store)(lane, sum[i]);
        for (int j = 0; j < LANES; j++) total += (double)lane[j];
    }
    return total;
}
