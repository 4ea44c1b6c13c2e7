/* Several threads at once; under the thread sanitizer this is the proof that plans are immutable and nothing is shared. */
#include "check.h"
#include "layer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define ROUNDS 10

typedef struct worker {
    const layer *shared;
    const void *expected;
} worker;

static void *execute_shared(void *argument)
{
    const worker *const w = argument;
    layer own = *w->shared;
    own.arrays.y = own.y = must_malloc(own.y_bytes);
    own.arrays.workspace = own.workspace = must_malloc(own.workspace_bytes);
    for (int round = 0; round < ROUNDS; round++) {
        layer_run(&own);
        CHECK(memcmp(own.y, w->expected, own.y_bytes) == 0);
    }
    free(own.y);
    free(own.workspace);
    return NULL;
}

static void run_threads(void *(*body)(void *), void *argument)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, argument) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

TEST(threads_on_one_plan)
{
    tapconv_problem problems[] = {
        tapconv_causal_conv1d(2, 48, 64, 1500, 4, 2),
        tapconv_conv1d_groupnorm(2, 32, 64, 1000, 3, 1, 8),
        tapconv_conv1d_groupnorm(1, 64, 64, 2000, 3, 1, 1),
        tapconv_causal_conv1d(2, 128, 128, 2000, 4, 1),
        tapconv_conv1d(1, 32, 64, 2000, 5, 2),
    };
    problems[3].groups = 128;
    problems[4].layout = TAPCONV_NLC;
    problems[4].stride = 2;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        for (int threads = 1; threads <= 2; threads++) {
            const tapconv_plan_options o = {.threads = threads};
            layer l = layer_make(problems[i], &o, 1);
            layer_run(&l);
            worker w = {&l, l.y};
            run_threads(execute_shared, &w);
            layer_free(&l);
        }
}

static void *live_a_life(void *argument)
{
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        layer l = layer_make(tapconv_conv1d_groupnorm(1, 16, 32, 200, 3, 1, 4), NULL, 2);
        layer_run(&l);
        layer_free(&l);
        CHECK(tapconv_cpu_features() & TAPCONV_ISA_SCALAR);
    }
    return NULL;
}

/* The first calls of a process may come from several threads. */
TEST(threads_from_the_first_call)
{
    run_threads(live_a_life, NULL);
}
