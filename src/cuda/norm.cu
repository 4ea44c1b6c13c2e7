/* GroupNorm, then activation: from the float32 NCL convolution to y. The values of a group lie together. Mean and squared
 * distances are sums in float64 by two looks, the first counted from the group's first value, so that equal values have
 * exactly their mean and nothing cancels.
 *
 * A group of at most GROUP values is one team's: it stays in shared memory between the looks and the result. A larger one
 * is cut into at most 512 parts; a block takes a part, and whoever normalises merges all parts of the group in one order
 * (Chan, Golub and LeVeque, 1979). Teams and parts follow from the size of a group alone, so the bits do too. */
#include "cuda/activation.cuh"
#include "cuda/kernels.h"
#include "cuda/types.cuh"

namespace
{

constexpr int block_threads = 256;
constexpr int warp_group = 256;   /* values of a group that a warp takes by itself, at most */
constexpr int block_group = 8192; /* and a block */
constexpr int piece = 4096;       /* values of a larger group that are in shared memory at a time */
constexpr int most_parts = 512;

struct moments {
    double count, mean, squares;
};

struct norm_args {
    const float *conv;
    const void *gamma, *beta;
    void *y;
    moments *parts;
    int64_t groups, group_size, part_size, group_parts; /* groups of all items together */
    int64_t channels, norm_groups, norm_size, out_length;
    double eps;
    fast_divisor length, size; /* of out_length and norm_size, where those are small */
    tapconv_type param_type;
    int activation, vector_load, vector_store;
};

__device__ __forceinline__ moments merge(moments a, moments b)
{
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double count = a.count + b.count, distance = b.mean - a.mean, share = b.count / count;
    return {count, fma(distance, share, a.mean), a.squares + b.squares + distance * distance * (a.count * share)};
}

/* Threads that share a group: a warp or the block. */
template <int Team> struct team {
    static __device__ __forceinline__ int rank()
    {
        return (int)threadIdx.x % Team;
    }
    static __device__ __forceinline__ void sync()
    {
        if constexpr (Team == 32)
            __syncwarp();
        else
            __syncthreads();
    }
    /* The same bits in every thread. */
    static __device__ __forceinline__ double sum(double v, double *scratch)
    {
#pragma unroll
        for (int other = 16; other > 0; other /= 2) v += __shfl_xor_sync(~0u, v, other);
        if constexpr (Team > 32) {
            if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
            __syncthreads();
            v = scratch[0];
#pragma unroll
            for (int i = 1; i < Team / 32; i++) v += scratch[i];
            __syncthreads();
        }
        return v;
    }
};

/* Brings `count` values to shared memory and takes their moments; ends with all of them in sight of the team. */
template <int Team>
__device__ __forceinline__ moments look_twice(const float *from, int count, int vectors, float *values, double *scratch)
{
    const double pivot = (double)from[0];
    double sum = 0;
    if (vectors) {
        for (int i = team<Team>::rank() * 4; i < count; i += Team * 4) {
            float v[4];
            load_run_as_f32(v, from + i);
#pragma unroll
            for (int e = 0; e < 4; e++) sum += (double)v[e] - pivot;
            *(float4 *)(values + i) = make_float4(v[0], v[1], v[2], v[3]);
        }
    } else {
        for (int i = team<Team>::rank(); i < count; i += Team) {
            const float v = from[i];
            sum += (double)v - pivot;
            values[i] = v;
        }
    }
    const double mean = pivot + team<Team>::sum(sum, scratch) / count;
    team<Team>::sync();
    double squares = 0;
    for (int i = team<Team>::rank(); i < count; i += Team) {
        const double distance = (double)values[i] - mean;
        squares = fma(distance, distance, squares);
    }
    return {(double)count, mean, team<Team>::sum(squares, scratch)};
}

/* How the values of a group become normal: the mean is subtracted as two float32 values, so that a mean far from zero
 * costs no digits; where the factor leaves the range of float32 all is done in float64. */
struct normaliser {
    double mean, inverse;
    float mean_high, mean_low, factor;
    bool narrow;
};

__device__ __forceinline__ normaliser normaliser_of(const moments &m, double eps)
{
    normaliser n;
    const double spread = sqrt(m.squares / m.count + eps);
    n.mean = m.mean;
    n.inverse = spread == 0 ? 0 : 1 / spread; /* a group without any spread gives beta, with eps 0 too */
    n.mean_high = (float)m.mean;
    n.mean_low = (float)(m.mean - (double)n.mean_high);
    n.factor = (float)n.inverse;
    n.narrow = (n.inverse == 0 || (n.inverse > 0x1p-100 && n.inverse < 0x1p100)) && fabs(m.mean) < 0x1p100;
    return n;
}

__device__ __forceinline__ float normal(const normaliser &n, float v)
{
    if (n.narrow) return (v - n.mean_high - n.mean_low) * n.factor;
    return (float)(((double)v - n.mean) * n.inverse);
}

/* Where a group begins among the channels. */
struct group_place {
    int64_t item, channel;
};

__device__ __forceinline__ group_place place_of(const norm_args &a, int64_t group)
{
    const int64_t item = group / a.norm_groups;
    return {item, (group - item * a.norm_groups) * a.norm_size};
}

__device__ __forceinline__ float affine(const norm_args &a, float v, int64_t channel)
{
    if (!a.gamma) return v;
    return fmaf(v, load_param(a.gamma, a.param_type, channel), load_param(a.beta, a.param_type, channel));
}

/* Writes a stretch of a group, whose first value belongs to `channel` and sample `time`. */
template <typename T, int Team>
__device__ __forceinline__ void emit_ncl(const norm_args &a, const normaliser &n, const float *values, int count,
                                         int64_t channel, int64_t time, T *y)
{
    const bool small = a.out_length < 1 << 30;
    const auto channel_at = [&](int i) {
        return channel +
               (small ? (int64_t)a.length.quotient((uint32_t)time + (uint32_t)i) : (int64_t)(time + i >= a.out_length));
    };
    if (a.vector_store) {
        for (int i = team<Team>::rank() * 4; i < count; i += Team * 4) {
            float v[4];
            load_run_as_f32(v, values + i);
            const int64_t c = channel_at(i);
#pragma unroll
            for (int e = 0; e < 4; e++) v[e] = affine(a, normal(n, v[e]), c);
            activate_all(a.activation, v);
            store_run_f32(y + i, v);
        }
    } else {
        for (int i = team<Team>::rank(); i < count; i += Team)
            store_f32(y + i, activate(a.activation, affine(a, normal(n, values[i]), channel_at(i))));
    }
}

template <typename T, bool ChannelsLast, int Team>
__global__ void __launch_bounds__(block_threads) norm_small(const norm_args a)
{
    constexpr int capacity = Team == 32 ? warp_group : block_group, teams = block_threads / Team;
    __shared__ __align__(16) float shared[teams * capacity];
    __shared__ double scratch[block_threads / 32];
    float *const values = shared + threadIdx.x / Team * capacity;
    const int count = (int)a.group_size;
    for (int64_t group = blockIdx.x * (int64_t)teams + threadIdx.x / Team; group < a.groups;
         group += (int64_t)gridDim.x * teams) {
        const moments m = look_twice<Team>(a.conv + group * count, count, a.vector_load, values, scratch);
        const normaliser n = normaliser_of(m, a.eps);
        const group_place p = place_of(a, group);
        if constexpr (!ChannelsLast) {
            emit_ncl<T, Team>(a, n, values, count, p.channel, 0, (T *)a.y + group * count);
        } else {
            /* Neighbouring threads write neighbouring channels. */
            T *const y = (T *)a.y + p.item * a.out_length * a.channels + p.channel;
            for (int i = team<Team>::rank(); i < count; i += Team) {
                const int t = (int)a.size.quotient((uint32_t)i), c = i - t * (int)a.norm_size;
                const float v = values[c * (int)a.out_length + t];
                store_f32(y + t * a.channels + c, activate(a.activation, affine(a, normal(n, v), p.channel + c)));
            }
        }
        team<Team>::sync();
    }
}

/* The moments of each part of each group. */
__global__ void __launch_bounds__(block_threads) take_parts(const norm_args a)
{
    __shared__ __align__(16) float values[piece];
    __shared__ double scratch[block_threads / 32];
    for (int64_t i = blockIdx.x; i < a.groups * a.group_parts; i += gridDim.x) {
        const int64_t group = i / a.group_parts, from = (i - group * a.group_parts) * a.part_size;
        const int64_t end = min(from + a.part_size, a.group_size);
        moments all = {0, 0, 0};
        for (int64_t at = from; at < end; at += piece) {
            const int count = (int)min((int64_t)piece, end - at);
            const float *const conv = a.conv + group * a.group_size + at;
            all = merge(all, look_twice<block_threads>(conv, count, a.vector_load, values, scratch));
        }
        if (threadIdx.x == 0) a.parts[i] = all;
    }
}

/* All parts of a group: every thread merges neighbours, then pairs of threads merge in a tree. */
__device__ moments merge_parts(const moments *parts, int count, moments *tree)
{
    moments mine = {0, 0, 0};
    constexpr int each = most_parts / block_threads;
#pragma unroll
    for (int i = 0; i < each; i++) {
        const int at = (int)threadIdx.x * each + i;
        if (at < count) mine = merge(mine, parts[at]);
    }
    tree[threadIdx.x] = mine;
    for (int width = block_threads / 2; width > 0; width /= 2) {
        moments both = {0, 0, 0};
        __syncthreads();
        if ((int)threadIdx.x < width) both = merge(tree[2 * threadIdx.x], tree[2 * threadIdx.x + 1]);
        __syncthreads();
        if ((int)threadIdx.x < width) tree[threadIdx.x] = both;
    }
    __syncthreads();
    const moments all = tree[0];
    __syncthreads();
    return all;
}

template <typename T, bool ChannelsLast>
__global__ void __launch_bounds__(block_threads) normalise_parts(const norm_args a)
{
    constexpr int tile = 32; /* channels and samples of a turned tile */
    __shared__ moments tree[block_threads];
    __shared__ float turned[ChannelsLast ? tile : 1][tile + 1];
    for (int64_t i = blockIdx.x; i < a.groups * a.group_parts; i += gridDim.x) {
        const int64_t group = i / a.group_parts, part = i - group * a.group_parts;
        const moments m = merge_parts(a.parts + group * a.group_parts, (int)a.group_parts, tree);
        const normaliser n = normaliser_of(m, a.eps);
        const group_place p = place_of(a, group);
        if constexpr (!ChannelsLast) {
            const int64_t from = part * a.part_size, end = min(from + a.part_size, a.group_size);
            for (int64_t at = from; at < end; at += piece) {
                const int count = (int)min((int64_t)piece, end - at);
                const int64_t row = at / a.out_length, index = group * a.group_size + at;
                emit_ncl<T, block_threads>(a, n, a.conv + index, count, p.channel + row, at - row * a.out_length,
                                           (T *)a.y + index);
            }
        } else {
            /* Tiles of the group, turned in shared memory so that both sides are neighbours; which block takes which
             * tile changes no bits. */
            const int64_t tiles_t = (a.out_length + tile - 1) / tile, tiles_c = (a.norm_size + tile - 1) / tile;
            const int x = (int)threadIdx.x % tile, row = (int)threadIdx.x / tile;
            for (int64_t at = part; at < tiles_t * tiles_c; at += a.group_parts) {
                const int64_t first_t = at / tiles_c * tile, first_c = at % tiles_c * tile;
                for (int c = row; c < tile; c += block_threads / tile)
                    if (first_c + c < a.norm_size && first_t + x < a.out_length)
                        turned[c][x] = a.conv[group * a.group_size + (first_c + c) * a.out_length + first_t + x];
                __syncthreads();
                for (int t = row; t < tile; t += block_threads / tile)
                    if (first_c + x < a.norm_size && first_t + t < a.out_length) {
                        const int64_t channel = p.channel + first_c + x;
                        const float v = activate(a.activation, affine(a, normal(n, turned[x][t]), channel));
                        store_f32((T *)a.y + (p.item * a.out_length + first_t + t) * a.channels + channel, v);
                    }
                __syncthreads();
            }
        }
    }
}

bool is_small(const tapconv_shape *s)
{
    return s->norm_size * s->out_length <= block_group;
}

int64_t part_size(const tapconv_shape *s)
{
    return ceil_div(ceil_div(s->norm_size * s->out_length, most_parts), piece) * piece;
}

int64_t group_parts(const tapconv_shape *s)
{
    return ceil_div(s->norm_size * s->out_length, part_size(s));
}

unsigned grid(int64_t blocks)
{
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

template <typename T, bool ChannelsLast> cudaError_t launch_typed(const norm_args &a, bool small, cudaStream_t stream)
{
    if (small) {
        if (a.group_size <= warp_group)
            norm_small<T, ChannelsLast, 32>
                <<<grid(ceil_div(a.groups, block_threads / 32)), block_threads, 0, stream>>>(a);
        else
            norm_small<T, ChannelsLast, block_threads><<<grid(a.groups), block_threads, 0, stream>>>(a);
        return cudaGetLastError();
    }
    take_parts<<<grid(a.groups * a.group_parts), block_threads, 0, stream>>>(a);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
    normalise_parts<T, ChannelsLast><<<grid(a.groups * a.group_parts), block_threads, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace

size_t tapconv_cuda_norm_workspace_bytes(const tapconv_shape *s, const tapconv_cuda_card *)
{
    if (is_small(s)) return 0;
    return (size_t)(s->p.batch * s->p.norm_groups * group_parts(s)) * sizeof(moments);
}

cudaError_t tapconv_cuda_norm_launch(const tapconv_shape *s, const tapconv_cuda_card *, const tapconv_cuda_norm *norm,
                                     cudaStream_t stream)
{
    const tapconv_problem *const p = &s->p;
    const size_t run_bytes = 4 * tapconv_type_bytes(p->type);
    norm_args a = {};
    a.conv = norm->conv, a.gamma = norm->gamma, a.beta = norm->beta, a.y = norm->y;
    a.parts = (moments *)norm->workspace;
    a.groups = p->batch * p->norm_groups, a.group_size = s->norm_size * s->out_length;
    a.part_size = part_size(s), a.group_parts = group_parts(s);
    a.channels = p->out_channels, a.norm_groups = p->norm_groups, a.norm_size = s->norm_size;
    a.out_length = s->out_length;
    a.eps = p->norm_eps;
    if (s->out_length < 1 << 30) a.length = fast_divisor((uint32_t)s->out_length);
    if (s->norm_size < 1 << 30) a.size = fast_divisor((uint32_t)s->norm_size);
    a.param_type = p->param_type, a.activation = p->activation;
    a.vector_load = a.group_size % 4 == 0;
    a.vector_store = s->out_length % 4 == 0 && (uintptr_t)norm->y % run_bytes == 0;
    return with_type(p->type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return p->layout == TAPCONV_NCL ? launch_typed<T, false>(a, is_small(s), stream)
                                        : launch_typed<T, true>(a, is_small(s), stream);
    });
}
