#include "slots.h"

#include "cpu/slabs.h"

#include <math.h>

check_buffer slot_values(const slots *s, int64_t count, double (*value)(void))
{
    const size_t size = (size_t)s->real->bytes;
    check_buffer b = check_buffer_make((size_t)count * size, (size_t)check_between(0, 15) * size);
    for (int64_t i = 0; i < count; i++) tapconv_set(b.data, s->type, i, value());
    return b;
}

check_buffer slot_results(const slots *s, int64_t count, int aligned)
{
    const size_t size = (size_t)s->real->bytes;
    return check_buffer_make((size_t)count * size, aligned ? 0 : (size_t)check_between(0, 15) * size);
}

double slot_fma(const slots *s, double a, double b, double c)
{
    const int fused = s->isa->bit != TAPCONV_ISA_SCALAR;
    if (s->type == TAPCONV_F64) return fused ? fma(a, b, c) : a * b + c;
    if (fused) return fmaf((float)a, (float)b, (float)c);
    const float product = (float)a * (float)b;
    return product + (float)c;
}

double slot_add(const slots *s, double a, double b)
{
    return s->type == TAPCONV_F64 ? a + b : (double)((float)a + (float)b);
}

slot_sum slot_sum_of(const slots *s, const void *x, int64_t column, const int32_t *offset, const void *w,
                     int64_t w_step, int64_t steps, const slot_taps *taps, const double *partial, const double *bias)
{
    long double exact = 0, size = 0;
    slot_sum sum = {0};
    double total = partial ? *partial : 0; /* so that no sum is -0 */
    if (partial) exact = *partial, size = fabs(*partial);
    for (int64_t from = 0, end; from < steps || from == 0; from = end) {
        double chain = 0;
        end = taps ? tapconv_slab_end(taps->kernel_size, from, steps) : steps;
        for (int64_t i = from; i < end; i++) {
            const int64_t tap = taps ? slot_tap(taps, i, steps) : 0;
            if (taps && (tap < taps->first || tap >= taps->end)) continue;
            const double weight = tapconv_get(w, s->type, i * w_step),
                         sample = tapconv_get(x, s->type, offset[i] + column);
            exact += (long double)weight * sample;
            size += fabsl((long double)weight * sample);
            chain = slot_fma(s, weight, sample, chain);
        }
        total = slot_add(s, total, chain);
        if (end >= steps) break;
    }
    if (bias) exact += *bias, size += fabs(*bias), total = slot_add(s, total, *bias);
    sum.exact = (double)exact, sum.size = (double)size, sum.canonical = total;
    return sum;
}
