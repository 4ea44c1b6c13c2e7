/* Packed weights: what is refused, and that they belong to the layer, not to the plan. */
#include "check.h"
#include "layer.h"

#include <stdlib.h>
#include <string.h>

static tapconv_problem small(void)
{
    return tapconv_conv1d(2, 8, 16, 50, 3, 1);
}

TEST(pack_refusals)
{
    layer l = layer_make(small(), NULL, 1);
    memset(l.packed, 0x5a, l.packed_bytes);
    unsigned char *const untouched = must_malloc(l.packed_bytes);
    memset(untouched, 0x5a, l.packed_bytes);
    CHECK_INVALID(tapconv_pack_weights(NULL, l.w, l.packed, l.packed_bytes), "plan", "NULL");
    CHECK_INVALID(tapconv_pack_weights(l.plan, NULL, l.packed, l.packed_bytes), "w ", "NULL");
    CHECK_INVALID(tapconv_pack_weights(l.plan, l.w, NULL, l.packed_bytes), "packed", "NULL");
    CHECK_INVALID(tapconv_pack_weights(l.plan, l.w, l.packed, 0), "packed_bytes", " 0");
    CHECK_INVALID(tapconv_pack_weights(l.plan, l.w, l.packed, l.packed_bytes - 1), "packed_bytes");
    CHECK_INVALID(tapconv_pack_weights(l.plan, (char *)l.w + 1, l.packed, l.packed_bytes), "w ", "multiple");
    CHECK_INVALID(tapconv_pack_weights(l.plan, l.w, (char *)l.packed + 4, l.packed_bytes), "packed", "multiple");
    CHECK(memcmp(l.packed, untouched, l.packed_bytes) == 0);
    CHECK_OK(tapconv_pack_weights(l.plan, l.w, l.packed, l.packed_bytes + 1000));
    free(untouched);
    layer_free(&l);
}

/* Plans of one layer that differ in N, T, stride, padding, threads, instruction set or kernel pack the same bytes. */
/* A CPU has no streams: whatever is given is ignored. */
TEST(pack_and_execute_on_no_stream)
{
    layer l = layer_make(tapconv_conv1d(2, 6, 10, 40, 3, 1), NULL, 7);
    char no_stream;
    void *packed = must_malloc(l.packed_bytes);
    memset(packed, 0xa5, l.packed_bytes);
    CHECK_OK(tapconv_pack_weights_on(l.plan, l.w, packed, l.packed_bytes, &no_stream));
    CHECK(memcmp(packed, l.packed, l.packed_bytes) == 0);
    CHECK_INVALID(tapconv_pack_weights_on(l.plan, l.w, packed, 0, &no_stream), "packed_bytes");
    l.arrays.stream = &no_stream;
    layer_run(&l);
    free(packed);
    layer_free(&l);
}

TEST(pack_same_bytes_for_one_layer)
{
    tapconv_problem p = small();
    layer first = layer_make(p, NULL, 2);
    int compared = 0;
    for (uint32_t isa = 1; isa <= TAPCONV_ISA_AVX512; isa *= 2) {
        if (!(tapconv_cpu_features() & isa)) continue;
        for (int i = 0; tapconv_kernel_name(i); i++) {
            const tapconv_plan_options o = {.isa_mask = isa, .kernel = tapconv_kernel_name(i), .threads = 1 + i % 3};
            p.batch = 1 + i % 4;
            p.length = 3 + 70 * i;
            tapconv_plan *plan;
            if (tapconv_plan_create(&plan, &p, &o) != TAPCONV_OK) continue;
            const size_t bytes = tapconv_packed_weights_bytes(plan);
            CHECK_FOR(bytes == first.packed_bytes, "%s: %zu", o.kernel, bytes);
            void *packed = must_malloc(bytes);
            memset(packed, 0x33, bytes);
            CHECK_OK(tapconv_pack_weights(plan, first.w, packed, bytes));
            CHECK_FOR(memcmp(packed, first.packed, bytes) == 0, "%s", o.kernel);
            free(packed);
            tapconv_plan_destroy(plan);
            compared++;
        }
    }
    CHECK(compared > 0);
    layer_free(&first);
}

/* Weights packed for one layer are refused by another, and so is a buffer that was never packed. */
TEST(pack_of_another_layer_refused)
{
    layer l = layer_make(small(), NULL, 3);
    layer_run(&l);
    tapconv_problem others[6];
    for (int i = 0; i < 6; i++) others[i] = small();
    others[0].kernel_size = 4;
    others[1].in_channels = 16;
    others[2].out_channels = 8;
    others[3].groups = 2;
    others[4].math = TAPCONV_MATH_TF32;
    others[5].math = TAPCONV_MATH_F64;
    unsigned char *const before = must_malloc(l.y_bytes);
    memcpy(before, l.y, l.y_bytes);
    for (int i = 0; i < 6; i++) {
        layer other = layer_make(others[i], NULL, 3);
        /* In a buffer large enough for both, so that only the contents can tell. */
        const size_t larger = l.packed_bytes > other.packed_bytes ? l.packed_bytes : other.packed_bytes;
        unsigned char *const packed = must_malloc(larger);
        memset(packed, 0, larger);
        memcpy(packed, other.packed, other.packed_bytes);
        tapconv_arrays a = l.arrays;
        a.packed_weights = packed;
        CHECK_INVALID(tapconv_execute(l.plan, &a), "packed_weights");
        free(packed);
        layer_free(&other);
    }
    unsigned char *const zeros = must_malloc(l.packed_bytes);
    memset(zeros, 0, l.packed_bytes);
    tapconv_arrays a = l.arrays;
    a.packed_weights = zeros;
    CHECK_INVALID(tapconv_execute(l.plan, &a), "packed_weights");
    CHECK(memcmp(before, l.y, l.y_bytes) == 0);
    free(zeros);
    free(before);
    layer_free(&l);
}

/* The weights can be changed and packed again into the same buffer. */
TEST(pack_again)
{
    layer l = layer_make(small(), NULL, 4), other = layer_make(small(), NULL, 5);
    l.arrays.x = other.x;
    CHECK_OK(tapconv_pack_weights(l.plan, other.w, l.packed, l.packed_bytes));
    layer_run(&l);
    layer_run(&other);
    CHECK(memcmp(l.y, other.y, l.y_bytes) == 0);
    layer_free(&l);
    layer_free(&other);
}
