/* Few channels and long windows, in the order of the family "general" and so with its bits: terms - input channel, then
 * tap - in order, in slabs of 64.
 *
 * A block makes 16 (or 8) output channels of a stretch of time. It stages one input channel of the stretch and that
 * channel's weights in shared memory; every tap then reads the samples at its own offset. A thread has all the channels at
 * times 32 apart, so that the lanes of a warp read neighbouring samples whatever the dilation, and one weight together. */
#include "cuda/few.h"

#include "cuda/activation.cuh"
#include "cuda/operand.cuh"
#include "cuda/types.cuh"

#include <stdio.h>

namespace
{

constexpr int threads = 64;
constexpr int lanes = 32;
constexpr int slab_terms = 64;    /* longest chain: see docs/numerics.md */
constexpr int thread_sums = 64;   /* channels x times of a thread */
constexpr int most_bytes = 49152; /* of shared memory */
constexpr int least_taps = 8;     /* with fewer, staging costs too much */
constexpr int most_channels = 32; /* of a group */

struct few_args {
    const void *x;
    const float *w;
    const void *bias;
    void *out;
    int64_t length, out_length, padding_left, in_channels, channels;
    int64_t padded_terms, padded_channels;
    fast_divisor by_tiles, by_channel_tiles, by_groups; /* tiles: of the time of an item */
    int32_t group_in, group_out, taps, dilation, window;
    conversion convert;
    tapconv_type out_type, param_type;
    int activation;
};

extern __shared__ __align__(16) float shared[];

/* What a block makes. Asked again at the end, so that no registers hold it meanwhile. */
struct few_place {
    int64_t item, group, first;
    int first_channel;
};

template <int Channels> __device__ __forceinline__ few_place place_of(const few_args &a)
{
    uint32_t block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    const uint32_t rest = a.by_tiles.quotient(block), tile = block - rest * a.by_tiles.divisor;
    const uint32_t row = a.by_channel_tiles.quotient(rest), channel_tile = rest - row * a.by_channel_tiles.divisor;
    const uint32_t item = a.by_groups.quotient(row), group = row - item * a.by_groups.divisor;
    return {item, group, (int64_t)tile * (threads * thread_sums / Channels), (int)channel_tile * Channels};
}

template <typename T, int Channels> __global__ void __launch_bounds__(threads, 6) few_channels(const few_args a)
{
    constexpr int times = thread_sums / Channels, tile = threads * times;
    const int tid = (int)threadIdx.x;
    const int mine =
        tid / lanes * lanes * times + tid % lanes; /* my first time in the tile; the others 32, 64 ... on */
    const few_place p = place_of<Channels>(a);
    const int64_t start = p.first - a.padding_left;
    const int low = (int)min(max(-start, (int64_t)0), (int64_t)a.window);
    const int high = (int)min(max(a.length - start, (int64_t)0), (int64_t)a.window);
    const T *from = (const T *)a.x + ((p.item * a.in_channels + p.group * a.group_in) * a.length + start);
    const float *w_from = a.w + p.group * a.padded_terms * a.padded_channels + p.first_channel;
    const int w_channels = (int)min(a.padded_channels - p.first_channel, (int64_t)Channels);
    float *const w = shared, *const samples = shared + a.taps * Channels;

    float chain[Channels][times] = {}, total[Channels][times] = {};
    const auto end_slab = [&] {
#pragma unroll
        for (int m = 0; m < Channels; m++)
#pragma unroll
            for (int n = 0; n < times; n++) total[m][n] += chain[m][n], chain[m][n] = 0;
    };
    int left = slab_terms; /* of the slab */
    for (int c = 0; c < a.group_in; c++) {
        __syncthreads();
        for (int i = tid; i < a.window; i += 8 * threads) {
            float v[8];
#pragma unroll
            for (int u = 0; u < 8; u++) {
                const int at = i + u * threads;
                v[u] = at >= low && at < high ? load_as_f32(from + at) : 0.0f;
            }
            if (sizeof(T) == 4 && a.convert != FROM_F32) {
#pragma unroll
                for (int u = 0; u < 8; u++) v[u] = operand(__float_as_uint(v[u]), a.convert);
            }
#pragma unroll
            for (int u = 0; u < 8; u++)
                if (i + u * threads < a.window) samples[i + u * threads] = v[u];
        }
        from += a.length;
        for (int i = tid; i < a.taps * (Channels / 4); i += threads) {
            const int k = i / (Channels / 4), channel = i % (Channels / 4) * 4;
            float4 four = make_float4(0, 0, 0, 0);
            if (channel < w_channels) four = *(const float4 *)(w_from + k * a.padded_channels + channel);
            *(float4 *)(w + k * Channels + channel) = four;
        }
        w_from += a.taps * a.padded_channels;
        __syncthreads();
        const float *x = samples + mine, *wk = w;
        for (int k = 0; k < a.taps;) {
            const int part = min(left, a.taps - k);
#pragma unroll 2
            for (int i = 0; i < part; i++, x += a.dilation, wk += Channels) {
                float in[times], tap[Channels];
#pragma unroll
                for (int n = 0; n < times; n++) in[n] = x[n * lanes];
#pragma unroll
                for (int m = 0; m < Channels; m += 4) {
                    const float4 four = *(const float4 *)(wk + m);
                    tap[m] = four.x, tap[m + 1] = four.y, tap[m + 2] = four.z, tap[m + 3] = four.w;
                }
#pragma unroll
                for (int m = 0; m < Channels; m++)
#pragma unroll
                    for (int n = 0; n < times; n++) chain[m][n] = fmaf(tap[m], in[n], chain[m][n]);
            }
            k += part, left -= part;
            if (left == 0) {
                end_slab();
                left = slab_terms;
            }
        }
    }
    end_slab();

    /* Through shared memory, where a thread finds its own sums by a channel's number. */
    __syncthreads();
#pragma unroll
    for (int m = 0; m < Channels; m++)
#pragma unroll
        for (int n = 0; n < times; n++) shared[m * tile + mine + n * lanes] = total[m][n];
    const few_place to = place_of<Channels>(a);
    const int count = min(Channels, a.group_out - to.first_channel);
#pragma unroll 1
    for (int m = 0; m < count; m++) {
        const int64_t channel = to.group * a.group_out + to.first_channel + m;
        const int64_t row = (to.item * a.channels + channel) * a.out_length;
        const float bias = a.bias ? load_param(a.bias, a.param_type, channel) : 0.0f;
        float v[times];
#pragma unroll
        for (int n = 0; n < times; n++) v[n] = shared[m * tile + mine + n * lanes] + bias;
        activate_all(a.activation, v);
#pragma unroll
        for (int n = 0; n < times; n++) {
            const int64_t t = to.first + mine + n * lanes;
            if (t < a.out_length) store_as(a.out, a.out_type, row + t, v[n]);
        }
    }
}

struct cut {
    int channels, bytes;
    int64_t window, tiles, channel_tiles, blocks;
};

cut cut_of(const tapconv_shape *s)
{
    const tapconv_problem *const p = &s->p;
    cut c;
    c.channels = s->group_out <= 8 ? 8 : 16;
    const int64_t tile = threads * thread_sums / c.channels;
    c.window = tile + (p->kernel_size - 1) * p->dilation;
    const int64_t staged = (p->kernel_size * c.channels + c.window) * (int64_t)sizeof(float);
    const int64_t sums = threads * thread_sums * (int64_t)sizeof(float);
    c.bytes = staged > most_bytes ? most_bytes + 1 : (int)(staged > sums ? staged : sums);
    c.tiles = ceil_div(s->out_length, tile), c.channel_tiles = ceil_div(s->group_out, c.channels);
    c.blocks = c.tiles * c.channel_tiles * p->groups * p->batch;
    return c;
}

using kernel = void (*)(few_args);

kernel kernel_of(const cut &c, tapconv_type type)
{
    return with_type(type, [&](auto tag) -> kernel {
        using T = typename decltype(tag)::type;
        return c.channels == 8 ? few_channels<T, 8> : few_channels<T, 16>;
    });
}

} // namespace

