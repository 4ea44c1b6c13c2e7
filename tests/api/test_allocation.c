/* Execute allocates nothing. This program's own malloc counts the calls of every library in the process, OpenMP's too. */
#include "check.h"
#include "layer.h"

#include <stdatomic.h>
#include <stddef.h>

/* glibc's allocator under its own names. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

static atomic_int calls;

void *malloc(size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : 12; /* ENOMEM */
}

void free(void *memory)
{
    if (memory) atomic_fetch_add(&calls, 1);
    __libc_free(memory);
}

static int calls_of_execute(layer *l)
{
    const int before = atomic_load(&calls);
    const tapconv_status status = tapconv_execute(l->plan, &l->arrays);
    const int after = atomic_load(&calls);
    CHECK(status == TAPCONV_OK);
    return after - before;
}

static tapconv_problem layer_number(int number)
{
    tapconv_problem p =
        number % 2 ? tapconv_conv1d_groupnorm(2, 32, 64, 1500, 3, 1, 8) : tapconv_causal_conv1d(2, 64, 64, 1500, 4, 2);
    if (number / 2 == 1) p.layout = TAPCONV_NLC;
    if (number / 2 == 2) p.stride = 3;
    if (number / 2 == 3) p.groups = 32;
    if (number / 2 == 4) {
        p.type = TAPCONV_F16;
        p.math = TAPCONV_MATH_F16;
    }
    if (number / 2 == 5) {
        p.type = p.param_type = TAPCONV_F64;
        p.math = TAPCONV_MATH_F64;
    }
    return p;
}

TEST(allocation_is_counted)
{
    const int before = atomic_load(&calls);
    layer l = layer_make(layer_number(0), NULL, 1);
    CHECK(atomic_load(&calls) - before >= 5);
    layer_free(&l);
}

/* From the very first execute, on one thread; from the second on several: OpenMP makes its threads in the first. */
TEST(allocation_in_execute)
{
    for (int number = 0; number < 12; number++)
        for (int threads = 1; threads <= 2; threads++) {
            const tapconv_plan_options o = {.threads = threads};
            layer l = layer_make(layer_number(number), &o, 1);
            const int first = calls_of_execute(&l), second = calls_of_execute(&l);
            CHECK_FOR(threads > 1 || first == 0, "layer %d: %d calls", number, first);
            CHECK_FOR(second == 0, "layer %d, %d threads: %d calls", number, threads, second);
            layer_free(&l);
        }
}

/* A refused execute makes a sentence, and no memory. */
TEST(allocation_in_refusals)
{
    layer l = layer_make(layer_number(1), NULL, 1);
    l.arrays.y = NULL;
    const int before = atomic_load(&calls);
    const tapconv_status status = tapconv_execute(l.plan, &l.arrays);
    const int after = atomic_load(&calls);
    CHECK(status == TAPCONV_INVALID_ARGUMENT && after == before);
    layer_free(&l);
}
