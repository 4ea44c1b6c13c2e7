/* Family "depthwise": one input channel an output channel (groups == C_in, any number of output channels a group, C_in 1 with
 * one group too). Such a layer is a copy with arithmetic on the way, so its kernels are built around 16-byte accesses:
 *
 *     window_rows    NCL, stride 1, dilation 1, up to 16 taps. A warp copies a stretch of a row to shared memory; a lane makes
 *                    the outputs of one 16-byte run from the aligned runs around them; taps stand in registers, shifted
 *                    to the alignment of the row.
 *     long_rows      NCL, stride 1, dilation 1, more taps. A block stages a stretch of a row in shared memory, a thread
 *                    slides over it with 16 outputs, and fused multiply-adds are the limit.
 *     fan_rows       NCL, several output channels an input channel, up to 16 taps. A thread keeps the samples of its outputs
 *                    in registers and goes through the channels.
 *     stepped_rows   NCL, strides and dilations whose stretch of a row fits into shared memory. Neighbouring threads make
 *                    neighbouring outputs.
 *     any_rows       NCL, the rest, from global memory.
 *     channel_runs   NLC. A thread makes a 16-byte run of channels at four times.
 *
 * Which one is decided by the layer and T alone. The order of a sum is the same in all: taps in order, cut into chains of
 * 64, chains added in order. */
#include "cuda/activation.cuh"
#include "cuda/kernels.h"
#include "cuda/operand.cuh"
#include "cuda/silu.cuh"
#include "cuda/types.cuh"

#include <cuda_pipeline_primitives.h>
#include <stdio.h>

