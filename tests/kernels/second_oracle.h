/* The operator a second time, by other means than the library's oracle: an im2col matrix and a matrix product, means
 * and variances by Welford's updates, all in long double. It shares no code with the library. */
#ifndef TAPCONV_TESTS_SECOND_ORACLE_H
#define TAPCONV_TESTS_SECOND_ORACLE_H

#include "tapconv.h"

/* Arrays are float64 in the problem's layout; bias, gamma and beta may be NULL where the problem has none. Types and
 * math mode do not matter. */
void second_oracle(const tapconv_problem *p, const double *x, const double *w, const double *bias, const double *gamma,
                   const double *beta, double *y);

long double second_oracle_activation(tapconv_activation activation, long double v);

#endif
