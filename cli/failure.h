/* The one sentence that a failing command prints, and its exit status. Functions that can fail return 0 or the status
 * and leave the sentence here; main prints it. */
#ifndef TAPCONV_CLI_FAILURE_H
#define TAPCONV_CLI_FAILURE_H

#include "tapconv.h"

enum {
    EXIT_DONE = 0,
    EXIT_CHECK_FAILED = 1, /* a check outside its tolerance */
    EXIT_BAD_INPUT = 2,    /* wrong usage, or a file that is not what it should be */
    EXIT_CANNOT = 3        /* the machine could not: memory, disk, device */
};

/* Keeps the sentence (control characters replaced, so that it stays one line) and returns `status`. */
__attribute__((format(printf, 2, 3))) int fail(int status, const char *format, ...);

/* The sentence for a library call that failed: the library's own, behind `context`. */
int fail_library(tapconv_status status, const char *context);

/* Puts "text: " before the sentence, for failures inside a file: "suite.txt:3". Returns `status`. */
int fail_within(int status, const char *text);

const char *failure_text(void);

#endif