namespace
{

constexpr int threads = 128;
constexpr int lanes = 32;
constexpr int slab_taps = 64;        /* longest chain: see docs/numerics.md */
constexpr int window_taps = 16;      /* most taps that window_rows takes */
constexpr int window_runs = 8;       /* most output runs of a lane there */
constexpr int long_outputs = 16;     /* outputs of a thread of long_rows */
constexpr int long_chapter = 512;    /* taps for which it stages samples at once */
constexpr int any_outputs = 4;       /* of any_rows, stepped_rows and fan_rows */
constexpr int fan_channels = 16;     /* output channels of a block of fan_rows */
constexpr int least_fan = 4;         /* output channels of an input channel from which on fan_rows is used */
constexpr int stepped_sweeps = 2;    /* any_outputs stores of a thread of stepped_rows, so many times */
constexpr int stepped_bytes = 40960; /* of shared memory that it may take */
constexpr int channel_run_times = 4; /* of channel_runs */

struct depthwise_args {
    const void *x;
    const float *w;        /* [channel][tap] */
    const float *w_by_tap; /* [tap][channel] */
    const void *bias;
    void *out;
    int64_t length, out_length, stride, dilation, padding_left;
    int64_t batch, in_channels, channels;
    fast_divisor by_segments, by_channels, by_multiplier, by_in_channels, by_chunks;
    uint32_t units;                    /* segments of all rows */
    int32_t segment_runs;              /* window_rows: of a lane; stepped_rows: staged */
    int32_t taps, multiplier, segment; /* output channels of an input channel; outputs of a segment */
    conversion convert;
    tapconv_type out_type, param_type;
    int out_ncl, activation;
};

/* A segment of a row, the unit of work. Rows and segments are fewer than 2^31. */
struct row_place {
    uint32_t row, segment, item, channel;
    int64_t x_row;
};

__device__ __forceinline__ row_place place_of(const depthwise_args &a, uint32_t unit)
{
    row_place p;
    p.row = a.by_segments.quotient(unit);
    p.segment = unit - p.row * a.by_segments.divisor;
    p.item = a.by_channels.quotient(p.row);
    p.channel = p.row - p.item * a.by_channels.divisor;
    p.x_row = (p.item * a.in_channels + a.by_multiplier.quotient(p.channel)) * a.length;
    return p;
}

/* What is added to a sum: a bias of -0 or none is +0, so that a sum of -0 becomes +0. */
__device__ __forceinline__ float bias_of(const depthwise_args &a, int64_t channel)
{
    return a.bias ? load_param(a.bias, a.param_type, channel) + 0.0f : 0.0f;
}

template <typename T> __device__ __forceinline__ int misalignment(const T *p, int run)
{
    return (int)((uintptr_t)p / sizeof(T) % (unsigned)run);
}

/* The part of [0, count) that is inside [0, length) when moved by `start`. */
struct span {
    int low, high;
};

__device__ __forceinline__ span inside_of(int64_t start, int64_t length, int count)
{
    return {(int)min(max(-start, (int64_t)0), (int64_t)count),
            (int)min(max(length - start, (int64_t)0), (int64_t)count)};
}

/* Brings runs of a row to shared memory, x[start] first, which is aligned to a run; zeros beyond the row. `rank` of
 * `team` threads take part; __pipeline_commit() and the wait are the caller's. */
template <typename T>
__device__ __forceinline__ void stage_runs(T *to, const T *x, int64_t start, int64_t length, int runs, int rank,
                                           int team)
{
    constexpr int run = 16 / sizeof(T);
    const span in = inside_of(start, length, runs * run);
    const T *const from = x + start;
    for (int i = rank * run; i < runs * run; i += team * run) {
        if (i >= in.low && i + run <= in.high) {
            __pipeline_memcpy_async(to + i, from + i, 16);
        } else {
#pragma unroll 1
            for (int e = i; e < i + run; e++) {
                T zero;
                memset(&zero, 0, sizeof zero);
                to[e] = e >= in.low && e < in.high ? from[e] : zero;
            }
        }
    }
}

/* Two values of 16 bits. */
__device__ __forceinline__ void widen_pair(const __nv_bfloat16 *, uint32_t word, float *to)
{
    to[0] = __uint_as_float(word << 16), to[1] = __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ void widen_pair(const __half *, uint32_t word, float *to)
{
    to[0] = __half2float(__ushort_as_half((unsigned short)word));
    to[1] = __half2float(__ushort_as_half((unsigned short)(word >> 16)));
}

/* As load_run_as_f32; of bfloat16 a word gives two values in an instruction each. */
template <int N, typename T> __device__ __forceinline__ void widen_run(float *to, const T *from)
{
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        const auto words = *(const element_run<uint32_t, N / 2> *)from;
#pragma unroll
        for (int i = 0; i < N / 2; i++) widen_pair((const T *)nullptr, words.value[i], to + 2 * i);
    } else {
        const auto values = *(const element_run<T, N> *)from;
#pragma unroll
        for (int i = 0; i < N; i++) to[i] = load_as_f32(&values.value[i]);
    }
}

/* `Reach` is how many taps fit behind the first sample of the aligned window, shift included. With `Taps` there are so many,
 * and the last is at the end of the reach; with 0 it is known at run time which they are. */
template <typename T, tapconv_math M, typename Out, int Reach, int Taps>
__global__ void __launch_bounds__(threads) window_rows(const depthwise_args a)
{
    constexpr int run = 16 / sizeof(T), window = run + Reach - 1, halo = window / run - 1;
    static_assert(window % run == 0, "a window is whole runs");
    __shared__ __align__(16) T staged[threads / lanes][(lanes * window_runs + halo) * run];
    const int lane = (int)threadIdx.x % lanes, warp = (int)threadIdx.x / lanes;
    const uint32_t unit = blockIdx.x * (threads / lanes) + warp;
    if (unit >= a.units) return;
    const row_place p = place_of(a, unit);
    const T *const x = (const T *)a.x + p.x_row;
    Out *const row = (Out *)a.out + p.row * a.out_length;
    const int head = misalignment(row, run); /* outputs before the row that its first run would have */
    const int64_t before = -head - a.padding_left;
    const int shift = (misalignment(x, run) + (int)(before & (run - 1))) & (run - 1);
    const int64_t t = (int64_t)p.segment * a.segment; /* of the first run, without the head */
    stage_runs(staged[warp], x, t + before - shift, a.length, lanes * a.segment_runs + halo, lane, lanes);
    __pipeline_commit();

    /* Bit k: there is a tap at k. */
    const unsigned used = Taps > 0 ? ((1u << Taps) - 1) << (Reach - Taps) : ((1u << a.taps) - 1) << shift;
    float w[Reach];
#pragma unroll
    for (int k = 0; k < Reach; k++) w[k] = used >> k & 1 ? a.w[(int64_t)p.channel * a.taps + k - shift] : 0.0f;
    const float bias = bias_of(a, p.channel);
    const span out = inside_of(t - head, a.out_length, a.segment);
    Out *const y = row + (t - head);
    const T *const samples = staged[warp];
    __pipeline_wait_prior(0);
    __syncwarp();

#pragma unroll 1
    for (int i = lane * run; i < out.high; i += lanes * run) {
        float in[window];
#pragma unroll
        for (int q = 0; q < window; q += run) {
            widen_run<run>(in + q, samples + i + q);
#pragma unroll
            for (int e = 0; e < run; e++) in[q + e] = round_operand<M>(in[q + e]);
        }
        float v[run] = {};
        unsigned here = used;
        if constexpr (Taps == 0)
            asm volatile("" : "+r"(here)); /* or all its bits are kept as predicates, of which there are too few */
#pragma unroll
        for (int k = 0; k < Reach; k++)
            if (here >> k & 1) {
#pragma unroll
                for (int j = 0; j < run; j++) v[j] = fmaf(w[k], in[j + k], v[j]);
            }
#pragma unroll
        for (int j = 0; j < run; j++) v[j] += bias;
        activate_run<Out>(a.activation, v);
        if (i >= out.low && i + run <= out.high) {
            store_run_f32(y + i, v);
        } else {
#pragma unroll
            for (int j = 0; j < run; j++)
                if (i + j >= out.low && i + j < out.high) store_f32(y + i + j, v[j]);
        }
    }
}

/* Shared memory with four words left free after every 16, so that threads that read 16 words apart meet no bank twice. */
__device__ __forceinline__ int spread(int i)
{
    return i + (i / 16) * 4;
}

template <int N> __device__ __forceinline__ void load_fours(float *to, const float *from)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const auto four = *(const element_run<float, 4> *)(from + i);
#pragma unroll
        for (int e = 0; e < 4; e++) to[i + e] = four.value[e];
    }
}

