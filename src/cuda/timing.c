/* Everything is enqueued without waiting, a pair of events a sample, so that the device does not wait for the host between
 * one and the other longer than it would have to in use. */
#include "cuda/timing.h"

#include <stdlib.h>

/* Writing this many times the cache leaves nothing else in it. */
#define FLUSH_CACHES 3

typedef struct bench {
    const tapconv_cuda_timing *t;
    cudaStream_t stream;
    cudaGraphExec_t graph;
    void *flush;
    size_t flush_bytes;
    cudaEvent_t *events; /* start and end of each sample */
    int32_t next_set;
} bench;

static cudaError_t enqueue_executes(bench *b)
{
    const tapconv_cuda_timing *t = b->t;
    for (int32_t i = 0; i < t->executes; i++) {
        const cudaError_t error = t->enqueue(t->context, &t->arrays[b->next_set], b->stream);
        b->next_set = (b->next_set + 1) % t->sets;
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

static cudaError_t capture(bench *b)
{
    cudaGraph_t graph = NULL;
    cudaError_t error = cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) return error;
    error = enqueue_executes(b);
    const cudaError_t ended = cudaStreamEndCapture(b->stream, &graph);
    if (error == cudaSuccess) error = ended;
    if (error == cudaSuccess) error = cudaGraphInstantiate(&b->graph, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    return error;
}

static cudaError_t open(bench *b)
{
    const tapconv_cuda_timing *t = b->t;
    cudaError_t error = cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking);
    b->events = calloc(2 * (size_t)t->samples, sizeof(cudaEvent_t));
    if (!b->events) return cudaErrorMemoryAllocation;
    for (int32_t i = 0; error == cudaSuccess && i < 2 * t->samples; i++) error = cudaEventCreate(&b->events[i]);
    if (error == cudaSuccess && t->flags & TAPCONV_TIME_COLD) {
        b->flush_bytes = (size_t)t->l2_bytes * FLUSH_CACHES;
        error = cudaMalloc(&b->flush, b->flush_bytes);
    }
    /* What was enqueued on other streams, such as the packing of weights, must be done. */
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error == cudaSuccess && t->flags & TAPCONV_TIME_GRAPH) error = capture(b);
    return error;
}

static void close(bench *b)
{
    if (b->graph) (void)cudaGraphExecDestroy(b->graph);
    for (int32_t i = 0; b->events && i < 2 * b->t->samples; i++)
        if (b->events[i]) (void)cudaEventDestroy(b->events[i]);
    free(b->events);
    if (b->flush) (void)cudaFree(b->flush);
    if (b->stream) (void)cudaStreamDestroy(b->stream);
}

static cudaError_t run(bench *b)
{
    return b->graph ? cudaGraphLaunch(b->graph, b->stream) : enqueue_executes(b);
}

static cudaError_t sample(bench *b, int32_t i)
{
    cudaError_t error = cudaSuccess;
    if (b->flush) error = cudaMemsetAsync(b->flush, i & 0xff, b->flush_bytes, b->stream);
    if (error == cudaSuccess) error = cudaEventRecord(b->events[2 * i], b->stream);
    if (error == cudaSuccess) error = run(b);
    if (error == cudaSuccess) error = cudaEventRecord(b->events[2 * i + 1], b->stream);
    return error;
}

cudaError_t tapconv_cuda_time(const tapconv_cuda_timing *timing, double *seconds)
{
    bench b = {.t = timing};
    cudaError_t error = open(&b);
    if (error == cudaSuccess) error = run(&b);
    for (int32_t i = 0; error == cudaSuccess && i < timing->samples; i++) error = sample(&b, i);
    if (error == cudaSuccess) error = cudaStreamSynchronize(b.stream);
    for (int32_t i = 0; error == cudaSuccess && i < timing->samples; i++) {
        float milliseconds = 0;
        error = cudaEventElapsedTime(&milliseconds, b.events[2 * i], b.events[2 * i + 1]);
        seconds[i] = 1e-3 * (double)milliseconds / timing->executes;
    }
    close(&b);
    return error;
}
