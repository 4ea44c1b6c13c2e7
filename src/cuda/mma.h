/* What the host and the tensor-core kernels agree on. */
#ifndef TAPCONV_CUDA_MMA_H
#define TAPCONV_CUDA_MMA_H

#include "cuda/kernels.h"
#include "cuda/types.cuh"

/* Registers a thread of the groups that issue products; the third one fetches with what is left. A block starts with 168 for each of
 * its 384 threads and deals them out anew: 2*216 + 72 = 3*168. More would wait for ever. */
#define MMA_REGISTERS (3 * 168)
#define MMA_FETCHING_THREADS 96 /* of the third group; its last warp asks for weights */
#define MMA_MOST_WINDOWS 4
#define MMA_MOST_WEIGHTS 8 /* stages */

/* Shared memory, from an address that is a multiple of 1024: barriers, stages of weights, windows, factors, outputs. */
#define MMA_SHARED_BYTES 232448 /* that a block may have on Hopper */
#define MMA_WEIGHTS_AT 1024
#define MMA_OUT_CHANNELS 16                                  /* that a warp turns into rows of samples at a time */
#define MMA_OUT_PITCH 20                                     /* words of 16 samples of a channel: no bank twice */
#define MMA_OUT_BYTES (MMA_OUT_CHANNELS * MMA_OUT_PITCH * 4) /* of a warp */
#define MMA_FIXED_BYTES (1024 + MMA_WEIGHTS_AT + 8 * MMA_OUT_BYTES) /* 1024 to align it */
#define MMA_WANTED_HALO 64                                          /* rows of a window beyond the tile's */

/* A kernel and its tile: each of two groups of 128 threads has `count` products of 64 samples x `width` channels; the groups
 * have the same channels of different samples or, if `wide`, different channels of the same samples. */
struct mma_form {
    int count, width, wide;
    constexpr __host__ __device__ int samples() const
    {
        return 64 * count * (wide ? 1 : 2);
    }
    constexpr __host__ __device__ int channels() const
    {
        return width * (wide ? 2 : 1);
    }
};
#define MMA_FORMS 5
constexpr mma_form mma_forms[MMA_FORMS] = {{2, 128, 0}, {1, 128, 0}, {1, 64, 0}, {1, 32, 1}, {1, 16, 1}};

/* Bytes of an element of x in a window. */
constexpr __host__ __device__ int mma_stored_bytes(tapconv_math math, int size)
{
    return math == TAPCONV_MATH_F16 || math == TAPCONV_MATH_BF16 ? size : 4;
}

/* Elements from a channel of a window to the next: for the halo that is wanted, or the most of which two windows fit beside two
 * stages of weights. An odd multiple of 16 bytes, or of 32 where a lane reads neighbouring channels, so that the lanes of a load
 * meet no bank twice. `size` is of a stored element. */
constexpr __host__ __device__ int mma_pitch(mma_form form, tapconv_math math, int size)
{
    const int channels = math == TAPCONV_MATH_TF32 ? 32 : 64, parts = math == TAPCONV_MATH_F32 ? 2 : 1;
    const int most = (MMA_SHARED_BYTES - MMA_FIXED_BYTES - 2 * form.channels() * 128 * parts) / 2 /
                     (channels * size + (parts == 2 ? 4 : 0)) * size;
    const int wanted = (form.samples() + MMA_WANTED_HALO) * size, bytes = wanted < most ? wanted : most;
    const int unit = math == TAPCONV_MATH_TF32 ? 32 : 16;
    return ((bytes - unit) / (2 * unit) * 2 * unit + unit) / size;
}

/* Of the groups that issue products: what their sums need. */
constexpr __host__ __device__ int mma_registers(mma_form form, tapconv_math math)
{
    return form.count * form.width > 128 && math == TAPCONV_MATH_F32 ? 216 : 192;
}

/* Kernels by type of x and form; NULL-free. */
const void *mma_kernel_f32(tapconv_type type, int form);
const void *mma_kernel_tf32(tapconv_type type, int form);
const void *mma_kernel_f16(tapconv_type type, int form);
const void *mma_kernel_bf16(tapconv_type type, int form);

struct mma_params {
    const void *x;
    const unsigned char *packed; /* [group][slab][tap][part][padded_out rows of 128 bytes] */
    const float *row_scale; /* f32: 2^-n of each output channel, NaN where its weights are out of range; else NULL */
    const float *raw;       /* f32: weights as they were, for repair() */
    const void *bias;       /* or NULL */
    void *out;
    int64_t x_item, x_channel, x_time, y_item, y_channel, y_time; /* steps in elements */
    int32_t batch, tiles;
    fast_divisor period_divisor;
    int32_t period;  /* columns an item takes on the axis of samples */
    int32_t merged;  /* whether a tile may hold several items */
    int32_t aligned; /* whether four samples from a multiple of 4 on can be stored at once */
    int32_t length, out_length, kernel_size, stride, dilation, padding_left;
    int32_t groups, group_in, group_out, padded_out; /* channels of a group; padded to a multiple of 64 */
    int32_t slabs, channel_tiles;                    /* of a group */
    int32_t residues, tap_step;                      /* taps k, k + tap_step, ... share a residue of the stride */
    int32_t row_step, window_taps;                   /* neighbouring taps of a window are row_step rows apart */
    int32_t fetch_bytes; /* of which rows of x are made: 16, 8, 4 or 2; windows begin at a multiple of it */
    int32_t fetch_units; /* such pieces of a channel's window */
    int32_t window_stages, weight_stages;
    uint32_t windows_at, factors_at, out_at; /* in shared memory */
    int32_t out_type, activation, param_type;
};

#endif
