/* Family "depthwise": one input channel an output channel (groups == C_in, any number of output channels a group, C_in 1 with
 * one group too). Such a layer is a copy with arithmetic on the way, so its kernels are built around 16-byte accesses:
 *
 *     window_rows    NCL, stride 1, dilation 1, up to 16 taps. A thread makes the outputs of one 16-byte run and reads the
 *                    aligned runs around them; taps stand in registers, shifted to the alignment of the row.
 *     long_rows      NCL, stride 1, dilation 1, more taps. A block stages a stretch of a row in shared memory, a thread
 *                    slides over it with eight outputs, and fused multiply-adds are the limit.
 *     fan_rows       NCL, several output channels an input channel, up to 16 taps. A thread keeps the samples of its outputs
 *                    in registers and goes through the channels.
 *     any_rows       NCL, the rest: any stride and dilation. Neighbouring threads make neighbouring outputs.
 *     channel_runs   NLC. A thread makes a 16-byte run of channels at four times.
 *
 * Which one is decided by the layer alone. The order of a sum is the same in all: taps in order, cut into chains of 64,
 * chains added in order. */
#include "cuda/activation.cuh"
#include "cuda/kernels.h"
#include "cuda/operand.cuh"
#include "cuda/types.cuh"

#include <stdio.h>

