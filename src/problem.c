/* Validation: what is legal is decided here and nowhere else. Later code may form any product of two of x_elements,
 * w_elements and y_elements' factors without looking: the largest was checked here. */
#include "problem.h"

#include "error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes of any one array, and samples of a padded input, stay below this, so that small sums of them cannot overflow. */
#define MOST_ELEMENTS (INT64_MAX / 64)

static tapconv_status refuse(const char *field, int64_t value, const char *allowed)
{
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is %" PRId64 "; it must be %s", field, value, allowed);
}

/* `*product` *= factor (both >= 0); 0 if the product exceeds MOST_ELEMENTS. */
static int multiply(int64_t *product, int64_t factor)
{
    if (factor != 0 && *product > MOST_ELEMENTS / factor) return 0;
    *product *= factor;
    return 1;
}

static tapconv_status check_sizes(const tapconv_problem *p)
{
    if (p->batch < 0) return refuse("batch", p->batch, "0 or more");
    if (p->in_channels < 1) return refuse("in_channels", p->in_channels, "1 or more");
    if (p->out_channels < 1) return refuse("out_channels", p->out_channels, "1 or more");
    if (p->length < 0) return refuse("length", p->length, "0 or more");
    if (p->kernel_size < 1) return refuse("kernel_size", p->kernel_size, "1 or more");
    if (p->stride < 1) return refuse("stride", p->stride, "1 or more");
    if (p->dilation < 1) return refuse("dilation", p->dilation, "1 or more");
    if (p->groups < 1) return refuse("groups", p->groups, "1 or more");
    if (p->padding_left < 0) return refuse("padding_left", p->padding_left, "0 or more");
    if (p->padding_right < 0) return refuse("padding_right", p->padding_right, "0 or more");
    if (p->norm_groups < 0) return refuse("norm_groups", p->norm_groups, "0 (no GroupNorm) or more");
    if (p->in_channels % p->groups != 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "groups is %" PRId64 "; it must divide in_channels, %" PRId64,
                            p->groups, p->in_channels);
    if (p->out_channels % p->groups != 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "groups is %" PRId64 "; it must divide out_channels, %" PRId64,
                            p->groups, p->out_channels);
    if (p->norm_groups > 0 && p->out_channels % p->norm_groups != 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "norm_groups is %" PRId64 "; it must divide out_channels, %" PRId64, p->norm_groups,
                            p->out_channels);
    if (p->norm_groups > 0 && !(p->norm_eps >= 0 && p->norm_eps <= 1.7976931348623157e308))
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "norm_eps is %g; it must be 0 or more, and finite", p->norm_eps);
    return TAPCONV_OK;
}

static tapconv_status check_type_of_math(tapconv_math math, tapconv_type type)
{
    static const unsigned types_of_math[TAPCONV_MATH_COUNT] = {
        [TAPCONV_MATH_F32] = 1u << TAPCONV_F32 | 1u << TAPCONV_F16 | 1u << TAPCONV_BF16,
        [TAPCONV_MATH_TF32] = 1u << TAPCONV_F32 | 1u << TAPCONV_F16 | 1u << TAPCONV_BF16,
        [TAPCONV_MATH_F16] = 1u << TAPCONV_F16 | 1u << TAPCONV_F32,
        [TAPCONV_MATH_BF16] = 1u << TAPCONV_BF16 | 1u << TAPCONV_F32,
        [TAPCONV_MATH_F64] = 1u << TAPCONV_F32 | 1u << TAPCONV_F64 | 1u << TAPCONV_F16 | 1u << TAPCONV_BF16,
    };
    if ((types_of_math[math] >> type & 1u) != 0) return TAPCONV_OK;
    char taken[64] = "";
    for (int other = 0; other < TAPCONV_TYPE_COUNT; other++) {
        if ((types_of_math[math] >> other & 1u) == 0) continue;
        const size_t length = strlen(taken);
        snprintf(taken + length, sizeof taken - length, "%s%s", length > 0 ? ", " : "",
                 tapconv_type_name((tapconv_type)other));
    }
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "type is %s; with math %s it must be one of %s",
                        tapconv_type_name(type), tapconv_math_name(math), taken);
}

static tapconv_status refuse_choice(const char *field, int32_t value, int32_t count)
{
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is %" PRId32 "; it must be a tapconv_%s, 0 to %" PRId32, field,
                        value, field, count - 1);
}

