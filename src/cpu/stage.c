/* Input on its way to the tiles: out of the caller's array, converted and rounded, zeros where padding is. Every weight
 * meets these zeros as it meets samples, so Inf and NaN in weights arrive where the formula puts them. */
#include "cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

void tapconv_stage(const tapconv_job *job, void *dst, int64_t item, int64_t channel, int64_t start, int64_t stride,
                   int64_t n)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t length = p->length;
    const size_t bytes = (size_t)plan->real->bytes;
    /* Samples [first, end) of dst lie inside the input. */
    const int64_t first = start >= 0 ? 0 : tapconv_min(n, tapconv_ceil_div(-start, stride));
    const int64_t end = start >= length ? first : tapconv_max(first, tapconv_min(n, (length - 1 - start) / stride + 1));
    char *const to = dst;
    memset(to, 0, (size_t)first * bytes);
    if (end > first) {
        const int64_t time_step = p->layout == TAPCONV_NCL ? 1 : p->in_channels;
        const int64_t time = start + first * stride;
        const int64_t index = item * p->in_channels * length +
                              (p->layout == TAPCONV_NCL ? channel * length + time : time * p->in_channels + channel);
        const tapconv_load load = {
            .dst = to + (size_t)first * bytes,
            .src = (const char *)job->arrays->x + (size_t)index * tapconv_type_bytes(p->type),
            .type = p->type,
            .math = p->math,
            .step = end - first > 1 ? stride * time_step : 1,
            .count = end - first,
        };
        plan->real->load(&load);
    }
    memset(to + (size_t)end * bytes, 0, (size_t)(n - end) * bytes);
}

int tapconv_plan_phases(tapconv_cpu_plan *plan)
{
    const tapconv_problem *p = &plan->shape.p;
    /* Taps k and k + period fall on one phase. */
    int64_t a = p->stride, b = p->dilation % p->stride;
    while (b != 0) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    plan->phases = tapconv_min(p->stride / a, p->kernel_size);
    plan->phase = malloc((size_t)plan->phases * sizeof plan->phase[0]);
    if (!plan->phase) return 0;
    for (int64_t k = 0; k < plan->phases; k++) plan->phase[k] = (int32_t)(k * p->dilation % p->stride);
    return 1;
}

int64_t tapconv_phase_offset(const tapconv_cpu_plan *plan, int64_t k)
{
    const tapconv_problem *p = &plan->shape.p;
    return k % plan->phases * plan->row + k * p->dilation / p->stride;
}
