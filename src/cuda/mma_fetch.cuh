/* The group of threads that fetches: windows of x and stages of weights, for every tile of the block. */
#ifndef TAPCONV_CUDA_MMA_FETCH_CUH
#define TAPCONV_CUDA_MMA_FETCH_CUH

#include "cuda/mma_prepare.cuh"

template <int BYTES> static __device__ __forceinline__ void copy_async(uint32_t to, const void *from)
{
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}

/* What of x a window holds: `channels` rows, of which the first `left` are channels of the group and the others zeros. */
template <typename T> struct mma_piece {
    const mma_tile &tile;
    const T *slab; /* its first channel, of the tile's first item */
    int32_t begin; /* sample of an item's column 0 in row 0; a multiple of what is fetched at once */
    int channels, left;

    /* The sample in a row, or -1. */
    __device__ __forceinline__ int32_t sample(const mma_params &p, int row, int32_t &items) const
    {
        int32_t item, position;
        locate(p, tile, row, item, position);
        const int32_t at = position * p.stride + begin;
        items = item - tile.item;
        return item < p.batch && (uint32_t)at < (uint32_t)p.length ? at : -1;
    }
};

/* x + step, when it is needed: computed ahead for all loads, addresses would fill the registers. */
template <typename T> static __device__ __forceinline__ const T *after(const T *x, int64_t step)
{
    x += step;
    asm volatile("" : "+l"(x));
    return x;
}

/* Rows in pieces of BYTES: threads along the pieces of a row and, where these are few, along channels. Pieces of 4 bytes and more
 * are copied, elements of two are turned into S on the way. */
template <int BYTES, int PITCH, typename S, typename T>
static __device__ __forceinline__ void fetch_pieces(const mma_params &p, const mma_piece<T> &piece, uint32_t window,
                                                    uint32_t landed)
{
    constexpr int samples = BYTES / (int)sizeof(T);
    constexpr uint32_t row_bytes = PITCH * sizeof(S), piece_bytes = samples * sizeof(S);
    const int thread = threadIdx.x % GROUP;
    const int wide = p.fetch_units < MMA_FETCHING_THREADS ? p.fetch_units : MMA_FETCHING_THREADS;
    const int deep = MMA_FETCHING_THREADS / wide, first = thread / wide;
    const int64_t step = deep * p.x_channel;
    const uint32_t to_step = deep * row_bytes;
    for (int unit = thread - first * wide; first < deep && unit < p.fetch_units; unit += wide) {
        int32_t items;
        const int32_t sample = piece.sample(p, unit * samples, items);
        const int there = sample < 0 ? 0 : piece.left < piece.channels ? piece.left : piece.channels; /* channels */
        const T *from = piece.slab + items * p.x_item + first * p.x_channel + (sample < 0 ? 0 : sample) * p.x_time;
        uint32_t to = window + first * row_bytes + unit * piece_bytes;
        int copies = there > first ? (there - first + deep - 1) / deep : 0;
        int zeros = (piece.channels - first + deep - 1) / deep - copies;
        constexpr int batch = BYTES >= 4 ? 8 : sizeof(S) == 2 ? 32 : 4; /* loads before their use */
        for (; copies > 0; copies -= batch) {
            const int now = copies < batch ? copies : batch;
            if constexpr (BYTES >= 4) {
                if (now == batch) {
#pragma unroll
                    for (int i = 0; i < batch; i++, from = after(from, step), to += to_step)
                        copy_async<BYTES>(to, from);
                } else {
                    for (int i = 0; i < now; i++, from += step, to += to_step) copy_async<BYTES>(to, from);
                }
            } else {
                T value[batch];
#pragma unroll
                for (int i = 0; i < batch; i++, from = after(from, step))
                    if (i < now) value[i] = *from;
#pragma unroll
                for (int i = 0; i < batch; i++)
                    if (i < now) {
                        if constexpr (sizeof(S) == 2)
                            asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(*(unsigned short *)(value + i))
                                         : "memory");
                        else
                            asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(load_as_f32(value + i)) : "memory");
                        to += to_step;
                    }
            }
        }
        for (; zeros > 0; zeros--, to += to_step)
#pragma unroll
            for (uint32_t i = 0; i < piece_bytes; i += piece_bytes < 4 ? 2 : 4) {
                if constexpr (piece_bytes < 4)
                    asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"((unsigned short)0) : "memory");
                else
                    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + i), "r"(0) : "memory");
            }
    }
    if constexpr (BYTES >= 4)
        barrier_arrive_after_copies(landed);
    else
        barrier_arrive(landed);
}

