/* Element conversions, one value at a time: what the vector kernels must agree with bit for bit. */
#ifndef TAPCONV_CONVERT_H
#define TAPCONV_CONVERT_H

#include "tapconv.h"

#include <string.h>

float tapconv_f16_to_f32(uint16_t half);
uint16_t tapconv_f32_to_f16(float value);   /* to nearest, ties to even */
uint16_t tapconv_f64_to_f16(double value);  /* rounded once */
uint16_t tapconv_f64_to_bf16(double value); /* rounded once */

static inline float tapconv_bf16_to_f32(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest, ties to even; a NaN keeps its sign and becomes quiet. */
static inline uint16_t tapconv_f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* To nearest with ties away from zero, as the PTX instruction cvt.rna.tf32.f32; Inf and NaN stay what they are. */
static inline float tapconv_f32_to_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Element `index` of an array. */
double tapconv_get(const void *array, tapconv_type type, int64_t index);
void tapconv_set(void *array, tapconv_type type, int64_t index, double value);

#endif
