/* Cards that plans can be made for without having one. */
#include "cuda/cards.h"

#include <stdio.h>
#include <string.h>

#define KB 1024
#define MB (INT64_C(1) << 20)

/* No launch is done sooner: measured from a graph of the smallest kernels, with the gaps between them. */
#define LEAST_SECONDS 2e-6

/* The rates of the H200 were measured (matrix products of 8192 cubed by cuBLAS, and a copy); the others are their makers'
 * statements, which nobody reaches. */
static const struct {
    const char *name;
    tapconv_cuda_card card;
    tapconv_cuda_rates rates;
} known[] = {
    {"h200", {"NVIDIA H200", 9, 0, 132, 227 * KB, 228 * KB, 60 * MB, -1}, {643e3, 687e3, 360e3, 51e3, 4280}},
    {"h100", {"NVIDIA H100 SXM", 9, 0, 132, 227 * KB, 228 * KB, 50 * MB, -1}, {989e3, 989e3, 494e3, 67e3, 3350}},
    {"a100", {"NVIDIA A100 80GB", 8, 0, 108, 163 * KB, 164 * KB, 40 * MB, -1}, {312e3, 312e3, 156e3, 19.5e3, 2039}},
    {"l40s", {"NVIDIA L40S", 8, 9, 142, 99 * KB, 100 * KB, 96 * MB, -1}, {362e3, 362e3, 183e3, 91.6e3, 864}},
    {"rtx4090",
     {"NVIDIA GeForce RTX 4090", 8, 9, 128, 99 * KB, 100 * KB, 72 * MB, -1},
     {165e3, 165e3, 82.6e3, 82.6e3, 1008}},
};
#define KNOWN ((int32_t)(sizeof known / sizeof known[0]))

const char *tapconv_cuda_card_name(int32_t index)
{
    return index >= 0 && index < KNOWN ? known[index].name : NULL;
}

int tapconv_cuda_card_by_name(const char *name, tapconv_cuda_card *card, tapconv_cuda_rates *rates)
{
    for (int32_t i = 0; i < KNOWN; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        *card = known[i].card;
        if (rates) *rates = known[i].rates;
        return 1;
    }
    return 0;
}

cudaError_t tapconv_cuda_card_read(int32_t device, tapconv_cuda_card *card)
{
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess) return error;
    *card = (tapconv_cuda_card){
        .major = properties.major,
        .minor = properties.minor,
        .multiprocessors = properties.multiProcessorCount,
        .shared_bytes_per_block = (int32_t)properties.sharedMemPerBlockOptin,
        .shared_bytes_per_multiprocessor = (int32_t)properties.sharedMemPerMultiprocessor,
        .l2_bytes = properties.l2CacheSize,
        .device = device,
    };
    snprintf(card->name, sizeof card->name, "%.63s", properties.name);
    return cudaSuccess;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

tapconv_ceilings tapconv_cuda_ceilings_of(const tapconv_cuda_rates *rates, tapconv_math math)
{
    tapconv_ceilings c = {
        .fma_gflops = rates->fma_flops, .gbytes_per_s = rates->copy_bytes, .least_seconds = LEAST_SECONDS};
    switch (math) {
    case TAPCONV_MATH_TF32: c.gflops = larger(rates->tf32_flops, rates->fma_flops); break;
    case TAPCONV_MATH_F16: c.gflops = larger(rates->f16_flops, rates->fma_flops); break;
    case TAPCONV_MATH_BF16: c.gflops = larger(rates->bf16_flops, rates->fma_flops); break;
    case TAPCONV_MATH_F32:
    case TAPCONV_MATH_F64: c.gflops = larger(rates->f16_flops / 3, rates->fma_flops); break;
    }
    return c;
}
