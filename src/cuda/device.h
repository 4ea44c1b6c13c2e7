/* The device that a call works on: the thread's current one while it lasts, the caller's own again afterwards. */
#ifndef TAPCONV_CUDA_DEVICE_H
#define TAPCONV_CUDA_DEVICE_H

#include "tapconv.h"

#include <cuda_runtime_api.h>

/* Makes `device` current; `*before` is for tapconv_cuda_leave. Fails with TAPCONV_NO_DEVICE where it is not there. */
tapconv_status tapconv_cuda_enter(int32_t device, int *before);
void tapconv_cuda_leave(int32_t device, int before);

/* The sentence for a CUDA call that failed, and its status; TAPCONV_OK for success. The error is taken off the thread. */
tapconv_status tapconv_cuda_check(cudaError_t error, int32_t device, const char *doing);

/* The rows of the engine's table that are about devices and their memory. */
tapconv_status tapconv_cuda_count(int32_t *count);
tapconv_status tapconv_cuda_describe(int32_t device, tapconv_device_info *info);
tapconv_status tapconv_cuda_allocate(int32_t device, void **memory, size_t bytes);
tapconv_status tapconv_cuda_release(int32_t device, void *memory);
tapconv_status tapconv_cuda_upload(int32_t device, void *memory, const void *host, size_t bytes);
tapconv_status tapconv_cuda_download(int32_t device, void *host, const void *memory, size_t bytes);
tapconv_status tapconv_cuda_fill(int32_t device, void *memory, uint8_t byte, size_t bytes);
tapconv_status tapconv_cuda_synchronize(int32_t device);

#endif
