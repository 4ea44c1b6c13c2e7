/* The calls. Each prints its result and returns an exit status; the sentence of a failure is kept (failure.h). */
#ifndef TAPCONV_CLI_COMMANDS_H
#define TAPCONV_CLI_COMMANDS_H

#include "suite.h"

int command_run(const options *o);
int command_check(const options *o);
int command_bench(const options *o);
int command_explain(const options *o);
int command_info(const options *o);

/* Runs a call over the problem of the command line, or over those of its suite, all of which are looked at before the
 * first is run. `name_width` is that of the longest name, 0 without a suite. */
typedef int (*problem_call)(const suite_problem *problem, int name_width, void *context);
int for_each_problem(const options *o, int call, problem_call run, void *context);

/* The first column of a table's row: the name, padded; nothing without a suite. */
void print_name(const char *name, int name_width);

/* The keys "name" and "problem"; without a suite the problem's text is its name. */
int json_problem(const suite_problem *problem);

#endif
