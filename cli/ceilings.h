/* What the machine can do at most, measured once in a run for each kind of arithmetic and of machine options. */
#ifndef TAPCONV_CLI_CEILINGS_H
#define TAPCONV_CLI_CEILINGS_H

#include "engine.h"

/* Measures at the first call for these options. `*fresh` (may be NULL) says whether this call did. */
int ceilings_get(const options *o, tapconv_ceilings *ceilings, bool *fresh);

/* The least time, in seconds, that a problem can take, and the name of what binds it: "fma", "tensor", "copy" or "launch".
 * The GPU's tensor cores count where a sum has channels enough for them: 16 of a group. */
double ceilings_floor(const tapconv_ceilings *ceilings, const tapconv_plan_info *info, const layer *l,
                      const char **name);

/* A line of what they are. */
void ceilings_print(const tapconv_ceilings *ceilings, const options *o);

#endif
