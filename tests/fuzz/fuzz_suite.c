/* Whatever the bytes, the suite's parser ends in problems or in a sentence; and the canonical text of every problem
 * that it accepts reads back as a problem with the same text. The first byte chooses the call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "fuzz.h"
#include "suite.h"

static char *canonical(const options *o)
{
    char *text = options_problem_text(o);
    if (text == NULL) abort();
    return text;
}

static void check_round_trip(const options *o, int call)
{
    char *first = canonical(o);
    /* A suite's line ends at a newline; names of files with one cannot stand in it. */
    if (strpbrk(first, "\n\r") == NULL) {
        const size_t room = strlen(first) + 8;
        char *line = malloc(room);
        if (line == NULL) abort();
        snprintf(line, room, "n: %s", first);
        const options defaults = options_default();
        suite again;
        if (suite_parse(&again, line, strlen(line), &defaults, call) != 0 || again.count != 1) abort();
        char *second = canonical(&again.problems[0].options);
        if (strcmp(first, second) != 0) abort();
        free(second);
        suite_close(&again);
        free(line);
    }
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int calls[] = {CALL_CHECK, CALL_BENCH, CALL_EXPLAIN};
    if (size < 1) return 0;
    const int call = calls[data[0] % 3];
    char *text = malloc(size);
    if (text == NULL) return 0;
    memcpy(text, data + 1, size - 1);
    const options defaults = options_default();
    suite s;
    if (suite_parse(&s, text, size - 1, &defaults, call) == 0) {
        for (int64_t i = 0; i < s.count; i++) check_round_trip(&s.problems[i].options, call);
    } else if (failure_text()[0] == '\0' || strchr(failure_text(), '\n') != NULL) {
        abort();
    }
    suite_close(&s);
    free(text);
    return 0;
}
