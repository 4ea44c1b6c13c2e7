/* Whole problems through the public interface: made at random, run between guards, judged by the oracle. */
#ifndef TAPCONV_TESTS_LAYERS_H
#define TAPCONV_TESTS_LAYERS_H

#include "problem.h"
#include "support.h"

/* A problem with its arrays, of its types. */
typedef struct layer {
    tapconv_shape shape;
    int exact;                            /* every sum is exact: only the type of y rounds */
    check_buffer x, w, bias, gamma, beta; /* poisoned guards around them show reads beyond; no data where not wanted */
} layer;

/* How to run it. */
typedef struct layer_call {
    uint32_t isa;
    const char *kernel; /* NULL: the planner's choice */
    int threads;
} layer_call;

/* The command line of a problem, and what it cannot say behind a '#'. */
const char *layer_text(const tapconv_problem *p, const layer_call *call);

/* Random normal values; with `integers` small integers, whose sums are exact in any order. */
layer layer_make(const tapconv_problem *p, int integers);
void layer_free(layer *l);

/* y of the layer, in a buffer of exactly its size; poisons y and the workspace, watches guards and inputs. 0 where the
 * family does not take the problem. */
int layer_run(const layer *l, const layer_call *call, check_buffer *y);

/* What y should be, and how far it may be off, element by element as y lies. */
typedef struct layer_truth {
    double *value, *tolerance;
} layer_truth;

layer_truth layer_truth_make(const layer *l);
void layer_truth_free(layer_truth *truth);

/* All of y, as it lies. */
check_lattice layer_all(const layer *l);
/* Runs the layer, where the family takes it, and compares the bits. */
void layer_expect_same(const layer *l, const layer_call *call, const check_buffer *want);
/* Every instruction set against the truth; every family and 1 to 3 threads for the same bits; then what else is
 * wanted. */
void layer_check(const layer *l, void (*also)(const layer *l, uint32_t isa, const check_buffer *y));

/* A random problem of at most about `work` multiplications. */
tapconv_problem layer_random_problem(double work);

#endif
