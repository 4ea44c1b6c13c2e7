#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

static char sentence[6000];

/* File names and values come from anywhere: a newline in one must not make two lines of the sentence, and bytes that
 * are no text must not upset a terminal. */
static void keep_to_one_line(char *text)
{
    while (*text != '\0') {
        const size_t length = text_character_bytes(text);
        if (length == 0 || (unsigned char)*text < 0x20 || *text == 0x7f)
            *text++ = '?';
        else
            text += length;
    }
}

int fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    keep_to_one_line(sentence);
    return status;
}

int fail_library(tapconv_status status, const char *context)
{
    return fail(status == TAPCONV_INVALID_ARGUMENT ? EXIT_BAD_INPUT : EXIT_CANNOT, "%s: %s", context,
                tapconv_last_error());
}

int fail_within(int status, const char *text)
{
    char inner[sizeof sentence];
    memcpy(inner, sentence, sizeof inner);
    return fail(status, "%s: %s", text, inner);
}

const char *failure_text(void)
{
    return sentence;
}
