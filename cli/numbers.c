#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the digits at *text and moves behind them. */
static bool take_int64(const char **text, int64_t *value)
{
    const char *digit = *text;
    const bool negative = *digit == '-';
    if (negative) digit++;
    if (*digit < '0' || *digit > '9') return false;
    int64_t number = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        const int64_t units = *digit - '0';
        if (__builtin_mul_overflow(number, 10, &number)) return false;
        if (__builtin_add_overflow(number, negative ? -units : units, &number)) return false;
    }
    *text = digit;
    *value = number;
    return true;
}

bool parse_int64(const char *text, int64_t *value)
{
    return take_int64(&text, value) && *text == '\0';
}

bool parse_list(const char *text, int64_t *values, int count)
{
    for (int i = 0; i < count; i++) {
        if (i > 0 && *text++ != ',') return false;
        if (!take_int64(&text, &values[i])) return false;
    }
    return *text == '\0';
}

bool parse_real(const char *text, double *value)
{
    /* strtod alone would take blanks in front, hexadecimal, "nan" and "infinity". */
    if (*text == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') return false;
    char *end;
    *value = strtod(text, &end);
    /* A number too small for a double would become another one, 0. */
    const size_t mantissa = strcspn(text, "eE");
    const bool is_zero = strcspn(text, "123456789") >= mantissa;
    return *end == '\0' && isfinite(*value) && (*value != 0) == !is_zero;
}

const char *format_real(char *text, double value)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return text;
}
