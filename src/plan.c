/* The public interface of plans: arguments are checked here, then the device's engine does the work. */
#include "engine.h"
#include "error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tapconv_plan {
    const tapconv_engine *engine;
    void *made;
    tapconv_shape shape;
    tapconv_plan_info info;
};

/* In front of packed weights in the host's memory, so that those of another layer are noticed. */
typedef struct packed_header {
    char magic[8];
    int64_t out_channels, group_in, groups, kernel_size;
    int32_t type, math;
} packed_header;

/* Keeps what follows at the alignment of a cache line, if the buffer has it. */
#define HEADER_BYTES 64
_Static_assert(sizeof(packed_header) <= HEADER_BYTES, "the header fits its place");

static size_t header_bytes(const tapconv_plan *plan)
{
    return plan->engine->packs_on_host ? HEADER_BYTES : 0;
}

static packed_header header_of(const tapconv_plan *plan)
{
    const tapconv_problem *p = &plan->shape.p;
    return (packed_header){.magic = "tapconv",
                           .out_channels = p->out_channels,
                           .group_in = plan->shape.group_in,
                           .groups = p->groups,
                           .kernel_size = p->kernel_size,
                           .type = (int32_t)p->type,
                           .math = (int32_t)p->math};
}

tapconv_status tapconv_plan_create(tapconv_plan **plan, const tapconv_problem *problem,
                                   const tapconv_plan_options *options)
{
    static const tapconv_plan_options defaults;
    const tapconv_engine *engine = NULL;
    tapconv_shape shape;
    void *made;
    if (!plan) return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "plan is NULL; it must point to where the plan goes");
    if (!options) options = &defaults;
    tapconv_status status = tapconv_shape_from_problem(&shape, problem);
    if (status == TAPCONV_OK) status = tapconv_engine_of(&engine, options);
    if (status != TAPCONV_OK) return status;

    tapconv_plan *result = calloc(1, sizeof *result);
    if (!result) return tapconv_fail(TAPCONV_OUT_OF_MEMORY, "no memory for a plan of %zu bytes", sizeof *result);
    status = engine->plan(&made, &shape, options);
    if (status != TAPCONV_OK) {
        free(result);
        return status;
    }
    const double outputs = (double)shape.y_elements, sum = (double)shape.sum_length;
    const double size = (double)tapconv_type_bytes(shape.p.type),
                 param = (double)tapconv_type_bytes(shape.p.param_type);
    const double params = (double)(shape.p.has_bias + 2 * shape.p.norm_affine) * (double)shape.p.out_channels;
    *result =
        (tapconv_plan){.engine = engine, .made = made, .shape = shape, .info = {.isa = "", .device = "", .tile = ""}};
    engine->info(made, &result->info);
    result->info.out_length = shape.out_length;
    result->info.flops = 2 * outputs * sum;
    result->info.bytes = size * ((double)shape.x_elements + (double)shape.w_elements + outputs) + param * params;
    result->info.packed_weights_bytes = header_bytes(result) + engine->packed_bytes(made);
    *plan = result;
    return TAPCONV_OK;
}

void tapconv_plan_destroy(tapconv_plan *plan)
{
    if (!plan) return;
    plan->engine->destroy(plan->made);
    free(plan);
}

void tapconv_plan_get_info(const tapconv_plan *plan, tapconv_plan_info *info)
{
    if (plan && info) *info = plan->info;
}

size_t tapconv_packed_weights_bytes(const tapconv_plan *plan)
{
    return plan ? plan->info.packed_weights_bytes : 0;
}

size_t tapconv_workspace_bytes(const tapconv_plan *plan)
{
    return plan ? plan->info.workspace_bytes : 0;
}

tapconv_status tapconv_measure_ceilings(const tapconv_plan_options *options, tapconv_math math,
                                        tapconv_ceilings *ceilings)
{
    static const tapconv_plan_options defaults;
    const tapconv_engine *engine = NULL;
    if (!ceilings) return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "ceilings is NULL; it must point to where they go");
    if (!tapconv_math_name(math))
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "math is %d; it must be a tapconv_math", (int)math);
    if (!options) options = &defaults;
    const tapconv_status status = tapconv_engine_of(&engine, options);
    return status == TAPCONV_OK ? engine->ceilings(options, math, ceilings) : status;
}

