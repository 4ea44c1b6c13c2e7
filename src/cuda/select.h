/* Which family computes a layer, and where the packed weights of each lie. */
#ifndef TAPCONV_CUDA_SELECT_H
#define TAPCONV_CUDA_SELECT_H

#include "cuda/kernels.h"

/* The families' names, by index from 0; NULL beyond the last. */
const char *tapconv_cuda_family_name(int32_t index);

/* The first family of the table that takes the problem, and why it stands there; or the one named `forced`. Fails if that
 * is none, or takes the problem not. */
tapconv_status tapconv_cuda_select(const tapconv_shape *shape, const tapconv_cuda_card *card, const char *forced,
                                   const tapconv_cuda_family **family, const char **reason);

/* Packed weights are a section for each family that may ever take the layer, one after the other; neither N nor T nor the
 * card moves them. */
size_t tapconv_cuda_packed_bytes(const tapconv_shape *shape);

/* Where a family's section begins. */
size_t tapconv_cuda_packed_at(const tapconv_shape *shape, const tapconv_cuda_family *family);

/* Fills the sections of all families that run on the card. */
cudaError_t tapconv_cuda_pack(const tapconv_shape *shape, const tapconv_cuda_card *card, const void *w, void *packed,
                              cudaStream_t stream);

#endif
