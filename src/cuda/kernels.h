/* The table of convolution families of the CUDA engine, and what a family promises. C and CUDA C++ include this.
 *
 * A family computes out = activation(bias + conv1d(x, w)) for the problems that it takes. GroupNorm is a step of its own
 * (norm.cu): the family then writes the unactivated convolution as float32, NCL, into scratch memory.
 *
 * Same bits: an output of a layer (channels, kernel size, groups, stride, dilation, type, math) has the same bits whatever
 * N, T, card partitioning or repetition. Where several families may be chosen for one layer by N or T they keep one order
 * of the sum. */
#ifndef TAPCONV_CUDA_KERNELS_H
#define TAPCONV_CUDA_KERNELS_H

#include "problem.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A card, as far as plans depend on it: read from the driver, or from a table of known cards to plan without one. */
typedef struct tapconv_cuda_card {
    char name[64];
    int32_t major, minor; /* compute capability */
    int32_t multiprocessors;
    int32_t shared_bytes_per_block;          /* the opt-in limit */
    int32_t shared_bytes_per_multiprocessor; /* of which each block costs 1 KB more than it asks for */
    int64_t l2_bytes;
    int32_t device; /* its index; -1: described by a table, and not there */
} tapconv_cuda_card;

/* One convolution. Device pointers; `packed` is the family's own section of the packed weights. */
typedef struct tapconv_cuda_conv {
    const void *x; /* of the problem's type and layout */
    const void *packed;
    const void *bias; /* of param_type, or NULL */
    void *out;
    tapconv_type out_type;
    tapconv_layout out_layout;
    tapconv_activation activation;
    void *workspace; /* workspace_bytes() long, aligned to 256 bytes */
} tapconv_cuda_conv;

/* What `explain` prints about a launch. */
typedef struct tapconv_cuda_launch_info {
    int64_t blocks;
    int32_t threads, registers, shared_bytes, blocks_per_multiprocessor; /* registers 0: no card, not known */
    char tile[64];                                                       /* "256 channels x 128 samples" */
} tapconv_cuda_launch_info;

typedef struct tapconv_cuda_family {
    const char *name; /* "general", "depthwise", "mma" */
    /* Whether it can take the problem on the card at all (correctness, not speed). */
    int (*takes)(const tapconv_shape *shape, const tapconv_cuda_card *card);
    /* Scratch memory of one launch. */
    size_t (*workspace_bytes)(const tapconv_shape *shape, const tapconv_cuda_card *card);
    /* Packed weights: of the layer alone (no N, no T); a multiple of 256. */
    size_t (*packed_bytes)(const tapconv_shape *shape);
    cudaError_t (*pack)(const tapconv_shape *shape, const void *w, void *packed, cudaStream_t stream);
    /* Enqueues the convolution; neither allocates nor synchronises; capturable in a graph. batch >= 1, T_out >= 1. */
    cudaError_t (*launch)(const tapconv_shape *shape, const tapconv_cuda_card *card, const tapconv_cuda_conv *conv,
                          cudaStream_t stream);
    /* At planning. Asking for a kernel's attributes also loads it, so that a launch that is captured in a graph need not.
     * Where the card is not there, `info` has what holds of it without asking, and 0 elsewhere. */
    void (*describe)(const tapconv_shape *shape, const tapconv_cuda_card *card, tapconv_cuda_launch_info *info);
} tapconv_cuda_family;

extern const tapconv_cuda_family tapconv_cuda_general;   /* float32 FMA; takes every problem */
extern const tapconv_cuda_family tapconv_cuda_depthwise; /* each output channel reads one input channel */
extern const tapconv_cuda_family tapconv_cuda_mma;       /* Hopper tensor cores (wgmma) */

/* GroupNorm, then activation: reads the float32 NCL convolution (bias included) from `conv`, writes y. Statistics in two
 * looks at the values, merged in an order that depends on the layer and T_out alone. */
typedef struct tapconv_cuda_norm {
    const float *conv;
    const void *gamma, *beta; /* of param_type, or NULL */
    void *y;                  /* of the problem's type and layout */
    void *workspace;
} tapconv_cuda_norm;

size_t tapconv_cuda_norm_workspace_bytes(const tapconv_shape *shape, const tapconv_cuda_card *card);
cudaError_t tapconv_cuda_norm_launch(const tapconv_shape *shape, const tapconv_cuda_card *card,
                                     const tapconv_cuda_norm *norm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
