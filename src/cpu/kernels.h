/* The slots that every instruction set fills, and what a kernel may assume. Kernels work in one "real" type, float or
 * double; buffers are void pointers to it, and every count, step and offset is in elements unless it says bytes.
 *
 * Same bits: each output's sum runs over its terms in one fixed order, channels outer and taps inner, in slabs (slabs.h);
 * within a slab it is one chain of fma from zero, and slabs are added in order. Every kernel keeps to this whatever its
 * tile, which is why a result does not depend on the tile that an output happens to fall into. */
#ifndef TAPCONV_CPU_KERNELS_H
#define TAPCONV_CPU_KERNELS_H

#include "tapconv.h"

/* Packed weights: for each block of up to 8 output channels of a group, [term][channel of the block]. */
#define TAPCONV_BLOCK 8

/* Columns that a kernel may read past the last one it was asked for. */
#define TAPCONV_OVERREAD 16

/* A tile of output channels x samples, slab after slab of `slab` steps (the last of what is left):
 *     out[r][j] = partial[r][j] + sum over s of w[s*w_step + r] * x[offset[s] + j]  (+ bias[r])     j < columns
 * and the same for more_tiles tiles of the rows below. The weights of rows 8*b to 8*b + 7 are block_step*b behind.
 * partial and bias may be NULL; without partial it is 0, so that a sum is never -0 and terms that are +-0 leave no trace.
 * x may be read up to the next multiple of the vector length. With `stream`, whole vectors
 * of out are written past the caches: out and out_step must be multiples of the vector. */
typedef struct tapconv_tile {
    const void *x;
    const int32_t *offset;
    const void *w;
    const void *next_w; /* weights of as many steps that are wanted next, to be fetched; never read; NULL: none */
    int64_t w_step;
    int64_t block_step; /* of tiles of more than 8 rows, or of several tiles */
    int64_t
        more_tiles; /* only where tiles have 1, 2 or 4 rows at most, of whole vectors that are not streamed; else 0 */
    int64_t steps;
    int64_t slab; /* 2 at least; 0: all steps are one slab */
    const void *partial;
    int64_t partial_step;
    void *out;
    int64_t out_step;
    const void *bias;
    int64_t columns;
    int stream;
} tapconv_tile;

typedef void (*tapconv_tile_kernel)(const tapconv_tile *tile);

/* The same for few columns and whole blocks of weights, block_step elements apart, with vectors along output channels.
 * Takes all slabs of tile.steps terms, which begin at a slab's beginning. Row r of block b is row 8*b + r of partial, out
 * and bias. */
typedef struct tapconv_thin {
    tapconv_tile tile;
    int64_t kernel_size;
    int64_t first_tap, end_tap; /* the taps to take of each channel; the others would add +-0 */
    int64_t block_step;
} tapconv_thin;

typedef void (*tapconv_thin_kernel)(const tapconv_thin *thin);

/* A row of samples on its way from a caller's array: dst[i] = rounded(src[i*step]), i < count; step 1 is the fast case. */
typedef struct tapconv_load {
    void *dst;
    const void *src;
    tapconv_type type;
    tapconv_math math; /* rounds float32 sources to it */
    int64_t step;
    int64_t count;
} tapconv_load;

/* Rows of results on their way to a caller's array: bias, then normalisation, then activation, then conversion.
 *     dst[r*dst_row + i*dst_step] = act( ((src[r*src_row + i] + bias[r]) - mean) * scale[r] + shift[r] )
 * bias, scale and shift hold float64 and may be NULL; without scale nothing is normalised. mean is subtracted as the sum
 * of two reals, so that it loses nothing. */
typedef struct tapconv_emit {
    const void *src;
    int64_t src_row;
    void *dst;
    int64_t dst_row, dst_step;
    tapconv_type type;
    int64_t rows, count;
    const double *bias;
    double mean;
    const double *scale, *shift;
    tapconv_activation activation;
    int stream; /* dst will not be read soon: write past the caches */
    const void
        *fetch; /* as many reals that are wanted next, to be requested on the way where dst is streamed, or NULL */
} tapconv_emit;

/* The mean and the sum of squared distances from it of rows x count values, by two looks. */
typedef struct tapconv_moments {
    double count, mean, squares;
} tapconv_moments;

#define TAPCONV_MOST_VECTORS 12
#define TAPCONV_MOST_THIN 8
#define TAPCONV_MOST_ROW_TAPS 16

/* All slots for one real type. */
typedef struct tapconv_real_kernels {
    int bytes;        /* of the real type */
    int lanes;        /* of its vectors */
    int rows;         /* most rows of a register tile */
    int thin_columns; /* most columns for which thin beats tile; 0 without thin */
    /* [rows - 1][vectors - 1]; NULL where the registers do not suffice. A row's last entry is its widest. */
    tapconv_tile_kernel tile[TAPCONV_BLOCK][TAPCONV_MOST_VECTORS];
    /* Two whole blocks x one vector, for tiles so narrow that 8 chains of fma would wait; NULL where registers are few. */
    tapconv_tile_kernel pair;
    /* [columns - 1][0: one block, 1: thin_blocks(columns)] */
    tapconv_thin_kernel thin[TAPCONV_MOST_THIN][2];
    /* [taps - 1]; NULL where tile is as good. Row 0 of a tile of any number of columns, in one slab without partial. x is
     * read in whole aligned vectors: from the one that holds the first sample that is asked for to the second after the
     * last. */
    tapconv_tile_kernel row[TAPCONV_MOST_ROW_TAPS];
    void (*load)(const tapconv_load *load);
    /* dst[k*dst_row + i] = src[k*dilation + i*stride], k < kernel_size, i < count: the panel rows of one channel and item,
     * from a padded line. taps and phases write and read as if count were up to TAPCONV_OVERREAD larger. */
    void (*taps)(void *dst, int64_t dst_row, const void *src, int64_t kernel_size, int64_t dilation, int64_t stride,
                 int64_t count);
    /* dst[p*dst_row + i] = src[phase[p] + i*stride], p < phases, i < count. */
    void (*phases)(void *dst, int64_t dst_row, const void *src, const int32_t *phase, int64_t phases, int64_t stride,
                   int64_t count);
    void (*emit)(const tapconv_emit *emit);
    tapconv_moments (*moments)(const void *src, int64_t src_row, int64_t rows, int64_t count);
    double (*peak)(int64_t rounds); /* runs TAPCONV_PEAK_FLOPS * lanes * rounds operations; returns their sum */
} tapconv_real_kernels;

#define TAPCONV_PEAK_FLOPS (2 * 12 * 64)

static inline int tapconv_thin_blocks(int64_t columns)
{
    return columns <= 2 ? 8 : columns <= 4 ? 4 : 2;
}

typedef struct tapconv_isa {
    uint32_t bit;
    const tapconv_real_kernels *real[2];                            /* float, double */
    void (*stream_copy)(void *dst, const void *src, int64_t bytes); /* both 64-byte aligned, bytes a multiple of 64 */
    void (*stream_fence)(void); /* after streaming stores, before another thread may read */
} tapconv_isa;

/* Widest first; ends with scalar. */
extern const tapconv_isa tapconv_isa_avx512, tapconv_isa_avx2, tapconv_isa_neon, tapconv_isa_scalar;

/* Detection: the widest set of `mask` (0: all) that runs here; NULL if there is none. */
const tapconv_isa *tapconv_isa_choose(uint32_t mask);

#endif
