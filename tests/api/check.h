/* A tiny test harness. TEST(name) { ... } registers a test; CTest finds the tests by these lines and runs each in a
 * process of its own. A failed check is printed and counted, and the test goes on. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>

typedef struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
} check_test;

void check_register(check_test *test);

/* Counts a check, and prints the message where it failed. Returns whether it held. Safe from several threads. */
__attribute__((format(printf, 4, 5))) int check_that(int holds, const char *file, int line, const char *format, ...);

/* Whether `sentence` has all of `words` (NULL-terminated, at most `most`); prints what is missing. */
int check_words(const char *file, int line, const char *sentence, const char *const *words, int most);

#define TEST(name)                                                                                                     \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void register_##name(void)                                                     \
    {                                                                                                                  \
        static check_test test = {#name, name, NULL};                                                                  \
        check_register(&test);                                                                                         \
    }                                                                                                                  \
    static void name(void)

#define CHECK(condition) check_that((condition) ? 1 : 0, __FILE__, __LINE__, "%s", #condition)

/* CHECK with a printf message about the case at hand. */
#define CHECK_FOR(condition, ...) check_that((condition) ? 1 : 0, __FILE__, __LINE__, #condition ", for " __VA_ARGS__)

/* `call` fails with `status`, and its sentence has every one of the words that follow. */
#define CHECK_FAILS(status, call, ...)                                                                                 \
    do {                                                                                                               \
        if (check_that((call) == (status), __FILE__, __LINE__, "%s gives %s", #call, #status))                         \
            check_words(__FILE__, __LINE__, tapconv_last_error(), (const char *const[]){__VA_ARGS__, NULL}, 8);        \
    } while (0)

#define CHECK_INVALID(call, ...) CHECK_FAILS(TAPCONV_INVALID_ARGUMENT, call, __VA_ARGS__)

/* `call` succeeds; its sentence is printed where it does not. */
#define CHECK_OK(call)                                                                                                 \
    check_that((call) == TAPCONV_OK, __FILE__, __LINE__, "%s is refused: %s", #call, tapconv_last_error())

#endif
