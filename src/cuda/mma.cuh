/* Dense and grouped convolution on Hopper's tensor cores: an implicit matrix product without im2col.
 *
 * What it computes: rows are output channels, columns are output samples, the sum runs over slabs of input channels (one
 * 128-byte row of the operand type: 64 channels of 16 bits, 32 of tf32) and, within a slab, over taps.
 *
 * Tile: WARPGROUPS_M * 64 * HALVES channels x (128 or 256) samples a block, two groups of 128 threads that issue wgmma,
 * one group that stages input. The samples of all items lie on one axis, `period` columns an item, so that short items
 * share a tile; columns that belong to no sample are computed and dropped.
 *
 * Way of the data: input goes from global memory through registers of the staging group, which rounds (f32: scales and
 * splits) and transposes it, into a window of shared memory, channels innermost. All taps of a window read it at a shift
 * of whole rows, so input is staged once a slab, not once a tap; a stride gives a window a residue, a long dilation a window
 * a tap. Weights were packed as the bytes of a stage and come by bulk copies, each consumer group its own. Sums stay in
 * registers; a finished tile goes through the shared memory of one weight stage, where it becomes rows of samples.
 *
 * f32: operands are split into two f16 (high + low) after an exact scaling by powers of two, one factor a sample and slab
 * (its largest magnitude comes to 2^14..2^15) and one an output channel. low*high, high*low and high*high of a slab and tap make
 * one chain on the tensor cores, whose accumulators truncate; chains are short because each is added into float32 registers,
 * times the sample's inverse factor. The factor depends on the sample and slab alone, so no bit depends on tile or batch.
 * A slab of a sample with a magnitude that is not 0 and not in 2^-100..2^90 (Inf, NaN included) has NaN for its factor: every output that
 * reads it becomes NaN and is then computed again from the operands as they are (repair()), as are those of
 * output channels with such weights. */
#ifndef TAPCONV_CUDA_MMA_CUH
#define TAPCONV_CUDA_MMA_CUH

#include "cuda/activation.cuh"
#include "cuda/mma.h"
#include "cuda/types.cuh"
#include "cuda/wgmma.cuh"

#define GROUP 128   /* threads of a warpgroup */
#define COLUMNS 128 /* of one wgmma */
#define ROW_BYTES 128
#define BLOCK_ROWS 64 /* rows of one wgmma, and of a block of packed weights */

template <int MATH> struct operand_of;
template <> struct operand_of<TAPCONV_MATH_F32> {
    static constexpr int kind = WGMMA_F16, parts = 2, channels = 64;
};
template <> struct operand_of<TAPCONV_MATH_F16> {
    static constexpr int kind = WGMMA_F16, parts = 1, channels = 64;
};
template <> struct operand_of<TAPCONV_MATH_BF16> {
    static constexpr int kind = WGMMA_BF16, parts = 1, channels = 64;
};
template <> struct operand_of<TAPCONV_MATH_TF32> {
    static constexpr int kind = WGMMA_TF32, parts = 1, channels = 32;
};

/* Shared memory, from an address that is a multiple of 1024: barriers, maxima [2][4][32], weights [group][stage] from 2048 on,
 * windows [stage], factors [stage][2][window_rows]. */
enum : uint32_t {
    full_at = 0,
    empty_at = full_at + 8 * MMA_MOST_STAGES,
    full_weights_at = empty_at + 8 * MMA_MOST_STAGES,
    maxima_at = full_weights_at + 8 * 2 * MMA_MOST_STAGES,
    weights_at = MMA_FIXED_BYTES
};
template <int MATH, int HALVES> struct layout_of {
    static constexpr int parts = operand_of<MATH>::parts;
    static constexpr int weight_bytes = HALVES * parts * BLOCK_ROWS * ROW_BYTES; /* a stage of one group */
    static constexpr int weight_stages = mma_weight_stages(weight_bytes);
    static constexpr uint32_t windows_at = weights_at + 2 * weight_stages * weight_bytes;
};
static __device__ __forceinline__ uint32_t factors_of(const mma_params &p, uint32_t windows, int parts)
{
    return windows + (uint32_t)(p.window_stages * parts * p.window_rows) * ROW_BYTES;
}

