/* Devices and their memory, by the CUDA runtime. */
#include "cuda/device.h"

#include "error.h"

#include <inttypes.h>
#include <stdio.h>

tapconv_status tapconv_cuda_check(cudaError_t error, int32_t device, const char *doing)
{
    if (error == cudaSuccess) return TAPCONV_OK;
    (void)cudaGetLastError();
    tapconv_status status = TAPCONV_DEVICE_ERROR;
    if (error == cudaErrorMemoryAllocation) status = TAPCONV_OUT_OF_MEMORY;
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || error == cudaErrorInvalidDevice ||
        error == cudaErrorDevicesUnavailable || error == cudaErrorNoKernelImageForDevice)
        status = TAPCONV_NO_DEVICE;
    return tapconv_fail(status, "device is cuda:%" PRId32 "; %s failed: %s (%s)", device, doing,
                        cudaGetErrorString(error), cudaGetErrorName(error));
}

/* Why there is no device at all. */
static tapconv_status fail_count(cudaError_t error, int32_t device)
{
    int driver = 0, runtime = 0;
    (void)cudaGetLastError();
    if (error == cudaErrorNoDevice)
        return tapconv_fail(TAPCONV_NO_DEVICE, "device is cuda:%" PRId32 "; the driver finds no CUDA device", device);
    if (error != cudaErrorInsufficientDriver) return tapconv_cuda_check(error, device, "counting devices");
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        return tapconv_fail(TAPCONV_NO_DEVICE, "device is cuda:%" PRId32 "; this machine has no CUDA driver", device);
    return tapconv_fail(TAPCONV_NO_DEVICE,
                        "device is cuda:%" PRId32 "; the driver is for CUDA %d.%d and too old for this build's %d.%d",
                        device, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

tapconv_status tapconv_cuda_count(int32_t *count)
{
    int found = 0;
    const cudaError_t error = cudaGetDeviceCount(&found);
    if (error != cudaSuccess) return fail_count(error, 0);
    *count = found;
    return TAPCONV_OK;
}

tapconv_status tapconv_cuda_enter(int32_t device, int *before)
{
    int found = 0;
    cudaError_t error = cudaGetDevice(before);
    if (error == cudaSuccess && *before != device) error = cudaSetDevice(device);
    if (error == cudaSuccess) return TAPCONV_OK;
    (void)cudaGetLastError();
    const cudaError_t count_error = cudaGetDeviceCount(&found);
    if (count_error != cudaSuccess) return fail_count(count_error, device);
    if (device >= found)
        return tapconv_fail(TAPCONV_NO_DEVICE, "device is cuda:%" PRId32 "; this machine has %d, counted from cuda:0",
                            device, found);
    return tapconv_cuda_check(error, device, "choosing the device");
}

void tapconv_cuda_leave(int32_t device, int before)
{
    if (before != device) (void)cudaSetDevice(before);
}

tapconv_status tapconv_cuda_describe(int32_t device, tapconv_device_info *info)
{
    int before;
    tapconv_status status = tapconv_cuda_enter(device, &before);
    if (status != TAPCONV_OK) return status;
    struct cudaDeviceProp properties;
    size_t free_bytes = 0, all_bytes = 0;
    int driver = 0, runtime = 0;
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &all_bytes);
    if (error == cudaSuccess) error = cudaDriverGetVersion(&driver);
    if (error == cudaSuccess) error = cudaRuntimeGetVersion(&runtime);
    status = tapconv_cuda_check(error, device, "asking for its properties");
    tapconv_cuda_leave(device, before);
    if (status != TAPCONV_OK) return status;
    *info = (tapconv_device_info){
        .major = properties.major,
        .minor = properties.minor,
        .multiprocessors = properties.multiProcessorCount,
        .driver_version = driver,
        .runtime_version = runtime,
        .memory_bytes = (int64_t)all_bytes,
        .free_bytes = (int64_t)free_bytes,
        .l2_bytes = properties.l2CacheSize,
    };
    snprintf(info->name, sizeof info->name, "%.63s", properties.name);
    return TAPCONV_OK;
}

tapconv_status tapconv_cuda_allocate(int32_t device, void **memory, size_t bytes)
{
    int before;
    tapconv_status status = tapconv_cuda_enter(device, &before);
    if (status != TAPCONV_OK) return status;
    char doing[64];
    void *made = NULL;
    snprintf(doing, sizeof doing, "allocating %zu bytes", bytes);
    status = tapconv_cuda_check(cudaMalloc(&made, bytes > 0 ? bytes : 1), device, doing);
    if (status == TAPCONV_OK) *memory = made;
    tapconv_cuda_leave(device, before);
    return status;
}

tapconv_status tapconv_cuda_release(int32_t device, void *memory)
{
    int before;
    tapconv_status status = tapconv_cuda_enter(device, &before);
    if (status != TAPCONV_OK) return status;
    status = tapconv_cuda_check(cudaFree(memory), device, "freeing memory");
    tapconv_cuda_leave(device, before);
    return status;
}

static tapconv_status copy(int32_t device, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                           const char *doing)
{
    int before;
    tapconv_status status = tapconv_cuda_enter(device, &before);
    if (status != TAPCONV_OK) return status;
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, 0);
    if (error == cudaSuccess) error = cudaStreamSynchronize(0);
    status = tapconv_cuda_check(error, device, doing);
    tapconv_cuda_leave(device, before);
    return status;
}

tapconv_status tapconv_cuda_upload(int32_t device, void *memory, const void *host, size_t bytes)
{
    return copy(device, memory, host, bytes, cudaMemcpyHostToDevice, "copying to it");
}

tapconv_status tapconv_cuda_download(int32_t device, void *host, const void *memory, size_t bytes)
{
    return copy(device, host, memory, bytes, cudaMemcpyDeviceToHost, "copying from it");
}

tapconv_status tapconv_cuda_fill(int32_t device, void *memory, uint8_t byte, size_t bytes)
{
    int before;
    tapconv_status status = tapconv_cuda_enter(device, &before);
    if (status != TAPCONV_OK) return status;
    status = tapconv_cuda_check(cudaMemsetAsync(memory, byte, bytes, 0), device, "filling memory");
    tapconv_cuda_leave(device, before);
    return status;
}

tapconv_status tapconv_cuda_synchronize(int32_t device)
{
    int before;
    tapconv_status status = tapconv_cuda_enter(device, &before);
    if (status != TAPCONV_OK) return status;
    status = tapconv_cuda_check(cudaDeviceSynchronize(), device, "computing");
    tapconv_cuda_leave(device, before);
    return status;
}
