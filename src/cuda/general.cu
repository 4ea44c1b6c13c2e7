/* Family "general": any legal problem, by float32 fused multiply-adds. An implicit matrix product
 *
 *     out[channel][column] = sum over terms of w[channel][term] * x[term][column]
 *
 * for each group of channels: a column is an output sample, counted through all items of the batch, a term an input channel
 * and a tap, taps innermost. A block computes BM channels x BN columns in steps of BK terms, a thread TM x TN of it in
 * registers. Weights lie packed as [term][channel] and go to shared memory by asynchronous copies; samples go through
 * registers, where they are widened and rounded as the math mode says, and where padding becomes zero. While a step is
 * multiplied the next one is on its way.
 *
 * The order of a sum is fixed by the layer: terms in order, cut into slabs of 64; a slab is one chain of fused multiply-adds
 * from zero, slabs are added in order. So a tile is chosen for speed alone. Where blocks are too few to fill the card, each
 * takes some of the slabs, their sums go to the workspace one by one, and a second kernel adds them in the same order.
 * Long windows over few channels have a kernel of their own, in few.cu, which keeps the order. */
#include "cuda/activation.cuh"
#include "cuda/few.h"
#include "cuda/kernels.h"
#include "cuda/operand.cuh"
#include "cuda/types.cuh"

#include <cuda_pipeline_primitives.h>
#include <stdio.h>

