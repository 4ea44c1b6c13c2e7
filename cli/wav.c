#include "wav.h"

#include <string.h>
#include <strings.h>

#include "failure.h"

bool wav_is(const char *path)
{
    const size_t length = strlen(path);
    return length >= 4 && strcasecmp(path + length - 4, ".wav") == 0;
}

#if TAPCONV_CLI_HAS_SNDFILE

#include <sndfile.h>

#include "memory.h"

#define CHUNK_FRAMES INT64_C(65536)

/* A header may promise any number of frames: memory grows with what is read. Returns the frames, -1 on failure. */
static int64_t read_frames(SNDFILE *file, int64_t channels, double **frames)
{
    int64_t have = 0, room = CHUNK_FRAMES;
    *frames = NULL;
    for (;;) {
        double *larger = memory_resize(*frames, room * channels, sizeof(double), "the samples");
        if (larger == NULL) return -1;
        *frames = larger;
        const sf_count_t got = sf_readf_double(file, larger + have * channels, room - have);
        if (got <= 0) return have;
        have += got;
        if (have == room) room *= 2;
    }
}

static int read_open(tensor *t, SNDFILE *file, const SF_INFO *info, tapconv_type type, bool interleaved,
                     bool sizes_only)
{
    double *frames = NULL;
    const int64_t channels = info->channels;
    /* Even for the sizes alone everything is read: only then is it known how many frames there are. */
    const int64_t count = read_frames(file, channels, &frames);
    int failed = count < 0 ? EXIT_CANNOT : 0;
    if (failed == 0) {
        *t = (tensor){.dimensions = 2, .type = type};
        t->shape[interleaved ? 1 : 0] = channels;
        t->shape[interleaved ? 0 : 1] = count;
    }
    if (failed == 0 && !sizes_only) {
        double *ordered = interleaved ? frames : memory_get(count * channels, sizeof(double), "the samples by channel");
        t->data = memory_get(count * channels, tapconv_type_bytes(type), "the samples");
        if (ordered == NULL || t->data == NULL) failed = EXIT_CANNOT;
        for (int64_t i = 0; failed == 0 && !interleaved && i < count * channels; i++) {
            ordered[i % channels * count + i / channels] = frames[i];
        }
        if (failed == 0) {
            const tapconv_status status = tapconv_convert(t->data, type, ordered, TAPCONV_F64, count * channels);
            if (status != TAPCONV_OK) failed = fail_library(status, "converting");
        }
        if (!interleaved) memory_release(ordered);
        if (failed != 0) {
            memory_release(t->data);
            t->data = NULL;
        }
    }
    memory_release(frames);
    return failed;
}

int wav_read(tensor *t, const char *option, const char *path, tapconv_type type, bool interleaved, bool sizes_only)
{
    SF_INFO info = {0};
    *t = (tensor){0};
    SNDFILE *file = sf_open(path, SFM_READ, &info);
    if (file == NULL) {
        return fail(EXIT_BAD_INPUT, "%s %.4000s cannot be read: %s; allowed: audio that libsndfile reads", option, path,
                    sf_strerror(NULL));
    }
    const int failed = read_open(t, file, &info, type, interleaved, sizes_only);
    sf_close(file);
    return failed;
}

#else

int wav_read(tensor *t, const char *option, const char *path, tapconv_type type, bool interleaved, bool sizes_only)
{
    (void)type;
    (void)interleaved;
    (void)sizes_only;
    *t = (tensor){0};
    return fail(EXIT_BAD_INPUT, "%s %.4000s is audio, and this build is without libsndfile; allowed: .npy files",
                option, path);
}

#endif
