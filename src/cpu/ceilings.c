/* What this machine can do at most, measured now: multiply-adds from registers, and copying memory. */
#define _POSIX_C_SOURCE 200809L

#include "cpu/cpu.h"
#include "cpu/parallel.h"
#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 20000
#define REPEATS 5
#define COPY_BYTES ((int64_t)128 << 20) /* beyond the caches */
#define MOST_THREADS 1024

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct measurement {
    const tapconv_isa *isa;
    const tapconv_real_kernels *real;
    char *dst, *src;
    int stream;
    double sum[MOST_THREADS]; /* keeps the arithmetic from being dropped */
} measurement;

static void run_peak(void *context, int thread, int team)
{
    (void)team;
    measurement *m = context;
    m->sum[thread % MOST_THREADS] = m->real->peak(ROUNDS);
}

static void run_copy(void *context, int thread, int team)
{
    measurement *m = context;
    const int64_t lines = COPY_BYTES / 64, first = lines * thread / team * 64, end = lines * (thread + 1) / team * 64;
    if (m->stream)
        m->isa->stream_copy(m->dst + first, m->src + first, end - first);
    else
        memcpy(m->dst + first, m->src + first, (size_t)(end - first));
}

static double least_seconds(int threads, void (*body)(void *, int, int), measurement *m)
{
    double least = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        const double start = seconds();
        tapconv_parallel(threads, body, m);
        const double time = seconds() - start;
        if (time < least) least = time;
    }
    return least;
}

tapconv_status tapconv_cpu_ceilings(const tapconv_plan_options *options, tapconv_math math, tapconv_ceilings *ceilings)
{
    measurement m = {.isa = tapconv_isa_choose(options->isa_mask)};
    if (!m.isa)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "isa_mask is 0x%x; it must have a bit of tapconv_cpu_features, 0x%x",
                            (unsigned)options->isa_mask, (unsigned)tapconv_cpu_features());
    m.real = m.isa->real[math == TAPCONV_MATH_F64];
    const int threads = options->threads ? options->threads : tapconv_default_threads();
    m.dst = aligned_alloc(64, (size_t)COPY_BYTES);
    m.src = aligned_alloc(64, (size_t)COPY_BYTES);
    if (!m.dst || !m.src) {
        free(m.dst);
        free(m.src);
        return tapconv_fail(TAPCONV_OUT_OF_MEMORY, "no memory to measure copying %lld bytes", (long long)COPY_BYTES);
    }
    memset(m.src, 1, (size_t)COPY_BYTES);
    memset(m.dst, 2, (size_t)COPY_BYTES);

    const double flops = (double)TAPCONV_PEAK_FLOPS * m.real->lanes * ROUNDS * threads;
    const double peak_seconds = least_seconds(threads, run_peak, &m);
    const double plain_seconds = least_seconds(threads, run_copy, &m);
    m.stream = 1;
    const double stream_seconds = least_seconds(threads, run_copy, &m);
    free(m.dst);
    free(m.src);
    const double copy_seconds = plain_seconds < stream_seconds ? plain_seconds : stream_seconds;
    *ceilings = (tapconv_ceilings){.gflops = flops / peak_seconds * 1e-9,
                                   .gbytes_per_s = 2 * (double)COPY_BYTES / copy_seconds * 1e-9,
                                   .fma_gflops = flops / peak_seconds * 1e-9,
                                   .measured = 1};
    return TAPCONV_OK;
}
