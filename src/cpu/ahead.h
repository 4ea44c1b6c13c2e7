/* Reading ahead. Weights of the next rows and input of the next tile lie in stretches of a few KB with long jumps between,
 * which hardware prefetchers follow too late. So each call of a kernel is followed by requests for a few lines of them,
 * as many as spreads the next stretch evenly over the calls that are left; they arrive in L2 while the kernels run. */
#ifndef TAPCONV_CPU_AHEAD_H
#define TAPCONV_CPU_AHEAD_H

#include <stdint.h>

#define TAPCONV_LINE 64

/* `rows` stretches of row_lines lines, `row_step` bytes apart; `per_call` lines at a time. */
typedef struct tapconv_ahead {
    const char *next;
    int64_t row_step, row_lines, rows, line, per_call;
} tapconv_ahead;

static inline tapconv_ahead tapconv_read_ahead(const void *first, int64_t row_bytes, int64_t row_step, int64_t rows,
                                               int64_t calls)
{
    tapconv_ahead a = {.next = first, .row_step = row_step, .rows = rows};
    a.row_lines = (row_bytes + TAPCONV_LINE - 1) / TAPCONV_LINE + 1;
    a.per_call = calls > 0 ? (a.row_lines * rows + calls - 1) / calls : 0;
    return a;
}

static inline void tapconv_ahead_step(tapconv_ahead *a)
{
    for (int64_t i = 0; i < a->per_call && a->rows > 0; i++) {
        __builtin_prefetch(a->next + a->line * TAPCONV_LINE, 0, 2);
        if (++a->line == a->row_lines) {
            a->line = 0;
            a->rows--;
            /* Not past the last row: such an address may not even be formed. */
            if (a->rows > 0) a->next += a->row_step;
        }
    }
}

#endif
