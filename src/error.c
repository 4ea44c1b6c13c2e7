#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[512];

tapconv_status tapconv_fail(tapconv_status status, const char *format, ...)
{
    char text[sizeof sentence]; /* an argument may be the last sentence */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* A caller's string is repeated in it: still one line, and nothing that a terminal obeys. */
    for (size_t i = 0; i == 0 || text[i - 1] != '\0'; i++) {
        const unsigned char c = (unsigned char)text[i];
        sentence[i] = c != '\0' && (c < ' ' || c == 0x7f) ? '?' : text[i];
    }
    return status;
}

const char *tapconv_last_error(void)
{
    return sentence;
}
