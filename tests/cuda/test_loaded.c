/* The CUDA engine is loaded once. Each test is a process of its own. */
#include "loader.h"

#include "check.h"

#include <tapconv.h>

#include <pthread.h>

TEST(loader_finds_the_engine_after_a_failure)
{
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with("/nowhere/engine.so"), "/nowhere/engine.so");
    CHECK_OK(plan_with(NULL));
}

TEST(loader_keeps_one_engine)
{
    CHECK_OK(plan_with(ENGINE));
    CHECK_OK(plan_with(NULL));
    CHECK_OK(plan_with(ENGINE));
    CHECK_INVALID(plan_with("/nowhere/engine.so"), "engine_path", "/nowhere/engine.so", ENGINE);
    CHECK_INVALID(plan_with(""), "engine_path");
}

static void *plan_in_a_thread(void *unused)
{
    (void)unused;
    CHECK_OK(plan_with(NULL));
    return NULL;
}

TEST(loader_from_several_threads)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, plan_in_a_thread, NULL) == 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}