namespace
{

constexpr int slab_terms = 64;  /* longest chain: see docs/numerics.md */
constexpr int term_unit = 32;   /* packed terms are a multiple of it: no step reads past them */
constexpr int channel_unit = 4; /* packed channels of a group are a multiple of it: 16 bytes */

struct tile_shape {
    int channels, columns, terms, thread_channels, thread_columns, least_blocks;
    double rate; /* of multiply-adds, as a part of the card's, when all multiprocessors have a block or more */
};

/* Each has a reason: the first is for large problems, the second for middling ones, the third, the fourth and the
 * last for few channels a group, the fifth for few samples. */
constexpr tile_shape tiles[] = {
    {128, 128, 16, 8, 8, 1, 0.90}, {64, 64, 16, 4, 8, 3, 0.70}, {32, 128, 16, 4, 8, 2, 0.65},
    {8, 128, 16, 2, 4, 3, 0.35},   {64, 16, 32, 4, 2, 4, 0.25}, {16, 128, 16, 4, 4, 3, 0.50},
};
constexpr int tile_count = sizeof tiles / sizeof tiles[0];

struct general_args {
    const void *x;
    const float *w; /* [group][terms, padded][channels of a group, padded] */
    const void *bias;
    void *out;
    float *partials; /* [slab][channel][column], or NULL: this launch takes all slabs */
    int64_t columns, length, out_length;
    int64_t stride, dilation, padding_left;
    int64_t item_step, channel_step, time_step; /* of x, in elements */
    int64_t terms, padded_terms;
    int64_t channel_tiles, column_tiles, groups;
    int32_t group_in, group_out, group_out_padded, kernel_size;
    int64_t splits, split_slabs;
    conversion convert;
    tapconv_type out_type, param_type;
    int out_ncl;
    int activation;
};

/* Where the samples of a column lie, and which taps meet one: first_tap to first_tap + taps - 1. */
struct column_input {
    int64_t at; /* of tap 0 of the group's first channel; may lie outside x where tap 0 meets padding */
    uint32_t first_tap, taps;
};

__device__ column_input input_of_column(const general_args &a, int64_t group, int64_t column)
{
    if (column >= a.columns) return {0, 0, 0};
    const int64_t item = column / a.out_length, t = column - item * a.out_length;
    const int64_t position = t * a.stride - a.padding_left;
    const int64_t taps = a.kernel_size;
    int64_t first = 0, end = 0;
    if (position < 0) first = min(taps, a.dilation == 1 ? -position : (-position + a.dilation - 1) / a.dilation);
    if (position < a.length) {
        const int64_t last = a.length - 1 - position;
        end = min(taps, (a.dilation == 1 ? last : last / a.dilation) + 1);
    }
    return {item * a.item_step + group * a.group_in * a.channel_step + position * a.time_step, (uint32_t)first,
            (uint32_t)max(end - first, (int64_t)0)};
}

/* A term on its way through the sum: channel and tap, and how far from tap 0 of channel 0 its samples lie. */
struct term_walk {
    int32_t channel, tap;
    int64_t offset;
};

struct term_steps {
    int64_t tap, wrap;            /* offsets: to the next tap, and besides it from behind a channel's last tap */
    int32_t far_tap, far_channel; /* the same for several terms at once */
    int64_t far;
};

__device__ __forceinline__ term_steps steps_of(const general_args &a, int far)
{
    const int64_t tap = a.dilation * a.time_step;
    const int32_t channels = far / a.kernel_size, taps = far % a.kernel_size;
    return {tap, a.channel_step - a.kernel_size * tap, taps, channels, taps * tap + channels * a.channel_step};
}

__device__ __forceinline__ void wrap(term_walk &at, const term_steps &steps, int32_t kernel_size)
{
    if (at.tap >= kernel_size) at.tap -= kernel_size, at.channel++, at.offset += steps.wrap;
}

__device__ __forceinline__ void next_term(term_walk &at, const term_steps &steps, int32_t kernel_size)
{
    at.tap++, at.offset += steps.tap;
    wrap(at, steps, kernel_size);
}

__device__ __forceinline__ void far_term(term_walk &at, const term_steps &steps, int32_t kernel_size)
{
    at.tap += steps.far_tap, at.channel += steps.far_channel, at.offset += steps.far;
    wrap(at, steps, kernel_size);
}

template <typename Bits>
__device__ __forceinline__ uint32_t load_bits(const general_args &a, const column_input &column, const term_walk &at)
{
    const bool inside = (uint32_t)at.tap - column.first_tap < column.taps && at.channel < a.group_in;
    return inside ? (uint32_t)__ldg((const Bits *)a.x + (column.at + at.offset)) : 0u;
}

template <int Tile, bool ChannelsLast>
__global__ void __launch_bounds__(tiles[Tile].channels / tiles[Tile].thread_channels * tiles[Tile].columns /
                                      tiles[Tile].thread_columns,
                                  tiles[Tile].least_blocks) convolve(const general_args a)
{
    constexpr int BM = tiles[Tile].channels, BN = tiles[Tile].columns, BK = tiles[Tile].terms;
    constexpr int TM = tiles[Tile].thread_channels, TN = tiles[Tile].thread_columns;
    constexpr int threads = BM / TM * BN / TN;
    /* A thread's channels and columns are runs of at most four, so that shared memory is read 16 bytes at a time. */
    constexpr int GM = TM < 4 ? TM : 4, GN = TN < 4 ? TN : 4, runs_m = TM / GM, runs_n = TN / GN;
    constexpr int pitch = BN + 4;     /* spreads columns of samples over the banks */
    constexpr bool splits = Tile > 0; /* the large tile is for problems that fill the card */
    constexpr int loads = BK * BN / threads, stage = BK * BM + BK * pitch;
    constexpr int pass_rows = BM / runs_m;
    constexpr int shared_floats = 2 * stage > pass_rows * pitch ? 2 * stage : pass_rows * pitch;
    static_assert(slab_terms % BK == 0 && term_unit % BK == 0, "a slab is whole steps");
    static_assert(threads % BN == 0 && threads % BK == 0 && BK * BN % threads == 0, "threads share the samples evenly");
    static_assert(BM / TM % 4 == 0 && BN / TN % 8 == 0, "a warp is 4 x 8 threads");
    static_assert(pass_rows * BN % (4 * threads) == 0, "results leave four at a time");
    __shared__ __align__(16) float shared[shared_floats];
    __shared__ int64_t column_out[BN];
    __shared__ column_input column_in[ChannelsLast ? BN : 1];

    const int tid = (int)threadIdx.x;
    int64_t place = blockIdx.x;
    const int64_t channel_tile = place % a.channel_tiles;
    place /= a.channel_tiles;
    const int64_t column_tile = place % a.column_tiles;
    place /= a.column_tiles;
    const int64_t group = place % a.groups, split = place / a.groups;
    const int32_t first_channel = (int32_t)(channel_tile * BM);
    const int64_t first_column = column_tile * BN;
    const int64_t first_term = split * a.split_slabs * slab_terms;
    const int64_t end_term = min(a.terms, first_term + a.split_slabs * slab_terms);
    const int64_t steps = (end_term - first_term + BK - 1) / BK;

    for (int j = tid; j < BN; j += threads) {
        const int64_t column = first_column + j, item = column / a.out_length, t = column - item * a.out_length;
        const int64_t channels = a.groups * a.group_out;
        column_out[j] = column >= a.columns ? -1 : a.out_ncl ? item * channels * a.out_length + t : column * channels;
        if constexpr (ChannelsLast) column_in[j] = input_of_column(a, group, column);
    }
    if constexpr (ChannelsLast) __syncthreads();

    /* Time contiguous: a thread keeps its column and walks through neighbouring terms. Channels contiguous: it keeps its
     * place in the step and takes several columns. */
    const int my_term = ChannelsLast ? tid % BK : tid / BN * loads;
    const int my_column = ChannelsLast ? tid / BK : tid % BN;
    column_input column = {0, 0, 0};
    if constexpr (!ChannelsLast) column = input_of_column(a, group, first_column + my_column);
    const term_steps walk = steps_of(a, ChannelsLast ? BK : BK - loads);
    term_walk at;
    {
        const int64_t term = first_term + my_term;
        at.channel = (int32_t)(term / a.kernel_size);
        at.tap = (int32_t)(term - (int64_t)at.channel * a.kernel_size);
        at.offset = at.channel * a.channel_step + at.tap * walk.tap;
    }
    const float *w = a.w + (group * a.padded_terms + first_term) * a.group_out_padded + first_channel;

    uint32_t bits[loads];
    const auto load_samples = [&](auto kind) {
        using Bits = decltype(kind);
        if constexpr (ChannelsLast) {
#pragma unroll
            for (int i = 0; i < loads; i++) bits[i] = load_bits<Bits>(a, column_in[my_column + i * (threads / BK)], at);
            far_term(at, walk, a.kernel_size);
        } else {
#pragma unroll
            for (int i = 0; i < loads; i++) {
                bits[i] = load_bits<Bits>(a, column, at);
                next_term(at, walk, a.kernel_size);
            }
            if constexpr (loads < BK) far_term(at, walk, a.kernel_size);
        }
    };
    const auto load_step = [&](float *to) {
        if (a.convert >= FROM_F16)
            load_samples((unsigned short)0);
        else
            load_samples((unsigned)0);
#pragma unroll
        for (int i = tid; i < BK * BM / 4; i += threads) {
            const int row = i / (BM / 4), channel = i % (BM / 4) * 4;
            const bool inside = first_channel + channel < a.group_out_padded;
            const float *const from = inside ? w + (int64_t)row * a.group_out_padded + channel : a.w;
            __pipeline_memcpy_async(to + row * BM + channel, from, 16, inside ? 0 : 16);
        }
        __pipeline_commit();
        w += (int64_t)BK * a.group_out_padded;
    };
    const auto keep_samples = [&](float *to) {
        const auto keep = [&](conversion how) {
#pragma unroll
            for (int i = 0; i < loads; i++) {
                const int row = ChannelsLast ? my_term : my_term + i;
                const int j = ChannelsLast ? my_column + i * (threads / BK) : my_column;
                to[BK * BM + row * pitch + j] = operand(bits[i], how);
            }
        };
        switch (a.convert) {
        case FROM_F32: keep(FROM_F32); break;
        case FROM_F32_TO_TF32: keep(FROM_F32_TO_TF32); break;
        case FROM_F32_TO_F16: keep(FROM_F32_TO_F16); break;
        case FROM_F32_TO_BF16: keep(FROM_F32_TO_BF16); break;
        case FROM_F16: keep(FROM_F16); break;
        case FROM_BF16: keep(FROM_BF16); break;
        }
    };

    constexpr int warps_n = BN / TN / 8;
    const int warp = tid / 32, lane = tid % 32;
    const int tx = warp % warps_n * 8 + lane % 8, ty = warp / warps_n * 4 + lane / 8;
    float chain[TM][TN] = {}, total[TM][TN] = {};

    load_step(shared);
    keep_samples(shared);
    __pipeline_wait_prior(0);
    __syncthreads();
    int64_t slab = split * a.split_slabs;
    int in_slab = 0;
    for (int64_t step = 0; step < steps; step++) {
        const float *const now = shared + (step & 1) * stage;
        float *const next = shared + (~step & 1) * stage;
        const bool more = step + 1 < steps;
        if (more) load_step(next);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float wk[TM], xk[TN];
#pragma unroll
            for (int r = 0; r < runs_m; r++) {
                const auto run = *(const element_run<float, GM> *)(now + k * BM + r * (BM / runs_m) + ty * GM);
#pragma unroll
                for (int e = 0; e < GM; e++) wk[r * GM + e] = run.value[e];
            }
#pragma unroll
            for (int r = 0; r < runs_n; r++) {
                const auto run =
                    *(const element_run<float, GN> *)(now + BK * BM + k * pitch + r * (BN / runs_n) + tx * GN);
#pragma unroll
                for (int e = 0; e < GN; e++) xk[r * GN + e] = run.value[e];
            }
#pragma unroll
            for (int m = 0; m < TM; m++)
#pragma unroll
                for (int n = 0; n < TN; n++) chain[m][n] = fmaf(wk[m], xk[n], chain[m][n]);
        }
        if (more) {
            keep_samples(next);
            __pipeline_wait_prior(0);
        }
        in_slab += BK;
        if (in_slab == slab_terms || !more) {
            if (splits && a.partials) {
#pragma unroll
                for (int m = 0; m < TM; m++)
#pragma unroll
                    for (int n = 0; n < TN; n++) {
                        const int32_t channel = first_channel + m / GM * (BM / runs_m) + ty * GM + m % GM;
                        const int64_t j = first_column + n / GN * (BN / runs_n) + tx * GN + n % GN;
                        const int64_t row = (slab * a.groups + group) * a.group_out + channel;
                        if (channel < a.group_out && j < a.columns) a.partials[row * a.columns + j] = chain[m][n];
                        chain[m][n] = 0;
                    }
            } else {
#pragma unroll
                for (int m = 0; m < TM; m++)
#pragma unroll
                    for (int n = 0; n < TN; n++) total[m][n] += chain[m][n], chain[m][n] = 0;
            }
            in_slab = 0, slab++;
        }
        __syncthreads();
    }
    if (splits && a.partials) return;

