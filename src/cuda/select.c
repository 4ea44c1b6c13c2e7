/* The table of families, best first. Where several take a layer they keep one order of the sum or are chosen by the layer
 * alone, so this decides speed and not bits. */
#include "cuda/select.h"

#include "error.h"

#include <string.h>

static const struct {
    const tapconv_cuda_family *family;
    int32_t major; /* compute capability that it has code for; 0: every one */
    const char *reason;
    const char *takes; /* for the sentence of a forced family that does not take the problem */
} rows[] = {
    {&tapconv_cuda_depthwise, 0, "one input channel an output channel: a copy with arithmetic on the way",
     "in_channels/groups 1 and fewer than 2^31 blocks"},
    {&tapconv_cuda_mma, 9, "Hopper's tensor cores: one staged window of the input serves all taps",
     "in_channels/groups and out_channels/groups from 16 on, in_channels/groups*kernel_size from 64 on, sizes below "
     "2^28, on Hopper"},
    {&tapconv_cuda_general, 0, "float32 multiply-adds, which take every problem on every card",
     "what a card can launch"},
};
#define ROWS ((int32_t)(sizeof rows / sizeof rows[0]))

static int runs_on(int32_t row, const tapconv_cuda_card *card)
{
    return rows[row].major == 0 || rows[row].major == card->major;
}

const char *tapconv_cuda_family_name(int32_t index)
{
    return index >= 0 && index < ROWS ? rows[index].family->name : NULL;
}

tapconv_status tapconv_cuda_select(const tapconv_shape *shape, const tapconv_cuda_card *card, const char *forced,
                                   const tapconv_cuda_family **family, const char **reason)
{
    for (int32_t i = 0; i < ROWS; i++) {
        if (forced && strcmp(forced, rows[i].family->name) != 0) continue;
        /* An empty batch has no sizes to judge by; it is not launched. */
        if (runs_on(i, card) && (shape->y_elements == 0 || rows[i].family->takes(shape, card))) {
            *family = rows[i].family;
            *reason = forced ? "asked for by name" : rows[i].reason;
            return TAPCONV_OK;
        }
        if (forced)
            return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "kernel is \"%s\", which takes %s; the card is %.60s", forced,
                                rows[i].takes, card->name);
    }
    if (forced)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "kernel is \"%.40s\"; it must be one of tapconv_device_kernel_name", forced);
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "the problem's sizes are beyond what %s can launch", card->name);
}

static size_t section_bytes(const tapconv_shape *shape, int32_t row)
{
    return (rows[row].family->packed_bytes(shape) + 255) / 256 * 256;
}

size_t tapconv_cuda_packed_bytes(const tapconv_shape *shape)
{
    return tapconv_cuda_packed_at(shape, NULL);
}

size_t tapconv_cuda_packed_at(const tapconv_shape *shape, const tapconv_cuda_family *family)
{
    size_t at = 0;
    for (int32_t i = 0; i < ROWS && rows[i].family != family; i++) at += section_bytes(shape, i);
    return at;
}

cudaError_t tapconv_cuda_pack(const tapconv_shape *shape, const tapconv_cuda_card *card, const void *w, void *packed,
                              cudaStream_t stream)
{
    char *section = packed;
    for (int32_t i = 0; i < ROWS; section += section_bytes(shape, i), i++) {
        if (section_bytes(shape, i) == 0 || !runs_on(i, card)) continue;
        const cudaError_t error = rows[i].family->pack(shape, w, section, stream);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
