/* float64 results on their way out, one value at a time: this mode is for precision. */

static void f64_emit(const tapconv_emit *emit)
{
    const size_t size = tapconv_type_bytes(emit->type);
    for (int64_t r = 0; r < emit->rows; r++) {
        const double *const src = (const double *)emit->src + r * emit->src_row;
        char *const dst = (char *)emit->dst + (size_t)(r * emit->dst_row) * size;
        for (int64_t i = 0; i < emit->count; i++) {
            double v = emit->bias ? src[i] + emit->bias[r] : src[i];
            if (emit->scale) v = (v - emit->mean) * emit->scale[r] + emit->shift[r];
            tapconv_set(dst, emit->type, i * emit->dst_step, activate_f64(emit->activation, v));
        }
    }
}
