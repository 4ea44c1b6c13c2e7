#include "layers.h"

#include "support/problem_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(int64_t count, size_t size)
{
    void *const memory = calloc((size_t)count + 1, size);
    if (memory) return memory;
    printf("no memory for %" PRId64 " elements\n", count);
    exit(1);
}

const char *layer_text(const tapconv_problem *p, const layer_call *call)
{
    static char text[768];
    const size_t n = problem_text(text, sizeof text, p);
    if (call)
        snprintf(text + n, sizeof text - n, ", threads %d, isa %s, kernel %s", call->threads,
                 tapconv_isa_name(call->isa), call->kernel ? call->kernel : "chosen");
    return text;
}

static check_buffer make_array(int64_t count, tapconv_type type, int integers, double scale, double offset)
{
    const size_t size = tapconv_type_bytes(type);
    check_buffer b = check_buffer_make((size_t)count * size, (size_t)check_between(0, 15) * size);
    for (int64_t i = 0; i < count; i++)
        tapconv_set(b.data, type, i, integers ? check_small_integer() : offset + scale * check_normal());
    return b;
}

layer layer_make(const tapconv_problem *p, int integers)
{
    layer l = {.exact = integers && p->norm_groups == 0 && p->activation == TAPCONV_ACT_NONE};
    if (tapconv_shape_from_problem(&l.shape, p) != TAPCONV_OK) {
        printf("an illegal problem: %s\n", tapconv_last_error());
        exit(1);
    }
    const double scale = 1 / sqrt((double)l.shape.sum_length);
    l.x = make_array(l.shape.x_elements, p->type, integers, 1, check_chance(4) ? 2 : 0);
    l.w = make_array(l.shape.w_elements, p->type, integers, scale, 0);
    if (p->has_bias) l.bias = make_array(p->out_channels, p->param_type, integers, 1, 0);
    if (p->norm_affine) l.gamma = make_array(p->out_channels, p->param_type, integers, 1, 1);
    if (p->norm_affine) l.beta = make_array(p->out_channels, p->param_type, integers, 1, 0);
    return l;
}

void layer_free(layer *l)
{
    check_buffer *const all[] = {&l->x, &l->w, &l->bias, &l->gamma, &l->beta};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) check_buffer_free(all[i]);
}

static uint64_t hash_inputs(const layer *l)
{
    const check_buffer *const all[] = {&l->x, &l->w, &l->bias, &l->gamma, &l->beta};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->data) hash = hash * 31 + check_hash(all[i]->data, all[i]->bytes);
    return hash;
}

int layer_run(const layer *l, const layer_call *call, check_buffer *y)
{
    const tapconv_problem *p = &l->shape.p;
    const tapconv_plan_options options = {.threads = call->threads, .isa_mask = call->isa, .kernel = call->kernel};
    const size_t size = tapconv_type_bytes(p->type);
    tapconv_plan *plan;
    check_context("%s", layer_text(p, call));
    *y = check_buffer_make((size_t)l->shape.y_elements * size, (size_t)check_between(0, 15) * size);
    if (tapconv_plan_create(&plan, p, &options) != TAPCONV_OK) {
        if (!call->kernel || strcmp(call->kernel, "dense-panel") == 0) check_fail("no plan: %s", tapconv_last_error());
        return 0;
    }
    check_buffer packed = check_buffer_make(tapconv_packed_weights_bytes(plan), 8 * (size_t)check_between(0, 7));
    check_buffer work = check_buffer_make(tapconv_workspace_bytes(plan), (size_t)check_between(1, 63));
    const uint64_t before = hash_inputs(l);
    CHECK(tapconv_pack_weights(plan, l->w.data, packed.data, packed.bytes) == TAPCONV_OK);
    const uint64_t packed_before = check_hash(packed.data, packed.bytes);
    const tapconv_arrays arrays = {.x = l->x.data,
                                   .packed_weights = packed.data,
                                   .bias = l->bias.data,
                                   .gamma = l->gamma.data,
                                   .beta = l->beta.data,
                                   .y = y->data,
                                   .workspace = work.data,
                                   .workspace_bytes = work.bytes};
    if (tapconv_execute(plan, &arrays) != TAPCONV_OK) check_fail("execute: %s", tapconv_last_error());
    CHECK(hash_inputs(l) == before);
    CHECK(check_hash(packed.data, packed.bytes) == packed_before);
    check_guards(y, "y");
    check_guards(&work, "the workspace");
    check_guards(&packed, "packed weights");
    check_buffer_free(&packed);
    check_buffer_free(&work);
    tapconv_plan_destroy(plan);
    return 1;
}

