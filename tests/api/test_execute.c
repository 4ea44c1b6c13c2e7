/* Execute: which arrays are refused and with which words, empty problems, and results beside the oracle's. */
#include "check.h"
#include "layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* With everything that a layer can have; convolved in pieces small enough to need scratch memory somewhere. */
static tapconv_problem full(void)
{
    tapconv_problem p = tapconv_conv1d_groupnorm(2, 8, 16, 200, 3, 1, 4);
    p.has_bias = 1;
    p.stride = 2;
    p.layout = TAPCONV_NLC;
    p.activation = TAPCONV_ACT_SILU;
    return p;
}

/* Refused with these words, y as it was. */
static void check_refused(const layer *l, const tapconv_arrays *a, const char *field, const char *more)
{
    memset(l->y, 0x77, l->y_bytes);
    CHECK_INVALID(tapconv_execute(l->plan, a), field, more);
    for (size_t i = 0; i < l->y_bytes; i++)
        if (((unsigned char *)l->y)[i] != 0x77) {
            CHECK_FOR(0, "%s: y was written", field);
            return;
        }
}

TEST(execute_missing_arrays)
{
    layer l = layer_make(full(), NULL, 1);
    CHECK_INVALID(tapconv_execute(NULL, &l.arrays), "plan", "NULL");
    CHECK_INVALID(tapconv_execute(l.plan, NULL), "arrays", "NULL");
    tapconv_arrays a = l.arrays;
    a.x = NULL;
    check_refused(&l, &a, "x ", "NULL");
    a = l.arrays;
    a.packed_weights = NULL;
    check_refused(&l, &a, "packed_weights", "NULL");
    a = l.arrays;
    a.bias = NULL;
    check_refused(&l, &a, "bias", "NULL");
    a = l.arrays;
    a.gamma = NULL;
    check_refused(&l, &a, "gamma", "NULL");
    a = l.arrays;
    a.beta = NULL;
    check_refused(&l, &a, "beta", "NULL");
    a = l.arrays;
    a.y = NULL;
    check_refused(&l, &a, "y ", "NULL");
    layer_free(&l);
}

TEST(execute_superfluous_arrays)
{
    tapconv_problem p = full();
    p.has_bias = p.norm_affine = 0;
    layer l = layer_make(p, NULL, 2);
    static const float one[16];
    tapconv_arrays a = l.arrays;
    a.bias = one;
    check_refused(&l, &a, "bias", "NULL");
    a = l.arrays;
    a.gamma = one;
    check_refused(&l, &a, "gamma", "NULL");
    a = l.arrays;
    a.beta = one;
    check_refused(&l, &a, "beta", "NULL");
    for (int i = 0; i < 3; i++) {
        a = l.arrays;
        a.reserved[i] = l.workspace;
        check_refused(&l, &a, "reserved", "NULL");
    }
    layer_free(&l);
}

/* Layers that between them use every kind of scratch memory. */
static tapconv_problem scratch_users(int index)
{
    tapconv_problem p = full();
    if (index == 1) p = tapconv_causal_conv1d(1, 64, 64, 1000, 4, 3);
    if (index == 2) {
        p.type = TAPCONV_BF16;
        p.math = TAPCONV_MATH_BF16;
    }
    if (index == 3) {
        p.type = TAPCONV_F64;
        p.math = TAPCONV_MATH_F64;
        p.layout = TAPCONV_NCL;
    }
    return p;
}

