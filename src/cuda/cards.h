/* Cards: read from the driver, or described by a table. */
#ifndef TAPCONV_CUDA_CARDS_H
#define TAPCONV_CUDA_CARDS_H

#include "cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a card can do, for plans of a card that is not there to be measured. 1e9 a second. */
typedef struct tapconv_cuda_rates {
    double f16_flops, bf16_flops, tf32_flops, fma_flops, copy_bytes;
} tapconv_cuda_rates;

/* By index from 0; NULL beyond the last. */
const char *tapconv_cuda_card_name(int32_t index);

/* 0 if no card has that name. `rates` may be NULL. */
int tapconv_cuda_card_by_name(const char *name, tapconv_cuda_card *card, tapconv_cuda_rates *rates);

/* Of a device that is there. */
cudaError_t tapconv_cuda_card_read(int32_t device, tapconv_cuda_card *card);

/* What the ceilings are in a math mode, given the rates. */
tapconv_ceilings tapconv_cuda_ceilings_of(const tapconv_cuda_rates *rates, tapconv_math math);

/* ceilings.cu: measures the current device, which is `card`. About 0.3 s. */
cudaError_t tapconv_cuda_measure(const tapconv_cuda_card *card, tapconv_math math, tapconv_cuda_rates *rates);

#ifdef __cplusplus
}
#endif

#endif
