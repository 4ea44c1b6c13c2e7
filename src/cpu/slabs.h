/* The canonical order of a sum: its terms (input channel, tap) are cut into slabs, each summed by one chain of fma, and slabs
 * are added in order. A slab holds as many whole channels as make at most 64 terms, taps outer and channels inner, so that
 * the weights of a tap lie together and a tap that meets only padding costs nothing; a channel of more taps is several
 * slabs. Short chains keep the rounding error of a long sum near that of a short one: the error of a chain grows with its
 * length, for constant data even linearly. The cut depends on K and C_in/groups alone. */
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

/* Which term, as channel*K + tap, the canonical order has at `place` of a sum of `terms`. */
static inline int64_t tapconv_slab_term(int64_t kernel_size, int64_t place, int64_t terms)
{
    if (kernel_size > TAPCONV_SLAB) return place;
    const int64_t full = tapconv_slab_channels(kernel_size) * kernel_size, from = place - place % full;
    const int64_t channels = (tapconv_slab_end(kernel_size, from, terms) - from) / kernel_size;
    return from + (place - from) % channels * kernel_size + (place - from) / channels;
}

/* The places within the slab [from, end) of the taps [first, last), as a range [*skip, *stop) counted from `from`. */
static inline void tapconv_slab_taps(int64_t kernel_size, int64_t from, int64_t end, int64_t first, int64_t last,
                                     int64_t *skip, int64_t *stop)
{
    if (kernel_size <= TAPCONV_SLAB) {
        const int64_t channels = (end - from) / kernel_size;
        *skip = first * channels, *stop = last * channels;
        return;
    }
    const int64_t tap = from % kernel_size, steps = end - from;
    *skip = first > tap ? first - tap : 0;
    *stop = last > tap ? last - tap : 0;
    if (*skip > steps) *skip = steps;
    if (*stop > steps) *stop = steps;
    if (*stop < *skip) *stop = *skip;
}

#endif