        /* Through shared memory, so that neighbouring threads write neighbouring samples (or channels). */
#pragma unroll
    for (int pass = 0; pass < runs_m; pass++) {
        if (pass > 0) __syncthreads();
#pragma unroll
        for (int m = 0; m < GM; m++)
#pragma unroll
            for (int n = 0; n < TN; n++)
                shared[(ty * GM + m) * pitch + n / GN * (BN / runs_n) + tx * GN + n % GN] = total[pass * GM + m][n];
        __syncthreads();
        for (int i = tid; i < pass_rows * BN; i += 4 * threads) {
            float v[4];
            int64_t to[4];
#pragma unroll
            for (int u = 0; u < 4; u++) {
                const int e = i + u * threads;
                const int row = a.out_ncl ? e / BN : e % pass_rows, j = a.out_ncl ? e % BN : e / pass_rows;
                const int32_t in_group = first_channel + pass * pass_rows + row;
                const int64_t channel = group * a.group_out + in_group;
                to[u] = -1;
                if (in_group < a.group_out && column_out[j] >= 0)
                    to[u] = column_out[j] + (a.out_ncl ? channel * a.out_length : channel);
                v[u] = shared[row * pitch + j];
                if (a.bias && to[u] >= 0) v[u] += load_param(a.bias, a.param_type, channel);
            }
            activate_all(a.activation, v);
#pragma unroll
            for (int u = 0; u < 4; u++) {
                if (to[u] < 0) continue;
                store_as(a.out, a.out_type, to[u], v[u]);
            }
        }
    }
}

