/* Executing a plan: threads, waves, units. Without GroupNorm there is one wave. With it, a wave is as much as fits the
 * caches: its convolution is written, all threads meet, its groups are finished where they lie. Threads take contiguous
 * shares of the units; whichever thread computes a unit, it computes the same bits. */
#include "cpu/cpu.h"

#include "convert.h"
#include "cpu/parallel.h"

static void work(void *context, int thread, int team)
{
    const tapconv_job *const job = context;
    const tapconv_cpu_plan *const plan = job->plan;
    const int64_t channels = plan->shape.p.out_channels, outputs = channels * plan->shape.p.batch;
    void *const scratch = job->workspace + plan->thread_at + (size_t)thread * plan->thread_bytes;
    for (tapconv_span span = {0, 0}; span.first < outputs; span.first = span.end) {
        span.end = tapconv_min(outputs, span.first + plan->wave);
        if (plan->wave < channels) span.end = tapconv_min(span.end, (span.first / channels + 1) * channels);
        const int64_t units = plan->family->units(plan, span, team);
        plan->family->compute(job, span, team, units * thread / team, units * (thread + 1) / team, scratch);
        if (plan->shape.p.norm_groups > 0) {
            tapconv_barrier(team);
            tapconv_norm_wave(job, span, thread, team);
            if (span.end < outputs) tapconv_barrier(team);
        }
    }
    if (plan->stream) plan->isa->stream_fence();
}

/* A parameter array in float64 (exact), in the workspace. */
static const double *widened(const void *array, tapconv_type type, int64_t count, double *to)
{
    if (!array) return NULL;
    for (int64_t i = 0; i < count; i++) to[i] = tapconv_get(array, type, i);
    return to;
}

void tapconv_cpu_execute(const void *made, const tapconv_arrays *arrays)
{
    const tapconv_cpu_plan *const plan = made;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t channels = p->out_channels;
    tapconv_job job = {.plan = plan, .arrays = arrays};
    job.workspace = tapconv_aligned(arrays->workspace);
    double *const params = (double *)(void *)(job.workspace + plan->params_at);
    job.bias64 = widened(arrays->bias, p->param_type, channels, params);
    job.gamma = widened(arrays->gamma, p->param_type, channels, params + channels);
    job.beta = widened(arrays->beta, p->param_type, channels, params + 2 * channels);
    if (job.bias64) {
        void *const bias = job.workspace + plan->bias_at;
        for (int64_t i = 0; i < channels; i++) {
            if (plan->real->bytes == 8)
                ((double *)bias)[i] = job.bias64[i];
            else
                ((float *)bias)[i] = (float)job.bias64[i];
        }
        job.bias = bias;
    }
    tapconv_parallel(plan->threads, work, &job);
}
