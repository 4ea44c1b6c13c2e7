/* What a card can do at most, measured: copying memory, float32 multiply-adds from registers, and products by the tensor
 * cores with operands at rest: in shared memory (wgmma, Hopper) or in registers (mma.sync, other cards). Operands are random
 * numbers of 1 to 2 in magnitude: the same number everywhere would cost less power, and a faster clock that no layer sees. */
#include "cuda/cards.h"
#include "cuda/wgmma.cuh"

namespace
{

constexpr int repeats = 5;              /* the fastest counts */
constexpr int64_t copy_bytes = 1 << 30; /* beyond every L2 cache */
constexpr double one_seconds = 0.01;    /* about what one launch takes */

__device__ __forceinline__ uint32_t random_bits(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Signs and fractions at random, the exponent of 1. */
template <int KIND> __device__ __forceinline__ uint32_t random_operands(uint32_t seed)
{
    const uint32_t bits = random_bits(seed);
    if (KIND == WGMMA_F16) return (bits & 0x83ff83ffu) | 0x3c003c00u;
    if (KIND == WGMMA_BF16) return (bits & 0x807f807fu) | 0x3f803f80u;
    return (bits & 0x807fffffu) | 0x3f800000u;
}

__global__ void copy_kernel(const float4 *__restrict__ from, float4 *__restrict__ to, int64_t count)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
}

/* ------------------------------------------------------------------------------------------------------ multiply-adds */

constexpr int fma_threads = 256, fma_chains = 16, fma_unrolled = 8;

__global__ void __launch_bounds__(fma_threads) fma_kernel(float *out, int rounds, float a, float b)
{
    float sums[fma_chains];
#pragma unroll
    for (int i = 0; i < fma_chains; i++) sums[i] = (float)(threadIdx.x + i);
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int u = 0; u < fma_unrolled; u++)
#pragma unroll
            for (int i = 0; i < fma_chains; i++) sums[i] = fmaf(sums[i], a, b);
    float all = 0;
#pragma unroll
    for (int i = 0; i < fma_chains; i++) all += sums[i];
    if (all == 1e-30f) *out = all; /* never, but the compiler does not know */
}

/* ------------------------------------------------------------------------------------------------------- tensor cores */

constexpr int mma_threads = 256, mma_chains = 8;

/* 16 x 8 products of sums of 16 terms (8 for tf32). */
template <int KIND> __device__ __forceinline__ void mma(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (KIND == WGMMA_F16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else if constexpr (KIND == WGMMA_BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int KIND> __global__ void __launch_bounds__(mma_threads) mma_sync_kernel(float *out, int rounds)
{
    float sums[mma_chains][4] = {};
    uint32_t a[4], b[2];
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = random_operands<KIND>(threadIdx.x * 8 + i);
#pragma unroll
    for (int i = 0; i < 2; i++) b[i] = random_operands<KIND>(threadIdx.x * 8 + 4 + i);
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int c = 0; c < mma_chains; c++) mma<KIND>(sums[c], a, b);
    float all = 0;
#pragma unroll
    for (int c = 0; c < mma_chains; c++) all += sums[c][0] + sums[c][1] + sums[c][2] + sums[c][3];
    if (all == 1e-30f) *out = all;
}

constexpr int wgmma_groups = 2; /* of 128 threads */
constexpr int wgmma_threads = wgmma_groups * 128;
constexpr int wgmma_rows = 64, wgmma_columns = 256; /* of a group */
constexpr int wgmma_slices = 4;                     /* of 32 bytes, in rows of 128 */
constexpr int wgmma_shared = wgmma_columns * 128 + 1024;

template <int KIND> __global__ void __launch_bounds__(wgmma_threads, 1) wgmma_kernel(float *out, int rounds)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint8_t shared[];
    const uint32_t b = (shared_address(shared) + 1023) / 1024 * 1024;
    uint32_t *words = (uint32_t *)(shared + (b - shared_address(shared)));
    for (int i = threadIdx.x; i < (wgmma_shared - 1024) / 4; i += wgmma_threads) words[i] = random_operands<KIND>(i);
    fence_async();
    __syncthreads();
    uint32_t a[4 * wgmma_slices];
#pragma unroll
    for (int i = 0; i < 4 * wgmma_slices; i++) a[i] = random_operands<KIND>(threadIdx.x + i * wgmma_threads);
    float sums[128] = {};
    for (int r = 0; r < rounds; r++) {
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < wgmma_slices; i++) wgmma<KIND, wgmma_columns>(sums, a + 4 * i, operand(b + i * 32), 1);
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_settle(sums);
    wgmma_settle(a);
    float all = 0;
#pragma unroll
    for (int i = 0; i < 128; i++) all += sums[i];
    if (all == 1e-30f) *out = all;
#endif
}

/* ---------------------------------------------------------------------------------------------------------- measuring */

struct meter {
    cudaStream_t stream;
    cudaEvent_t start, end;
    void *memory;
    int blocks;
};

/* The least seconds of a launch. */
template <typename LAUNCH> cudaError_t least_seconds(const meter &m, LAUNCH launch, double *seconds)
{
    *seconds = 1e9;
    for (int i = 0; i <= repeats; i++) { /* the first warms up */
        float milliseconds = 0;
        cudaError_t error = cudaEventRecord(m.start, m.stream);
        if (error == cudaSuccess) error = launch();
        if (error == cudaSuccess) error = cudaEventRecord(m.end, m.stream);
        if (error == cudaSuccess) error = cudaEventSynchronize(m.end);
        if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, m.start, m.end);
        if (error != cudaSuccess) return error;
        if (i > 0 && 1e-3 * milliseconds < *seconds) *seconds = 1e-3 * milliseconds;
    }
    return cudaSuccess;
}