TEST(execute_workspace)
{
    int needed = 0;
    for (int i = 0; i < 4; i++) {
        layer l = layer_make(scratch_users(i), NULL, 3);
        tapconv_arrays a = l.arrays;
        if (l.workspace_bytes > 0) {
            needed++;
            a.workspace_bytes = l.workspace_bytes - 1;
            check_refused(&l, &a, "workspace_bytes", "");
            a.workspace_bytes = 0;
            check_refused(&l, &a, "workspace_bytes", " 0");
            a.workspace_bytes = l.workspace_bytes;
            a.workspace = NULL;
            check_refused(&l, &a, "workspace", "NULL");
        }
        layer_run(&l);
        unsigned char *const expected = must_malloc(l.y_bytes);
        memcpy(expected, l.y, l.y_bytes);
        /* Any alignment, and more than is needed; what is behind stays as it is, what is in it does not matter. */
        unsigned char *const odd = must_malloc(l.workspace_bytes + 200);
        memset(odd, 0xff, l.workspace_bytes + 200);
        for (size_t offset = 1; offset < 64; offset = offset * 2 + 1) {
            l.arrays.workspace = odd + offset;
            l.arrays.workspace_bytes = l.workspace_bytes;
            layer_run(&l);
            CHECK_FOR(memcmp(expected, l.y, l.y_bytes) == 0, "layer %d, offset %zu", i, offset);
            for (size_t behind = offset + l.workspace_bytes; behind < l.workspace_bytes + 200; behind++)
                if (odd[behind] != 0xff) {
                    CHECK_FOR(0, "layer %d: written behind the workspace", i);
                    break;
                }
        }
        l.arrays.workspace_bytes = l.workspace_bytes + 100;
        layer_run(&l);
        CHECK_FOR(memcmp(expected, l.y, l.y_bytes) == 0, "layer %d", i);
        free(odd);
        free(expected);
        layer_free(&l);
    }
    CHECK(needed > 0);
}

TEST(execute_alignment)
{
    layer l = layer_make(full(), NULL, 4);
    const char *const names[] = {"x ", "packed_weights", "bias", "gamma", "beta"};
    for (int i = 0; i < 5; i++) {
        tapconv_arrays a = l.arrays;
        const void **const fields[] = {&a.x, &a.packed_weights, &a.bias, &a.gamma, &a.beta};
        *fields[i] = (const char *)*fields[i] + 1;
        check_refused(&l, &a, names[i], "multiple");
    }
    tapconv_arrays a = l.arrays;
    a.y = (char *)a.y + 2;
    check_refused(&l, &a, "y ", "multiple");
    layer_free(&l);
}

/* y shares even one byte with something that is read, or with the workspace. */
TEST(execute_overlap)
{
    layer l = layer_make(full(), NULL, 5);
    char *const arena = must_malloc(l.y_bytes + l.x_bytes + l.packed_bytes + l.workspace_bytes + 64);
    const struct {
        const char *name;
        size_t bytes, field;
    } others[] = {
        {"x", l.x_bytes, offsetof(tapconv_arrays, x)},
        {"packed_weights", l.packed_bytes, offsetof(tapconv_arrays, packed_weights)},
        {"bias", 16 * sizeof(float), offsetof(tapconv_arrays, bias)},
        {"gamma", 16 * sizeof(float), offsetof(tapconv_arrays, gamma)},
        {"beta", 16 * sizeof(float), offsetof(tapconv_arrays, beta)},
        {"workspace", l.workspace_bytes, offsetof(tapconv_arrays, workspace)},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].bytes == 0) continue;
        tapconv_arrays a = l.arrays;
        void *original;
        memcpy(&original, (char *)&a + others[i].field, sizeof original);
        /* behind y's start, over y's last element, and under y's first */
        const size_t whole = others[i].bytes / 8 * 8;
        const size_t y_at[] = {64, 64, whole - 8}, other_at[] = {64, 64 + l.y_bytes - 8, 0};
        for (int where = 0; where < 3; where++) {
            memmove(arena + other_at[where], original, others[i].bytes);
            void *const moved = arena + other_at[where];
            memcpy((char *)&a + others[i].field, &moved, sizeof moved);
            a.y = arena + y_at[where];
            CHECK_INVALID(tapconv_execute(l.plan, &a), others[i].name, "overlap");
        }
    }
    free(arena);
    layer_free(&l);
}

/* x and y side by side share nothing. */
TEST(execute_neighbours)
{
    layer l = layer_make(full(), NULL, 6);
    layer_run(&l);
    char *const arena = must_malloc(l.x_bytes + l.y_bytes);
    for (int y_first = 0; y_first < 2; y_first++) {
        tapconv_arrays a = l.arrays;
        char *const x = arena + (y_first ? l.y_bytes : 0);
        memcpy(x, l.x, l.x_bytes);
        a.x = x;
        a.y = arena + (y_first ? 0 : l.x_bytes);
        CHECK_OK(tapconv_execute(l.plan, &a));
        CHECK(memcmp(a.y, l.y, l.y_bytes) == 0);
    }
    free(arena);
    layer_free(&l);
}

