/* The options of every call. One table (option_table.c), in the canonical order, drives parsing, --help and the
 * canonical problem text. */
#ifndef TAPCONV_CLI_OPTIONS_H
#define TAPCONV_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tapconv.h"

/* The calls, as bits of the masks in the table. */
enum { CALL_RUN = 1, CALL_CHECK = 2, CALL_BENCH = 4, CALL_EXPLAIN = 8, CALL_INFO = 16 };

/* The table's rows, in the canonical order. */
typedef enum option_id {
    OPTION_X,
    OPTION_W,
    OPTION_B,
    OPTION_SHAPE,
    OPTION_OUT_CHANNELS,
    OPTION_KERNEL,
    OPTION_BIAS,
    OPTION_STRIDE,
    OPTION_DILATION,
    OPTION_GROUPS,
    OPTION_PADDING,
    OPTION_CAUSAL,
    OPTION_NORM_GROUPS,
    OPTION_GAMMA,
    OPTION_BETA,
    OPTION_EPS,
    OPTION_AFFINE,
    OPTION_ACTIVATION,
    OPTION_MATH,
    OPTION_LAYOUT,
    OPTION_DEVICE,
    OPTION_THREADS,
    OPTION_ISA,
    OPTION_FORCE_KERNEL,
    OPTION_O,
    OPTION_JSON,
    OPTION_SUITE,
    OPTION_SEED,
    OPTION_SEEDS,
    OPTION_ATOL,
    OPTION_RTOL,
    OPTION_AGAINST,
    OPTION_RUNS,
    OPTION_MIN_TIME,
    OPTION_PLAIN,
    OPTION_COUNT
} option_id;

#define MOST_SIZE (INT64_MAX / 64) /* that the library can count, of samples, channels, taps and items */
#define DEVICE_CPU (-1)            /* else the index of a CUDA device */
#define CHOICE_NONE (-1)           /* for isa and kernel_family: the library chooses */

typedef struct options {
    const char *x, *w, *b, *gamma, *beta, *o, *suite, *against; /* files, or NULL */
    int64_t shape[3];                                           /* N, C_in, T */
    int64_t out_channels, kernel;
    int64_t stride, dilation, groups;
    int64_t padding[2]; /* left, right */
    int64_t norm_groups;
    double eps;
    int64_t activation, math, layout; /* values of tapconv.h's enumerations */
    int64_t device;
    const char *card;           /* of --device cuda:NAME: a card that is described, not there; else NULL */
    int64_t threads;            /* 0: one a core */
    int64_t isa, kernel_family; /* isa: the number of its bit */
    int64_t seed, seeds;        /* seeds 0: as many as the call does by itself */
    double atol, rtol;          /* below 0: the math mode's own */
    int64_t runs;               /* 0: as many as min_time takes */
    double min_time;            /* seconds */
    bool bias, causal, affine, json, plain;
    const char *given[OPTION_COUNT]; /* an option's text ("" for one without a value), NULL where it was left out */
} options;

/* All defaults, nothing given. */
options options_default(void);

/* Reads words into `o`, over what is there. An option given twice must be given alike. The strings are kept, not
 * copied. */
int options_parse(options *o, int call, int count, char *const words[]);

/* Whether the options make a whole for the call. `suite_base`: they stand beside --suite, and the problem is in it. */
int options_check(const options *o, int call, bool suite_base);

/* Reads a suite's line over `o`, which holds what stands beside --suite, and checks the whole. */
int options_parse_line(options *o, int call, int count, char *const words[]);

/* The canonical text of a problem: the options that describe it, in the table's order, defaults left out. */
void options_write_problem(FILE *out, const options *o);

/* The same as a string to free, NULL when there is no memory (the failure is kept). */
char *options_problem_text(const options *o);

/* What --help prints about the options. */
void options_write_help(FILE *out);

const char *option_name(option_id id);

/* The name of a call: "run" for CALL_RUN. */
const char *call_name(int call);

#endif