/* Adds the slabs of a launch that was split, in order, and finishes the outputs. */
__global__ void __launch_bounds__(128) add_slabs(const general_args a, int64_t slabs)
{
    const int64_t channels = a.groups * a.group_out, outputs = channels * a.columns;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < outputs;
         i += (int64_t)gridDim.x * blockDim.x) {
        float v = 0;
#pragma unroll 8
        for (int64_t slab = 0; slab < slabs; slab++) v += a.partials[slab * outputs + i];
        const int64_t channel = i / a.columns, column = i - channel * a.columns;
        if (a.bias) v += load_param(a.bias, a.param_type, channel);
        v = activate(a.activation, v);
        const int64_t item = column / a.out_length, t = column - item * a.out_length;
        const int64_t to = a.out_ncl ? (item * channels + channel) * a.out_length + t : column * channels + channel;
        store_as(a.out, a.out_type, to, v);
    }
}

int64_t padded_terms(const tapconv_shape *s)
{
    return ceil_div(s->sum_length, term_unit) * term_unit;
}

int64_t padded_channels(const tapconv_shape *s)
{
    return ceil_div(s->group_out, channel_unit) * channel_unit;
}

/* How a problem is cut. */
struct cut {
    int tile;
    int64_t channel_tiles, column_tiles, splits, split_slabs, slabs, blocks;
};