/* ------------------------------------------------------------------------------------------------------------ truth */
/* An operand as the math mode uses it. */
static double rounded_operand(double value, const tapconv_problem *p)
{
    if (p->type == TAPCONV_F64 || p->math == TAPCONV_MATH_F64) return value;
    switch (p->math) {
    case TAPCONV_MATH_TF32: return tapconv_f32_to_tf32((float)value);
    case TAPCONV_MATH_F16: return tapconv_f16_to_f32(tapconv_f32_to_f16((float)value));
    case TAPCONV_MATH_BF16: return tapconv_bf16_to_f32(tapconv_f32_to_bf16((float)value));
    default: return value;
    }
}

static double *widened(const check_buffer *from, tapconv_type type, int64_t count, const tapconv_problem *operand,
                       int magnitude)
{
    double *const to = allocate(count, sizeof *to);
    for (int64_t i = 0; i < count; i++) {
        const double value = tapconv_get(from->data, type, i);
        to[i] = operand ? rounded_operand(value, operand) : value;
        if (magnitude) to[i] = fabs(to[i]);
    }
    return to;
}

/* How far the nearest value of a type may be from `value`. */
static double output_rounding(tapconv_type type, double value)
{
    switch (type) {
    case TAPCONV_F32: return fabs(value) * 0x1p-24 + 0x1p-150;
    case TAPCONV_F64: return fabs(value) * 0x1p-53 + 0x1p-1074;
    case TAPCONV_F16: return fabs(value) * 0x1p-11 + 0x1p-25;
    case TAPCONV_BF16: return fabs(value) * 0x1p-8 + 0x1p-134;
    }
    return 0;
}

/* Where output (item, channel, time) lies. */
static int64_t place(const tapconv_shape *s, int64_t item, int64_t channel, int64_t time)
{
    const int64_t base = item * s->p.out_channels * s->out_length;
    return base + (s->p.layout == TAPCONV_NCL ? channel * s->out_length + time : time * s->p.out_channels + channel);
}

/* Turns the error of a convolution, element by element, into that of its normalised values. A mean is off by no more
 * than the largest error, a spread by no more than the root of the mean square of errors. */
static void carry_through_norm(const layer *l, const double *conv, double *tolerance, double eps)
{
    const tapconv_shape *s = &l->shape;
    const double count = (double)s->norm_size * (double)s->out_length;
    for (int64_t pair = 0; pair < s->p.batch * s->p.norm_groups; pair++) {
        const int64_t item = pair / s->p.norm_groups, first = pair % s->p.norm_groups * s->norm_size;
        double sum = 0, magnitudes = 0, squares = 0, most = 0;
#define EACH_OF_GROUP                                                                                                  \
    for (int64_t c = first; c < first + s->norm_size; c++)                                                             \
        for (int64_t t = 0, at; t < s->out_length && (at = place(s, item, c, t), 1); t++)
        EACH_OF_GROUP sum += conv[at], magnitudes += fabs(conv[at]), most = fmax(most, tolerance[at]);
        const double mean = sum / count;
        EACH_OF_GROUP squares += (conv[at] - mean) * (conv[at] - mean);
        /* Statistics are in float64; so are the oracle's, whose sums are plain. */
        most += magnitudes * 0x1p-53;
        const double spread = sqrt(squares / count + s->p.norm_eps), least = spread - most;
        EACH_OF_GROUP
        {
            const double gamma = s->p.norm_affine ? tapconv_get(l->gamma.data, s->p.param_type, c) : 1;
            const double beta = s->p.norm_affine ? tapconv_get(l->beta.data, s->p.param_type, c) : 0;
            const double distance = fabs(conv[at] - mean);
            const double value = (tolerance[at] + most) / least + distance * most / (spread * least);
            tolerance[at] =
                least > 0 ? fabs(gamma) * value + 8 * eps * (fabs(gamma) * distance / spread + fabs(beta)) : INFINITY;
        }
    }
}

