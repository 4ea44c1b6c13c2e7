/* The sentence of the calling thread's latest failure. */
#include "check.h"

#include <tapconv.h>

#include <pthread.h>
#include <string.h>

#define THREADS 4
#define ROUNDS 200

TEST(errors_empty_before_the_first)
{
    CHECK(tapconv_last_error() && tapconv_last_error()[0] == '\0');
}

TEST(errors_kept_over_a_success)
{
    tapconv_problem p = tapconv_conv1d(-5, 1, 1, 8, 1, 0);
    CHECK_INVALID(tapconv_problem_check(&p, NULL), "batch", "-5");
    p.batch = 1;
    CHECK_OK(tapconv_problem_check(&p, NULL));
    CHECK(strstr(tapconv_last_error(), "-5"));
    p.stride = -6;
    CHECK_INVALID(tapconv_problem_check(&p, NULL), "stride", "-6");
}

TEST(errors_repeat_a_string_in_one_line)
{
    const tapconv_problem p = tapconv_conv1d(1, 1, 1, 8, 1, 0);
    tapconv_plan_options options = {.kernel = "two\nlines\x1b[7m"};
    tapconv_plan *plan;
    CHECK_INVALID(tapconv_plan_create(&plan, &p, &options), "kernel", "two?lines?[7m");
    options.kernel = tapconv_last_error();
    CHECK_INVALID(tapconv_plan_create(&plan, &p, &options), "kernel is \"kernel is \"two?lines?[7m");
}

static void *fail_by_itself(void *argument)
{
    const int number = *(const int *)argument;
    static const char *const values[THREADS] = {"-1000", "-1001", "-1002", "-1003"};
    CHECK(tapconv_last_error()[0] == '\0');
    tapconv_problem p = tapconv_conv1d(-1000 - number, 1, 1, 8, 1, 0);
    for (int i = 0; i < ROUNDS; i++) CHECK_INVALID(tapconv_problem_check(&p, NULL), "batch", values[number]);
    return NULL;
}

TEST(errors_of_each_thread)
{
    tapconv_problem p = tapconv_conv1d(-7, 1, 1, 8, 1, 0);
    CHECK_INVALID(tapconv_problem_check(&p, NULL), "-7");
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, fail_by_itself, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(strstr(tapconv_last_error(), "-7"));
}