static tapconv_status refuse_null(const char *name, const char *what)
{
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is NULL; it must point to %s", name, what);
}

static tapconv_status check_alignment(const char *name, const void *pointer, size_t alignment)
{
    if ((uintptr_t)pointer % alignment == 0) return TAPCONV_OK;
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is %p; it must be a multiple of %zu bytes", name, pointer,
                        alignment);
}

tapconv_status tapconv_pack_weights(const tapconv_plan *plan, const void *w, void *packed, size_t packed_bytes)
{
    return tapconv_pack_weights_on(plan, w, packed, packed_bytes, NULL);
}

tapconv_status tapconv_pack_weights_on(const tapconv_plan *plan, const void *w, void *packed, size_t packed_bytes,
                                       void *stream)
{
    if (!plan) return refuse_null("plan", "a plan");
    if (!w) return refuse_null("w", "the weights");
    if (!packed) return refuse_null("packed", "tapconv_packed_weights_bytes of memory");
    tapconv_status status = check_alignment("w", w, tapconv_type_bytes(plan->shape.p.type));
    if (status == TAPCONV_OK) status = check_alignment("packed", packed, plan->engine->packed_alignment);
    if (status != TAPCONV_OK) return status;
    if (packed_bytes < plan->info.packed_weights_bytes)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "packed_bytes is %zu; it must be %zu at least", packed_bytes,
                            plan->info.packed_weights_bytes);
    if (plan->engine->packs_on_host) {
        const packed_header header = header_of(plan);
        memset(packed, 0, HEADER_BYTES);
        memcpy(packed, &header, sizeof header);
    }
    return plan->engine->pack(plan->made, w, (char *)packed + header_bytes(plan), stream);
}

static tapconv_status check_array(const char *name, const void *array, int wanted, tapconv_type type)
{
    if (!wanted && array)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is %p; it must be NULL, the problem has none", name, array);
    if (wanted && !array) return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is NULL; the problem has one", name);
    return check_alignment(name, array, tapconv_type_bytes(type));
}

static int overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

/* Nothing that is written may overlap anything else. */
static tapconv_status check_overlaps(const tapconv_plan *plan, const tapconv_arrays *a)
{
    const tapconv_problem *p = &plan->shape.p;
    const size_t size = tapconv_type_bytes(p->type);
    const size_t params = (size_t)p->out_channels * tapconv_type_bytes(p->param_type);
    const struct {
        const char *name;
        const void *array;
        size_t bytes;
    } arrays[] = {
        {"y", a->y, (size_t)plan->shape.y_elements * size},
        {"workspace", a->workspace, plan->info.workspace_bytes},
        {"x", a->x, (size_t)plan->shape.x_elements * size},
        {"packed_weights", a->packed_weights, plan->info.packed_weights_bytes},
        {"bias", a->bias, a->bias ? params : 0},
        {"gamma", a->gamma, a->gamma ? params : 0},
        {"beta", a->beta, a->beta ? params : 0},
    };
    for (size_t i = 0; i < 2; i++)
        for (size_t j = i + 1; j < sizeof arrays / sizeof arrays[0]; j++)
            if (overlap(arrays[i].array, arrays[i].bytes, arrays[j].array, arrays[j].bytes))
                return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s, %p, overlaps %s, %p; they must be apart",
                                    arrays[i].name, arrays[i].array, arrays[j].name, arrays[j].array);
    return TAPCONV_OK;
}

static tapconv_status check_packed(const tapconv_plan *plan, const void *packed)
{
    packed_header found;
    const packed_header wanted = header_of(plan);
    memcpy(&found, packed, sizeof found);
    if (memcmp(found.magic, wanted.magic, sizeof wanted.magic) != 0)
        return tapconv_fail(
            TAPCONV_INVALID_ARGUMENT,
            "packed_weights is %p, which holds no packed weights; it must come from tapconv_pack_weights", packed);
    if (memcmp(&found, &wanted, sizeof wanted) != 0)
        return tapconv_fail(
            TAPCONV_INVALID_ARGUMENT,
            "packed_weights are of a layer with out_channels %" PRId64 ", in_channels/groups %" PRId64
            ", groups %" PRId64 ", kernel_size %" PRId64 ", type %s, math %s; they must be of this one",
            found.out_channels, found.group_in, found.groups, found.kernel_size,
            tapconv_type_name((tapconv_type)found.type) ? tapconv_type_name((tapconv_type)found.type) : "?",
            tapconv_math_name((tapconv_math)found.math) ? tapconv_math_name((tapconv_math)found.math) : "?");
    return TAPCONV_OK;
}

