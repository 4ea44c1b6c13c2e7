/* Staging: samples from a caller's array into rows that the tiles read. Included once per real type, as tile.h, with
 * NAME(load_vector)(src, type, math) defined before. */

static void NAME(load)(const tapconv_load *load)
{
    REAL *dst = load->dst;
    const int64_t size = (int64_t)tapconv_type_bytes(load->type);
    const char *src = load->src;
    int64_t left = load->count;
    if (load->step == 1 && sizeof(REAL) == (size_t)size && load->math != TAPCONV_MATH_TF32 &&
        load->math != TAPCONV_MATH_F16 && load->math != TAPCONV_MATH_BF16) {
        memcpy(dst, src, (size_t)(left * size));
        return;
    }
    if (load->step == 1)
        for (; left >= LANES; left -= LANES, dst += LANES, src += LANES * size)
            VOP(store)(dst, NAME(load_vector)(src, load->type, load->math));
    while (left > 0) { /* the tail, and strided sources: gathered first */
        union {
            uint16_t two[LANES];
            float four[LANES];
            double eight[LANES];
        } gathered = {.eight = {0}};
        const int64_t count = left < LANES ? left : LANES;
        const int64_t step = load->step;
        for (int64_t i = 0; i < count; i++) {
            if (size == 2) gathered.two[i] = ((const uint16_t *)(const void *)src)[i * step];
            if (size == 4) gathered.four[i] = ((const float *)(const void *)src)[i * step];
            if (size == 8) gathered.eight[i] = ((const double *)(const void *)src)[i * step];
        }
        VOP(store_part)(dst, NAME(load_vector)(&gathered, load->type, load->math), count);
        left -= count, dst += count, src += count * step * size;
    }
}

/* to[i] = from[i*stride], i < count; writes and reads as if count were rounded up to whole vectors. */
static void NAME(strided)(REAL *to, const REAL *from, int64_t stride, int64_t count)
{
    if (stride == 1) {
        for (int64_t i = 0; i < count; i += LANES) VOP(store)(to + i, VOP(load)(from + i));
        return;
    }
#ifdef SIMD_HAS_SHIFT
    if (stride <= 16) {
        uint16_t lanes_of[16];
        const VINDEX places = VOP(strided_places)(stride, lanes_of);
        for (int64_t i = 0; i < count; i += LANES)
            VOP(store)(to + i, VOP(load_strided)(from + i * stride, stride, places, lanes_of));
        return;
    }
#endif
    for (int64_t i = 0; i < count; i++) to[i] = from[i * stride];
}

static void NAME(taps)(void *dst, int64_t dst_row, const void *src, int64_t kernel_size, int64_t dilation,
                       int64_t stride, int64_t count)
{
    for (int64_t k = 0; k < kernel_size; k++)
        NAME(strided)((REAL *)dst + k * dst_row, (const REAL *)src + k * dilation, stride, count);
}

static void NAME(phases)(void *dst, int64_t dst_row, const void *src, const int32_t *phase, int64_t phases,
                         int64_t stride, int64_t count)
{
    for (int64_t p = 0; p < phases; p++)
        NAME(strided)((REAL *)dst + p * dst_row, (const REAL *)src + phase[p], stride, count);
}
