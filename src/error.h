/* The sentence behind tapconv_last_error(). */
#ifndef TAPCONV_ERROR_H
#define TAPCONV_ERROR_H

#include "tapconv.h"

/* Formats the calling thread's sentence and returns `status`, so that `return tapconv_fail(...)` reads well. */
__attribute__((format(printf, 2, 3))) tapconv_status tapconv_fail(tapconv_status status, const char *format, ...);

#endif