/* Where a tile lies. */
struct mma_tile {
    int32_t item;         /* of column 0 */
    int32_t position;     /* of column 0 within its item */
    int32_t group, block; /* convolution group; first block of 64 output channels within it */
};

static __device__ __forceinline__ mma_tile tile_at(const mma_params &p, int32_t index, int columns, int blocks)
{
    mma_tile t;
    const int32_t rest = index / p.row_tiles;
    const int64_t column = (int64_t)(rest / p.groups) * columns;
    t.block = (index - rest * p.row_tiles) * blocks;
    t.group = rest % p.groups;
    t.item = (int32_t)(column / p.period);
    t.position = (int32_t)(column - (int64_t)t.item * p.period);
    return t;
}

/* The windows of one slab, in the order of the packed weights: residues of the stride, then runs of taps. */
struct mma_window {
    int32_t residue, part, taps;
};
static __device__ __forceinline__ int window_taps(const mma_params &p, int residue, int part)
{
    const int all = (p.kernel_size - residue + p.tap_step - 1) / p.tap_step - part * p.window_taps;
    return all < p.window_taps ? all : p.window_taps;
}
static __device__ __forceinline__ bool next_window(const mma_params &p, mma_window &w)
{
    w.part++;
    if (w.part * p.window_taps * p.tap_step + w.residue >= p.kernel_size) {
        w.part = 0;
        w.residue++;
        if (w.residue >= p.residues) return false;
    }
    w.taps = window_taps(p, w.residue, w.part);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- staging */

template <int MATH> static __device__ __forceinline__ uint32_t pair_of(float a, float b)
{
    if constexpr (MATH == TAPCONV_MATH_BF16) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
        return *(const uint32_t *)&pair;
    } else {
        const __half2 pair = __floats2half2_rn(a, b);
        return *(const uint32_t *)&pair;
    }
}

/* Back to float32, without taking the register apart. */
static __device__ __forceinline__ void halves_of(uint32_t pair, float &a, float &b)
{
    asm("{\n.reg .f16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
        : "=f"(a), "=f"(b)
        : "r"(pair));
}

static __device__ __forceinline__ void store_piece(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

/* x + step, when it is needed: computed ahead for all loads, addresses would fill the registers. */
template <typename T> static __device__ __forceinline__ const T *after(const T *x, int64_t step)
{
    x += step;
    asm volatile("" : "+l"(x));
    return x;
}

/* A warp stages its quarter of the slab's channels, lanes along samples. */
template <int MATH, typename T> struct stager {
    static constexpr int channels = operand_of<MATH>::channels / 4;
    T value[channels];

    /* `first` is the warp's first channel of the tile's first item; `left` channels are there from it on, maybe none,
     * maybe more than wanted. `step` is p.x_channel, in a register: read anew for each load it would cost more than the
     * load. */
    __device__ __forceinline__ void load(const mma_params &p, const mma_tile &tile, int32_t offset, int row, int rows,
                                         const T *first, int64_t step, int left)
    {
        int32_t position = tile.position + row;
        bool there = row < rows;
        if (p.merged) {
            const int32_t items = (int32_t)p.period_divisor.quotient((uint32_t)position);
            position -= items * p.period;
            there = there && tile.item + items < p.batch;
            first += items * p.x_item;
        }
        const int32_t sample = position * p.stride + offset;
        there = there && (uint32_t)sample < (uint32_t)p.length; /* not below 0 either */
        const T *x = first + sample * p.x_time;
        if (left >= channels) {
#pragma unroll
            for (int c = 0; c < channels; c++) value[c] = there ? *x : T(0.0f), x = after(x, step);
        } else {
#pragma unroll
            for (int c = 0; c < channels; c++) value[c] = there && c < left ? *x : T(0.0f), x = after(x, step);
        }
    }
    __device__ __forceinline__ float at(int c) const
    {
        return load_as_f32(value + c);
    }
};

/* Asks L2 for a slab's samples under a tile, two threads a channel. Rows of samples only; short items are few bytes. */
template <typename T>
static __device__ __forceinline__ void fetch_ahead(const mma_params &p, int32_t index, int columns, int blocks,
                                                   int slab_channels, int slab)
{
    const int thread = threadIdx.x % GROUP, channel = slab * slab_channels + thread % slab_channels;
    if (p.merged || p.x_time != 1 || channel >= p.group_in || index >= p.tiles) return;
    const mma_tile tile = tile_at(p, index, columns, blocks);
    constexpr int line = 128 / (int)sizeof(T);
    const int32_t start = tile.position * p.stride - p.padding_left;
    int32_t end = start + (columns - 1) * p.stride + (p.kernel_size - 1) * p.dilation + 1;
    if (end > p.length) end = p.length;
    const T *const row =
        (const T *)p.x + tile.item * p.x_item + ((int64_t)tile.group * p.group_in + channel) * p.x_channel;
    for (int32_t at = (start < 0 ? 0 : start) + thread / slab_channels * line; at < end;
         at += GROUP / slab_channels * line)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at) : "memory");
    if (end > 0 && thread < slab_channels) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + end - 1) : "memory");
}