static tapconv_status check_choices(const tapconv_problem *p)
{
    if (!tapconv_type_name(p->type)) return refuse_choice("type", (int32_t)p->type, TAPCONV_TYPE_COUNT);
    if (!tapconv_math_name(p->math)) return refuse_choice("math", (int32_t)p->math, TAPCONV_MATH_COUNT);
    if (!tapconv_layout_name(p->layout)) return refuse_choice("layout", (int32_t)p->layout, TAPCONV_LAYOUT_COUNT);
    if (!tapconv_activation_name(p->activation))
        return refuse_choice("activation", (int32_t)p->activation, TAPCONV_ACTIVATION_COUNT);
    if (p->param_type != p->type && p->param_type != TAPCONV_F32)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "param_type is %" PRId32 "; it must be type, %d (%s), or TAPCONV_F32, %d",
                            (int32_t)p->param_type, (int)p->type, tapconv_type_name(p->type), (int)TAPCONV_F32);
    const tapconv_status status = check_type_of_math(p->math, p->type);
    if (status != TAPCONV_OK) return status;
    if (p->has_bias != 0 && p->has_bias != 1) return refuse("has_bias", p->has_bias, "0 or 1");
    if (p->norm_affine != 0 && p->norm_affine != 1) return refuse("norm_affine", p->norm_affine, "0 or 1");
    if (p->norm_affine && p->norm_groups == 0)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "norm_affine is 1; it must be 0 where norm_groups is 0");
    for (size_t i = 0; i < sizeof p->reserved / sizeof p->reserved[0]; i++)
        if (p->reserved[i] != 0) return refuse("reserved", p->reserved[i], "0");
    return TAPCONV_OK;
}

static tapconv_status check_countable(const char *field, int64_t value)
{
    if (value <= MOST_ELEMENTS) return TAPCONV_OK;
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "%s is %" PRId64 "; it must be at most %" PRId64, field, value,
                        MOST_ELEMENTS);
}

static tapconv_status find_out_length(const tapconv_problem *p, int64_t *out_length)
{
    tapconv_status status = check_countable("kernel_size", p->kernel_size);
    if (status == TAPCONV_OK) status = check_countable("dilation", p->dilation);
    if (status != TAPCONV_OK) return status;
    int64_t reach = p->dilation;
    if (!multiply(&reach, p->kernel_size - 1))
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "dilation is %" PRId64 "; with kernel_size %" PRId64 " it must be at most %" PRId64
                            ", so that dilation*(kernel_size-1) is at most %" PRId64,
                            p->dilation, p->kernel_size, MOST_ELEMENTS / (p->kernel_size - 1), MOST_ELEMENTS);
    status = check_countable("length", p->length);
    if (status == TAPCONV_OK) status = check_countable("padding_left", p->padding_left);
    if (status == TAPCONV_OK) status = check_countable("padding_right", p->padding_right);
    if (status == TAPCONV_OK) status = check_countable("stride", p->stride);
    if (status != TAPCONV_OK) return status;
    const int64_t padded = p->padding_left + p->length + p->padding_right;
    if (padded < reach + 1)
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                            "length is %" PRId64 ", with padding %" PRId64
                            "; it must be at least dilation*(kernel_size-1)+1"
                            " = %" PRId64 " for an output sample to exist",
                            p->length, padded, reach + 1);
    *out_length = (padded - reach - 1) / p->stride + 1;
    return TAPCONV_OK;
}

static tapconv_status refuse_sizes(const char *array, const char *name_a, int64_t a, const char *name_b, int64_t b,
                                   const char *name_c, int64_t c)
{
    return tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                        "the sizes of %s (%s %" PRId64 ", %s %" PRId64 ", %s %" PRId64
                        ") are too large; it may have at most %" PRId64 " elements",
                        array, name_a, a, name_b, b, name_c, c, MOST_ELEMENTS);
}

