/* One JSON object a line on standard output. Between json_begin and json_end, a call for each key. */
#ifndef TAPCONV_CLI_JSON_H
#define TAPCONV_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>

void json_begin(void);
int json_end(void); /* 0, or the status where standard output cannot be written */

void json_string(const char *key, const char *value); /* NULL: null; bytes that are no UTF-8 become '?' */
void json_integer(const char *key, int64_t value);
void json_real(const char *key, double value); /* null where JSON has no number: NaN and infinities */
void json_bool(const char *key, bool value);
void json_null(const char *key);
void json_integers(const char *key, const int64_t *values, int count);
void json_strings(const char *key, const char *const *values, int count);

void json_begin_object(const char *key);
void json_end_object(void);

#endif