cut cut_with(const tapconv_shape *s, const tapconv_cuda_card *card, int tile)
{
    cut c;
    c.tile = tile;
    c.channel_tiles = ceil_div(s->group_out, tiles[tile].channels);
    c.column_tiles = ceil_div(s->p.batch * s->out_length, tiles[tile].columns);
    c.slabs = ceil_div(s->sum_length, slab_terms);
    const int64_t whole = c.channel_tiles * c.column_tiles * s->p.groups;
    int64_t splits = 1;
    if (tile > 0 && whole < card->multiprocessors) splits = ceil_div(2 * (int64_t)card->multiprocessors, whole);
    if (splits > c.slabs) splits = c.slabs;
    c.split_slabs = ceil_div(c.slabs, splits);
    c.splits = ceil_div(c.slabs, c.split_slabs);
    c.blocks = whole * c.splits;
    return c;
}

/* Estimated time, in multiply-adds of a multiprocessor over 64. A step waits for memory whatever its tile; adding slabs up
 * is a launch more. */
double cost(const tapconv_cuda_card *card, const cut &c)
{
    const double area = (double)tiles[c.tile].channels * tiles[c.tile].columns / tiles[c.tile].rate;
    const double waves = (double)ceil_div(c.blocks, card->multiprocessors);
    const double slab = area * waves > 2000 ? area * waves : 2000;
    return slab * (double)c.split_slabs + (c.splits > 1 ? 10000 : 0);
}

cut best_cut(const tapconv_shape *s, const tapconv_cuda_card *card)
{
    cut best = cut_with(s, card, 0);
    for (int tile = 1; tile < tile_count; tile++) {
        const cut c = cut_with(s, card, tile);
        if (cost(card, c) < cost(card, best)) best = c;
    }
    return best;
}

using kernel = void (*)(general_args);

kernel kernel_of(int tile, tapconv_layout layout)
{
    static const kernel kernels[tile_count][2] = {
        {convolve<0, false>, convolve<0, true>}, {convolve<1, false>, convolve<1, true>},
        {convolve<2, false>, convolve<2, true>}, {convolve<3, false>, convolve<3, true>},
        {convolve<4, false>, convolve<4, true>}, {convolve<5, false>, convolve<5, true>},
    };
    return kernels[tile][layout == TAPCONV_NLC];
}

int threads_of(int tile)
{
    return tiles[tile].channels / tiles[tile].thread_channels * tiles[tile].columns / tiles[tile].thread_columns;
}

/* A single tap, or a single channel, of more than 2^31 is refused: no card has memory for useful ones. */
int takes(const tapconv_shape *s, const tapconv_cuda_card *card)
{
    return s->p.type != TAPCONV_F64 && s->p.math != TAPCONV_MATH_F64 && s->p.kernel_size < INT32_MAX - slab_terms &&
           s->group_in < INT32_MAX - slab_terms && s->group_out < INT32_MAX - 256 &&
           best_cut(s, card).blocks <= MOST_BLOCKS;
}

size_t workspace_bytes(const tapconv_shape *s, const tapconv_cuda_card *card)
{
    if (tapconv_cuda_few_suits(s, card)) return 0;
    const cut c = best_cut(s, card);
    return c.splits > 1 ? (size_t)(c.slabs * s->p.batch * s->p.out_channels * s->out_length) * sizeof(float) : 0;
}

size_t packed_bytes(const tapconv_shape *s)
{
    return (size_t)ceil_div(s->p.groups * padded_terms(s) * padded_channels(s) * (int64_t)sizeof(float), 256) * 256;
}

struct pack_args {
    const void *w;
    float *packed;
    int64_t groups, terms, padded_terms, group_out, padded_channels;
    conversion convert;
};

__global__ void __launch_bounds__(256) pack_terms(const pack_args a)
{
    const int64_t count = a.groups * a.padded_terms * a.padded_channels;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = i / a.padded_channels, channel = i - row * a.padded_channels;
        const int64_t group = row / a.padded_terms, term = row - group * a.padded_terms;
        float v = 0;
        if (term < a.terms && channel < a.group_out) {
            const int64_t from = (group * a.group_out + channel) * a.terms + term;
            v = operand(bits_at(a.w, a.convert, from), a.convert);
        }
        a.packed[i] = v;
    }
}

