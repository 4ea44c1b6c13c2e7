/* The canonical order of a sum: terms (channel outer, tap inner) are cut into slabs, each summed by one chain of fma, and
 * slabs are added in order. Short chains keep the rounding error of a long sum near that of a short one: the error of a
 * chain grows with its length, for constant data even linearly. The cut depends on K alone. */
#ifndef TAPCONV_CPU_SLABS_H
#define TAPCONV_CPU_SLABS_H

#include <stdint.h>

/* Terms of a slab at most. 64 costs about 1 % of speed against 128 and takes a fifth off the error of long sums. */
#define TAPCONV_SLAB 64

/* Channels of a slab where a slab holds whole channels; 1 where a channel holds several slabs. */
static inline int64_t tapconv_slab_channels(int64_t kernel_size)
{
    return kernel_size < TAPCONV_SLAB ? TAPCONV_SLAB / kernel_size : 1;
}

/* The end of the slab that begins at term `from` of `end`. */
static inline int64_t tapconv_slab_end(int64_t kernel_size, int64_t from, int64_t end)
{
    int64_t next;
    if (kernel_size <= TAPCONV_SLAB) {
        next = from + tapconv_slab_channels(kernel_size) * kernel_size;
    } else {
        const int64_t channel_end = from - from % kernel_size + kernel_size;
        next = from + TAPCONV_SLAB < channel_end ? from + TAPCONV_SLAB : channel_end;
    }
    return next < end ? next : end;
}

#endif