template <int MATH, typename T, int HALVES, int WARPGROUPS_M>
static __device__ __forceinline__ void stage(const mma_params &p, uint32_t memory)
{
    constexpr int columns = COLUMNS * (3 - WARPGROUPS_M), blocks = WARPGROUPS_M * HALVES;
    constexpr int parts = operand_of<MATH>::parts, slab_channels = operand_of<MATH>::channels;
    constexpr int quarter = slab_channels / 4;
    const int lane = threadIdx.x % 32, warp = threadIdx.x % GROUP / 32;
    const uint32_t part_bytes = (uint32_t)p.window_rows * ROW_BYTES;
    const uint32_t windows = memory + layout_of<MATH, HALVES>::windows_at;
    int at = 0;
    uint32_t parity = 1, turn = 0;
    int64_t step = p.x_channel;
    asm volatile("" : "+l"(step));

    for (int32_t index = (int32_t)blockIdx.x; index < p.tiles; index += (int32_t)gridDim.x) {
        const mma_tile tile = tile_at(p, index, columns, blocks);
        for (int slab = 0; slab < p.slabs; slab++) {
            const int left = p.group_in - slab * slab_channels - warp * quarter;
            const T *const first_channel =
                (const T *)p.x + tile.item * p.x_item +
                ((int64_t)tile.group * p.group_in + slab * slab_channels + warp * quarter) * p.x_channel;
            const bool last = slab + 1 == p.slabs;
            fetch_ahead<T>(p, index + (last ? (int32_t)gridDim.x : 0), columns, blocks, slab_channels,
                           last ? 0 : slab + 1);
            mma_window w = {0, 0, window_taps(p, 0, 0)};
            do {
                const int rows = columns + (w.taps - 1) * p.row_step;
                const int32_t offset = (w.residue + w.part * p.window_taps * p.tap_step) * p.dilation - p.padding_left;
                const uint32_t window = windows + (uint32_t)at * parts * part_bytes;
                barrier_wait(memory + empty_at + 8 * at, parity);
#pragma unroll 1
                for (int row = lane; row < rows + lane; row += 32) {
                    stager<MATH, T> now;
                    now.load(p, tile, offset, row, rows, first_channel, step, left);
                    const bool inside = row < p.window_rows;
                    const uint32_t to = window + (uint32_t)row * ROW_BYTES;
                    if constexpr (MATH == TAPCONV_MATH_F32) {
                        float most = 0;
#pragma unroll
                        for (int c = 0; c < quarter; c++) {
                            /* NaN stays, unlike with fmaxf */
                            asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(now.at(c))));
                        }
                        const uint32_t mine = memory + maxima_at + ((turn & 1) * 128 + warp * 32 + lane) * 4;
                        asm volatile("st.shared.f32 [%0], %1;" ::"r"(mine), "f"(most) : "memory");
                        group_sync(1, GROUP);
                        /* As integers magnitudes order as they do as numbers, with NaN last. */
                        uint32_t all = 0;
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            uint32_t one;
                            asm volatile("ld.shared.u32 %0, [%1];"
                                         : "=r"(one)
                                         : "r"(memory + maxima_at + ((turn & 1) * 128 + i * 32 + lane) * 4)
                                         : "memory");
                            all = one > all ? one : all;
                        }
                        turn++;
                        const uint32_t exponent = all >> 23;
                        const bool in_range = exponent >= 127 - 100 && exponent <= 127 + 90;
                        float scale = in_range ? __uint_as_float((268 - exponent) << 23) : 0.0f;
                        const float factor = in_range   ? __uint_as_float((exponent - 14) << 23)
                                             : all == 0 ? 1.0f
                                                        : __uint_as_float(0x7fffffff);
                        if (warp == 0 && inside) {
                            const uint32_t f =
                                factors_of(p, windows, parts) + ((uint32_t)at * 2 * p.window_rows + row) * 4;
                            asm volatile("st.shared.f32 [%0], %1;" ::"r"(f), "f"(factor) : "memory");
                            if (row > 0)
                                asm volatile("st.shared.f32 [%0], %1;" ::"r"(f + (p.window_rows - 1) * 4), "f"(factor)
                                             : "memory");
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            uint32_t high[4], low[4];
                            asm volatile("" : "+f"(scale)); /* one half after the other: fewer registers */
#pragma unroll
                            for (int c = 0; c < 4; c++) {
                                const float a = now.at(8 * i + 2 * c) * scale;
                                const float b = now.at(8 * i + 2 * c + 1) * scale;
                                float high_a, high_b;
                                high[c] = pair_of<MATH>(a, b);
                                halves_of(high[c], high_a, high_b);
                                low[c] = pair_of<MATH>(a - high_a, b - high_b);
                            }
                            if (inside) {
                                const uint32_t piece = to + (uint32_t)((warp * 2 + i) ^ (row & 7)) * 16;
                                store_piece(piece, high[0], high[1], high[2], high[3]);
                                store_piece(piece + part_bytes, low[0], low[1], low[2], low[3]);
                            }
                        }
                    } else if constexpr (MATH == TAPCONV_MATH_TF32) {
                        if (inside)
#pragma unroll
                            for (int i = 0; i < 2; i++) {
                                uint32_t bits[4];
#pragma unroll
                                for (int c = 0; c < 4; c++) bits[c] = __float_as_uint(round_tf32(now.at(4 * i + c)));
                                store_piece(to + (uint32_t)((warp * 2 + i) ^ (row & 7)) * 16, bits[0], bits[1], bits[2],
                                            bits[3]);
                            }
                    } else {
                        if (inside)
#pragma unroll
                            for (int i = 0; i < 2; i++) {
                                uint32_t pair[4];
#pragma unroll
                                for (int c = 0; c < 4; c++)
                                    pair[c] = pair_of<MATH>(now.at(8 * i + 2 * c), now.at(8 * i + 2 * c + 1));
                                store_piece(to + (uint32_t)((warp * 2 + i) ^ (row & 7)) * 16, pair[0], pair[1], pair[2],
                                            pair[3]);
                            }
                    }
                }
                fence_async();
                __syncwarp();
                if (lane == 0) barrier_arrive(memory + full_at + 8 * at);
                if (++at == p.window_stages) at = 0, parity ^= 1;
            } while (next_window(p, w));
        }
    }
}