layer_truth layer_truth_make(const layer *l)
{
    const tapconv_shape *s = &l->shape;
    const tapconv_problem *p = &s->p;
    const double eps = p->math == TAPCONV_MATH_F64 ? 0x1p-53 : 0x1p-24;
    /* Both sides round in float64 there. */
    const double terms = (4 + sqrt((double)s->sum_length)) * eps * (p->math == TAPCONV_MATH_F64 ? 2 : 1);
    double *const x = widened(&l->x, p->type, s->x_elements, p, 0), *const w =
                                                                        widened(&l->w, p->type, s->w_elements, p, 0);
    double *const x_size = widened(&l->x, p->type, s->x_elements, p, 1), *const w_size = widened(&l->w, p->type,
                                                                                                 s->w_elements, p, 1);
    double *const bias = p->has_bias ? widened(&l->bias, p->param_type, p->out_channels, NULL, 0) : NULL;
    double *const bias_size = p->has_bias ? widened(&l->bias, p->param_type, p->out_channels, NULL, 1) : NULL;
    double *const gamma = p->norm_affine ? widened(&l->gamma, p->param_type, p->out_channels, NULL, 0) : NULL;
    double *const beta = p->norm_affine ? widened(&l->beta, p->param_type, p->out_channels, NULL, 0) : NULL;
    layer_truth truth = {allocate(s->y_elements, sizeof(double)), allocate(s->y_elements, sizeof(double))};

    tapconv_problem wide = *p, conv = *p;
    wide.type = wide.param_type = TAPCONV_F64, wide.math = TAPCONV_MATH_F64;
    conv = wide;
    conv.norm_groups = 0, conv.norm_affine = 0, conv.activation = TAPCONV_ACT_NONE;
    int ok = tapconv_reference(&conv, x_size, w_size, bias_size, NULL, NULL, truth.tolerance) == TAPCONV_OK;
    /* Every operation may also round to a subnormal. */
    const double least = eps == 0x1p-24 ? 0x1p-149 : 0x1p-1074;
    for (int64_t i = 0; i < s->y_elements; i++)
        truth.tolerance[i] = truth.tolerance[i] * terms + least * ((double)s->sum_length + 2);
    if (p->norm_groups > 0) {
        ok = ok && tapconv_reference(&conv, x, w, bias, NULL, NULL, truth.value) == TAPCONV_OK;
        carry_through_norm(l, truth.value, truth.tolerance, eps);
    }
    ok = ok && tapconv_reference(&wide, x, w, bias, gamma, beta, truth.value) == TAPCONV_OK;
    if (!ok) check_fail("the reference: %s", tapconv_last_error());
    for (int64_t i = 0; i < s->y_elements; i++) {
        double most = l->exact ? 0 : truth.tolerance[i];
        /* The activation of an infinity is exact. */
        if (p->norm_groups == 0 && isinf(most)) most = 0;
        /* No activation is steeper than 1.13, and each is within 2 ulp. */
        if (p->activation != TAPCONV_ACT_NONE) most = most * 1.13 + fabs(truth.value[i]) * 6 * eps + 4 * least;
        truth.tolerance[i] = (most + output_rounding(p->type, fabs(truth.value[i]) + most)) * 1.0000001;
        double stored[1];
        tapconv_set(stored, p->type, 0, truth.value[i]);
        if (isinf(tapconv_get(stored, p->type, 0))) truth.value[i] = copysign(INFINITY, truth.value[i]);
    }
    double *const all[] = {x, w, x_size, w_size, bias, bias_size, gamma, beta};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
    return truth;
}

void layer_truth_free(layer_truth *truth)
{
    free(truth->value);
    free(truth->tolerance);
}

/* ------------------------------------------------------------------------------------------------------- everywhere */
check_lattice layer_all(const layer *l)
{
    return (check_lattice){.type = l->shape.p.type, .rows = 1, .count = l->shape.y_elements, .step = 1};
}

