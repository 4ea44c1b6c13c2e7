/* What dense.c and dense_stage.c share. */
#ifndef TAPCONV_CPU_DENSE_H
#define TAPCONV_CPU_DENSE_H

#include "cpu/cpu.h"

/* One tile of one group: items [item, item + items), samples [time, time + length) of each, output channels [first, end)
 * as counted in all of C_out. */
typedef struct tapconv_dense_unit {
    int64_t item, items, time, length, group, first, end;
    int64_t columns; /* items * length */
} tapconv_dense_unit;

/* A thread's scratch memory. */
typedef struct tapconv_dense_scratch {
    char *stage; /* plan->stage_elements: staged rows */
    char *line;  /* plan->line: input of one channel on its way into phases or a panel */
    char *acc;   /* plan->acc_rows x plan->acc_row: partial sums, and results on their way out */
} tapconv_dense_scratch;

tapconv_dense_scratch tapconv_dense_scratch_in(const tapconv_cpu_plan *plan, void *memory);

/* Stages the input for terms [first, end) of the unit's sums. */
void tapconv_dense_stage(const tapconv_job *job, const tapconv_dense_unit *u, int64_t first, int64_t end,
                         const tapconv_dense_scratch *s);

#endif