/* ----------------------------------------------------------------------------------------------------------- consuming */

/* The weights of the group's chunks, one (slab, tap) each, in their order over all tiles of the block. One thread asks for them, as
 * many stages ahead as there are. */
template <int MATH, int HALVES, int WARPGROUPS_M> struct weight_stream {
    static constexpr int blocks = WARPGROUPS_M * HALVES, columns = COLUMNS * (3 - WARPGROUPS_M);
    static constexpr int block_bytes = operand_of<MATH>::parts * BLOCK_ROWS * ROW_BYTES;
    int32_t tile;
    const unsigned char *chunk;
    int32_t left;

    __device__ __forceinline__ void seek(const mma_params &p, int member)
    {
        if (tile >= p.tiles) return;
        const mma_tile t = tile_at(p, tile, columns, blocks);
        int block = t.block + member * HALVES;
        /* Beyond the last channel: anything will do, the results are dropped. */
        const int most = p.group_blocks - HALVES;
        if (block > most) block = most;
        left = p.slabs * p.kernel_size;
        chunk = p.packed + ((int64_t)t.group * left * p.group_blocks + block) * block_bytes;
    }
    __device__ __forceinline__ void start(const mma_params &p, int member)
    {
        tile = (int32_t)blockIdx.x;
        seek(p, member);
    }
    __device__ __forceinline__ void ask(const mma_params &p, int member, uint32_t to, uint32_t full)
    {
        if (tile >= p.tiles) return;
        barrier_expect(full, HALVES * block_bytes);
        bulk_copy(to, chunk, HALVES * block_bytes, full);
        chunk += (int64_t)p.group_blocks * block_bytes;
        if (--left == 0) {
            tile += (int32_t)gridDim.x;
            seek(p, member);
        }
    }
};

