/* What plan.c and device.c know of an engine: a table of functions. The CUDA engine's comes out of a shared object. */
#ifndef TAPCONV_ENGINE_H
#define TAPCONV_ENGINE_H

#include "problem.h"

typedef struct tapconv_engine {
    /* Of the shared object that the table comes from: it is for this library only if both are the library's own. */
    size_t table_bytes;
    const char *version;

    /* Packed weights are in the host's memory, and can be looked at. */
    int32_t packs_on_host;
    size_t packed_alignment;

    /* Each takes what `plan` made. Arguments were checked by plan.c. */
    tapconv_status (*plan)(void **made, const tapconv_shape *shape, const tapconv_plan_options *options);
    void (*destroy)(void *made);
    /* kernel, reason, isa, workspace_bytes, threads and how a GPU is used; the rest is filled by plan.c. */
    void (*info)(const void *made, tapconv_plan_info *info);
    size_t (*packed_bytes)(const void *made);
    tapconv_status (*pack)(const void *made, const void *w, void *packed, void *stream);
    tapconv_status (*execute)(const void *made, const tapconv_arrays *arrays);
    const char *(*kernel_name)(int32_t index);
    tapconv_status (*ceilings)(const tapconv_plan_options *options, tapconv_math math, tapconv_ceilings *ceilings);

    /* Devices with a memory of their own; all NULL for the CPU. See tapconv_device_... in tapconv.h. */
    const char *(*card_name)(int32_t index);
    tapconv_status (*count)(int32_t *count);
    tapconv_status (*describe)(int32_t device, tapconv_device_info *info);
    tapconv_status (*allocate)(int32_t device, void **memory, size_t bytes);
    tapconv_status (*release)(int32_t device, void *memory);
    tapconv_status (*upload)(int32_t device, void *memory, const void *host, size_t bytes);
    tapconv_status (*download)(int32_t device, void *host, const void *memory, size_t bytes);
    tapconv_status (*fill)(int32_t device, void *memory, uint8_t byte, size_t bytes);
    tapconv_status (*synchronize)(int32_t device);
    tapconv_status (*time)(const void *made, const tapconv_arrays *arrays, int32_t sets, uint32_t flags,
                           int32_t executes, double *seconds, int32_t samples);
} tapconv_engine;

extern const tapconv_engine tapconv_cpu_engine;

/* device.c: checks the options and finds their device's engine; `*engine` is set only on success. */
tapconv_status tapconv_engine_of(const tapconv_engine **engine, const tapconv_plan_options *options);

/* cuda_loader.c: the CUDA engine from `path`, or from beside the library where that is NULL. */
tapconv_status tapconv_cuda_load(const tapconv_engine **engine, const char *path);

/* The one symbol of the engine's shared object. `keep_sentence` takes a failed call's sentence for tapconv_last_error(). */
#define TAPCONV_CUDA_ENTRY "tapconv_cuda_engine_entry"
typedef const tapconv_engine *tapconv_cuda_entry(void (*keep_sentence)(const char *sentence));

#define TAPCONV_TEXT_OF_(x) #x
#define TAPCONV_TEXT_OF(x) TAPCONV_TEXT_OF_(x)
#define TAPCONV_VERSION_TEXT                                                                                           \
    TAPCONV_TEXT_OF(TAPCONV_VERSION_MAJOR)                                                                             \
    "." TAPCONV_TEXT_OF(TAPCONV_VERSION_MINOR) "." TAPCONV_TEXT_OF(TAPCONV_VERSION_PATCH)

#endif
