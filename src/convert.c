#include "convert.h"

#include "error.h"

#include <inttypes.h>
#include <math.h>

float tapconv_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t bits = (uint32_t)(half & 0x7fffu) << 13;
    const uint32_t exponent = bits & 0x0f800000u;
    float value;
    if (exponent == 0x0f800000u) { /* Inf and NaN; a NaN becomes quiet, as the hardware's conversion makes it */
        bits += 0x70000000u;
        if (bits & 0x007fffffu) bits |= 0x00400000u;
    } else if (exponent == 0) { /* zero and subnormals: fraction * 2^-24, exact in float32 */
        value = (float)(half & 0x3ffu) * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
    } else {
        bits += 0x38000000u;
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to a format with `fraction` stored bits and least exponent `least` of a normal number, once, to nearest even.
 * Scaling by powers of two and adding half-way constants is exact in double for the narrow formats used here. */
static double round_to(double value, int fraction, int least)
{
    if (!(fabs(value) <= 1.7976931348623157e308) || value == 0) return value;
    int exponent;
    frexp(value, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    const double unit = ldexp(1.0, exponent - fraction);
    return nearbyint(value / unit) * unit;
}

uint16_t tapconv_f64_to_f16(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000u : 0;
    if (isnan(value)) return (uint16_t)(sign | 0x7e00u);
    const double rounded = fabs(round_to(value, 10, -14));
    if (rounded >= 65536.0) return (uint16_t)(sign | 0x7c00u);
    if (rounded < 0x1p-14) return (uint16_t)(sign | (uint16_t)(rounded * 0x1p24));
    int exponent;
    const double fraction = frexp(rounded, &exponent); /* in [1/2, 1) */
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((fraction * 2 - 1) * 1024));
}

uint16_t tapconv_f32_to_f16(float value)
{
    return tapconv_f64_to_f16(value);
}

uint16_t tapconv_f64_to_bf16(double value)
{
    /* After rounding to 8 significant bits the way through float32 is exact. */
    return tapconv_f32_to_bf16((float)round_to(value, 7, -126));
}

double tapconv_get(const void *array, tapconv_type type, int64_t index)
{
    switch (type) {
    case TAPCONV_F32: return ((const float *)array)[index];
    case TAPCONV_F64: return ((const double *)array)[index];
    case TAPCONV_F16: return tapconv_f16_to_f32(((const uint16_t *)array)[index]);
    case TAPCONV_BF16: return tapconv_bf16_to_f32(((const uint16_t *)array)[index]);
    }
    return 0;
}

void tapconv_set(void *array, tapconv_type type, int64_t index, double value)
{
    switch (type) {
    case TAPCONV_F32: ((float *)array)[index] = (float)value; break;
    case TAPCONV_F64: ((double *)array)[index] = value; break;
    case TAPCONV_F16: ((uint16_t *)array)[index] = tapconv_f64_to_f16(value); break;
    case TAPCONV_BF16: ((uint16_t *)array)[index] = tapconv_f64_to_bf16(value); break;
    }
}

tapconv_status tapconv_convert(void *destination, tapconv_type destination_type, const void *source,
                               tapconv_type source_type, int64_t count)
{
    if (!tapconv_type_name(destination_type))
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "destination_type is %d; it must be a tapconv_type",
                            (int)destination_type);
    if (!tapconv_type_name(source_type))
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "source_type is %d; it must be a tapconv_type", (int)source_type);
    if (count < 0) return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "count is %" PRId64 "; it must be 0 or more", count);
    if (count > 0 && !destination)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "destination is NULL; it must hold %" PRId64 " elements", count);
    if (count > 0 && !source)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "source is NULL; it must hold %" PRId64 " elements", count);
    if (destination_type == source_type) {
        if (count > 0) memcpy(destination, source, (size_t)count * tapconv_type_bytes(source_type));
        return TAPCONV_OK;
    }
    for (int64_t i = 0; i < count; i++)
        tapconv_set(destination, destination_type, i, tapconv_get(source, source_type, i));
    return TAPCONV_OK;
}

void tapconv_round_tf32(float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) values[i] = tapconv_f32_to_tf32(values[i]);
}