namespace
{

constexpr int threads = 128;
constexpr int slab_taps = 64;        /* longest chain: see docs/numerics.md */
constexpr int window_taps = 16;      /* most taps that window_rows takes */
constexpr int window_runs = 8;       /* output runs of a thread there */
constexpr int long_outputs = 8;      /* outputs of a thread of long_rows */
constexpr int any_outputs = 4;       /* of any_rows and fan_rows */
constexpr int fan_channels = 32;     /* output channels of a block of fan_rows */
constexpr int least_fan = 4;         /* output channels of an input channel from which on fan_rows is used */
constexpr int channel_run_times = 4; /* of channel_runs */

struct depthwise_args {
    const void *x;
    const float *w;        /* [channel][tap] */
    const float *w_by_tap; /* [tap][channel] */
    const void *bias;
    void *out;
    int64_t length, out_length, stride, dilation, padding_left;
    int64_t batch, in_channels, channels;
    int32_t taps, multiplier; /* output channels of an input channel */
    uint32_t segments;        /* of a row: blocks */
    conversion convert;
    tapconv_type out_type, param_type;
    int out_ncl, activation;
};

/* The row and the part of it that a block works on. Blocks are fewer than 2^31, and so are rows. */
struct row_place {
    uint32_t row, segment;
    int64_t item, channel, x_row;
};

__device__ __forceinline__ row_place place_of(const depthwise_args &a)
{
    row_place p;
    p.row = blockIdx.x / a.segments;
    p.segment = blockIdx.x - p.row * a.segments;
    p.item = p.row / (uint32_t)a.channels;
    p.channel = p.row - p.item * a.channels;
    p.x_row = (p.item * a.in_channels + p.channel / a.multiplier) * a.length;
    return p;
}

__device__ __forceinline__ float bias_of(const depthwise_args &a, int64_t channel)
{
    return a.bias ? load_param(a.bias, a.param_type, channel) : 0.0f;
}

/* Where an output of a row goes. */
__device__ __forceinline__ int64_t out_index(const depthwise_args &a, const row_place &p, int64_t t)
{
    return a.out_ncl ? p.row * a.out_length + t : (p.item * a.out_length + t) * a.channels + p.channel;
}

template <typename T> __device__ __forceinline__ int misalignment(const T *p, int run)
{
    return (int)((uintptr_t)p / sizeof(T) % (unsigned)run);
}

/* `Reach` is how many taps fit behind the first sample of the aligned window, shift included. */
template <typename T, tapconv_math M, typename Out, int Reach>
__global__ void __launch_bounds__(threads) window_rows(const depthwise_args a)
{
    constexpr int run = 16 / sizeof(T), window = run + Reach - 1;
    static_assert(window % run == 0, "a window is whole runs");
    const row_place p = place_of(a);
    const T *const x = (const T *)a.x + p.x_row;
    Out *const y = (Out *)a.out + p.row * a.out_length;
    const int head = misalignment(y, run); /* outputs before the row that its first run would have */
    const int64_t first = -head - a.padding_left;
    const int shift = (int)(((int64_t)misalignment(x, run) + first % run + run) % run);
    const unsigned used = ((1u << a.taps) - 1) << shift; /* bit k: there is a tap at k */

    float w[Reach];
#pragma unroll
    for (int k = 0; k < Reach; k++) w[k] = used >> k & 1 ? a.w[p.channel * a.taps + k - shift] : 0.0f;
    const float bias = bias_of(a, p.channel);

    int64_t t = ((int64_t)p.segment * threads * window_runs + threadIdx.x) * run - head;
#pragma unroll 1
    for (int i = 0; i < window_runs && t < a.out_length; i++, t += threads * run) {
        const int64_t from = t - a.padding_left - shift;
        float in[window];
        if (from >= 0 && from + window <= a.length) {
#pragma unroll
            for (int q = 0; q < window; q += run) {
                float part[run];
                load_run_as_f32(part, x + from + q);
#pragma unroll
                for (int e = 0; e < run; e++) in[q + e] = part[e];
            }
        } else {
#pragma unroll
            for (int e = 0; e < window; e++) {
                const bool inside = from + e >= 0 && from + e < a.length;
                in[e] = inside ? load_as_f32(x + from + e) : 0.0f;
            }
        }
#pragma unroll
        for (int e = 0; e < window; e++) in[e] = round_operand<M>(in[e]);
        float v[run] = {};
        unsigned here = used;
        asm volatile("" : "+r"(here)); /* or all its bits are kept as predicates, of which there are too few */
#pragma unroll
        for (int k = 0; k < Reach; k++)
            if (here >> k & 1) {
#pragma unroll
                for (int j = 0; j < run; j++) v[j] = fmaf(w[k], in[j + k], v[j]);
            }
#pragma unroll
        for (int j = 0; j < run; j++) v[j] = 0.0f + v[j] + bias;
        activate_all(a.activation, v);
        if (t >= 0 && t + run <= a.out_length) {
            store_run_f32(y + t, v);
        } else {
#pragma unroll
            for (int j = 0; j < run; j++)
                if (t + j >= 0 && t + j < a.out_length) store_f32(y + t + j, v[j]);
        }
    }
}

/* Shared memory with four words left free after every 32, so that threads that read 8 words apart meet no bank twice. */
__device__ __forceinline__ int spread(int i)
{
    return i + (i / 32) * 4;
}

__device__ __forceinline__ void load_four(float *to, const float *from)
{
    const auto run = *(const element_run<float, 4> *)from;
#pragma unroll
    for (int e = 0; e < 4; e++) to[e] = run.value[e];
}

__global__ void __launch_bounds__(threads) long_rows(const depthwise_args a)
{
    constexpr int outputs = long_outputs, tile = threads * outputs, staged = tile + slab_taps + 8;
    __shared__ __align__(16) float samples[staged + staged / 32 * 4 + 4];
    __shared__ __align__(16) float w[slab_taps];
    const row_place p = place_of(a);
    const int64_t first = (int64_t)p.segment * tile;
    const int tid = (int)threadIdx.x, mine = tid * outputs;
    float total[outputs] = {};
    for (int32_t slab = 0; slab < a.taps; slab += slab_taps) {
        const int taps = min(slab_taps, a.taps - slab);
        __syncthreads();
        for (int i = tid; i < staged; i += threads) {
            const int64_t at = first - a.padding_left + slab + i;
            const bool inside = at >= 0 && at < a.length;
            samples[spread(i)] = inside ? operand(bits_at(a.x, a.convert, p.x_row + at), a.convert) : 0.0f;
        }
        if (tid < slab_taps) w[tid] = tid < taps ? a.w[p.channel * a.taps + slab + tid] : 0.0f;
        __syncthreads();
        float chain[outputs] = {}, in[outputs + 8], tap[8];
        load_four(in, samples + spread(mine));
        load_four(in + 4, samples + spread(mine + 4));
        int k = 0;
        for (; k + 8 <= taps; k += 8) {
            load_four(in + 8, samples + spread(mine + k + 8));
            load_four(in + 12, samples + spread(mine + k + 12));
            load_four(tap, w + k);
            load_four(tap + 4, w + k + 4);
#pragma unroll
            for (int u = 0; u < 8; u++)
#pragma unroll
                for (int j = 0; j < outputs; j++) chain[j] = fmaf(tap[u], in[j + u], chain[j]);
#pragma unroll
            for (int j = 0; j < 8; j++) in[j] = in[j + 8];
        }
        if (k < taps) {
            load_four(in + 8, samples + spread(mine + k + 8));
            load_four(in + 12, samples + spread(mine + k + 12));
#pragma unroll
            for (int u = 0; u < 7; u++)
                if (k + u < taps) {
#pragma unroll
                    for (int j = 0; j < outputs; j++) chain[j] = fmaf(w[k + u], in[j + u], chain[j]);
                }
        }
#pragma unroll
        for (int j = 0; j < outputs; j++) total[j] += chain[j];
    }
    const float bias = bias_of(a, p.channel);
#pragma unroll
    for (int j = 0; j < outputs; j++) total[j] += bias;
    activate_all(a.activation, total);
    /* Through shared memory, so that neighbouring threads write neighbouring samples. */
    __syncthreads();
#pragma unroll
    for (int j = 0; j < outputs; j++) samples[spread(mine + j)] = total[j];
    __syncthreads();
    for (int i = tid; i < tile && first + i < a.out_length; i += threads)
        store_as(a.out, a.out_type, out_index(a, p, first + i), samples[spread(i)]);
}

__global__ void __launch_bounds__(threads) any_rows(const depthwise_args a)
{
    const row_place p = place_of(a);
    const int64_t first = (int64_t)p.segment * threads * any_outputs + threadIdx.x;
    const float *const w = a.w + p.channel * a.taps;
    float chain[any_outputs] = {}, total[any_outputs] = {};
    int64_t at[any_outputs];
#pragma unroll
    for (int r = 0; r < any_outputs; r++) {
        /* Outputs beyond the row are made of zeros and go nowhere. */
        const int64_t t = first + r * threads;
        at[r] = t < a.out_length ? t * a.stride - a.padding_left : a.length;
    }
    for (int32_t k = 0; k < a.taps; k++) {
        const float tap = w[k];
#pragma unroll
        for (int r = 0; r < any_outputs; r++) {
            const bool inside = at[r] >= 0 && at[r] < a.length;
            const float v = inside ? operand(bits_at(a.x, a.convert, p.x_row + at[r]), a.convert) : 0.0f;
            chain[r] = fmaf(tap, v, chain[r]);
            at[r] += a.dilation;
        }
        if (k % slab_taps == slab_taps - 1) {
#pragma unroll
            for (int r = 0; r < any_outputs; r++) total[r] += chain[r], chain[r] = 0;
        }
    }
    const float bias = bias_of(a, p.channel);
#pragma unroll
    for (int r = 0; r < any_outputs; r++) total[r] = total[r] + chain[r] + bias;
    activate_all(a.activation, total);
#pragma unroll
    for (int r = 0; r < any_outputs; r++) {
        const int64_t t = first + r * threads;
        if (t < a.out_length) store_as(a.out, a.out_type, out_index(a, p, t), total[r]);
    }
}

/* Bound is 8 or 16: taps at most. */
template <int Bound> __global__ void __launch_bounds__(threads) fan_rows(const depthwise_args a)
{
    __shared__ __align__(16) float w[fan_channels * Bound];
    const uint32_t chunks = (uint32_t)((a.multiplier + fan_channels - 1) / fan_channels);
    const uint32_t chunk = blockIdx.x % chunks, rest = blockIdx.x / chunks, row = rest / a.segments;
    const int64_t segment = rest - row * a.segments, item = row / (uint32_t)a.in_channels;
    const int64_t in_channel = row - item * a.in_channels;
    const int count = min(fan_channels, a.multiplier - (int)chunk * fan_channels);
    const int64_t channel = in_channel * a.multiplier + chunk * fan_channels;
    for (int i = (int)threadIdx.x; i < count * Bound; i += threads) {
        const int c = i / Bound, k = i % Bound;
        w[i] = k < a.taps ? a.w[(channel + c) * a.taps + k] : 0.0f;
    }
    const int64_t first = segment * threads * any_outputs + threadIdx.x;
    float in[any_outputs][Bound];
#pragma unroll
    for (int r = 0; r < any_outputs; r++) {
        const int64_t t = first + r * threads;
        const int64_t from = t < a.out_length ? t * a.stride - a.padding_left : a.length;
#pragma unroll
        for (int k = 0; k < Bound; k++) {
            const int64_t at = from + k * a.dilation;
            const bool inside = k < a.taps && at >= 0 && at < a.length;
            in[r][k] = inside ? operand(bits_at(a.x, a.convert, (int64_t)row * a.length + at), a.convert) : 0.0f;
        }
    }
    __syncthreads();
    const unsigned used = (1u << a.taps) - 1;
#pragma unroll 1
    for (int c = 0; c < count; c++) {
        float v[any_outputs] = {};
#pragma unroll
        for (int k = 0; k < Bound; k += 4) {
            float tap[4];
            load_four(tap, w + c * Bound + k);
#pragma unroll
            for (int u = 0; u < 4; u++)
                if (used >> (k + u) & 1) {
#pragma unroll
                    for (int r = 0; r < any_outputs; r++) v[r] = fmaf(tap[u], in[r][k + u], v[r]);
                }
        }
        const float bias = bias_of(a, channel + c);
#pragma unroll
        for (int r = 0; r < any_outputs; r++) v[r] = 0.0f + v[r] + bias;
        activate_all(a.activation, v);
        const int64_t to = (item * a.channels + channel + c) * a.out_length;
#pragma unroll
        for (int r = 0; r < any_outputs; r++)
            if (first + r * threads < a.out_length) store_as(a.out, a.out_type, to + first + r * threads, v[r]);
    }
}

/* Runs of Run channels; with Run > 1 an input channel has one output channel. */
template <typename T, int Run> __global__ void __launch_bounds__(threads) channel_runs(const depthwise_args a)
{
    constexpr int times = channel_run_times;
    const int64_t runs = a.channels / Run, stretches = (a.out_length + times - 1) / times;
    const int64_t thread = blockIdx.x * (int64_t)threads + threadIdx.x;
    const int64_t place = thread / runs, channel = (thread - place * runs) * Run;
    if (place >= a.batch * stretches) return;
    const int64_t item = place / stretches, first = (place - item * stretches) * times;
    const T *const x = (const T *)a.x + item * a.length * a.in_channels + channel / a.multiplier;
    float chain[times][Run] = {}, total[times][Run] = {};
    for (int32_t k = 0; k < a.taps; k++) {
        float tap[Run];
#pragma unroll
        for (int e = 0; e < Run; e++) tap[e] = 0;
        if constexpr (Run == 1)
            tap[0] = a.w_by_tap[k * a.channels + channel];
        else
            load_run_as_f32(tap, a.w_by_tap + k * a.channels + channel);
#pragma unroll
        for (int r = 0; r < times; r++) {
            const int64_t at = (first + r) * a.stride - a.padding_left + k * a.dilation;
            float v[Run];
#pragma unroll
            for (int e = 0; e < Run; e++) v[e] = 0;
            if (at >= 0 && at < a.length) {
                if constexpr (Run == 1)
                    v[0] = load_as_f32(x + at * a.in_channels);
                else
                    load_run_as_f32(v, x + at * a.in_channels);
                if constexpr (sizeof(T) == 4)
#pragma unroll
                    for (int e = 0; e < Run; e++) v[e] = operand(__float_as_uint(v[e]), a.convert);
            }
#pragma unroll
            for (int e = 0; e < Run; e++) chain[r][e] = fmaf(tap[e], v[e], chain[r][e]);
        }
        if (k % slab_taps == slab_taps - 1) {
#pragma unroll
            for (int r = 0; r < times; r++)
#pragma unroll
                for (int e = 0; e < Run; e++) total[r][e] += chain[r][e], chain[r][e] = 0;
        }
    }
#pragma unroll 1
    for (int r = 0; r < times; r++) {
        float v[Run];
#pragma unroll
        for (int e = 0; e < Run; e++) {
            /* Picked so that registers are not indexed at run time. */
            float one = 0;
#pragma unroll
            for (int i = 0; i < times; i++) one = i == r ? total[i][e] + chain[i][e] : one;
            v[e] = one + bias_of(a, channel + e);
        }
        activate_all(a.activation, v);
        if (first + r >= a.out_length) return;
        if constexpr (Run > 1) {
            T *const row = (T *)a.out + (item * a.out_length + first + r) * a.channels + channel;
            if (!a.out_ncl && (uintptr_t)row % (Run * sizeof(T)) == 0) {
                store_run_f32(row, v);
                continue;
            }
        }
#pragma unroll
        for (int e = 0; e < Run; e++) {
            const int64_t to = a.out_ncl ? (item * a.channels + channel + e) * a.out_length + first + r
                                         : (item * a.out_length + first + r) * a.channels + channel + e;
            store_as(a.out, a.out_type, to, v[e]);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------ the host */
enum way { WINDOW, LONG, FAN, ANY, CHANNELS };

way way_of(const tapconv_problem *p)
{
    if (p->layout == TAPCONV_NLC) return CHANNELS;
    if (p->out_channels / p->groups >= least_fan && p->kernel_size <= window_taps) return FAN;
    if (p->stride != 1 || p->dilation != 1) return ANY;
    return p->kernel_size <= window_taps ? WINDOW : LONG;
}

int run_of(tapconv_type type)
{
    return 16 / (int)tapconv_type_bytes(type);
}

/* Outputs of a row that a block makes. */
int64_t segment_of(const tapconv_problem *p)
{
    switch (way_of(p)) {
    case WINDOW: return (int64_t)threads * window_runs * run_of(p->type);
    case LONG: return threads * long_outputs;
    default: return threads * any_outputs;
    }
}

/* Outputs that the first run of a row may have before the row: none where `out` is aligned and every row with it. */
int64_t head_of(const tapconv_shape *s, const void *out, tapconv_type out_type)
{
    const int64_t run = run_of(s->p.type);
    if (way_of(&s->p) != WINDOW) return 0;
    const bool aligned = (uintptr_t)out % ((size_t)run * tapconv_type_bytes(out_type)) == 0;
    return aligned && s->out_length % run == 0 ? 0 : run - 1;
}

int64_t segments_of(const tapconv_shape *s, int64_t head)
{
    return ceil_div(s->out_length + head, segment_of(&s->p));
}

/* Channels of a thread of channel_runs, for arrays of any alignment if x and out are NULL. */
int channels_of(const tapconv_shape *s, const void *x)
{
    const int run = run_of(s->p.type);
    return s->group_out == 1 && s->p.in_channels % run == 0 && (uintptr_t)x % 16 == 0 ? run : 1;
}

int64_t blocks_of(const tapconv_shape *s, int run, int64_t head)
{
    if (way_of(&s->p) == FAN)
        return s->p.batch * s->p.in_channels * ceil_div(s->group_out, fan_channels) * segments_of(s, head);
    if (way_of(&s->p) != CHANNELS) return s->p.batch * s->p.out_channels * segments_of(s, head);
    return ceil_div(s->p.batch * ceil_div(s->out_length, channel_run_times) * (s->p.out_channels / run), threads);
}

int takes(const tapconv_shape *s, const tapconv_cuda_card *)
{
    return s->group_in == 1 && s->p.type != TAPCONV_F64 && s->p.math != TAPCONV_MATH_F64 &&
           s->p.kernel_size < INT32_MAX - slab_taps && s->group_out < INT32_MAX && blocks_of(s, 1, 16) <= MOST_BLOCKS;
}

size_t workspace_bytes(const tapconv_shape *, const tapconv_cuda_card *)
{
    return 0;
}

/* Of one of the two orders of the weights. */
size_t half_bytes(const tapconv_shape *s)
{
    return (size_t)ceil_div(s->w_elements * (int64_t)sizeof(float), 256) * 256;
}

size_t packed_bytes(const tapconv_shape *s)
{
    return s->group_in == 1 ? 2 * half_bytes(s) : 0;
}

__global__ void __launch_bounds__(256)
    pack_both(const void *w, float *by_channel, float *by_tap, int64_t channels, int64_t taps, conversion how)
{
    const int64_t count = channels * taps;
    for (int64_t i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
        const float v = operand(bits_at(w, how, i), how);
        const int64_t channel = i / taps;
        by_channel[i] = v;
        by_tap[(i - channel * taps) * channels + channel] = v;
    }
}

cudaError_t pack(const tapconv_shape *s, const void *w, void *packed, cudaStream_t stream)
{
    const int64_t blocks = ceil_div(s->w_elements, 256);
    pack_both<<<(unsigned)(blocks < 4096 ? blocks : 4096), 256, 0, stream>>>(
        w, (float *)packed, (float *)((char *)packed + half_bytes(s)), s->p.out_channels, s->p.kernel_size,
        conversion_of(&s->p));
    return cudaGetLastError();
}

using kernel = void (*)(depthwise_args);

/* The narrowest window that holds all taps behind a shift. */
template <typename T, tapconv_math M, typename Out> kernel window_kernel(int reach)
{
    constexpr int run = 16 / sizeof(T);
    if (reach <= run + 1) return window_rows<T, M, Out, run + 1>;
    if (reach <= 2 * run + 1) return window_rows<T, M, Out, 2 * run + 1>;
    return window_rows < T, M, Out, run == 4 ? 21 : 25 > ;
}

kernel window_kernel_of(const tapconv_problem *p, tapconv_type out_type, int reach)
{
    return with_type(p->type, [&](auto type) {
        using T = typename decltype(type)::type;
        return with_rounding(p->type, p->math, [&](auto math) -> kernel {
            constexpr tapconv_math M = decltype(math)::math;
            if constexpr (sizeof(T) == 4) {
                return window_kernel<T, M, float>(reach);
            } else if constexpr (M == TAPCONV_MATH_F32) {
                return out_type == TAPCONV_F32 ? window_kernel<T, M, float>(reach) : window_kernel<T, M, T>(reach);
            } else {
                return nullptr; /* 16-bit arrays are never rounded */
            }
        });
    });
}

kernel channel_kernel_of(tapconv_type type, int run)
{
    return with_type(type, [&](auto tag) -> kernel {
        using T = typename decltype(tag)::type;
        return run == 1 ? channel_runs<T, 1> : channel_runs<T, 16 / sizeof(T)>;
    });
}

/* Taps behind the first sample of an aligned window: with the shift that all rows have, or the largest. */
int reach_of(const tapconv_shape *s, const void *x, const void *out, tapconv_type out_type)
{
    const tapconv_problem *const p = &s->p;
    const int64_t run = run_of(p->type), taps = p->kernel_size;
    if (p->length % run != 0 || s->out_length % run != 0) return (int)(taps + run - 1);
    const int64_t x_shift = (int64_t)((uintptr_t)x / tapconv_type_bytes(p->type) % (uintptr_t)run);
    const int64_t head = (int64_t)((uintptr_t)out / tapconv_type_bytes(out_type) % (uintptr_t)run);
    const int64_t shift = ((x_shift - head - p->padding_left) % run + run) % run;
    return (int)(taps + shift);
}

kernel kernel_of(const tapconv_shape *s, const void *x, const void *out, tapconv_type out_type)
{
    switch (way_of(&s->p)) {
    case WINDOW: return window_kernel_of(&s->p, out_type, reach_of(s, x, out, out_type));
    case LONG: return long_rows;
    case FAN: return s->p.kernel_size <= 8 ? fan_rows<8> : fan_rows<16>;
    case ANY: return any_rows;
    default: return channel_kernel_of(s->p.type, channels_of(s, x));
    }
}

cudaError_t launch(const tapconv_shape *s, const tapconv_cuda_card *, const tapconv_cuda_conv *conv,
                   cudaStream_t stream)
{
    const tapconv_problem *const p = &s->p;
    depthwise_args a = {};
    a.x = conv->x, a.bias = conv->bias, a.out = conv->out;
    a.w = (const float *)conv->packed, a.w_by_tap = (const float *)((const char *)conv->packed + half_bytes(s));
    a.length = p->length, a.out_length = s->out_length, a.stride = p->stride, a.dilation = p->dilation;
    a.padding_left = p->padding_left;
    a.batch = p->batch, a.in_channels = p->in_channels, a.channels = p->out_channels;
    a.taps = (int32_t)p->kernel_size, a.multiplier = (int32_t)s->group_out;
    a.convert = conversion_of(p);
    a.out_type = conv->out_type, a.param_type = p->param_type;
    a.out_ncl = conv->out_layout == TAPCONV_NCL, a.activation = conv->activation;
    const int64_t head = head_of(s, conv->out, conv->out_type);
    if (way_of(p) != CHANNELS) a.segments = (uint32_t)segments_of(s, head);
    const int64_t blocks = blocks_of(s, way_of(p) == CHANNELS ? channels_of(s, conv->x) : 1, head);
    kernel_of(s, conv->x, conv->out, conv->out_type)<<<(unsigned)blocks, threads, 0, stream>>>(a);
    return cudaGetLastError();
}

void describe(const tapconv_shape *s, const tapconv_cuda_card *, tapconv_cuda_launch_info *info)
{
    static const char *const names[] = {"a row's stretch of %d samples, taps in registers",
                                        "a row's stretch of %d samples, taps in shared memory",
                                        "32 channels x %d samples, samples in registers",
                                        "a row's stretch of %d samples", "%d channels a thread, 4 samples"};
    const tapconv_type out_type = s->p.norm_groups > 0 ? TAPCONV_F32 : s->p.type;
    const way w = way_of(&s->p);
    /* Arrays that are aligned to 256 bytes, as all of an allocator's are. */
    const kernel run = kernel_of(s, nullptr, nullptr, out_type);
    *info = {};
    info->blocks = blocks_of(s, w == CHANNELS ? channels_of(s, nullptr) : 1, head_of(s, nullptr, out_type)),
    info->threads = threads;
    cudaFuncAttributes attributes;
    int resident = 0;
    if (cudaFuncGetAttributes(&attributes, (const void *)run) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, run, threads, 0) == cudaSuccess) {
        info->registers = attributes.numRegs, info->shared_bytes = (int32_t)attributes.sharedSizeBytes;
        info->blocks_per_multiprocessor = resident;
    } else {
        (void)cudaGetLastError(); /* no card: nothing is known, and nothing went wrong */
    }
    snprintf(info->tile, sizeof info->tile, names[w], w == CHANNELS ? channels_of(s, nullptr) : (int)segment_of(&s->p));
}

} // namespace

extern "C" const tapconv_cuda_family tapconv_cuda_depthwise = {"depthwise", takes,  workspace_bytes, packed_bytes,
                                                               pack,        launch, describe};
