#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numbers.h"
#include "output.h"
#include "text.h"

static bool first_key;

static void write_string(const char *text)
{
    putchar('"');
    while (*text != '\0') {
        const size_t length = text_character_bytes(text);
        if (length == 0)
            putchar('?');
        else if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned)*text);
        else
            fwrite(text, 1, length, stdout);
        text += length > 0 ? length : 1;
    }
    putchar('"');
}

static void write_key(const char *key)
{
    if (!first_key) fputs(", ", stdout);
    first_key = false;
    write_string(key);
    fputs(": ", stdout);
}

void json_begin(void)
{
    putchar('{');
    first_key = true;
}

int json_end(void)
{
    puts("}");
    return output_flush();
}

void json_string(const char *key, const char *value)
{
    write_key(key);
    if (value != NULL)
        write_string(value);
    else
        fputs("null", stdout);
}

void json_integer(const char *key, int64_t value)
{
    write_key(key);
    printf("%" PRId64, value);
}

void json_real(const char *key, double value)
{
    char text[32];
    write_key(key);
    fputs(isfinite(value) ? format_real(text, value) : "null", stdout);
}

void json_bool(const char *key, bool value)
{
    write_key(key);
    fputs(value ? "true" : "false", stdout);
}

void json_null(const char *key)
{
    json_string(key, NULL);
}

void json_integers(const char *key, const int64_t *values, int count)
{
    write_key(key);
    putchar('[');
    for (int i = 0; i < count; i++) printf("%s%" PRId64, i > 0 ? ", " : "", values[i]);
    putchar(']');
}

void json_strings(const char *key, const char *const *values, int count)
{
    write_key(key);
    putchar('[');
    for (int i = 0; i < count; i++) {
        if (i > 0) fputs(", ", stdout);
        write_string(values[i]);
    }
    putchar(']');
}

void json_begin_object(const char *key)
{
    write_key(key);
    json_begin();
}

void json_end_object(void)
{
    putchar('}');
    first_key = false;
}