/* The outputs that are NaN, from the operands as they are, with float32 chains of at most 64 terms. They are few; the warp that
 * wrote them takes its rows one by one, lanes along columns. */
template <typename T, typename OUT>
static __device__ __noinline__ void repair(const mma_params &p, mma_tile tile, int first_row, int first_column)
{
    constexpr int columns = COLUMNS;
    const int lane = threadIdx.x % 32;
    for (int r = 0; r < 16; r++) {
        const int64_t channel = (int64_t)tile.block * BLOCK_ROWS + first_row + r;
        if (channel >= p.group_out) return;
        const int64_t o = (int64_t)tile.group * p.group_out + channel;
        for (int c = lane; c < columns; c += 32) {
            int64_t item = tile.item;
            int32_t time = tile.position + first_column + c;
            if (p.merged) {
                const int32_t items = (int32_t)p.period_divisor.quotient((uint32_t)time);
                item += items, time -= items * p.period;
            }
            if (item >= p.batch || time >= p.out_length) continue;
            OUT *const y = (OUT *)p.out + item * p.y_item + o * p.y_channel + time * p.y_time;
            const float found = load_as_f32(y);
            if (found == found) continue;
            float sum = 0, chain = 0;
            int terms = 0;
            for (int i = 0; i < p.group_in; i++)
                for (int k = 0; k < p.kernel_size; k++) {
                    const int64_t sample = (int64_t)time * p.stride + (int64_t)k * p.dilation - p.padding_left;
                    const bool there = sample >= 0 && sample < p.length;
                    const float x =
                        there ? load_as_f32((const T *)p.x + item * p.x_item +
                                            ((int64_t)tile.group * p.group_in + i) * p.x_channel + sample * p.x_time)
                              : 0.0f;
                    chain = fmaf(p.raw[(o * p.group_in + i) * p.kernel_size + k], x, chain);
                    if (++terms == 64) sum += chain, chain = 0, terms = 0;
                }
            sum += chain;
            if (p.bias) sum += load_param(p.bias, (tapconv_type)p.param_type, o);
            store_f32(y, activate(p.activation, sum));
        }
    }
}

/* Where column c of rows of `part` samples lies in shared memory: neighbouring rows in different banks. */
static __device__ __forceinline__ uint32_t place_of(int part, int r, int c)
{
    return (uint32_t)(r * part + (c ^ ((r & 3) << 3))) * 4;
}

/* A finished part of the tile, 16 channels x PART samples, in shared memory as rows of samples. Returns whether any value is NaN.
 *
 * Rows of samples of one item: four neighbouring samples a lane, so that stores are whole lines. */
