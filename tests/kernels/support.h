/* What all checks share: random numbers from a printed seed, buffers between guards, comparisons that NaN does not slip
 * through, and the count of what was compared. */
#ifndef TAPCONV_TESTS_SUPPORT_H
#define TAPCONV_TESTS_SUPPORT_H

#include "convert.h"

#include <stddef.h>
#include <stdint.h>

/* --seed N and --rounds N; `rounds` is the default of the latter. Prints the seed, and runs the self-test of all that
 * is declared below. */
int64_t check_begin(int argc, char **argv, int64_t rounds);
/* Prints the counts; the exit status: 1 after a failure, and where nothing was compared. */
int check_end(void);

/* The parameters that a failure prints. */
void check_context(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts a failure, and prints it with the context; after 20 they are only counted. Returns 0. */
int check_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts `count` comparisons. */
void check_passed(int64_t count);
/* Whether `ok`; counts it. */
#define CHECK(ok) ((ok) ? (check_passed(1), 1) : check_fail("%s:%d: %s", __FILE__, __LINE__, #ok))
int64_t check_failures(void);

/* ----------------------------------------------------------------------------------------------------------- random */
void check_seed(uint64_t seed);
uint64_t check_bits(void);
int64_t check_between(int64_t low, int64_t high); /* both included */
int check_chance(int64_t one_in);
double check_normal(void);
/* An integer of -4..4, so that sums of products are exact in any order. */
double check_small_integer(void);
/* NaN, infinities, zeros of both signs, subnormals, the largest: one of them, as bits of the type. */
void check_set_special(void *array, tapconv_type type, int64_t index);

/* ---------------------------------------------------------------------------------------------------------- buffers */
/* `bytes` at `data` between guards, all poisoned with NaNs (in every type) of different bits. */
typedef struct check_buffer {
    char *data;
    size_t bytes;
    void *memory;
} check_buffer;

/* `data` lies `misaligned` bytes behind a multiple of 64. */
check_buffer check_buffer_make(size_t bytes, size_t misaligned);
void check_buffer_free(check_buffer *buffer);
void check_buffer_poison(const check_buffer *buffer);
/* Whether the guards hold what they were poisoned with; fails naming the buffer otherwise. */
int check_guards(const check_buffer *buffer, const char *name);
/* Whether the element still holds its poison. */
int check_untouched(const check_buffer *buffer, size_t at, size_t size);
/* For inputs: equal before and after. */
uint64_t check_hash(const void *data, size_t bytes);

/* ------------------------------------------------------------------------------------------------------ comparisons */
/* NaN wants NaN, an infinity itself, anything else |got - want| <= tolerance. */
int check_close(double got, double want, double tolerance);
/* Equal as bits, except that NaNs may differ. */
int check_same(const void *got, const void *want, tapconv_type type);

/* rows x count elements of a buffer, [r*row + i*step]; all other elements must be untouched. Up to `slack` more
 * elements of each row may be written with anything. */
typedef struct check_lattice {
    tapconv_type type;
    int64_t rows, row, count, step, slack;
} check_lattice;

/* Compares with want (rows x count) within tolerances (the same; NULL: exactly, as values); guards too. */
int check_values(const check_buffer *buffer, const check_lattice *lattice, const double *want, const double *tolerance);
/* Compares with want (rows x count, of the lattice's type) as bits; guards too. */
int check_same_values(const check_buffer *buffer, const check_lattice *lattice, const void *want);

#endif