bool tapconv_cuda_few_suits(const tapconv_shape *s, const tapconv_cuda_card *card)
{
    const tapconv_problem *const p = &s->p;
    if (p->layout != TAPCONV_NCL || p->stride != 1 || p->kernel_size < least_taps) return false;
    if (s->group_out > most_channels || p->kernel_size > most_bytes || p->dilation > most_bytes) return false;
    const cut c = cut_of(s);
    return c.bytes <= most_bytes && c.blocks >= card->multiprocessors && c.blocks <= MOST_BLOCKS;
}

cudaError_t tapconv_cuda_few_launch(const tapconv_shape *s, const tapconv_cuda_conv *conv, const float *w,
                                    int64_t padded_terms, int64_t padded_channels, cudaStream_t stream)
{
    const tapconv_problem *const p = &s->p;
    const cut c = cut_of(s);
    few_args a = {};
    a.x = conv->x, a.w = w, a.bias = conv->bias, a.out = conv->out;
    a.length = p->length, a.out_length = s->out_length, a.padding_left = p->padding_left;
    a.in_channels = p->in_channels, a.channels = p->out_channels;
    a.padded_terms = padded_terms, a.padded_channels = padded_channels;
    a.by_tiles = fast_divisor((uint32_t)c.tiles), a.by_channel_tiles = fast_divisor((uint32_t)c.channel_tiles);
    a.by_groups = fast_divisor((uint32_t)p->groups);
    a.group_in = (int32_t)s->group_in, a.group_out = (int32_t)s->group_out, a.taps = (int32_t)p->kernel_size;
    a.dilation = (int32_t)p->dilation, a.window = (int32_t)c.window;
    a.convert = conversion_of(p);
    a.out_type = conv->out_type, a.param_type = p->param_type, a.activation = conv->activation;
    kernel_of(c, p->type)<<<(unsigned)c.blocks, threads, (size_t)c.bytes, stream>>>(a);
    return cudaGetLastError();
}

void tapconv_cuda_few_describe(const tapconv_shape *s, tapconv_cuda_launch_info *info)
{
    const cut c = cut_of(s);
    *info = {};
    info->blocks = c.blocks, info->threads = threads, info->shared_bytes = c.bytes;
    const kernel run = kernel_of(c, s->p.type);
    cudaFuncAttributes attributes;
    int resident = 0;
    if (cudaFuncGetAttributes(&attributes, (const void *)run) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, run, threads, (size_t)c.bytes) == cudaSuccess) {
        info->registers = attributes.numRegs, info->blocks_per_multiprocessor = resident;
    } else {
        (void)cudaGetLastError(); /* no card: nothing is known, and nothing went wrong */
    }
    snprintf(info->tile, sizeof info->tile, "%d channels x %d samples, taps over one window", c.channels,
             threads * thread_sums / c.channels);
}
