#include "layer.h"

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *must_malloc(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (memory) return memory;
    fprintf(stderr, "no memory for %zu bytes\n", bytes);
    exit(1);
}

static void must(tapconv_status status)
{
    if (status == TAPCONV_OK) return;
    fprintf(stderr, "the layer cannot be made: %s\n", tapconv_last_error());
    exit(1);
}

void *make_numbers(int64_t count, tapconv_type type, unsigned seed)
{
    float *numbers = must_malloc((size_t)count * sizeof *numbers);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        numbers[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
    }
    void *converted = must_malloc((size_t)count * tapconv_type_bytes(type));
    must(tapconv_convert(converted, type, numbers, TAPCONV_F32, count));
    free(numbers);
    return converted;
}

layer layer_make(tapconv_problem p, const tapconv_plan_options *options, unsigned seed)
{
    layer l = {.problem = p};
    int64_t out_length;
    must(tapconv_problem_check(&p, &out_length));
    must(tapconv_plan_create(&l.plan, &p, options));
    const size_t bytes = tapconv_type_bytes(p.type);
    const int64_t x_count = p.batch * p.in_channels * p.length, y_count = p.batch * p.out_channels * out_length;
    const int64_t w_count = p.out_channels * (p.in_channels / p.groups) * p.kernel_size;
    l.x_bytes = (size_t)x_count * bytes;
    l.w_bytes = (size_t)w_count * bytes;
    l.y_bytes = (size_t)y_count * bytes;
    l.packed_bytes = tapconv_packed_weights_bytes(l.plan);
    l.workspace_bytes = tapconv_workspace_bytes(l.plan);
    l.x = make_numbers(x_count, p.type, seed);
    l.w = make_numbers(w_count, p.type, seed + 1);
    if (p.has_bias) l.bias = make_numbers(p.out_channels, p.param_type, seed + 2);
    if (p.norm_affine) l.gamma = make_numbers(p.out_channels, p.param_type, seed + 3);
    if (p.norm_affine) l.beta = make_numbers(p.out_channels, p.param_type, seed + 4);
    l.y = must_malloc(l.y_bytes);
    l.packed = must_malloc(l.packed_bytes);
    l.workspace = must_malloc(l.workspace_bytes);
    must(tapconv_pack_weights(l.plan, l.w, l.packed, l.packed_bytes));
    l.arrays = (tapconv_arrays){.x = l.x,
                                .packed_weights = l.packed,
                                .bias = l.bias,
                                .gamma = l.gamma,
                                .beta = l.beta,
                                .y = l.y,
                                .workspace = l.workspace,
                                .workspace_bytes = l.workspace_bytes};
    return l;
}

void layer_run(layer *l)
{
    memset(l->y, 0xff, l->y_bytes);
    CHECK_OK(tapconv_execute(l->plan, &l->arrays));
}

void layer_free(layer *l)
{
    tapconv_plan_destroy(l->plan);
    void *const all[] = {l->x, l->w, l->packed, l->bias, l->gamma, l->beta, l->y, l->workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}
