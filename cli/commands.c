#include "commands.h"

#include <stdlib.h>

#include "failure.h"
#include "json.h"
#include "layer.h"
#include "text.h"

static int look_at_all(const suite *s, const options *o)
{
    for (int64_t i = 0; i < s->count; i++) {
        layer l;
        const int failed = layer_open(&l, &s->problems[i].options, true);
        if (failed != 0) return suite_fail_within(failed, &s->problems[i], o->suite);
        layer_close(&l);
    }
    return 0;
}

int for_each_problem(const options *o, int call, problem_call run, void *context)
{
    suite s;
    int failed = suite_open(&s, o, call);
    if (failed == 0 && o->suite != NULL) failed = look_at_all(&s, o);
    int name_width = 0;
    for (int64_t i = 0; failed == 0 && o->suite != NULL && i < s.count; i++) {
        const int columns = text_columns(s.problems[i].name);
        if (columns > name_width) name_width = columns;
    }
    for (int64_t i = 0; failed == 0 && i < s.count; i++) {
        failed = run(&s.problems[i], name_width, context);
        if (failed != 0) failed = suite_fail_within(failed, &s.problems[i], o->suite);
    }
    suite_close(&s);
    return failed;
}

void print_name(const char *name, int name_width)
{
    if (name_width > 0) printf("%s%*s  ", name, name_width - text_columns(name), "");
}

int json_problem(const suite_problem *problem)
{
    char *text = options_problem_text(&problem->options);
    if (text == NULL) return EXIT_CANNOT;
    json_string("name", problem->name != NULL ? problem->name : text);
    json_string("problem", text);
    free(text);
    return 0;
}
