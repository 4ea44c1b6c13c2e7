/* Random arrays that depend on nothing but the seed: not on the thread count, not on the type they are stored in.
 *
 * Each block of 4096 values has a SplitMix64 stream of its own (Steele, Lea and Flood, 2014), started from the seed,
 * the tensor's number and the block's number, so that blocks can be filled by several threads. Normal values come from
 * the ziggurat with 128 layers (Marsaglia and Tsang, 2000; layout of Doornik's ZIGNOR, 2005). */
#ifndef TAPCONV_CLI_RANDOM_H
#define TAPCONV_CLI_RANDOM_H

#include <stdint.h>

#include "tapconv.h"

typedef struct random_stream {
    uint64_t state;
} random_stream;

random_stream random_start(uint64_t seed, uint64_t tensor, uint64_t block);
uint64_t random_bits(random_stream *stream);

/* Uniform in [0, 1). */
double random_unit(random_stream *stream);

typedef enum random_kind { RANDOM_NORMAL, RANDOM_UNIFORM } random_kind;

/* Fills `array` with center + scale * z, z being normal(0, 1) or uniform in [-1, 1). */
void random_fill(void *array, tapconv_type type, int64_t count, uint64_t seed, uint64_t tensor, random_kind kind,
                 double center, double scale, int64_t threads);

#endif
