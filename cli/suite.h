/* Suites: many problems in a text file, a line each: a name, a colon, options. '#' starts a comment. Words with blanks
 * or '#' are quoted as in a shell: 'a b', "a b" or a\ b. */
#ifndef TAPCONV_CLI_SUITE_H
#define TAPCONV_CLI_SUITE_H

#include <stddef.h>

#include "options.h"

typedef struct suite_problem {
    const char *name;
    int line; /* of the file, from 1; 0 for a problem from the command line */
    options options;
} suite_problem;

typedef struct suite {
    suite_problem *problems;
    int64_t count;
    char *text; /* the names and values point into it */
} suite;

/* Reads options.suite, or makes a suite of the one problem that the command line describes. */
int suite_open(suite *s, const options *o, int call);

/* The same from `size` bytes of text, which it changes and points into; `text[size]` must be there and is set to 0. */
int suite_parse(suite *s, char *text, size_t size, const options *base, int call);

void suite_close(suite *s);

/* Puts the suite's name and the line before a failure's sentence. Returns `status`. */
int suite_fail_within(int status, const suite_problem *problem, const char *suite_name);

#endif