template <int PART, typename OUT>
static __device__ __forceinline__ bool emit_rows(const mma_params &p, const mma_tile &tile, uint32_t from,
                                                 int first_row, int first_column)
{
    constexpr int lanes = PART / 4;
    const int lane = threadIdx.x % 32, c = lane % lanes * 4;
    const int64_t first_channel = (int64_t)tile.block * BLOCK_ROWS + first_row;
    const int64_t mine = (int64_t)tile.group * p.group_out + first_channel + lane % 16;
    const bool there = first_channel + lane % 16 < p.group_out;
    const float scale = there && p.row_scale ? p.row_scale[mine] : 1.0f;
    const float bias = there && p.bias ? load_param(p.bias, (tapconv_type)p.param_type, mine) : 0.0f;
    const int32_t time = tile.position + first_column + c, left = p.out_length - time;
    OUT *y = (OUT *)p.out + tile.item * p.y_item + (mine - lane % 16 + lane / lanes) * p.y_channel + time;
    bool strange = false;
    const auto row = [&](int r, bool activated) {
        float v[4];
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                     : "r"(from + place_of(PART, r, c))
                     : "memory");
        const float row_scale = __shfl_sync(0xffffffffu, scale, r), row_bias = __shfl_sync(0xffffffffu, bias, r);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] *= row_scale;
            strange |= v[e] != v[e];
            if (p.bias) v[e] += row_bias;
        }
        if (activated) activate_all(p.activation, v);
        if (first_channel + r < p.group_out) {
            if (p.aligned && left >= 4) {
                store_run_f32(y, v);
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (e < left) store_f32(y + e, v[e]);
            }
        }
        y += 32 / lanes * p.y_channel;
    };
    if (p.activation == TAPCONV_ACT_NONE) {
#pragma unroll 4
        for (int r = lane / lanes; r < 16; r += 32 / lanes) row(r, false);
    } else {
#pragma unroll 1
        for (int r = lane / lanes; r < 16; r += 32 / lanes) row(r, true);
    }
    return strange;
}

/* Short items, or channels last: lanes along samples or channels. */
template <int PART, typename OUT>
static __device__ __forceinline__ bool emit_points(const mma_params &p, const mma_tile &tile, uint32_t from,
                                                   int first_row, int first_column)
{
    const int lane = threadIdx.x % 32;
    bool strange = false;
    for (int i = 0; i < 16 * PART / 32; i++) {
        const int n = i * 32 + lane;
        const int r = p.y_time == 1 ? n / PART : n % 16, c = p.y_time == 1 ? n % PART : n / 16;
        float v[1];
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[0]) : "r"(from + place_of(PART, r, c)) : "memory");
        const int64_t channel = (int64_t)tile.block * BLOCK_ROWS + first_row + r;
        int64_t item = tile.item;
        int32_t time = tile.position + first_column + c;
        if (p.merged) {
            const int32_t items = (int32_t)p.period_divisor.quotient((uint32_t)time);
            item += items, time -= items * p.period;
        }
        if (channel >= p.group_out || item >= p.batch || time >= p.out_length) continue;
        const int64_t o = (int64_t)tile.group * p.group_out + channel;
        if (p.row_scale) v[0] *= p.row_scale[o];
        strange |= v[0] != v[0];
        if (p.bias) v[0] += load_param(p.bias, (tapconv_type)p.param_type, o);
        activate_all(p.activation, v);
        store_f32((OUT *)p.out + item * p.y_item + o * p.y_channel + time * p.y_time, v[0]);
    }
    return strange;
}

