/* NumPy's .npy files: versions 1.0 to 3.0; float16, float32 and float64 in either byte order and either memory order.
 * Whatever is in a file, reading it ends in a tensor or in a sentence, and takes no more memory than the file fills. */
#ifndef TAPCONV_CLI_NPY_H
#define TAPCONV_CLI_NPY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tapconv.h"

#define TENSOR_MOST_DIMENSIONS 3

/* A dense row-major array; no memory of its own when `data` is NULL. */
typedef struct tensor {
    int dimensions;
    int64_t shape[TENSOR_MOST_DIMENSIONS];
    tapconv_type type;
    void *data; /* from memory_get */
} tensor;

int64_t tensor_count(const tensor *t);

/* "(2,3,4)"; `text` has room for 80 characters. */
const char *tensor_shape_text(char *text, const tensor *t);

/* Reads the file, converting to `type`; with `sizes_only`, nothing but shape and type are set. `option` is for the
 * sentence: "-x". */
int npy_read(tensor *t, const char *option, const char *path, tapconv_type type, bool sizes_only);

/* The same from an open stream. The sentence does not name the file. */
int npy_read_stream(tensor *t, FILE *file, tapconv_type type, bool sizes_only);

/* Whether what is written to `path` goes where standard output goes, as /dev/stdout does in a pipe. */
bool npy_is_output(const char *path);

/* Whether `path` could be written, without touching anything. */
int npy_check_writable(const char *option, const char *path);

/* Writes a float32 or float64 tensor: into a temporary file beside `path`, then renamed, so that `path` is complete or
 * as it was. What is no regular file (a device, a pipe) is written to directly. */
int npy_write(const tensor *t, const char *option, const char *path);

#endif