unsigned blocks_for(int64_t elements, int threads)
{
    const int64_t blocks = ceil_div(elements, threads), most = 1 << 16;
    return (unsigned)(blocks < most ? blocks : most);
}

cudaError_t pack(const tapconv_shape *s, const void *w, void *packed, cudaStream_t stream)
{
    const pack_args a = {w,
                         (float *)packed,
                         s->p.groups,
                         s->sum_length,
                         padded_terms(s),
                         s->group_out,
                         padded_channels(s),
                         conversion_of(&s->p)};
    pack_terms<<<blocks_for(a.groups * a.padded_terms * a.padded_channels, 256), 256, 0, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t launch(const tapconv_shape *s, const tapconv_cuda_card *card, const tapconv_cuda_conv *conv,
                   cudaStream_t stream)
{
    const tapconv_problem *const p = &s->p;
    if (tapconv_cuda_few_suits(s, card))
        return tapconv_cuda_few_launch(s, conv, (const float *)conv->packed, padded_terms(s), padded_channels(s),
                                       stream);
    const cut c = best_cut(s, card);
    const bool ncl = p->layout == TAPCONV_NCL;
    general_args a = {};
    a.x = conv->x, a.w = (const float *)conv->packed, a.bias = conv->bias, a.out = conv->out;
    a.partials = c.splits > 1 ? (float *)conv->workspace : nullptr;
    a.columns = p->batch * s->out_length, a.length = p->length, a.out_length = s->out_length;
    a.stride = p->stride, a.dilation = p->dilation, a.padding_left = p->padding_left;
    a.item_step = p->in_channels * p->length;
    a.channel_step = ncl ? p->length : 1, a.time_step = ncl ? 1 : p->in_channels;
    a.terms = s->sum_length, a.padded_terms = padded_terms(s);
    a.channel_tiles = c.channel_tiles, a.column_tiles = c.column_tiles, a.groups = p->groups;
    a.group_in = (int32_t)s->group_in, a.group_out = (int32_t)s->group_out;
    a.group_out_padded = (int32_t)padded_channels(s), a.kernel_size = (int32_t)p->kernel_size;
    a.splits = c.splits, a.split_slabs = c.split_slabs;
    a.convert = conversion_of(p);
    a.out_type = conv->out_type, a.param_type = p->param_type;
    a.out_ncl = conv->out_layout == TAPCONV_NCL;
    a.activation = conv->activation;
    kernel_of(c.tile, p->layout)<<<(unsigned)c.blocks, (unsigned)threads_of(c.tile), 0, stream>>>(a);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || c.splits == 1) return error;
    add_slabs<<<blocks_for(p->out_channels * a.columns, 128), 128, 0, stream>>>(a, c.slabs);
    return cudaGetLastError();
}

void describe(const tapconv_shape *s, const tapconv_cuda_card *card, tapconv_cuda_launch_info *info)
{
    if (tapconv_cuda_few_suits(s, card)) {
        tapconv_cuda_few_describe(s, info);
        return;
    }
    const cut c = best_cut(s, card);
    const kernel run = kernel_of(c.tile, s->p.layout);
    *info = {};
    info->blocks = c.blocks, info->threads = threads_of(c.tile);
    cudaFuncAttributes attributes;
    int resident = 0;
    if (cudaFuncGetAttributes(&attributes, (const void *)run) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, run, info->threads, 0) == cudaSuccess) {
        info->registers = attributes.numRegs, info->shared_bytes = (int32_t)attributes.sharedSizeBytes;
        info->blocks_per_multiprocessor = resident;
    } else {
        (void)cudaGetLastError(); /* no card: nothing is known, and nothing went wrong */
    }
    if (c.splits > 1)
        snprintf(info->tile, sizeof info->tile, "%d channels x %d samples, terms in %d parts", tiles[c.tile].channels,
                 tiles[c.tile].columns, (int)c.splits);
    else
        snprintf(info->tile, sizeof info->tile, "%d channels x %d samples", tiles[c.tile].channels,
                 tiles[c.tile].columns);
}

} // namespace

extern "C" const tapconv_cuda_family tapconv_cuda_general = {"general", takes,  workspace_bytes, packed_bytes,
                                                             pack,      launch, describe};
