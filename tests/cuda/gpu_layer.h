/* Layers for the GPU check: made at random, each from its number alone, with their arrays on the host and with what their
 * results may be. */
#ifndef GPU_LAYER_H
#define GPU_LAYER_H

#include "tapconv.h"

typedef struct gpu_layer {
    tapconv_problem p;
    int64_t out_length, x_count, w_count, y_count;
    void *x, *w, *bias, *gamma, *beta; /* NULL where the problem has none */
    int constant;                      /* every group of GroupNorm has equal values */
    int64_t misaligned;                /* elements that x and y lie behind a multiple of 256 bytes */
    char text[512];                    /* the problem as options of the command */
    /* For each element of y: what it is exactly, and how far off it may be in float32 before y's type rounds it. */
    double *exact, *tolerance;
} gpu_layer;

/* Layer `number` of a seed. Judging takes a few times as long as a plain loop over its products. */
gpu_layer gpu_layer_make(uint64_t seed, int64_t number);
void gpu_layer_judge(gpu_layer *layer);
void gpu_layer_free(gpu_layer *layer);

/* Compares y with the truth: the largest error as a part of what is allowed; above 1, `complaint` says where. */
double gpu_layer_compare(const gpu_layer *layer, const void *y, char complaint[256]);

/* The values of an array of any type, and the reverse, by tapconv_convert. */
double *gpu_widened(const void *array, tapconv_type type, int64_t count);
void *gpu_allocated(int64_t count, size_t size);

#endif
