#include "check.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static check_test *tests;
static atomic_int checked, failed;

void check_register(check_test *test)
{
    test->next = tests;
    tests = test;
}

int check_that(int holds, const char *file, int line, const char *format, ...)
{
    atomic_fetch_add(&checked, 1);
    if (holds) return 1;
    atomic_fetch_add(&failed, 1);
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    return 0;
}

int check_words(const char *file, int line, const char *sentence, const char *const *words, int most)
{
    int all = 1;
    for (int i = 0; i < most && words[i]; i++)
        all &= check_that(strstr(sentence, words[i]) != NULL, file, line, "\"%s\" has \"%s\"", sentence, words[i]);
    return all;
}

/* Runs the tests that are named, or all. One that checks nothing fails: it could not have found anything. */
int main(int argc, char **argv)
{
    int ran = 0, bad = 0;
    for (const check_test *test = tests; test; test = test->next) {
        int wanted = argc < 2;
        for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], test->name) == 0;
        if (!wanted) continue;
        atomic_store(&checked, 0);
        atomic_store(&failed, 0);
        test->run();
        const int holds = failed == 0 && checked > 0;
        printf("%s %s: %d checks\n", holds ? "passed" : "FAILED", test->name, checked);
        ran++;
        bad += !holds;
    }
    if (ran == 0) fprintf(stderr, "no test has that name\n");
    return ran == 0 || bad > 0;
}
