/* What libFuzzer calls with each input; replay.c calls it with files. */
#ifndef TAPCONV_FUZZ_H
#define TAPCONV_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