tapconv_status tapconv_shape_from_problem(tapconv_shape *shape, const tapconv_problem *problem)
{
    if (!problem) return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "problem is NULL; it must point to a tapconv_problem");
    tapconv_status status = check_sizes(problem);
    if (status == TAPCONV_OK) status = check_choices(problem);
    tapconv_shape s = {.p = *problem};
    if (status == TAPCONV_OK) status = find_out_length(problem, &s.out_length);
    if (status != TAPCONV_OK) return status;

    s.group_in = s.p.in_channels / s.p.groups;
    s.group_out = s.p.out_channels / s.p.groups;
    s.norm_size = s.p.norm_groups ? s.p.out_channels / s.p.norm_groups : 1;
    s.sum_length = s.group_in;
    s.w_elements = s.p.out_channels;
    s.x_elements = s.p.batch;
    s.y_elements = s.p.batch;
    if (!multiply(&s.sum_length, s.p.kernel_size) || !multiply(&s.w_elements, s.sum_length))
        return refuse_sizes("w", "out_channels", s.p.out_channels, "in_channels/groups", s.group_in, "kernel_size",
                            s.p.kernel_size);
    /* Counted for a batch of one as well, because scratch memory is sized by item. */
    int64_t x_item = s.p.in_channels, y_item = s.p.out_channels;
    if (!multiply(&x_item, s.p.length) || !multiply(&s.x_elements, x_item))
        return refuse_sizes("x", "batch", s.p.batch, "in_channels", s.p.in_channels, "length", s.p.length);
    if (!multiply(&y_item, s.out_length) || !multiply(&s.y_elements, y_item))
        return refuse_sizes("y", "batch", s.p.batch, "out_channels", s.p.out_channels, "samples", s.out_length);
    *shape = s;
    return TAPCONV_OK;
}

tapconv_status tapconv_problem_check(const tapconv_problem *problem, int64_t *out_length)
{
    tapconv_shape shape = {.out_length = 0};
    const tapconv_status status = tapconv_shape_from_problem(&shape, problem);
    if (status == TAPCONV_OK && out_length) *out_length = shape.out_length;
    return status;
}

tapconv_problem tapconv_conv1d(int64_t batch, int64_t in_channels, int64_t out_channels, int64_t length,
                               int64_t kernel_size, int64_t padding)
{
    return (tapconv_problem){.batch = batch,
                             .in_channels = in_channels,
                             .out_channels = out_channels,
                             .length = length,
                             .kernel_size = kernel_size,
                             .stride = 1,
                             .dilation = 1,
                             .groups = 1,
                             .padding_left = padding,
                             .padding_right = padding,
                             .norm_eps = 1e-5};
}

tapconv_problem tapconv_causal_conv1d(int64_t batch, int64_t in_channels, int64_t out_channels, int64_t length,
                                      int64_t kernel_size, int64_t dilation)
{
    tapconv_problem p = tapconv_conv1d(batch, in_channels, out_channels, length, kernel_size, 0);
    p.dilation = dilation;
    /* A product that does not exist is refused, by its factors, when the problem is checked. */
    if (__builtin_mul_overflow(kernel_size - (kernel_size > 0), dilation, &p.padding_left)) p.padding_left = INT64_MAX;
    return p;
}

tapconv_problem tapconv_conv1d_groupnorm(int64_t batch, int64_t in_channels, int64_t out_channels, int64_t length,
                                         int64_t kernel_size, int64_t padding, int64_t norm_groups)
{
    tapconv_problem p = tapconv_conv1d(batch, in_channels, out_channels, length, kernel_size, padding);
    p.norm_groups = norm_groups;
    p.norm_affine = 1;
    return p;
}

static const char *name_from(const char *const *names, int count, int value)
{
    return value >= 0 && value < count ? names[value] : NULL;
}

const char *tapconv_type_name(tapconv_type type)
{
    static const char *const names[TAPCONV_TYPE_COUNT] = {"f32", "f64", "f16", "bf16"};
    return name_from(names, TAPCONV_TYPE_COUNT, (int)type);
}

const char *tapconv_math_name(tapconv_math math)
{
    static const char *const names[TAPCONV_MATH_COUNT] = {"f32", "tf32", "f16", "bf16", "f64"};
    return name_from(names, TAPCONV_MATH_COUNT, (int)math);
}

const char *tapconv_layout_name(tapconv_layout layout)
{
    static const char *const names[TAPCONV_LAYOUT_COUNT] = {"ncl", "nlc"};
    return name_from(names, TAPCONV_LAYOUT_COUNT, (int)layout);
}

const char *tapconv_activation_name(tapconv_activation activation)
{
    static const char *const names[TAPCONV_ACTIVATION_COUNT] = {"none", "relu", "silu",    "gelu", "gelu-tanh",
                                                                "mish", "tanh", "sigmoid", "elu",  "leaky-relu"};
    return name_from(names, TAPCONV_ACTIVATION_COUNT, (int)activation);
}

size_t tapconv_type_bytes(tapconv_type type)
{
    static const unsigned char bytes[TAPCONV_TYPE_COUNT] = {4, 8, 2, 2};
    return tapconv_type_name(type) ? bytes[type] : 0;
}

const char *tapconv_version(void)
{
#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
    return VERSION(TAPCONV_VERSION_MAJOR, TAPCONV_VERSION_MINOR, TAPCONV_VERSION_PATCH);
}
