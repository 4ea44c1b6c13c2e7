/* float32 results on their way out: bias, normalisation, activation, conversion, in one pass over a row that is still in
 * L1 or L2. One loop an activation, so that each is straight code. */

typedef struct emit_row {
    const float *src, *fetch;
    int64_t count;
    int has_bias, has_norm;
    float bias, mean_high, mean_low, scale, shift;
} emit_row;

static inline __attribute__((always_inline)) vf emit_value(const emit_row *row, vf v, vf (*activate)(vf))
{
    if (row->has_bias) v = vf_add(v, vf_set1(row->bias));
    if (row->has_norm) {
        v = vf_sub(vf_sub(v, vf_set1(row->mean_high)), vf_set1(row->mean_low));
        v = vf_fma(v, vf_set1(row->scale), vf_set1(row->shift));
    }
    return activate(v);
}

static inline __attribute__((always_inline)) void emit_convert(void *dst, tapconv_type type, int64_t at, vf v)
{
    if (type == TAPCONV_F32)
        vf_store((float *)dst + at, v);
    else if (type == TAPCONV_F16)
        vf_store_f16((uint16_t *)dst + at, v);
    else
        vf_store_bf16((uint16_t *)dst + at, v);
}

/* To dst[i], i < count. */
static inline __attribute__((always_inline)) void emit_contiguous(const emit_row *row, void *dst, tapconv_type type,
                                                                  int stream, vf (*activate)(vf))
{
    int64_t i = 0;
    if (type == TAPCONV_F32) {
        float *const out = dst;
        if (stream) { /* up to the first whole vector by ordinary stores */
            const int64_t misaligned = (int64_t)((uintptr_t)out / sizeof(float) % VF_LANES);
            const int64_t head =
                (VF_LANES - misaligned) % VF_LANES < row->count ? (VF_LANES - misaligned) % VF_LANES : row->count;
            if (head > 0) vf_store_part(out, emit_value(row, vf_load_part(row->src, head), activate), head);
            for (i = head; i + VF_LANES <= row->count; i += VF_LANES) {
                if (row->fetch) __builtin_prefetch(row->fetch + i);
                vf_stream(out + i, emit_value(row, vf_load(row->src + i), activate));
            }
        }
        for (; i + VF_LANES <= row->count; i += VF_LANES)
            vf_store(out + i, emit_value(row, vf_load(row->src + i), activate));
        if (i < row->count)
            vf_store_part(out + i, emit_value(row, vf_load_part(row->src + i, row->count - i), activate),
                          row->count - i);
        return;
    }
    for (; i + VF_LANES <= row->count; i += VF_LANES)
        emit_convert(dst, type, i, emit_value(row, vf_load(row->src + i), activate));
    if (i < row->count) {
        uint16_t last[VF_LANES];
        emit_convert(last, type, 0, emit_value(row, vf_load_part(row->src + i, row->count - i), activate));
        memcpy((uint16_t *)dst + i, last, (size_t)(row->count - i) * sizeof last[0]);
    }
}

#define EMIT_CHUNK 256

static inline __attribute__((always_inline)) void emit_rows(const tapconv_emit *emit, vf (*activate)(vf))
{
    const size_t size = tapconv_type_bytes(emit->type);
    for (int64_t r = 0; r < emit->rows; r++) {
        emit_row row = {
            .src = (const float *)emit->src + r * emit->src_row, .fetch = emit->fetch, .count = emit->count};
        if (emit->bias) row.has_bias = 1, row.bias = (float)emit->bias[r];
        int wide = 0;
        if (emit->scale) {
            row.has_norm = 1;
            row.mean_high = (float)emit->mean;
            row.mean_low = (float)(emit->mean - (double)row.mean_high);
            row.scale = (float)emit->scale[r], row.shift = (float)emit->shift[r];
            /* float32 steps could overflow, or a subnormal scale lose digits: such rows are normalised in float64. */
            wide = !(fabs(emit->mean) < 1e31 && fabs(emit->scale[r]) < 1e37 &&
                     (fabs(emit->scale[r]) > 1e-37 || emit->scale[r] == 0));
        }
        char *dst = (char *)emit->dst + (size_t)(r * emit->dst_row) * size;
        if (!wide && emit->dst_step == 1) {
            emit_contiguous(&row, dst, emit->type, emit->stream, activate);
            continue;
        }
        const float *const src = row.src;
        for (int64_t from = 0; from < emit->count; from += EMIT_CHUNK) {
            const int64_t count = emit->count - from < EMIT_CHUNK ? emit->count - from : EMIT_CHUNK;
            float normalised[EMIT_CHUNK], out[EMIT_CHUNK];
            row.src = src + from, row.count = count;
            if (wide) {
                for (int64_t i = 0; i < count; i++) {
                    const float v = row.has_bias ? src[from + i] + row.bias : src[from + i];
                    normalised[i] = (float)(((double)v - emit->mean) * emit->scale[r] + emit->shift[r]);
                }
                const emit_row plain = {.src = normalised, .count = count};
                emit_contiguous(&plain, out, emit->type, 0, activate);
            } else {
                emit_contiguous(&row, out, emit->type, 0, activate);
            }
            char *to = dst + (size_t)(from * emit->dst_step) * size;
            for (int64_t i = 0; i < count; i++) {
                if (size == 4)
                    ((float *)(void *)to)[i * emit->dst_step] = out[i];
                else
                    ((uint16_t *)(void *)to)[i * emit->dst_step] = ((const uint16_t *)(const void *)out)[i];
            }
        }
    }
}

static inline vf activate_none(vf v)
{
    return v;
}

#define EMIT(name)                                                                                                     \
    static void emit_##name(const tapconv_emit *emit)                                                                  \
    {                                                                                                                  \
        emit_rows(emit, activate_##name);                                                                              \
    }
EMIT(none)
EMIT(relu)
EMIT(silu)
EMIT(gelu)
EMIT(gelu_tanh)
EMIT(mish)
EMIT(tanh)
EMIT(sigmoid)
EMIT(elu)
EMIT(leaky_relu)
#undef EMIT

static void f32_emit(const tapconv_emit *emit)
{
    static void (*const by_activation[TAPCONV_ACTIVATION_COUNT])(const tapconv_emit *) = {
        emit_none, emit_relu, emit_silu,    emit_gelu, emit_gelu_tanh,
        emit_mish, emit_tanh, emit_sigmoid, emit_elu,  emit_leaky_relu};
    by_activation[emit->activation](emit);
}
