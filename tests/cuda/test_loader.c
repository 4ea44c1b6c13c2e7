/* Loading the CUDA engine: what is no engine is refused with its path and the reason. Each test is a process of its own. */
#include "loader.h"

#include "check.h"

#include <tapconv.h>

#include <string.h>

#define FOREIGN(kind) FOREIGN_FOLDER "/libforeign_engine_" kind ".so"

tapconv_status plan_with(const char *path)
{
    const tapconv_problem p = tapconv_conv1d(1, 8, 8, 50, 3, 1);
    const tapconv_plan_options o = {.device = TAPCONV_CUDA, .card = "h200", .engine_path = path};
    tapconv_plan *plan = NULL;
    const tapconv_status status = tapconv_plan_create(&plan, &p, &o);
    CHECK((status == TAPCONV_OK) == (plan != NULL));
    tapconv_plan_destroy(plan);
    return status;
}

TEST(loader_refuses_what_is_no_engine)
{
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with("/nowhere/engine.so"), "cuda", "/nowhere/engine.so", "No such file");
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with(GARBAGE), GARBAGE, "cannot be loaded");
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with(FOREIGN("0")), FOREIGN("0"), "tapconv_cuda_engine_entry");
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with(FOREIGN("1")), FOREIGN("1"), "tapconv 0.0.1", tapconv_version());
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with(FOREIGN("2")), FOREIGN("2"), "table");
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with(FOREIGN("3")), FOREIGN("3"), "no engine");
    CHECK_INVALID(plan_with(""), "engine_path", "0 characters");
    static char long_path[5000];
    memset(long_path, 'a', sizeof long_path - 1);
    CHECK_INVALID(plan_with(long_path), "engine_path", "4999");
}

TEST(loader_options_of_the_cpu)
{
    const tapconv_problem p = tapconv_conv1d(1, 8, 8, 50, 3, 1);
    tapconv_plan *plan = NULL;
    tapconv_plan_options o = {.engine_path = "engine.so"};
    CHECK_INVALID(tapconv_plan_create(&plan, &p, &o), "engine_path", "engine.so", "cpu");
    o = (tapconv_plan_options){.card = "h200"};
    CHECK_INVALID(tapconv_plan_create(&plan, &p, &o), "card", "h200", "cpu");
    CHECK(!plan);
}

/* The CPU computes whatever became of the GPU. */
TEST(loader_failure_leaves_the_cpu)
{
    CHECK_FAILS(TAPCONV_NO_DEVICE, plan_with("/nowhere/engine.so"), "cuda");
    const tapconv_problem p = tapconv_conv1d(1, 8, 8, 50, 3, 1);
    tapconv_plan *plan = NULL;
    CHECK_OK(tapconv_plan_create(&plan, &p, NULL));
    tapconv_plan_destroy(plan);
}

TEST(loader_device_calls_refuse)
{
    const tapconv_plan_options cpu = {.device = TAPCONV_CPU};
    const tapconv_plan_options missing = {.device = TAPCONV_CUDA, .engine_path = "/nowhere/engine.so"};
    int32_t count = -1;
    tapconv_device_info info;
    void *memory = NULL;
    char bytes[4] = {0};
    CHECK_INVALID(tapconv_device_count(NULL, &count), "where", "NULL");
    CHECK_INVALID(tapconv_device_count(&cpu, &count), "device", "cpu");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_count(&missing, &count), "/nowhere/engine.so");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_describe(&missing, &info), "/nowhere/engine.so");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_allocate(&missing, &memory, 4), "/nowhere/engine.so");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_free(&missing, NULL), "/nowhere/engine.so");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_upload(&missing, bytes, bytes, 4), "/nowhere/engine.so");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_download(&missing, bytes, bytes, 4), "/nowhere/engine.so");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_fill(&missing, bytes, 0, 4), "/nowhere/engine.so");
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_device_synchronize(&missing), "/nowhere/engine.so");
    CHECK(!tapconv_device_kernel_name(&missing, 0) && !tapconv_card_name(&missing, 0) && !tapconv_card_name(&cpu, 0));
    CHECK(strcmp(tapconv_device_kernel_name(NULL, 0), tapconv_kernel_name(0)) == 0);
    CHECK(!tapconv_device_kernel_name(&cpu, -1));
    CHECK(count == -1 && !memory);
}

TEST(loader_times_no_cpu)
{
    const tapconv_problem p = tapconv_conv1d(1, 8, 8, 50, 3, 1);
    tapconv_plan *plan = NULL;
    CHECK_OK(tapconv_plan_create(&plan, &p, NULL));
    const tapconv_arrays arrays = {.x = NULL};
    double seconds;
    CHECK_INVALID(tapconv_device_time(NULL, &arrays, 1, 0, 1, &seconds, 1), "plan", "NULL");
    CHECK_INVALID(tapconv_device_time(plan, &arrays, 1, 0, 1, &seconds, 1), "plan", "cpu");
    tapconv_plan_destroy(plan);
}
