/* Audio input through libsndfile, where the build found it. */
#ifndef TAPCONV_CLI_WAV_H
#define TAPCONV_CLI_WAV_H

#include <stdbool.h>

#include "npy.h"

/* Whether the file's name ends in .wav. */
bool wav_is(const char *path);

/* Reads samples as (channels, T), or (T, channels) with `interleaved`; full scale is 1. As npy_read otherwise. */
int wav_read(tensor *t, const char *option, const char *path, tapconv_type type, bool interleaved, bool sizes_only);

#endif