/* A block has as many threads as a row needs, up to 128. */
template <typename T, tapconv_math M, typename Out>
__global__ void __launch_bounds__(threads) long_rows(const depthwise_args a)
{
    constexpr int outputs = long_outputs, staged = threads * outputs + long_chapter + outputs;
    static_assert(outputs == 16 && slab_taps % outputs == 0 && long_chapter % slab_taps == 0, "16 taps a step");
    __shared__ __align__(16) float samples[staged + staged / 16 * 4];
    __shared__ __align__(16) float w[long_chapter];
    const row_place p = place_of(a, blockIdx.x);
    const int64_t first = (int64_t)p.segment * a.segment;
    const int tid = (int)threadIdx.x, team = (int)blockDim.x;
    const float *const mine = samples + tid * (outputs + 4);
    float total[outputs] = {};
    for (int32_t chapter = 0; chapter < a.taps; chapter += long_chapter) {
        const int taps = min(long_chapter, a.taps - chapter), needed = a.segment + taps - 1;
        const int64_t start = first - a.padding_left + chapter;
        const span in = inside_of(start, a.length, needed);
        const T *const from = (const T *)a.x + p.x_row + start;
        __syncthreads();
        for (int i = tid; i < needed; i += 8 * team) {
            float v[8];
#pragma unroll
            for (int u = 0; u < 8; u++) {
                const int e = i + u * team;
                v[u] = e >= in.low && e < in.high ? load_as_f32(from + e) : 0.0f;
            }
#pragma unroll
            for (int u = 0; u < 8; u++)
                if (i + u * team < needed) samples[spread(i + u * team)] = round_operand<M>(v[u]);
        }
#pragma unroll 1
        for (int k = tid; k < taps; k += team) w[k] = a.w[(int64_t)p.channel * a.taps + chapter + k];
        __syncthreads();
        for (int slab = 0; slab < taps; slab += slab_taps) {
            const int end = min(slab + slab_taps, taps);
            float chain[outputs] = {}, in[2 * outputs];
            load_fours<outputs>(in, mine + spread(slab));
            int k = slab;
#pragma unroll 2
            for (; k + outputs <= end; k += outputs) {
                load_fours<outputs>(in + outputs, mine + spread(k + outputs));
#pragma unroll
                for (int u = 0; u < outputs; u += 4) {
                    float tap[4];
                    load_fours<4>(tap, w + k + u);
#pragma unroll
                    for (int e = 0; e < 4; e++)
#pragma unroll
                        for (int j = 0; j < outputs; j++) chain[j] = fmaf(tap[e], in[j + u + e], chain[j]);
                }
#pragma unroll
                for (int j = 0; j < outputs; j++) in[j] = in[j + outputs];
            }
            if (k < end) {
                load_fours<outputs>(in + outputs, mine + spread(k + outputs));
#pragma unroll
                for (int u = 0; u < outputs - 1; u++)
                    if (k + u < end) {
#pragma unroll
                        for (int j = 0; j < outputs; j++) chain[j] = fmaf(w[k + u], in[j + u], chain[j]);
                    }
            }
#pragma unroll
            for (int j = 0; j < outputs; j++) total[j] += chain[j];
        }
    }
    /* Through shared memory, so that neighbouring threads write neighbouring samples. */
    __syncthreads();
#pragma unroll
    for (int j = 0; j < outputs; j++) samples[tid * (outputs + 4) + j] = total[j];
    __syncthreads();
    const float bias = bias_of(a, p.channel);
    Out *const y = (Out *)a.out + (p.row * a.out_length + first);
    const int count = (int)min((int64_t)a.segment, a.out_length - first);
#pragma unroll 1
    for (int i = tid; i < count; i += 4 * team) {
        float v[4];
#pragma unroll
        for (int u = 0; u < 4; u++) v[u] = samples[spread(min(i + u * team, count - 1))] + bias;
        activate_run<Out>(a.activation, v);
#pragma unroll
        for (int u = 0; u < 4; u++)
            if (i + u * team < count) store_f32(y + i + u * team, v[u]);
    }
}

