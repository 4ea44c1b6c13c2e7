/* What the host and the tensor-core kernels agree on. */
#ifndef TAPCONV_CUDA_MMA_H
#define TAPCONV_CUDA_MMA_H

#include "cuda/kernels.h"
#include "cuda/types.cuh"

/* Registers a thread of the groups that issue products and of the one that stages. A block starts with 168 for each of its 384
 * threads and deals them out anew: 2*224 + 56 = 3*168. More would wait for ever. */
#define MMA_SUMMING_REGISTERS 224
#define MMA_STAGING_REGISTERS 56
#define MMA_MOST_STAGES 4
#define MMA_WEIGHT_BYTES (128 * 1024) /* of shared memory for weight stages */
#define MMA_FIXED_BYTES 2048          /* of shared memory before them: barriers and maxima */
#define MMA_MOST_HALO 56              /* rows of a window beyond the tile's columns */

/* Kernels by types and form (mma.cu); NULL-free. */
#define MMA_FORMS 3
const void *mma_kernel_f32(tapconv_type type, tapconv_type out_type, int form);
const void *mma_kernel_tf32(tapconv_type type, tapconv_type out_type, int form);
const void *mma_kernel_f16(tapconv_type type, tapconv_type out_type, int form);
const void *mma_kernel_bf16(tapconv_type type, tapconv_type out_type, int form);

/* Stages of `bytes` that each of the two groups has. */
constexpr int mma_weight_stages(int bytes)
{
    return MMA_WEIGHT_BYTES / (2 * bytes) < MMA_MOST_STAGES ? MMA_WEIGHT_BYTES / (2 * bytes) : MMA_MOST_STAGES;
}

struct mma_params {
    const void *x;
    const unsigned char *packed; /* [group][slab][tap][block of 64 channels][part][64 rows of 128 bytes] */
    const float *row_scale; /* f32: 2^-n of each output channel, NaN where its weights are out of range; else NULL */
    const float *raw;       /* f32: weights as they were, for repair() */
    const void *bias;       /* or NULL */
    void *out;
    int64_t x_item, x_channel, x_time, y_item, y_channel, y_time; /* steps in elements */
    int32_t batch, tiles;
    fast_divisor period_divisor;
    int32_t period;  /* columns an item takes on the axis of columns */
    int32_t merged;  /* whether a tile may hold several items */
    int32_t aligned; /* whether four samples from a multiple of 4 on can be stored at once */
    int32_t length, out_length, kernel_size, stride, dilation, padding_left;
    int32_t groups, group_in, group_out;
    int32_t slabs, group_blocks,
        row_tiles;                      /* of a group: slabs of channels, blocks of 64 output channels, tiles of them */
    int32_t residues, tap_step;         /* taps k, k + tap_step, ... share a residue of the stride */
    int32_t row_step, window_taps;      /* neighbouring taps of a window are row_step rows apart */
    int32_t window_rows, window_stages; /* rows of a stage, a multiple of 8 */
    int32_t activation, param_type;
};

#endif