void layer_expect_same(const layer *l, const layer_call *call, const check_buffer *want)
{
    const check_lattice all = layer_all(l);
    check_buffer y;
    if (layer_run(l, call, &y)) check_same_values(&y, &all, want->data);
    check_buffer_free(&y);
}

void layer_check(const layer *l, void (*also)(const layer *l, uint32_t isa, const check_buffer *y))
{
    layer_truth truth = layer_truth_make(l);
    const check_lattice all = layer_all(l);
    for (uint32_t isa = 1; isa != 0; isa <<= 1) {
        if (!(tapconv_cpu_features() & isa)) continue;
        const layer_call call = {.isa = isa, .threads = 1};
        const char *name;
        check_buffer y;
        if (layer_run(l, &call, &y)) {
            check_values(&y, &all, truth.value, truth.tolerance);
            for (int i = 0; (name = tapconv_kernel_name(i)); i++) {
                const layer_call other = {.isa = isa, .kernel = name, .threads = (int)check_between(1, 3)};
                layer_expect_same(l, &other, &y);
            }
            if (also) also(l, isa, &y);
        }
        check_buffer_free(&y);
    }
    layer_truth_free(&truth);
}

/* ----------------------------------------------------------------------------------------------------------- random */
static int64_t pick_channels(void)
{
    static const int64_t ugly[] = {1, 1, 2, 3, 5, 7, 8, 13, 16, 31, 67, 97, 131};
    return ugly[check_between(0, (int64_t)(sizeof ugly / sizeof ugly[0]) - 1)];
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static int64_t pick_divisor(int64_t n)
{
    int64_t d = check_chance(4) ? n : check_between(1, n);
    while (n % d != 0) d--;
    return d;
}

/* Everything but sizes. */
static void pick_options(tapconv_problem *p)
{
    static const struct {
        tapconv_type type;
        tapconv_math math;
    } legal[] = {
        {TAPCONV_F32, TAPCONV_MATH_F32},   {TAPCONV_F32, TAPCONV_MATH_F32},   {TAPCONV_F32, TAPCONV_MATH_F32},
        {TAPCONV_F32, TAPCONV_MATH_TF32},  {TAPCONV_F32, TAPCONV_MATH_F16},   {TAPCONV_F32, TAPCONV_MATH_BF16},
        {TAPCONV_F32, TAPCONV_MATH_F64},   {TAPCONV_F16, TAPCONV_MATH_F32},   {TAPCONV_F16, TAPCONV_MATH_TF32},
        {TAPCONV_F16, TAPCONV_MATH_F16},   {TAPCONV_F16, TAPCONV_MATH_F64},   {TAPCONV_BF16, TAPCONV_MATH_F32},
        {TAPCONV_BF16, TAPCONV_MATH_BF16}, {TAPCONV_BF16, TAPCONV_MATH_TF32}, {TAPCONV_BF16, TAPCONV_MATH_F64},
        {TAPCONV_F64, TAPCONV_MATH_F64},   {TAPCONV_F64, TAPCONV_MATH_F64},
    };
    const int64_t which = check_between(0, (int64_t)(sizeof legal / sizeof legal[0]) - 1);
    p->type = legal[which].type, p->math = legal[which].math;
    p->param_type = check_chance(2) ? p->type : TAPCONV_F32;
    p->layout = check_chance(3) ? TAPCONV_NLC : TAPCONV_NCL;
    p->has_bias = check_chance(2);
    if (check_chance(2)) p->activation = (tapconv_activation)check_between(0, TAPCONV_ACTIVATION_COUNT - 1);
    if (p->norm_groups == 0 && check_chance(2)) p->norm_groups = pick_divisor(p->out_channels);
    if (p->norm_groups > 0) p->norm_affine = check_chance(2);
    if (p->norm_groups > 0 && check_chance(3)) p->norm_eps = 1e-3;
}

static tapconv_problem pick_sizes(void)
{
    tapconv_problem p =
        tapconv_conv1d(check_between(0, 5), pick_channels(), pick_channels(), check_between(1, 700), 1, 0);
    switch (check_between(0, 10)) {
    case 0: /* short */
        p.length = check_between(0, 12), p.batch = check_between(1, 40);
        p.kernel_size = check_between(1, 5), p.stride = check_between(1, 3);
        break;
    case 1: /* taps far apart */
        p.in_channels = check_between(1, 5), p.out_channels = check_between(1, 9);
        p.kernel_size = check_between(2, 4), p.dilation = check_chance(2) ? 100000 : check_between(500, 70000);
        p.padding_left = (p.kernel_size - 1) * p.dilation - check_between(0, 300),
        p.padding_right = check_between(0, 300);
        p.stride = check_between(1, 4);
        return p;
    case 2: /* several slabs, and pieces of a channel */
        p.in_channels = check_between(1, 3), p.out_channels = check_between(1, 17);
        p.kernel_size = check_chance(2) ? check_between(129, 700) : check_between(2001, 3000);
        p.dilation = check_chance(2) ? 1 : check_between(2, 40), p.stride = check_chance(2) ? 1 : check_between(2, 70);
        p.padding_left = check_between(0, p.kernel_size);
        break;
    case 3: /* staged in chunks */
        p.in_channels = check_between(1200, 1700), p.kernel_size = 5, p.out_channels = check_between(1, 24);
        p.batch = check_between(1, 2), p.length = check_between(5, 150);
        break;
    case 4: /* staged in chunks, short items */
        p.in_channels = check_between(1200, 1700), p.kernel_size = 5, p.out_channels = check_between(1, 24);
        p.batch = check_between(2, 50), p.length = check_between(1, 9);
        p.padding_left = 4;
        break;
    case 5: /* depthwise */
        p.groups = p.in_channels = check_between(1, 40), p.out_channels = p.groups * (check_chance(3) ? 2 : 1);
        p.length = check_between(1, 5000),
        p.kernel_size = check_chance(4) ? check_between(17, 300) : check_between(1, 16);
        p.stride = check_chance(3) ? check_between(2, 7) : 1, p.dilation = check_chance(3) ? check_between(2, 50) : 1;
        break;
    case 6: /* GroupNorm of a large item a few groups at a time */
        p.batch = check_between(1, 3), p.in_channels = check_between(1, 4), p.kernel_size = check_between(1, 3);
        p.out_channels = 8 * check_between(30, 60), p.length = check_between(600, 1400);
        p.norm_groups = pick_divisor(p.out_channels);
        break;
    case 7: /* wide strides */
        p.stride = check_between(6, 600), p.kernel_size = check_between(1, 20), p.length = check_between(1, 9000);
        p.in_channels = check_between(1, 9);
        break;
    case 8: /* many output channels over several slabs, whose outer taps meet padding alone */
        p.batch = check_between(1, 3), p.in_channels = check_between(1, 9), p.out_channels = check_between(60, 200);
        p.kernel_size = check_between(9, 130), p.length = check_between(1, 60);
        p.padding_left = check_between(p.kernel_size / 2, p.kernel_size);
        break;
    default: p.kernel_size = check_between(1, 9), p.stride = check_between(1, 5), p.dilation = check_between(1, 9);
    }
    if (p.groups == 1 && check_chance(3)) {
        const int64_t common = common_divisor(p.in_channels, p.out_channels);
        p.groups = pick_divisor(common);
    }
    if (check_chance(2)) p.padding_left = check_between(0, 2 * p.kernel_size);
    if (check_chance(2)) p.padding_right = check_between(0, 2 * p.kernel_size);
    return p;
}

tapconv_problem layer_random_problem(double work)
{
    for (;;) {
        tapconv_problem p = pick_sizes();
        const int64_t lack = (p.kernel_size - 1) * p.dilation + 1 - (p.length + p.padding_left + p.padding_right);
        if (lack > 0) p.padding_left += lack; /* a receptive field longer than the input */
        int64_t out_length;
        if (tapconv_problem_check(&p, &out_length) != TAPCONV_OK) continue;
        const double terms = (double)(p.in_channels / p.groups) * (double)p.kernel_size;
        if ((double)p.batch * (double)p.out_channels * (double)out_length * terms > work) continue;
        pick_options(&p);
        if (tapconv_problem_check(&p, NULL) == TAPCONV_OK) return p;
        printf("an illegal problem: %s\n", tapconv_last_error());
        exit(1);
    }
}