template <int MATH, typename T, int FORM>
static __device__ __forceinline__ void fetch_windows(const mma_params &p, uint32_t memory)
{
    constexpr mma_form form = mma_forms[FORM];
    constexpr int slab_channels = operand_of<MATH>::channels, step_channels = slab_channels / STEPS;
    typedef stored<MATH, T> S;
    constexpr int pitch = mma_pitch(form, (tapconv_math)MATH, (int)sizeof(S));
    constexpr uint32_t window_bytes = slab_channels * pitch * sizeof(S);
    ring now = {0, 1}; /* the first round need not wait */
    ring next = {0, 0};
    int waiting_channels = 0; /* of a window that is to be prepared */

    const int units = (p.fetch_units * (p.fetch_bytes / (int)sizeof(T)) * (int)sizeof(S) + 15) / 16;
    const auto finish = [&](int channels) {
        barrier_wait(memory + landed_windows_at + 8 * next.at, next.parity);
        prepare<MATH, S, pitch>(units, channels, memory + p.windows_at + next.at * window_bytes,
                                memory + p.factors_at + (uint32_t)(next.at * pitch) * 4);
        barrier_arrive(memory + full_windows_at + 8 * next.at);
        next.advance(p.window_stages);
    };
    for (int32_t index = (int32_t)blockIdx.x; index < p.tiles; index += (int32_t)gridDim.x) {
        const mma_tile tile = tile_at(p, index, form.samples(), form.channels());
        const T *slab = (const T *)p.x + tile.item * p.x_item + (int64_t)tile.group * p.group_in * p.x_channel;
        int left = p.group_in;
        for (int s = 0; s < p.slabs; s++, left -= slab_channels, slab += slab_channels * p.x_channel) {
            const int padded = (left + step_channels - 1) / step_channels * step_channels;
            const int channels = padded < slab_channels ? padded : slab_channels;
            mma_window w;
            w.begin(p);
            do {
                const uint32_t window = memory + p.windows_at + now.at * window_bytes;
                const uint32_t landed = memory + landed_windows_at + 8 * now.at;
                const int32_t offset = w.offset(p);
                const mma_piece<T> piece = {tile, slab, offset - lead_of<T>(p, offset), channels, left};
                barrier_wait(memory + empty_windows_at + 8 * now.at, now.parity);
                if (sizeof(S) == sizeof(T) && p.fetch_bytes == 16)
                    fetch_pieces<16, pitch, S>(p, piece, window, landed);
                else if (sizeof(S) == sizeof(T) && p.fetch_bytes == 8)
                    fetch_pieces<8, pitch, S>(p, piece, window, landed);
                else if (sizeof(S) == sizeof(T) && p.fetch_bytes == 4)
                    fetch_pieces<4, pitch, S>(p, piece, window, landed);
                else
                    fetch_pieces<sizeof(T), pitch, S>(p, piece, window, landed);
                now.advance(p.window_stages);
                /* With two windows, the other one is being read and this one is wanted next. With more, one is on its way. */
                if constexpr (prepared<MATH>) {
                    if (p.window_stages == 2) {
                        finish(channels);
                    } else {
                        if (waiting_channels) finish(waiting_channels);
                        waiting_channels = channels;
                    }
                }
            } while (w.next(p));
        }
    }
    if (waiting_channels) finish(waiting_channels);
}

/* The weights of one (slab, tap) after the other, for every tile of the block, by one thread. */
template <int MATH, int FORM> static __device__ __forceinline__ void fetch_weights(const mma_params &p, uint32_t memory)
{
    constexpr mma_form form = mma_forms[FORM];
    constexpr int parts = operand_of<MATH>::parts;
    constexpr uint32_t part_bytes = form.channels() * ROW_BYTES;
    const int64_t packed_part = (int64_t)p.padded_out * ROW_BYTES;
    ring now = {0, 1};
    for (int32_t index = (int32_t)blockIdx.x; index < p.tiles; index += (int32_t)gridDim.x) {
        const mma_tile tile = tile_at(p, index, form.samples(), form.channels());
        const int chunks = p.slabs * p.kernel_size;
        /* Columns beyond the last channel are what they are. */
        const int left = p.padded_out - tile.channel, rows = left < form.channels() ? left : form.channels();
        const uint32_t bytes = (uint32_t)rows * ROW_BYTES;
        const unsigned char *from =
            p.packed + (int64_t)tile.group * chunks * parts * packed_part + (int64_t)tile.channel * ROW_BYTES;
        for (int i = 0; i < chunks; i++) {
            const uint32_t to = memory + MMA_WEIGHTS_AT + now.at * parts * part_bytes;
            const uint32_t full = memory + full_weights_at + 8 * now.at;
            barrier_wait(memory + empty_weights_at + 8 * now.at, now.parity);
            barrier_expect(full, parts * bytes);
#pragma unroll
            for (int part = 0; part < parts; part++, from += packed_part)
                bulk_copy(to + part * part_bytes, from, bytes, full);
            now.advance(p.weight_stages);
        }
    }
}

#endif