/* One or two neighbours that a store of 4 bytes takes. */
template <typename Out, int N> __device__ __forceinline__ void store_some(Out *y, const float (&v)[N], int i, span out)
{
    if (i >= out.low && i + N <= out.high) {
        store_run_f32(y + i, v);
    } else {
#pragma unroll
        for (int e = 0; e < N; e++)
            if (i + e >= out.low && i + e < out.high) store_f32(y + i + e, v[e]);
    }
}

extern __shared__ __align__(16) unsigned char stepped_memory[];

template <typename T, tapconv_math M, typename Out>
__global__ void __launch_bounds__(threads) stepped_rows(const depthwise_args a)
{
    constexpr int run = 16 / sizeof(T), each = 4 / sizeof(Out), sweep = threads * each * any_outputs;
    float *const w = (float *)stepped_memory;
    T *const staged = (T *)(w + (a.taps + 3) / 4 * 4);
    const row_place p = place_of(a, blockIdx.x);
    const T *const x = (const T *)a.x + p.x_row;
    Out *const row = (Out *)a.out + p.row * a.out_length;
    const int head = misalignment(row, each);
    const int64_t t = (int64_t)p.segment * a.segment - head;
    const int64_t from = t * a.stride - a.padding_left;
    const int shift = (misalignment(x, run) + (int)(from & (run - 1))) & (run - 1);
    const int tid = (int)threadIdx.x;
    stage_runs(staged, x, from - shift, a.length, a.segment_runs, tid, threads);
    __pipeline_commit();
#pragma unroll 1
    for (int k = tid; k < a.taps; k += threads) w[k] = a.w[(int64_t)p.channel * a.taps + k];
    const float bias = bias_of(a, p.channel);
    const span out = inside_of(t, a.out_length, a.segment);
    Out *const y = row + t;
    const int stride = (int)a.stride, dilation = (int)a.dilation;
    __pipeline_wait_prior(0);
    __syncthreads();

#pragma unroll 1
    for (int first = tid * each; first < out.high; first += sweep) {
        float chain[any_outputs][each] = {}, total[any_outputs][each] = {};
        int at[any_outputs]; /* outputs beyond the segment are made of its last samples and go nowhere */
#pragma unroll
        for (int r = 0; r < any_outputs; r++)
            at[r] = shift + min(first + r * threads * each, a.segment - each) * stride;
        for (int slab = 0; slab < a.taps; slab += slab_taps) {
            const int end = min(slab + slab_taps, a.taps);
#pragma unroll 4
            for (int k = slab; k < end; k++) {
                const float tap = w[k];
#pragma unroll
                for (int r = 0; r < any_outputs; r++) {
#pragma unroll
                    for (int e = 0; e < each; e++) {
                        const float v = round_operand<M>(load_as_f32(staged + at[r] + e * stride));
                        chain[r][e] = fmaf(tap, v, chain[r][e]);
                    }
                    at[r] += dilation;
                }
            }
#pragma unroll
            for (int r = 0; r < any_outputs; r++)
#pragma unroll
                for (int e = 0; e < each; e++) total[r][e] += chain[r][e], chain[r][e] = 0;
        }
        float v[any_outputs * each];
#pragma unroll
        for (int i = 0; i < any_outputs * each; i++) v[i] = total[i / each][i % each] + bias;
        activate_run<Out>(a.activation, v);
#pragma unroll
        for (int r = 0; r < any_outputs; r++) {
            float some[each];
#pragma unroll
            for (int e = 0; e < each; e++) some[e] = v[r * each + e];
            store_some(y, some, first + r * threads * each, out);
        }
    }
}

