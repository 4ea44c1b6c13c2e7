/* What every failed call of the library must leave. */
#ifndef TAPCONV_FUZZ_EXPECT_H
#define TAPCONV_FUZZ_EXPECT_H

#include "tapconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s; %s\n", __FILE__, __LINE__, #condition, tapconv_last_error());          \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A known status, and with a failure one line of text. */
static inline void expect_sentence(tapconv_status status)
{
    EXPECT(status >= TAPCONV_OK && status <= TAPCONV_DEVICE_ERROR);
    if (status == TAPCONV_OK) return;
    const char *const sentence = tapconv_last_error();
    EXPECT(sentence[0] != '\0' && strchr(sentence, '\n') == NULL);
}

#endif
