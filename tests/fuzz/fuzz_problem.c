/* Whatever a problem and its plan's options say, they are planned or refused by a sentence. What is planned and small is
 * packed and executed in arrays of exactly the sizes that it asks for, and where sums are exact the result is the
 * oracle's; then once more with one argument spoilt, which must be refused before y is touched. */
#include "bytes.h"
#include "expect.h"
#include "fuzz.h"

#include <math.h>

#define MOST_WORK 2e4
#define MOST_ELEMENTS 20000

static tapconv_problem read_problem(bytes *in)
{
    tapconv_problem p = tapconv_conv1d(bytes_size(in, 0), bytes_size(in, 1), bytes_size(in, 1), bytes_size(in, 0),
                                       bytes_size(in, 1), bytes_size(in, 0));
    const uint8_t options = bytes_next(in);
    if (options & 1) p.stride = bytes_size(in, 1);
    if (options & 2) p.dilation = bytes_size(in, 1);
    if (options & 4) p.groups = bytes_size(in, 1);
    if (options & 8) p.padding_left = bytes_size(in, 0);
    if (options & 16) p.norm_groups = bytes_size(in, 0), p.norm_affine = bytes_choice(in, 1);
    if (options & 32) p.has_bias = bytes_choice(in, 1), p.activation = (tapconv_activation)bytes_choice(in, 9);
    if (options & 64) {
        p.layout = (tapconv_layout)bytes_choice(in, 1), p.type = (tapconv_type)bytes_choice(in, 3);
        p.param_type = (tapconv_type)bytes_choice(in, 3), p.math = (tapconv_math)bytes_choice(in, 4);
    }
    if (options & 128) {
        const uint64_t any = bytes_any(in);
        memcpy(&p.norm_eps, &any, sizeof any);
        p.reserved[bytes_next(in) % 5] = bytes_choice(in, 0);
    }
    return p;
}

static tapconv_plan_options read_options(bytes *in, char kernel[16])
{
    static const char *const names[] = {"dense-window", "dense-panel", "depthwise", "mma", ""};
    tapconv_plan_options options = {0};
    const uint8_t which = bytes_next(in);
    if (which & 1) options.threads = bytes_choice(in, 3);
    if (which & 2) options.isa_mask = (uint32_t)bytes_choice(in, 15);
    if (which & 4) {
        snprintf(kernel, 16, "%s", names[bytes_next(in) % 5]);
        if (kernel[0] == '\0')
            for (int i = 0; i < 8; i++) kernel[i] = (char)bytes_next(in);
        options.kernel = kernel;
    }
    if (which & 8) options.device_index = bytes_choice(in, 0);
    if (which & 16) options.reserved[bytes_next(in) % 6] = bytes_choice(in, 0);
    return options;
}

/* `count` elements of a type in memory of exactly their size; NULL if there are none. Small integers: of those the sums of
 * a small problem are exact in every math mode. */
static void *integers(tapconv_type type, int64_t count, int wanted, bytes *in)
{
    const size_t size = tapconv_type_bytes(type);
    if (!wanted) return NULL;
    double *const values = malloc((size_t)count * sizeof *values + 1);
    void *const stored = malloc((size_t)count * size + 1);
    EXPECT(values && stored);
    uint32_t state = 1u + bytes_next(in);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (double)(state >> 29) - 3;
    }
    EXPECT(tapconv_convert(stored, type, values, TAPCONV_F64, count) == TAPCONV_OK);
    free(values);
    void *const exact = count > 0 ? malloc((size_t)count * size) : NULL;
    if (exact) memcpy(exact, stored, (size_t)count * size);
    free(stored);
    return exact;
}

typedef struct layer {
    const tapconv_problem *p;
    tapconv_arrays arrays;
    void *x, *w, *bias, *gamma, *beta;
    int64_t y_count;
    size_t y_bytes, packed_bytes;
} layer;

/* Bit for bit, as nothing rounds before the conversion to the type of y. */
static void expect_oracle(const layer *l)
{
    double *const want = malloc((size_t)l->y_count * sizeof *want + 1);
    void *const rounded = malloc(l->y_bytes + 1);
    EXPECT(want && rounded);
    EXPECT(tapconv_reference(l->p, l->x, l->w, l->bias, l->gamma, l->beta, want) == TAPCONV_OK);
    if (l->p->norm_groups == 0 && l->p->activation <= TAPCONV_ACT_RELU) {
        for (int64_t i = 0; i < l->y_count; i++) want[i] += 0.0; /* no -0 */
        EXPECT(tapconv_convert(rounded, l->p->type, want, TAPCONV_F64, l->y_count) == TAPCONV_OK);
        EXPECT(!l->arrays.y || memcmp(rounded, l->arrays.y, l->y_bytes) == 0);
    } else {
        EXPECT(tapconv_convert(want, TAPCONV_F64, l->arrays.y, l->p->type, l->y_count) == TAPCONV_OK);
        for (int64_t i = 0; i < l->y_count; i++) EXPECT(!isnan(want[i]));
    }
    free(want);
    free(rounded);
}

