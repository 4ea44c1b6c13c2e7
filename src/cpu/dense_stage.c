/* Staging for the dense families: windows and panels, as dense.c describes them. */
#include "cpu/dense.h"

tapconv_dense_scratch tapconv_dense_scratch_in(const tapconv_cpu_plan *plan, void *memory)
{
    tapconv_dense_scratch s;
    s.stage = tapconv_aligned(memory);
    s.line = tapconv_aligned(s.stage + plan->stage_elements * plan->real->bytes);
    s.acc = tapconv_aligned(s.line + plan->line * plan->real->bytes);
    return s;
}

static void stage_window(const tapconv_job *job, const tapconv_dense_unit *u, int64_t channel,
                         const tapconv_dense_scratch *s, char *rows)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t start = u->time * p->stride - p->padding_left;
    const int64_t reach = (p->kernel_size - 1) * p->dilation / p->stride;
    const int64_t count = tapconv_round_up(u->length, plan->real->lanes) + reach + (p->stride > 1);
    if (p->stride == 1) {
        tapconv_stage(job, rows, u->item, channel, start, 1, count);
        return;
    }
    tapconv_stage(job, s->line, u->item, channel, start, 1, count * p->stride);
    plan->real->phases(rows, plan->row, s->line, plan->phase, plan->phases, p->stride, count);
}

/* Taps [tap, tap + taps) of one channel. */
static void stage_panel(const tapconv_job *job, const tapconv_dense_unit *u, int64_t channel, int64_t tap, int64_t taps,
                        const tapconv_dense_scratch *s, char *rows)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    const int64_t bytes = plan->real->bytes;
    for (int64_t i = 0; i < u->items; i++) {
        char *const to = rows + i * u->length * bytes;
        const int64_t start = u->time * p->stride - p->padding_left + tap * p->dilation;
        if (plan->line > 0) {
            const int64_t under = (u->length - 1) * p->stride + (taps - 1) * p->dilation + 1;
            tapconv_stage(job, s->line, u->item + i, channel, start, 1, under + TAPCONV_OVERREAD * p->stride);
            plan->real->taps(to, plan->row, s->line, taps, p->dilation, p->stride, u->length);
        } else {
            const int64_t count = tapconv_round_up(u->length, plan->real->lanes);
            for (int64_t k = 0; k < taps; k++)
                tapconv_stage(job, to + k * plan->row * bytes, u->item + i, channel, start + k * p->dilation, p->stride,
                              count);
        }
    }
}

void tapconv_dense_stage(const tapconv_job *job, const tapconv_dense_unit *u, int64_t first, int64_t end,
                         const tapconv_dense_scratch *s)
{
    const tapconv_cpu_plan *plan = job->plan;
    const int64_t taps = plan->shape.p.kernel_size, base = u->group * plan->shape.group_in;
    char *rows = s->stage;
    for (int64_t term = first; term < end;) {
        const int64_t channel = base + term / taps, tap = term % taps;
        const int64_t count = tapconv_min(taps - tap, end - term);
        if (plan->panel)
            stage_panel(job, u, channel, tap, count, s, rows);
        else
            stage_window(job, u, channel, s, rows);
        rows += (plan->panel ? count : plan->phases) * plan->row * plan->real->bytes;
        term += count;
    }
}
