#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "failure.h"
#include "memory.h"

#define MOST_BYTES (INT64_C(16) << 20)
#define MOST_WORDS 128
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* in UTF-8, as some editors begin a file */

/* Splits a line into words, in place, and ends it at a comment. Returns their number, or -1 with the failure kept. */
static int split_words(char *line, char *words[MOST_WORDS])
{
    int count = 0;
    char *in = line, *out = line;
    for (;;) {
        while (*in == ' ' || *in == '\t') in++;
        if (*in == '\0' || *in == '#') return count;
        if (count == MOST_WORDS) {
            fail(EXIT_BAD_INPUT, "more than %d words; allowed: %d", MOST_WORDS, MOST_WORDS);
            return -1;
        }
        words[count++] = out;
        char quote = '\0';
        for (; *in != '\0' && (quote != '\0' || strchr(" \t#", *in) == NULL); in++) {
            if (*in == quote)
                quote = '\0';
            else if (quote == '\0' && (*in == '\'' || *in == '"'))
                quote = *in;
            else if (*in == '\\' && quote != '\'' && in[1] != '\0')
                *out++ = *++in;
            else
                *out++ = *in;
        }
        if (quote != '\0') {
            fail(EXIT_BAD_INPUT, "a quotation mark %c is not closed", quote);
            return -1;
        }
        /* The word's end may be the very character that stopped it: look at it before it is overwritten. */
        const bool last = *in == '\0' || *in == '#';
        in += !last;
        *out++ = '\0';
        if (last) return count;
    }
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t", text[length - 1]) != NULL) text[--length] = '\0';
    return text;
}

/* One line; `problem->name` stays NULL if there is nothing on it. */
static int parse_line(suite_problem *problem, char *line, const options *base, int call)
{
    const size_t length = strlen(line);
    if (length > 0 && line[length - 1] == '\r') line[length - 1] = '\0';
    /* Lines that end in it alone would be one line, with all but the first problem lost in a comment. */
    if (strchr(line, '\r') != NULL)
        return fail(EXIT_BAD_INPUT, "a carriage return is within it; allowed: at a line's end, before the newline");
    char *text = trim(line);
    if (*text == '\0' || *text == '#') return 0;
    char *colon = text + strcspn(text, ":#");
    if (*colon != ':') {
        return fail(EXIT_BAD_INPUT, "'%.300s' has no colon; allowed: a name, a colon, options", text);
    }
    *colon = '\0';
    text = trim(text);
    if (*text == '\0')
        return fail(EXIT_BAD_INPUT, "the name before the colon is empty; allowed: a name, a colon, options");
    for (const char *byte = text; *byte != '\0'; byte++) {
        if ((unsigned char)*byte < ' ' || *byte == 0x7f)
            return fail(EXIT_BAD_INPUT, "the name '%.300s' has a control character; allowed: text", text);
    }
    char *words[MOST_WORDS];
    const int count = split_words(colon + 1, words);
    if (count < 0) return EXIT_BAD_INPUT;
    problem->options = *base;
    const int failed = options_parse_line(&problem->options, call, count, words);
    if (failed != 0) return fail_within(failed, text);
    problem->name = text;
    return 0;
}

int suite_parse(suite *s, char *text, size_t size, const options *base, int call)
{
    *s = (suite){0};
    if (memchr(text, '\0', size) != NULL) return fail(EXIT_BAD_INPUT, "it has zero bytes; allowed: text");
    text[size] = '\0';
    int64_t most = 1;
    for (size_t i = 0; i < size; i++) most += text[i] == '\n';
    s->problems = memory_get(most, sizeof(suite_problem), "the suite");
    if (s->problems == NULL) return EXIT_CANNOT;
    if (strncmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0) text += strlen(BYTE_ORDER_MARK);
    int number = 0;
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        suite_problem *problem = &s->problems[s->count];
        *problem = (suite_problem){.line = ++number};
        const int failed = parse_line(problem, line, base, call);
        if (failed != 0) {
            char place[32];
            snprintf(place, sizeof place, "line %d", number);
            return fail_within(failed, place);
        }
        s->count += problem->name != NULL;
    }
    return s->count > 0
               ? 0
               : fail(EXIT_BAD_INPUT, "it has no problem; allowed: one or more lines of a name, a colon, options");
}

static int read_text(suite *s, const char *name, size_t *size)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL) return fail(EXIT_BAD_INPUT, "cannot be opened: %s", strerror(errno));
    s->text = memory_get(MOST_BYTES + 1, 1, "the suite");
    if (s->text == NULL) {
        fclose(file);
        return EXIT_CANNOT;
    }
    *size = fread(s->text, 1, MOST_BYTES + 1, file);
    const bool broken = ferror(file) != 0;
    const int reason = errno;
    fclose(file);
    if (broken) return fail(EXIT_BAD_INPUT, "cannot be read: %s", strerror(reason));
    if (*size > MOST_BYTES) return fail(EXIT_BAD_INPUT, "it has more than 16 MiB; allowed: at most that");
    return 0;
}

int suite_open(suite *s, const options *o, int call)
{
    *s = (suite){0};
    int failed = options_check(o, call, o->suite != NULL);
    if (failed != 0) return failed;
    if (o->suite == NULL) {
        s->problems = memory_get(1, sizeof(suite_problem), "the problem");
        if (s->problems == NULL) return EXIT_CANNOT;
        s->problems[0] = (suite_problem){.options = *o};
        s->count = 1;
        return 0;
    }
    size_t size = 0;
    failed = read_text(s, o->suite, &size);
    if (failed == 0) {
        char *text = s->text;
        failed = suite_parse(s, text, size, o, call);
        s->text = text;
    }
    if (failed == 0) return 0;
    char place[4200];
    snprintf(place, sizeof place, "--suite %.4096s", o->suite);
    return fail_within(failed, place);
}

void suite_close(suite *s)
{
    memory_release(s->problems);
    memory_release(s->text);
    *s = (suite){0};
}

int suite_fail_within(int status, const suite_problem *problem, const char *suite_name)
{
    if (suite_name == NULL) return status;
    char place[4400];
    snprintf(place, sizeof place, "--suite %.4096s: line %d: %.100s", suite_name, problem->line, problem->name);
    return fail_within(status, place);
}