__global__ void __launch_bounds__(threads) any_rows(const depthwise_args a)
{
    const row_place p = place_of(a, blockIdx.x);
    const int64_t first = (int64_t)p.segment * a.segment + threadIdx.x;
    const float *const w = a.w + (int64_t)p.channel * a.taps;
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
        if (t < a.out_length) store_as(a.out, a.out_type, p.row * a.out_length + t, total[r]);
    }
}

/* Bound is 8, 12 or 16: taps at most. */
template <typename T, typename Out, int Bound>
__global__ void __launch_bounds__(threads, Bound > 12  ? 5
                                           : Bound > 8 ? 6
                                                       : 8) fan_rows(const depthwise_args a)
{
    __shared__ __align__(16) float w[fan_channels * Bound];
    __shared__ float bias[fan_channels];
    const uint32_t rest = a.by_chunks.quotient(blockIdx.x), chunk = blockIdx.x - rest * a.by_chunks.divisor;
    const uint32_t row = a.by_segments.quotient(rest), segment = rest - row * a.by_segments.divisor;
    const uint32_t item = a.by_in_channels.quotient(row), in_channel = row - item * a.by_in_channels.divisor;
    const int count = min(fan_channels, a.multiplier - (int)chunk * fan_channels);
    const int64_t channel = (int64_t)in_channel * a.multiplier + chunk * fan_channels;
    const int64_t first = (int64_t)segment * a.segment + threadIdx.x;
    const T *const x = (const T *)a.x + row * a.length;
    float in[any_outputs][Bound];
#pragma unroll
    for (int r = 0; r < any_outputs; r++) {
        const int64_t t = first + r * threads;
        const int64_t from = t < a.out_length ? t * a.stride - a.padding_left : a.length;
#pragma unroll
        for (int k = 0; k < Bound; k++) {
            const int64_t at = from + k * a.dilation;
            in[r][k] = k < a.taps && at >= 0 && at < a.length ? load_as_f32(x + at) : 0.0f;
        }
    }
    if (sizeof(T) == 4 && a.convert != FROM_F32) {
#pragma unroll
        for (int r = 0; r < any_outputs; r++)
#pragma unroll
            for (int k = 0; k < Bound; k++) in[r][k] = operand(__float_as_uint(in[r][k]), a.convert);
    }
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < count * Bound; i += threads) {
        const int c = i / Bound, k = i % Bound;
        w[i] = k < a.taps ? a.w[(channel + c) * a.taps + k] : 0.0f;
    }
    if ((int)threadIdx.x < count) bias[threadIdx.x] = bias_of(a, channel + threadIdx.x);
    __syncthreads();
    const unsigned used = (1u << a.taps) - 1;
    Out *y = (Out *)a.out + ((item * a.channels + channel) * a.out_length + first);
    const int outputs = (int)min((a.out_length - first + threads - 1) / threads, (int64_t)any_outputs);
