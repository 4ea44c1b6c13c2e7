/* Times executes by events. */
#ifndef TAPCONV_CUDA_TIMING_H
#define TAPCONV_CUDA_TIMING_H

#include "tapconv.h"

#include <cuda_runtime_api.h>

typedef struct tapconv_cuda_timing {
    /* Enqueues one execute. */
    cudaError_t (*enqueue)(const void *context, const tapconv_arrays *arrays, cudaStream_t stream);
    const void *context;
    const tapconv_arrays *arrays;
    int32_t sets;
    uint32_t flags;
    int32_t executes, samples;
    int64_t l2_bytes;
} tapconv_cuda_timing;

/* On the current device; `seconds` has room for the samples. */
cudaError_t tapconv_cuda_time(const tapconv_cuda_timing *timing, double *seconds);

#endif
