/* Where things lie in the tensor-core kernels: operands, shared memory and its rings, tiles, windows. */
#ifndef TAPCONV_CUDA_MMA_PLACE_CUH
#define TAPCONV_CUDA_MMA_PLACE_CUH

#include "cuda/mma.h"
#include "cuda/wgmma.cuh"

#include <type_traits>

#define GROUP 128 /* threads of a warpgroup */
#define SUMMING_WARPS 8
#define ROW_BYTES 128 /* of weights */
#define STEPS 4       /* products over 32 bytes of such a row */

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

/* Barriers in shared memory. */
enum : uint32_t {
    landed_windows_at = 0, /* copied, but without factors */
    full_windows_at = landed_windows_at + 8 * MMA_MOST_WINDOWS,
    empty_windows_at = full_windows_at + 8 * MMA_MOST_WINDOWS,
    full_weights_at = empty_windows_at + 8 * MMA_MOST_WINDOWS,
    empty_weights_at = full_weights_at + 8 * MMA_MOST_WEIGHTS
};

/* A stage of a ring, and the parity of its present round. */
struct ring {
    int at;
    uint32_t parity;
    __device__ __forceinline__ void advance(int stages)
    {
        if (++at == stages) at = 0, parity ^= 1;
    }
};

/* Where a tile lies. */
struct mma_tile {
    int32_t item;           /* of row 0 */
    int32_t position;       /* of row 0 within its item */
    int32_t group, channel; /* convolution group; first output channel within it */
};

static __device__ __forceinline__ mma_tile tile_at(const mma_params &p, int32_t index, int samples, int channels)
{
    mma_tile t;
    const int32_t rest = index / p.channel_tiles;
    const int64_t column = (int64_t)(rest / p.groups) * samples;
    t.channel = (index - rest * p.channel_tiles) * channels;
    t.group = rest % p.groups;
    t.item = (int32_t)(column / p.period);
    t.position = (int32_t)(column - (int64_t)t.item * p.period);
    return t;
}

/* Turns a row of the tile into its item and position within it. */
static __device__ __forceinline__ void locate(const mma_params &p, const mma_tile &tile, int row, int32_t &item,
                                              int32_t &position)
{
    item = tile.item, position = tile.position + row;
    if (p.merged) {
        const int32_t items = (int32_t)p.period_divisor.quotient((uint32_t)position);
        item += items, position -= items * p.period;
    }
}

/* The windows of one slab, in the order of the packed weights: residues of the stride, then runs of taps. */
struct mma_window {
    int32_t residue, part, taps;
    __device__ __forceinline__ void begin(const mma_params &p)
    {
        residue = 0, part = 0;
        count(p);
    }
    __device__ __forceinline__ bool next(const mma_params &p)
    {
        part++;
        if (part * p.window_taps * p.tap_step + residue >= p.kernel_size) {
            part = 0;
            if (++residue >= p.residues) return false;
        }
        count(p);
        return true;
    }
    /* Of the input sample that row 0 of an item reads at the window's first tap. */
    __device__ __forceinline__ int32_t offset(const mma_params &p) const
    {
        return (residue + part * p.window_taps * p.tap_step) * p.dilation - p.padding_left;
    }

  private:
    __device__ __forceinline__ void count(const mma_params &p)
    {
        const int all = (p.kernel_size - residue + p.tap_step - 1) / p.tap_step - part * p.window_taps;
        taps = all < p.window_taps ? all : p.window_taps;
    }
};
/* Rows that a window begins before that sample, so that pieces of 16 bytes are pieces of the input. */
template <typename T> static __device__ __forceinline__ int lead_of(const mma_params &p, int32_t offset)
{
    return p.fetch_bytes > (int)sizeof(T) ? offset & (p.fetch_bytes / (int)sizeof(T) - 1) : 0;
}

/* An element of x in a window: as it is stored, or float32 where operands are made of that. */
template <int MATH, typename T>
using stored = std::conditional_t<mma_stored_bytes((tapconv_math)MATH, (int)sizeof(T)) == sizeof(T), T, float>;

/* Whether the threads that fetch make the operands, in place, for all taps. Rounding to tf32 costs those who read them less than it
 * would cost the few that fetch. */
template <int MATH> constexpr bool prepared = MATH != TAPCONV_MATH_TF32;

#endif