#pragma unroll 1
    for (int c = 0; c < count; c++, y += a.out_length) {
        float v[any_outputs] = {};
#pragma unroll
        for (int k = 0; k < Bound; k += 4) {
            float tap[4];
            load_fours<4>(tap, w + c * Bound + k);
#pragma unroll
            for (int u = 0; u < 4; u++)
                if (used >> (k + u) & 1) {
#pragma unroll
                    for (int r = 0; r < any_outputs; r++) v[r] = fmaf(tap[u], in[r][k + u], v[r]);
                }
        }
#pragma unroll
        for (int r = 0; r < any_outputs; r++) v[r] += bias[c];
        activate_run<Out>(a.activation, v);
#pragma unroll
        for (int r = 0; r < any_outputs; r++)
            if (r < outputs) store_f32(y + r * threads, v[r]);
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
enum way { WINDOW, LONG, FAN, STEPPED, ANY, CHANNELS };

int run_of(tapconv_type type)
{
    return 16 / (int)tapconv_type_bytes(type);
}

/* How a problem is cut. Where it depends on `aligned` - x, out and all their rows are aligned to whole runs - fewer
 * units may do. */
struct cut {
    way how;
    int64_t segments, segment, segment_runs, units, blocks;
    int threads, shared_bytes;
};

/* Outputs of a segment of stepped_rows, and what must be staged for it; false where that is too much to be worth it. */
bool cut_stepped(const tapconv_shape *s, cut *c)
{
    const tapconv_problem *const p = &s->p;
    const int64_t bytes = (int64_t)tapconv_type_bytes(p->type), most = stepped_bytes / bytes;
    const int64_t sweep = threads * any_outputs * 2, whole = stepped_sweeps * sweep;
    if (p->kernel_size > stepped_bytes / 16 || p->stride > most || p->dilation > most) return false;
    c->segments = ceil_div(s->out_length + 1, whole);
    c->segment = ceil_div(ceil_div(s->out_length + 1, c->segments), 2) * 2;
    const int64_t reach = (p->kernel_size - 1) * p->dilation, samples = (c->segment - 1) * p->stride + reach + 1;
    const int64_t weights = ceil_div(p->kernel_size, 4) * 16;
    c->segment_runs = ceil_div(samples, run_of(p->type)) + 1;
    c->shared_bytes = (int)(weights + c->segment_runs * 16);
    return reach <= 2 * whole * p->stride && weights + c->segment_runs * 16 <= stepped_bytes;
}

cut cut_of(const tapconv_shape *s, bool aligned)
{
    const tapconv_problem *const p = &s->p;
    const int64_t rows = p->batch * p->out_channels, run = run_of(p->type);
    cut c = {};
    c.threads = threads;
    if (p->layout == TAPCONV_NLC) {
        c.how = CHANNELS;
        return c;
    }
    if (s->group_out >= least_fan && p->kernel_size <= window_taps) {
        c.how = FAN, c.segment = threads * any_outputs;
        c.segments = ceil_div(s->out_length, c.segment);
        c.units = p->batch * p->in_channels * ceil_div(s->group_out, fan_channels) * c.segments;
    } else if (p->stride == 1 && p->dilation == 1 && p->kernel_size <= window_taps) {
        /* An unaligned row may have up to run - 1 outputs more in front. */
        const int64_t runs = ceil_div(s->out_length + (aligned ? 0 : run - 1), run);
        c.how = WINDOW, c.segments = ceil_div(runs, lanes * window_runs);
        c.segment_runs = ceil_div(runs, lanes * c.segments), c.segment = c.segment_runs * lanes * run;
        c.units = rows * c.segments;
    } else if (p->stride == 1 && p->dilation == 1) {
        const int64_t sixteens = ceil_div(s->out_length, long_outputs);
        c.how = LONG, c.segments = ceil_div(sixteens, threads);
        c.threads = (int)(ceil_div(ceil_div(sixteens, c.segments), lanes) * lanes);
        c.segment = (int64_t)c.threads * long_outputs, c.units = rows * c.segments;
    } else if (cut_stepped(s, &c)) {
        c.how = STEPPED, c.units = rows * c.segments;
    } else {
        c.how = ANY, c.segment = threads * any_outputs, c.shared_bytes = 0;
        c.segments = ceil_div(s->out_length, c.segment), c.units = rows * c.segments;
    }
    c.blocks = c.how == WINDOW ? ceil_div(c.units, threads / lanes) : c.units;
    return c;
}

/* Channels of a thread of channel_runs, for arrays of any alignment if x is NULL. */
int channels_of(const tapconv_shape *s, const void *x)
{
    const int run = run_of(s->p.type);
    return s->group_out == 1 && s->p.in_channels % run == 0 && (uintptr_t)x % 16 == 0 ? run : 1;
}

int64_t channel_blocks(const tapconv_shape *s, int run)
{
    return ceil_div(s->p.batch * ceil_div(s->out_length, channel_run_times) * (s->p.out_channels / run), threads);
}

int takes(const tapconv_shape *s, const tapconv_cuda_card *)
{
    if (s->group_in != 1 || s->p.type == TAPCONV_F64 || s->p.math == TAPCONV_MATH_F64) return 0;
    if (s->p.kernel_size >= INT32_MAX - long_chapter || s->group_out >= INT32_MAX) return 0;
    const cut c = cut_of(s, false);
    return c.how == CHANNELS ? channel_blocks(s, 1) <= MOST_BLOCKS : c.units <= MOST_BLOCKS;
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

/* f(type of x, rounding, type of out) for the kernels that are templates of all three. */
template <typename F> kernel with_kinds(const tapconv_problem *p, tapconv_type out_type, F f)
{
    return with_type(p->type, [&](auto type) {
        using T = typename decltype(type)::type;
        return with_rounding(p->type, p->math, [&](auto math) -> kernel {
            if constexpr (sizeof(T) == 4) {
                return f(type, math, type);
            } else if constexpr (decltype(math)::math == TAPCONV_MATH_F32) {
                return out_type == TAPCONV_F32 ? f(type, math, type_tag<float>()) : f(type, math, type);
            } else {
                return nullptr; /* 16-bit arrays are never rounded */
            }
        });
    });
}

/* The narrowest window that holds all taps behind a shift. Causal layers with rows of whole runs have their last tap at
 * its end; of those, the most usual kernel sizes have kernels of their own. */
template <typename T, tapconv_math M, typename Out> kernel window_kernel(int taps, int shift)
{
    constexpr int run = 16 / sizeof(T), one = run + 1, two = 2 * run + 1, most = run == 4 ? 21 : 25;
    const int reach = taps + (shift < 0 ? run - 1 : shift);
    if (taps == 4 && reach == one) return window_rows<T, M, Out, one, 4>;
    if (taps == 7 && reach == (run == 4 ? two : one)) return window_rows < T, M, Out, run == 4 ? two : one, 7 > ;
    if (reach <= one) return window_rows<T, M, Out, one, 0>;
    return reach <= two ? window_rows<T, M, Out, two, 0> : window_rows<T, M, Out, most, 0>;
}

kernel channel_kernel_of(tapconv_type type, int run)
{
    return with_type(type, [&](auto tag) -> kernel {
        using T = typename decltype(tag)::type;
        return run == 1 ? channel_runs<T, 1> : channel_runs<T, 16 / sizeof(T)>;
    });
}

template <typename T, typename Out> kernel fan_kernel(int64_t taps)
{
    if (taps <= 8) return fan_rows<T, Out, 8>;
    return taps <= 12 ? fan_rows<T, Out, 12> : fan_rows<T, Out, 16>;
}

/* Arrays of a launch: where they lie decides how rows are cut into runs. NULL is as aligned as an allocator's. */
struct arrays {
    const void *x, *out;
    tapconv_type out_type;
};

/* Whether all rows of out begin with a whole run. */
bool out_aligned(const tapconv_shape *s, const arrays &at)
{
    const size_t run = (size_t)run_of(s->p.type);
    return s->out_length % (int64_t)run == 0 && (uintptr_t)at.out % (run * tapconv_type_bytes(at.out_type)) == 0;
}

/* How far the first tap lies behind the first sample of an aligned window in all rows; -1 where rows differ. */
int shift_of(const tapconv_shape *s, const arrays &at)
{
    const tapconv_problem *const p = &s->p;
    const int64_t run = run_of(p->type);
    if (p->length % run != 0 || s->out_length % run != 0) return -1;
    const int64_t x_shift = (int64_t)((uintptr_t)at.x / tapconv_type_bytes(p->type) % (uintptr_t)run);
    const int64_t head = (int64_t)((uintptr_t)at.out / tapconv_type_bytes(at.out_type) % (uintptr_t)run);
    return (int)(((x_shift - head - p->padding_left) % run + run) % run);
}

kernel kernel_of(const tapconv_shape *s, const cut &c, const arrays &at)
{
    const tapconv_problem *const p = &s->p;
    switch (c.how) {
    case WINDOW:
        return with_kinds(p, at.out_type, [&](auto type, auto math, auto out) {
            return window_kernel<typename decltype(type)::type, decltype(math)::math, typename decltype(out)::type>(
                (int)p->kernel_size, shift_of(s, at));
        });
    case LONG:
        return with_kinds(p, at.out_type, [](auto type, auto math, auto out) -> kernel {
            return long_rows<typename decltype(type)::type, decltype(math)::math, typename decltype(out)::type>;
        });
    case STEPPED:
        return with_kinds(p, at.out_type, [](auto type, auto math, auto out) -> kernel {
            return stepped_rows<typename decltype(type)::type, decltype(math)::math, typename decltype(out)::type>;
        });
    case FAN:
        return with_type(p->type, [&](auto tag) -> kernel {
            using T = typename decltype(tag)::type;
            return at.out_type == TAPCONV_F32 ? fan_kernel<T, float>(p->kernel_size) : fan_kernel<T, T>(p->kernel_size);
        });
    case ANY: return any_rows;
    default: return channel_kernel_of(p->type, channels_of(s, at.x));
    }
}

cudaError_t launch(const tapconv_shape *s, const tapconv_cuda_card *, const tapconv_cuda_conv *conv,
                   cudaStream_t stream)
{
    const tapconv_problem *const p = &s->p;
    const arrays at = {conv->x, conv->out, conv->out_type};
    const cut c = cut_of(s, out_aligned(s, at));
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
    int64_t blocks = c.blocks;
    if (c.how == CHANNELS) {
        blocks = channel_blocks(s, channels_of(s, conv->x));
    } else {
        a.by_segments = fast_divisor((uint32_t)c.segments), a.by_channels = fast_divisor((uint32_t)p->out_channels);
        a.by_multiplier = fast_divisor((uint32_t)s->group_out);
        a.by_in_channels = fast_divisor((uint32_t)p->in_channels);
        a.by_chunks = fast_divisor((uint32_t)ceil_div(s->group_out, fan_channels));
        a.units = (uint32_t)c.units, a.segment = (int32_t)c.segment, a.segment_runs = (int32_t)c.segment_runs;
    }
    kernel_of(s, c, at)<<<(unsigned)blocks, (unsigned)c.threads, (size_t)c.shared_bytes, stream>>>(a);
    return cudaGetLastError();
}

void describe(const tapconv_shape *s, const tapconv_cuda_card *, tapconv_cuda_launch_info *info)
{
    static const char *const names[] = {"a row's stretch of %d samples, taps in registers",
                                        "a row's stretch of %d samples, taps in shared memory",
                                        "16 channels x %d samples, samples in registers",
                                        "a row's stretch of %d samples, staged",
                                        "a row's stretch of %d samples",
                                        "%d channels a thread, 4 samples"};
    const arrays at = {nullptr, nullptr, s->p.norm_groups > 0 ? TAPCONV_F32 : s->p.type};
    const cut c = cut_of(s, out_aligned(s, at));
    const kernel run = kernel_of(s, c, at);
    *info = {};
    info->blocks = c.how == CHANNELS ? channel_blocks(s, channels_of(s, nullptr)) : c.blocks;
    info->threads = c.threads, info->shared_bytes = c.shared_bytes;
    cudaFuncAttributes attributes;
    int resident = 0;
    if (cudaFuncGetAttributes(&attributes, (const void *)run) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, run, c.threads, (size_t)c.shared_bytes) ==
            cudaSuccess) {
        info->registers = attributes.numRegs, info->shared_bytes += (int32_t)attributes.sharedSizeBytes;
        info->blocks_per_multiprocessor = resident;
    } else {
        (void)cudaGetLastError(); /* no card: nothing is known, and nothing went wrong */
    }
    snprintf(info->tile, sizeof info->tile, names[c.how], c.how == CHANNELS ? channels_of(s, nullptr) : (int)c.segment);
}

} // namespace

extern "C" const tapconv_cuda_family tapconv_cuda_depthwise = {"depthwise", takes,  workspace_bytes, packed_bytes,
                                                               pack,        launch, describe};