/* The rate of a kernel that takes rounds, in units of 1e9 a second: `flops` are those of a round on the whole card. */
template <typename LAUNCH> cudaError_t rate_of(const meter &m, double flops, LAUNCH launch, double *rate)
{
    double seconds;
    int rounds = 500;
    cudaError_t error = least_seconds(
        m, [&] { return launch(rounds); }, &seconds);
    if (error != cudaSuccess) return error;
    const double more = rounds * (one_seconds / seconds);
    rounds = more > 1e8 ? 100000000 : more < 1 ? 1 : (int)more;
    error = least_seconds(
        m, [&] { return launch(rounds); }, &seconds);
    *rate = flops * rounds / seconds * 1e-9;
    return error;
}

template <int KIND> cudaError_t measure_tensor(const meter &m, const tapconv_cuda_card *card, double *rate)
{
    const double terms = KIND == WGMMA_TF32 ? 8 : 16;
    if (card->major == 9) {
        const cudaError_t error =
            cudaFuncSetAttribute(wgmma_kernel<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, wgmma_shared);
        if (error != cudaSuccess) return error;
        const double flops =
            2.0 * card->multiprocessors * wgmma_groups * wgmma_rows * wgmma_columns * wgmma_slices * terms;
        return rate_of(
            m, flops,
            [&](int rounds) {
                wgmma_kernel<KIND>
                    <<<card->multiprocessors, wgmma_threads, wgmma_shared, m.stream>>>((float *)m.memory, rounds);
                return cudaGetLastError();
            },
            rate);
    }
    const double flops = 2.0 * m.blocks * (mma_threads / 32) * mma_chains * 16 * 8 * terms;
    return rate_of(
        m, flops,
        [&](int rounds) {
            mma_sync_kernel<KIND><<<m.blocks, mma_threads, 0, m.stream>>>((float *)m.memory, rounds);
            return cudaGetLastError();
        },
        rate);
}

cudaError_t measure_copy(const meter &m, double *rate)
{
    double seconds;
    const int64_t half = copy_bytes / 2;
    const cudaError_t error = least_seconds(
        m,
        [&] {
            copy_kernel<<<m.blocks * 4, 512, 0, m.stream>>>(
                (const float4 *)m.memory, (float4 *)((char *)m.memory + half), half / (int64_t)sizeof(float4));
            return cudaGetLastError();
        },
        &seconds);
    *rate = 2.0 * (double)half / seconds * 1e-9;
    return error;
}

cudaError_t measure(const meter &m, const tapconv_cuda_card *card, tapconv_math math, tapconv_cuda_rates *rates)
{
    cudaError_t error = cudaMemsetAsync(m.memory, 0, copy_bytes, m.stream);
    if (error == cudaSuccess) error = measure_copy(m, &rates->copy_bytes);
    if (error == cudaSuccess)
        error = rate_of(
            m, 2.0 * m.blocks * fma_threads * fma_chains * fma_unrolled,
            [&](int rounds) {
                fma_kernel<<<m.blocks, fma_threads, 0, m.stream>>>((float *)m.memory, rounds, 0.999f, 1e-3f);
                return cudaGetLastError();
            },
            &rates->fma_flops);
    if (error != cudaSuccess) return error;
    if (math == TAPCONV_MATH_TF32) return measure_tensor<WGMMA_TF32>(m, card, &rates->tf32_flops);
    if (math == TAPCONV_MATH_BF16) return measure_tensor<WGMMA_BF16>(m, card, &rates->bf16_flops);
    return measure_tensor<WGMMA_F16>(m, card, &rates->f16_flops);
}

} // namespace

cudaError_t tapconv_cuda_measure(const tapconv_cuda_card *card, tapconv_math math, tapconv_cuda_rates *rates)
{
    meter m = {};
    *rates = {};
    m.blocks = card->multiprocessors * 4;
    cudaError_t error = cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaEventCreate(&m.start);
    if (error == cudaSuccess) error = cudaEventCreate(&m.end);
    if (error == cudaSuccess) error = cudaMalloc(&m.memory, copy_bytes);
    if (error == cudaSuccess) error = measure(m, card, math, rates);
    if (m.memory) (void)cudaFree(m.memory);
    if (m.end) (void)cudaEventDestroy(m.end);
    if (m.start) (void)cudaEventDestroy(m.start);
    if (m.stream) (void)cudaStreamDestroy(m.stream);
    return error;
}
