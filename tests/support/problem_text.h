/* A problem as options of the command, for messages: it can be pasted behind `tapconv check`. */
#ifndef PROBLEM_TEXT_H
#define PROBLEM_TEXT_H

#include "tapconv.h"

#include <stddef.h>

/* Writes it, and behind a # what the command has no options for; returns its length, below `size`. */
size_t problem_text(char *text, size_t size, const tapconv_problem *problem);

#endif
