/* What the checks of kernel slots share. check_slots.c calls each check for every instruction set and real type. */
#ifndef TAPCONV_TESTS_SLOTS_H
#define TAPCONV_TESTS_SLOTS_H

#include "cpu/kernels.h"
#include "cpu/slabs.h"
#include "support.h"

typedef struct slots {
    const tapconv_isa *isa;
    const tapconv_real_kernels *real;
    tapconv_type type; /* the real one: f32 or f64 */
    const char *name;  /* "avx512 f32" */
} slots;

/* Each checks its slots once, with random sizes and values. */
void check_tiles(const slots *s);
void check_thin(const slots *s);
void check_rows(const slots *s);
void check_load(const slots *s);
void check_taps(const slots *s);
void check_phases(const slots *s);
void check_emit(const slots *s);
void check_moments(const slots *s);
void check_peak(const slots *s);
void check_stream_copy(const slots *s);

/* Half a unit in the last place of 1. */
static inline double slot_eps(const slots *s)
{
    return s->type == TAPCONV_F64 ? 0x1p-53 : 0x1p-24;
}

/* `count` values of the real type; the buffer begins at a random element. */
check_buffer slot_values(const slots *s, int64_t count, double (*value)(void));
/* Room for `count` results, poisoned; with `aligned` at a multiple of the vector. */
check_buffer slot_results(const slots *s, int64_t count, int aligned);

/* a*b + c as the instruction set does it: rounded once, or twice by the scalar one. */
double slot_fma(const slots *s, double a, double b, double c);
/* a + b in the real type. */
double slot_add(const slots *s, double a, double b);

/* ------------------------------------------------------------------------------------------------- sums of products */
/* What a tile computes, for one output: its terms in order, cut into slabs. */
typedef struct slot_sum {
    double exact, size; /* in long double, rounded; sum of magnitudes */
    double canonical;   /* as the contract's order gives it */
} slot_sum;

/* Terms in channels of kernel_size taps, of which only [first, end) count. */
typedef struct slot_taps {
    int64_t kernel_size, first, end;
} slot_taps;

/* The tap that the canonical order has at a place of a sum; where taps are left out, the sum holds whole channels. */
static inline int64_t slot_tap(const slot_taps *taps, int64_t place, int64_t steps)
{
    const int64_t term = steps % taps->kernel_size == 0 ? tapconv_slab_term(taps->kernel_size, place, steps) : place;
    return term % taps->kernel_size;
}

/* x[offset[i] + column] meets w[i*w_step], i < steps, in slabs, without taps in a single one. partial and bias may be
 * NULL. */
slot_sum slot_sum_of(const slots *s, const void *x, int64_t column, const int32_t *offset, const void *w,
                     int64_t w_step, int64_t steps, const slot_taps *taps, const double *partial, const double *bias);

#endif
