/* Which engine a device has, and the public calls on devices. */
#include "engine.h"
#include "error.h"

#include <inttypes.h>

tapconv_status tapconv_engine_of(const tapconv_engine **engine, const tapconv_plan_options *o)
{
    const int cuda = o->device == TAPCONV_CUDA;
    if (o->device != TAPCONV_CPU && !cuda)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "device is %d; it must be a tapconv_device", (int)o->device);
    if (!cuda && o->device_index != 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "device_index is %" PRId32 "; it must be 0 for the cpu",
                            o->device_index);
    if (o->device_index < 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "device_index is %" PRId32 "; it must be 0 or more",
                            o->device_index);
    if (o->threads < 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "threads is %" PRId32 "; it must be 0 (one a core) or more",
                            o->threads);
    if (cuda && o->isa_mask != 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "isa_mask is 0x%" PRIx32 "; it must be 0 for a GPU", o->isa_mask);
    if (!cuda && o->card)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "card is \"%.40s\"; it must be NULL for the cpu", o->card);
    if (!cuda && o->engine_path)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "engine_path is \"%.200s\"; it must be NULL for the cpu",
                            o->engine_path);
    for (size_t i = 0; i < sizeof o->reserved / sizeof o->reserved[0]; i++)
        if (o->reserved[i] != 0)
            return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "options->reserved is %" PRId32 "; it must be 0",
                                o->reserved[i]);
    if (cuda) return tapconv_cuda_load(engine, o->engine_path);
    *engine = &tapconv_cpu_engine;
    return TAPCONV_OK;
}

/* The engine of a device that has a memory of its own; NULL, with the status, if there is none. */
static const tapconv_engine *find(const tapconv_plan_options *where, tapconv_status *status)
{
    const tapconv_engine *engine = NULL;
    if (!where)
        *status = tapconv_fail(TAPCONV_INVALID_ARGUMENT, "where is NULL; it must point to a tapconv_plan_options");
    else if (where->device == TAPCONV_CPU)
        *status = tapconv_fail(TAPCONV_INVALID_ARGUMENT, "device is the cpu; it must be TAPCONV_CUDA");
    else
        *status = tapconv_engine_of(&engine, where);
    return *status == TAPCONV_OK ? engine : NULL;
}

static tapconv_status refuse_null(const char *name)
{
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is NULL; it must point to memory", name);
}

const char *tapconv_kernel_name(int32_t index)
{
    return index < 0 ? NULL : tapconv_cpu_engine.kernel_name(index);
}

const char *tapconv_device_kernel_name(const tapconv_plan_options *where, int32_t index)
{
    tapconv_status status;
    if (!where || where->device == TAPCONV_CPU) return tapconv_kernel_name(index);
    const tapconv_engine *engine = index >= 0 ? find(where, &status) : NULL;
    return engine ? engine->kernel_name(index) : NULL;
}

const char *tapconv_card_name(const tapconv_plan_options *where, int32_t index)
{
    tapconv_status status;
    const tapconv_engine *engine = index >= 0 ? find(where, &status) : NULL;
    return engine ? engine->card_name(index) : NULL;
}

tapconv_status tapconv_device_count(const tapconv_plan_options *where, int32_t *count)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    if (!engine) return status;
    return count ? engine->count(count) : refuse_null("count");
}

tapconv_status tapconv_device_describe(const tapconv_plan_options *where, tapconv_device_info *info)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    if (!engine) return status;
    return info ? engine->describe(where->device_index, info) : refuse_null("info");
}

tapconv_status tapconv_device_allocate(const tapconv_plan_options *where, void **memory, size_t bytes)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    if (!engine) return status;
    return memory ? engine->allocate(where->device_index, memory, bytes) : refuse_null("memory");
}

tapconv_status tapconv_device_free(const tapconv_plan_options *where, void *memory)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    return engine && memory ? engine->release(where->device_index, memory) : status;
}

tapconv_status tapconv_device_upload(const tapconv_plan_options *where, void *memory, const void *host, size_t bytes)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    if (!engine || bytes == 0) return status;
    if (!memory || !host) return refuse_null(memory ? "host" : "memory");
    return engine->upload(where->device_index, memory, host, bytes);
}

tapconv_status tapconv_device_download(const tapconv_plan_options *where, void *host, const void *memory, size_t bytes)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    if (!engine || bytes == 0) return status;
    if (!memory || !host) return refuse_null(memory ? "host" : "memory");
    return engine->download(where->device_index, host, memory, bytes);
}

tapconv_status tapconv_device_fill(const tapconv_plan_options *where, void *memory, uint8_t byte, size_t bytes)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    if (!engine || bytes == 0) return status;
    return memory ? engine->fill(where->device_index, memory, byte, bytes) : refuse_null("memory");
}

tapconv_status tapconv_device_synchronize(const tapconv_plan_options *where)
{
    tapconv_status status;
    const tapconv_engine *engine = find(where, &status);
    return engine ? engine->synchronize(where->device_index) : status;
}
