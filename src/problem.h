/* A validated problem with the sizes that follow from it. */
#ifndef TAPCONV_PROBLEM_H
#define TAPCONV_PROBLEM_H

#include "tapconv.h"

typedef struct tapconv_shape {
    tapconv_problem p;
    int64_t out_length; /* T_out */
    int64_t group_in;   /* C_in/groups: channels that one output reads */
    int64_t group_out;  /* C_out/groups */
    int64_t sum_length; /* C_in/groups * K: terms of one output's sum */
    int64_t norm_size;  /* channels of one GroupNorm group; 1 without GroupNorm */
    int64_t x_elements, w_elements, y_elements;
} tapconv_shape;

/* Fills `shape`, or fails with the sentence of the first field that is not allowed. */
tapconv_status tapconv_shape_from_problem(tapconv_shape *shape, const tapconv_problem *problem);

#endif