static tapconv_status check_arrays(const tapconv_plan *plan, const tapconv_arrays *arrays)
{
    if (!arrays) return refuse_null("arrays", "a tapconv_arrays");
    const tapconv_problem *p = &plan->shape.p;
    tapconv_status status = TAPCONV_OK;
    if (plan->shape.x_elements > 0 || arrays->x) status = check_array("x", arrays->x, 1, p->type);
    if (status == TAPCONV_OK) status = check_array("packed_weights", arrays->packed_weights, 1, TAPCONV_F64);
    if (status == TAPCONV_OK)
        status = check_alignment("packed_weights", arrays->packed_weights, plan->engine->packed_alignment);
    if (status == TAPCONV_OK) status = check_array("bias", arrays->bias, p->has_bias, p->param_type);
    if (status == TAPCONV_OK) status = check_array("gamma", arrays->gamma, p->norm_affine, p->param_type);
    if (status == TAPCONV_OK) status = check_array("beta", arrays->beta, p->norm_affine, p->param_type);
    if (status == TAPCONV_OK && (plan->shape.y_elements > 0 || arrays->y))
        status = check_array("y", arrays->y, 1, p->type);
    if (status != TAPCONV_OK) return status;
    for (size_t i = 0; i < sizeof arrays->reserved / sizeof arrays->reserved[0]; i++)
        if (arrays->reserved[i])
            return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "arrays->reserved is %p; it must be NULL",
                                arrays->reserved[i]);
    if (plan->info.workspace_bytes > 0 && !arrays->workspace)
        return refuse_null("workspace", "tapconv_workspace_bytes of memory");
    if (arrays->workspace_bytes < plan->info.workspace_bytes)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "workspace_bytes is %zu; it must be %zu at least",
                            arrays->workspace_bytes, plan->info.workspace_bytes);
    if (plan->engine->packs_on_host) status = check_packed(plan, arrays->packed_weights);
    return status == TAPCONV_OK ? check_overlaps(plan, arrays) : status;
}

tapconv_status tapconv_execute(const tapconv_plan *plan, const tapconv_arrays *arrays)
{
    if (!plan) return refuse_null("plan", "a plan");
    const tapconv_status status = check_arrays(plan, arrays);
    if (status != TAPCONV_OK || plan->shape.y_elements == 0) return status;
    tapconv_arrays inner = *arrays;
    inner.packed_weights = (const char *)arrays->packed_weights + header_bytes(plan);
    return plan->engine->execute(plan->made, &inner);
}

tapconv_status tapconv_device_time(const tapconv_plan *plan, const tapconv_arrays *arrays, int32_t sets, uint32_t flags,
                                   int32_t executes, double *seconds, int32_t samples)
{
    if (!plan) return refuse_null("plan", "a plan");
    if (!plan->engine->time)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "plan is of the cpu; it must be of a CUDA device");
    if (!seconds) return refuse_null("seconds", "where the times go");
    const struct {
        const char *name;
        int32_t value;
    } counts[] = {{"sets", sets}, {"executes", executes}, {"samples", samples}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value < 1)
            return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is %" PRId32 "; it must be 1 at least", counts[i].name,
                                counts[i].value);
    if (flags & ~(TAPCONV_TIME_GRAPH | TAPCONV_TIME_COLD))
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "flags is 0x%" PRIx32 "; it must be made of TAPCONV_TIME_...",
                            flags);
    if (!arrays) return refuse_null("arrays", "a tapconv_arrays");
    for (int32_t i = 0; i < sets; i++) {
        const tapconv_status status = check_arrays(plan, &arrays[i]);
        if (status != TAPCONV_OK) return status;
    }
    return plan->engine->time(plan->made, arrays, sets, flags, executes, seconds, samples);
}
