/* A layer with its arrays, filled with reproducible numbers, ready to execute. */
#ifndef LAYER_H
#define LAYER_H

#include <tapconv.h>

typedef struct layer {
    tapconv_problem problem;
    tapconv_plan *plan;
    tapconv_arrays arrays;
    void *x, *w, *packed, *bias, *gamma, *beta, *y, *workspace;
    size_t x_bytes, w_bytes, packed_bytes, y_bytes, workspace_bytes;
} layer;

/* Plans, allocates, fills (from `seed`) and packs; the test process ends, with a sentence, where that fails. */
layer layer_make(tapconv_problem problem, const tapconv_plan_options *options, unsigned seed);

/* Executes into a poisoned y and checks that it worked. */
void layer_run(layer *l);

void layer_free(layer *l);

/* malloc that ends the process instead of failing, and gives a pointer for 0 bytes too. */
void *must_malloc(size_t bytes);

/* `count` numbers of [-1, 1), of `type`, in memory to be freed. */
void *make_numbers(int64_t count, tapconv_type type, unsigned seed);

#endif
