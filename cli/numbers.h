/* Numbers as text. Reading is strict: nothing before, nothing after, nothing out of range. */
#ifndef TAPCONV_CLI_NUMBERS_H
#define TAPCONV_CLI_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

bool parse_int64(const char *text, int64_t *value);

/* `count` integers with commas between. */
bool parse_list(const char *text, int64_t *values, int count);

/* A decimal number that a double can hold: finite, and 0 only where the text says 0. */
bool parse_real(const char *text, double *value);

/* The shortest decimal text that reads back as the same number; `text` has room for 32 characters. */
const char *format_real(char *text, double value);

#endif
