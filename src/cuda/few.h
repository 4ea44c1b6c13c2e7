/* The way of the family "general" for long windows over few channels: see few.cu. */
#ifndef TAPCONV_CUDA_FEW_H
#define TAPCONV_CUDA_FEW_H

#include "cuda/kernels.h"

/* Whether it is faster than tiles. It has their bits. */
bool tapconv_cuda_few_suits(const tapconv_shape *shape, const tapconv_cuda_card *card);

/* `w` is packed as [group][padded_terms][padded_channels]. */
cudaError_t tapconv_cuda_few_launch(const tapconv_shape *shape, const tapconv_cuda_conv *conv, const float *w,
                                    int64_t padded_terms, int64_t padded_channels, cudaStream_t stream);

void tapconv_cuda_few_describe(const tapconv_shape *shape, tapconv_cuda_launch_info *info);

#endif
