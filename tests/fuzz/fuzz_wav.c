/* Whatever the bytes, the audio reader ends in a tensor or in a sentence. The first byte chooses type, order and how much
 * is wanted. The library that decodes opens names, so that the bytes lie in a file, in memory. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "failure.h"
#include "fuzz.h"
#include "memory.h"
#include "wav.h"

static void check_tensor(const tensor *t, tapconv_type wanted, bool interleaved, bool sizes_only)
{
    if (t->type != wanted || t->dimensions != 2 || t->shape[interleaved ? 1 : 0] < 1) abort();
    if (sizes_only != (t->data == NULL)) abort();
    if (t->data == NULL) return;
    const unsigned char *bytes = t->data;
    const size_t size = (size_t)tensor_count(t) * tapconv_type_bytes(t->type);
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++) sum += bytes[i];
    if (sum > 255 * size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tapconv_type types[] = {TAPCONV_F32, TAPCONV_F64, TAPCONV_F16, TAPCONV_BF16};
    if (size < 1) return 0;
    const tapconv_type type = types[data[0] % 4];
    const bool interleaved = (data[0] & 4) != 0, sizes_only = (data[0] & 8) != 0;
    const int file = memfd_create("audio", MFD_CLOEXEC);
    if (file < 0 || write(file, data + 1, size - 1) != (ssize_t)(size - 1)) abort();
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    tensor t = {0};
    if (wav_read(&t, "-x", path, type, interleaved, sizes_only) == 0) {
        check_tensor(&t, type, interleaved, sizes_only);
        memory_release(t.data);
    } else if (t.data != NULL || failure_text()[0] == '\0' || strchr(failure_text(), '\n') != NULL) {
        abort();
    }
    close(file);
    return 0;
}