/* Spoils one argument; 0 where that leaves the call as legal as it was. */
static int spoil(layer *l, const tapconv_plan *plan, bytes *in)
{
    tapconv_arrays *const a = &l->arrays;
    static int something;
    switch (bytes_next(in) % 10) {
    case 0: return a->x ? (a->x = NULL, 1) : 0;
    case 1: return a->packed_weights = NULL, 1;
    case 2: return a->y ? (a->y = NULL, 1) : 0;
    case 3: return a->bias = a->bias ? NULL : &something, 1;
    case 4: return a->gamma = a->gamma ? NULL : &something, 1;
    case 5: return a->beta = a->beta ? NULL : &something, 1;
    case 6: return tapconv_workspace_bytes(plan) ? (a->workspace = NULL, 1) : 0;
    case 7: return a->workspace_bytes ? (a->workspace_bytes--, 1) : 0;
    case 8: return a->reserved[bytes_next(in) % 3] = &something, 1;
    default: return l->y_count && tapconv_type_bytes(l->p->type) > 1 ? (a->y = (char *)a->y + 1, 1) : 0;
    }
}

static void execute(const tapconv_plan *plan, const tapconv_problem *p, int64_t out_length, bytes *in)
{
    const int64_t x_count = p->batch * p->in_channels * p->length;
    const int64_t w_count = p->out_channels * (p->in_channels / p->groups) * p->kernel_size;
    layer l = {.p = p, .y_count = p->batch * p->out_channels * out_length};
    l.x = integers(p->type, x_count, 1, in);
    l.w = integers(p->type, w_count, 1, in);
    l.bias = integers(p->param_type, p->out_channels, p->has_bias, in);
    l.gamma = integers(p->param_type, p->out_channels, p->norm_affine && p->norm_groups, in);
    l.beta = integers(p->param_type, p->out_channels, p->norm_affine && p->norm_groups, in);
    l.y_bytes = (size_t)l.y_count * tapconv_type_bytes(p->type);
    l.packed_bytes = tapconv_packed_weights_bytes(plan);
    const size_t workspace_bytes = tapconv_workspace_bytes(plan);
    void *const packed = malloc(l.packed_bytes), *const y = l.y_bytes ? malloc(l.y_bytes) : NULL;
    void *const workspace = workspace_bytes ? malloc(workspace_bytes) : NULL;
    EXPECT(packed && (y || !l.y_bytes) && (workspace || !workspace_bytes));
    if (y) memset(y, 0xff, l.y_bytes);
    EXPECT(tapconv_pack_weights(plan, l.w, packed, l.packed_bytes - 1) == TAPCONV_INVALID_ARGUMENT);
    EXPECT(tapconv_pack_weights(plan, l.w, packed, l.packed_bytes) == TAPCONV_OK);
    l.arrays = (tapconv_arrays){.x = l.x,
                                .packed_weights = packed,
                                .bias = l.bias,
                                .gamma = l.gamma,
                                .beta = l.beta,
                                .y = y,
                                .workspace = workspace,
                                .workspace_bytes = workspace_bytes};
    EXPECT(tapconv_execute(plan, &l.arrays) == TAPCONV_OK);
    expect_oracle(&l);

    if (y) memset(y, 0x5a, l.y_bytes);
    if (spoil(&l, plan, in)) {
        const tapconv_status status = tapconv_execute(plan, &l.arrays);
        EXPECT(status == TAPCONV_INVALID_ARGUMENT);
        expect_sentence(status);
        for (size_t i = 0; y && i < l.y_bytes; i++) EXPECT(((unsigned char *)y)[i] == 0x5a);
    }
    void *const all[] = {l.x, l.w, l.bias, l.gamma, l.beta, packed, y, workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static int is_small(const tapconv_plan *plan, const tapconv_problem *p, const tapconv_plan_info *info)
{
    const double x_count = (double)p->batch * (double)p->in_channels * (double)p->length;
    const double w_count = (double)p->out_channels * (double)p->in_channels * (double)p->kernel_size;
    const double y_count = (double)p->batch * (double)p->out_channels * (double)info->out_length;
    return x_count <= MOST_ELEMENTS && w_count <= MOST_ELEMENTS && y_count <= MOST_ELEMENTS &&
           info->flops / 2 <= MOST_WORK && p->padding_left <= MOST_ELEMENTS && p->padding_right <= MOST_ELEMENTS &&
           tapconv_packed_weights_bytes(plan) <= 1 << 20 && tapconv_workspace_bytes(plan) <= 1 << 26;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes in = {data, data + size};
    char kernel[16] = "";
    const tapconv_problem p = read_problem(&in);
    const tapconv_plan_options options = read_options(&in, kernel);
    int64_t out_length = -7;
    const tapconv_status legal = tapconv_problem_check(&p, &out_length);
    expect_sentence(legal);
    EXPECT(legal == TAPCONV_OK ? out_length >= 0 : legal == TAPCONV_INVALID_ARGUMENT && out_length == -7);

    tapconv_plan *plan = NULL;
    const tapconv_status planned = tapconv_plan_create(&plan, &p, &options);
    expect_sentence(planned);
    EXPECT((planned == TAPCONV_OK) == (plan != NULL) && !(legal != TAPCONV_OK && plan != NULL));
    if (!plan) return 0;
    tapconv_plan_info info;
    tapconv_plan_get_info(plan, &info);
    EXPECT(info.out_length == out_length && info.threads >= 1 && info.flops >= 0 && info.bytes >= 0);
    EXPECT(info.workspace_bytes == tapconv_workspace_bytes(plan));
    EXPECT(info.packed_weights_bytes == tapconv_packed_weights_bytes(plan) && info.packed_weights_bytes > 0);
    if (is_small(plan, &p, &info)) execute(plan, &p, out_length, &in);
    tapconv_plan_destroy(plan);
    return 0;
}
