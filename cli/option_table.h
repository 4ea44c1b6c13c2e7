/* The one table of the options: what each is called, takes, and where it may stand. */
#ifndef TAPCONV_CLI_OPTION_TABLE_H
#define TAPCONV_CLI_OPTION_TABLE_H

#include "options.h"

typedef enum option_kind {
    KIND_FILE,
    KIND_FLAG,
    KIND_INTEGER,
    KIND_REAL,
    KIND_SHAPE,
    KIND_PADDING,
    KIND_CHOICE,
    KIND_DEVICE
} option_kind;

/* The calls that have a problem. */
enum { PROBLEM_CALLS = CALL_RUN | CALL_CHECK | CALL_BENCH | CALL_EXPLAIN };

/* Where an option may stand: in the canonical text of a problem, in a suite's line, beside --suite. */
enum { IN_PROBLEM = 1, IN_SUITE = 2, BESIDE_SUITE = 4 };

typedef struct option_row {
    const char *name, *argument;
    option_kind kind;
    size_t field;                         /* where the value stands in struct options */
    int calls;                            /* that take the option */
    int places;                           /* IN_PROBLEM ... */
    int64_t least;                        /* of KIND_INTEGER and KIND_REAL */
    int64_t most;                         /* of KIND_INTEGER */
    const char *(*choice)(int64_t value); /* of KIND_CHOICE: the name of a value, NULL beyond the last */
    const char *help;
} option_row;

extern const option_row option_rows[OPTION_COUNT];

/* What an option's value may be, for error sentences and --help. */
void option_write_allowed(FILE *out, const option_row *option);

/* The names of the calls in a mask: "check, bench". */
void option_calls_text(int mask, char *text, size_t size);

/* An option's value as text, in both directions. */
bool option_read(const option_row *option, options *o, const char *text);
void option_write(FILE *out, const option_row *option, const options *o);

/* The name of a kernel family, of the CPU engine's and then of the CUDA engine's; NULL beyond the last. */
const char *option_family_name(int64_t index);

bool option_is_default(const option_row *option, const options *o, const options *defaults);

#endif