template <int MATH, typename T, typename OUT, int HALVES, int WARPGROUPS_M>
static __device__ __forceinline__ void consume(const mma_params &p, uint32_t memory)
{
    typedef layout_of<MATH, HALVES> layout;
    typedef operand_of<MATH> of;
    constexpr int columns = COLUMNS * (3 - WARPGROUPS_M), blocks = WARPGROUPS_M * HALVES;
    constexpr int part =
        layout::weight_bytes / (BLOCK_ROWS * 4) < COLUMNS ? layout::weight_bytes / (BLOCK_ROWS * 4) : COLUMNS;
    constexpr int stages = layout::weight_stages;
    constexpr uint32_t half_bytes = of::parts * BLOCK_ROWS * ROW_BYTES;
    const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP, warp = thread / 32, lane = threadIdx.x % 32;
    const int member = WARPGROUPS_M == 2 ? group : 0;
    const int first_column = WARPGROUPS_M == 2 ? 0 : group * COLUMNS;
    const uint32_t window_part = (uint32_t)p.window_rows * ROW_BYTES;
    const uint32_t weights = memory + weights_at + group * stages * layout::weight_bytes;
    const uint32_t windows = memory + layout::windows_at, factors = factors_of(p, windows, of::parts);
    const uint32_t full_weights = memory + full_weights_at + group * stages * 8;

    weight_stream<MATH, HALVES, WARPGROUPS_M> stream;
    if (thread == 0) {
        stream.start(p, member);
        for (int i = 0; i < stages; i++)
            stream.ask(p, member, weights + i * layout::weight_bytes, full_weights + 8 * i);
    }
    int at = 0, weight_at = 0;
    uint32_t parity = 0, weight_parity = 0;

    for (int32_t index = (int32_t)blockIdx.x; index < p.tiles; index += (int32_t)gridDim.x) {
        float sum[HALVES][64], chain[64];
        int begun = 0; /* whether `sum` holds anything (modes that sum on the tensor cores) */
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int i = 0; i < 64; i++) sum[h][i] = 0;
        if (MATH == TAPCONV_MATH_F32)
#pragma unroll
            for (int i = 0; i < 64; i++) chain[i] = 0;
        for (int slab = 0; slab < p.slabs; slab++) {
            const int left = p.group_in - slab * of::channels;
            const int steps = left >= of::channels ? 4 : (left + of::channels / 4 - 1) / (of::channels / 4);
            mma_window w = {0, 0, window_taps(p, 0, 0)};
            bool more;
            do {
                const mma_window now = w;
                more = next_window(p, w);
                const uint32_t window = windows + (uint32_t)at * of::parts * window_part;
                barrier_wait(memory + full_at + 8 * at, parity);
                for (int tap = 0; tap < now.taps; tap++) {
                    const uint32_t shift = (uint32_t)(first_column + tap * p.row_step);
                    const uint32_t a = weights + weight_at * layout::weight_bytes, b = window + shift * ROW_BYTES;
                    barrier_wait(full_weights + 8 * weight_at, weight_parity);
                    if constexpr (MATH == TAPCONV_MATH_F32) {
                        const uint32_t factor =
                            factors +
                            (((uint32_t)at * 2 + (shift & 1)) * p.window_rows + (shift & ~1u) + lane % 4 * 2) * 4;
#pragma unroll
                        for (int h = 0; h < HALVES; h++) {
                            const uint64_t high = operand(a + h * half_bytes),
                                           low = operand(a + h * half_bytes + BLOCK_ROWS * ROW_BYTES);
                            const uint64_t x_high = operand(b), x_low = operand(b + window_part);
                            wgmma_fence();
                            if (steps == 4) {
#pragma unroll
                                for (int s = 0; s < 4; s++)
                                    wgmma_n128<of::kind>(chain, low + 2 * s, x_high + 2 * s, s > 0);
#pragma unroll
                                for (int s = 0; s < 4; s++) wgmma_n128<of::kind>(chain, high + 2 * s, x_low + 2 * s, 1);
#pragma unroll
                                for (int s = 0; s < 4; s++)
                                    wgmma_n128<of::kind>(chain, high + 2 * s, x_high + 2 * s, 1);
                            } else {
                                for (int s = 0; s < steps; s++)
                                    wgmma_n128<of::kind>(chain, low + 2 * s, x_high + 2 * s, s > 0);
                                for (int s = 0; s < steps; s++)
                                    wgmma_n128<of::kind>(chain, high + 2 * s, x_low + 2 * s, 1);
                                for (int s = 0; s < steps; s++)
                                    wgmma_n128<of::kind>(chain, high + 2 * s, x_high + 2 * s, 1);
                            }
                            wgmma_commit();
                            wgmma_wait<0>();
                            wgmma_settle(chain);
#pragma unroll
                            for (int j = 0; j < 16; j++) {
                                float f0, f1;
                                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                                             : "=f"(f0), "=f"(f1)
                                             : "r"(factor + j * 32)
                                             : "memory");
                                sum[h][4 * j] = fmaf(chain[4 * j], f0, sum[h][4 * j]);
                                sum[h][4 * j + 1] = fmaf(chain[4 * j + 1], f1, sum[h][4 * j + 1]);
                                sum[h][4 * j + 2] = fmaf(chain[4 * j + 2], f0, sum[h][4 * j + 2]);
                                sum[h][4 * j + 3] = fmaf(chain[4 * j + 3], f1, sum[h][4 * j + 3]);
                            }
                        }
                    } else {
                        wgmma_fence();
#pragma unroll
                        for (int h = 0; h < HALVES; h++) {
                            const uint64_t w_part = operand(a + h * half_bytes), x_part = operand(b);
                            if (steps == 4) {
#pragma unroll
                                for (int s = 0; s < 4; s++)
                                    wgmma_n128<of::kind>(sum[h], w_part + 2 * s, x_part + 2 * s, s > 0 || begun);
                            } else {
                                for (int s = 0; s < steps; s++)
                                    wgmma_n128<of::kind>(sum[h], w_part + 2 * s, x_part + 2 * s, s > 0 || begun);
                            }
                        }
                        begun = 1;
                        wgmma_commit();
                        wgmma_wait<0>();
#pragma unroll
                        for (int h = 0; h < HALVES; h++) wgmma_settle(sum[h]);
                    }
                    /* The last chunk's stage first serves the outputs. */
                    const bool last = slab == p.slabs - 1 && !more && tap == now.taps - 1;
                    if (!last) {
                        group_sync(2 + group, GROUP);
                        if (thread == 0) stream.ask(p, member, a, full_weights + 8 * weight_at);
                        if (++weight_at == stages) weight_at = 0, weight_parity ^= 1;
                    }
                }
                __syncwarp();
                if (lane == 0) barrier_arrive(memory + empty_at + 8 * at);
                if (++at == p.window_stages) at = 0, parity ^= 1;
            } while (more);
        }

        const mma_tile tile = tile_at(p, index, columns, blocks);
        const uint32_t out = weights + weight_at * layout::weight_bytes + warp * 16 * part * 4;
        bool strange = false;
        group_sync(2 + group, GROUP); /* all warps have read the weights that lay there */
