/* Numbers drawn from a fuzzer's input, zeros after its end. */
#ifndef TAPCONV_FUZZ_BYTES_H
#define TAPCONV_FUZZ_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct bytes {
    const uint8_t *at, *end;
} bytes;

static inline uint8_t bytes_next(bytes *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* Any value that eight bytes can hold. */
static inline uint64_t bytes_any(bytes *in)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | bytes_next(in);
    return value;
}

/* Mostly least to least + 31, so that legal problems are found, at times up to least + 255; one time in eight anything, the
 * limits above all. */
static inline int64_t bytes_size(bytes *in, int64_t least)
{
    const uint8_t kind = bytes_next(in);
    if (kind < 192) return least + kind % 32;
    if (kind < 224) return least + bytes_next(in);
    switch (kind % 8) {
    case 0: return INT64_MAX;
    case 1: return INT64_MIN;
    case 2: return -1;
    case 3: return (int64_t)1 << bytes_next(in) % 63;
    case 4: return (int64_t)(bytes_any(in) >> 1 >> bytes_next(in) % 63);
    default: {
        const uint64_t any = bytes_any(in);
        int64_t value;
        memcpy(&value, &any, sizeof value);
        return value;
    }
    }
}

/* One of 0 to most, or, one time in sixteen, any int32_t. */
static inline int32_t bytes_choice(bytes *in, int32_t most)
{
    const uint8_t kind = bytes_next(in);
    if (kind < 240) return kind % (most + 1);
    const uint32_t any = (uint32_t)bytes_any(in);
    int32_t value;
    memcpy(&value, &any, sizeof value);
    return value;
}

#endif
