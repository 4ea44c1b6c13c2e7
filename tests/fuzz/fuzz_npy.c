/* Whatever the bytes, the .npy reader ends in a tensor or in a sentence. The first byte chooses the type to convert
 * to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "fuzz.h"
#include "memory.h"
#include "npy.h"

static void check_tensor(const tensor *t, tapconv_type wanted)
{
    /* Reads every byte of what was promised, so that a sanitizer sees one too few. */
    const unsigned char *bytes = t->data;
    const size_t size = (size_t)tensor_count(t) * tapconv_type_bytes(t->type);
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++) sum += bytes[i];
    if (t->type != wanted || t->dimensions < 0 || t->dimensions > TENSOR_MOST_DIMENSIONS || sum > 255 * size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tapconv_type types[] = {TAPCONV_F32, TAPCONV_F64, TAPCONV_F16, TAPCONV_BF16};
    if (size < 2) return 0;
    const tapconv_type type = types[data[0] % 4];
    /* fmemopen wants memory that it may write to. */
    char *copy = malloc(size - 1);
    if (copy == NULL) return 0;
    memcpy(copy, data + 1, size - 1);
    FILE *file = fmemopen(copy, size - 1, "rb");
    if (file == NULL) abort();
    tensor t = {0};
    const int failed = npy_read_stream(&t, file, type, (data[0] & 4) != 0);
    if (failed == 0 && t.data != NULL) check_tensor(&t, type);
    if (failed != 0 && (t.data != NULL || failure_text()[0] == '\0' || strchr(failure_text(), '\n') != NULL)) abort();
    memory_release(t.data);
    fclose(file);
    free(copy);
    return 0;
}
