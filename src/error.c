#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[512];

tapconv_status tapconv_fail(tapconv_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return status;
}

const char *tapconv_last_error(void)
{
    return sentence;
}