TEST(execute_empty_batch)
{
    tapconv_problem p = full();
    p.batch = 0;
    layer l = layer_make(p, NULL, 7);
    l.arrays.x = NULL;
    float y = 3;
    l.arrays.y = &y;
    CHECK_OK(tapconv_execute(l.plan, &l.arrays));
    CHECK(y == 3);
    layer_free(&l);
}

/* Without a sample, every output sees padding only. */
TEST(execute_empty_input)
{
    tapconv_problem p = tapconv_conv1d(2, 3, 4, 0, 3, 4);
    p.has_bias = 1;
    layer l = layer_make(p, NULL, 8);
    l.arrays.x = NULL;
    layer_run(&l);
    const int64_t out_length = 6;
    CHECK(l.y_bytes == 2 * 4 * 6 * sizeof(float));
    for (int64_t i = 0; i < 2 * 4 * out_length; i++) {
        const float y = ((const float *)l.y)[i], bias = ((const float *)l.bias)[i / out_length % 4];
        CHECK_FOR(y == bias, "element %d", (int)i);
    }
    layer_free(&l);
}

/* Relative L2 distance of the layer's y from the oracle's. */
static double error_of(const layer *l)
{
    const int64_t count = (int64_t)(l->y_bytes / tapconv_type_bytes(l->problem.type));
    double *const reference = must_malloc((size_t)count * sizeof *reference);
    double *const y = must_malloc((size_t)count * sizeof *y);
    double difference = 0, norm = 0;
    CHECK_OK(tapconv_reference(&l->problem, l->x, l->w, l->bias, l->gamma, l->beta, reference));
    CHECK_OK(tapconv_convert(y, TAPCONV_F64, l->y, l->problem.type, count));
    for (int64_t i = 0; i < count; i++) {
        difference += (y[i] - reference[i]) * (y[i] - reference[i]);
        norm += reference[i] * reference[i];
    }
    free(reference);
    free(y);
    return sqrt(difference / norm);
}

/* Every way through the interface once, beside the oracle; kernels have their own tests. */
TEST(execute_beside_the_oracle)
{
    static const struct {
        tapconv_type type;
        tapconv_math math;
        double tolerance;
    } modes[] = {
        {TAPCONV_F32, TAPCONV_MATH_F32, 1e-6},   {TAPCONV_F64, TAPCONV_MATH_F64, 1e-14},
        {TAPCONV_F32, TAPCONV_MATH_F64, 1e-7},   {TAPCONV_F32, TAPCONV_MATH_TF32, 1e-3},
        {TAPCONV_F16, TAPCONV_MATH_F16, 1e-3},   {TAPCONV_F32, TAPCONV_MATH_F16, 1e-3},
        {TAPCONV_BF16, TAPCONV_MATH_BF16, 1e-2}, {TAPCONV_F32, TAPCONV_MATH_BF16, 1e-2},
        {TAPCONV_F16, TAPCONV_MATH_F32, 1e-3},   {TAPCONV_BF16, TAPCONV_MATH_F32, 1e-2},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        for (int variant = 0; variant < 12; variant++) {
            tapconv_problem p = full();
            p.type = modes[i].type;
            p.math = modes[i].math;
            p.param_type = variant & 1 ? p.type : TAPCONV_F32;
            if (p.type == TAPCONV_F64) p.param_type = TAPCONV_F64;
            p.layout = variant & 2 ? TAPCONV_NCL : TAPCONV_NLC;
            p.norm_groups = variant < 4 ? 4 : variant < 8 ? 0 : 1;
            p.norm_affine = variant < 4;
            p.activation = (tapconv_activation)(variant % TAPCONV_ACTIVATION_COUNT);
            layer l = layer_make(p, NULL, 9 + (unsigned)variant);
            layer_run(&l);
            const double error = error_of(&l);
            CHECK_FOR(error <= modes[i].tolerance, "mode %zu, variant %d: %g", i, variant, error);
            layer_free(&l);
        }
}
