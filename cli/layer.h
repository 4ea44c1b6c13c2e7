/* A problem with its arrays: from files, or random by seed. */
#ifndef TAPCONV_CLI_LAYER_H
#define TAPCONV_CLI_LAYER_H

#include "npy.h"
#include "options.h"

typedef struct layer {
    tapconv_problem problem; /* x, w and y in the type of the math mode: f32, f64, f16 or bf16 */
    int64_t out_length;
    bool unbatched;                 /* x has no N, and y has none either */
    bool is_random;                 /* some array depends on the seed */
    tensor x, w, bias, gamma, beta; /* dimensions 0: the problem has none */
} layer;

/* Reads the files and takes memory for what is random; with `sizes_only` there are no arrays, only their shapes. */
int layer_open(layer *l, const options *o, bool sizes_only);

/* Fills what comes from no file: x normal(0, 1); w and bias uniform in +-1/sqrt(C_in/groups*K), as PyTorch initialises
 * them; gamma uniform in 0.5..1.5, beta in +-0.5. */
void layer_randomize(layer *l, const options *o, int64_t seed);

/* The shape of y, of the given type, without data. */
tensor layer_output(const layer *l, tapconv_type type);

void layer_close(layer *l);

#endif