#pragma unroll 1                      /* the code is long */
        for (int q = 0; q < HALVES * COLUMNS / part; q++) {
#pragma unroll
            for (int h = 0; h < HALVES; h++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c += part) {
                    if (q != (h * COLUMNS + c) / part) continue;
#pragma unroll
                    for (int j = 0; j < part / 8; j++)
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            const int i = 4 * (c / 8 + j) + 2 * e;
                            const uint32_t place = place_of(part, e * 8 + lane / 4, j * 8 + lane % 4 * 2);
                            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(out + place), "f"(sum[h][i]),
                                         "f"(sum[h][i + 1])
                                         : "memory");
                        }
                }
            __syncwarp();
            const int row = (member * HALVES + q * part / COLUMNS) * BLOCK_ROWS + warp * 16;
            const int column = first_column + q * part % COLUMNS;
            strange |= p.merged || p.y_time != 1 ? emit_points<part, OUT>(p, tile, out, row, column)
                                                 : emit_rows<part, OUT>(p, tile, out, row, column);
            __syncwarp();
        }
        if (MATH == TAPCONV_MATH_F32 && __any_sync(0xffffffff, strange))
            for (int h = 0; h < HALVES; h++)
                repair<T, OUT>(p, tile, (member * HALVES + h) * BLOCK_ROWS + warp * 16, first_column);
        fence_async();
        group_sync(2 + group, GROUP);
        if (thread == 0)
            stream.ask(p, member, weights + weight_at * layout::weight_bytes, full_weights + 8 * weight_at);
        if (++weight_at == stages) weight_at = 0, weight_parity ^= 1;
    }
}

template <int MATH, typename T, typename OUT, int HALVES, int WARPGROUPS_M>
__global__ void __launch_bounds__(3 * GROUP, 1) mma_kernel(const __grid_constant__ mma_params p)
{
    typedef layout_of<MATH, HALVES> layout;
    extern __shared__ unsigned char dynamic[];
    const uint32_t memory = (shared_address(dynamic) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.window_stages; i++) {
            barrier_init(memory + full_at + 8 * i, GROUP / 32);
            barrier_init(memory + empty_at + 8 * i, 2 * GROUP / 32);
        }
        for (int i = 0; i < 2 * layout::weight_stages; i++) barrier_init(memory + full_weights_at + 8 * i, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= 2 * GROUP) {
        registers_give<MMA_STAGING_REGISTERS>();
        stage<MATH, T, HALVES, WARPGROUPS_M>(p, memory);
    } else {
        registers_take<MMA_SUMMING_REGISTERS>();
        consume<MATH, T, OUT, HALVES, WARPGROUPS_M>(p, memory);
    }
}

#endif
