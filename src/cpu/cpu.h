/* The CPU engine's plan, and what its files share. engine.c makes the plan, run.c executes it: it cuts the outputs into
 * waves and units, dense.c or depthwise.c computes units, norm.c finishes a wave. */
#ifndef TAPCONV_CPU_CPU_H
#define TAPCONV_CPU_CPU_H

#include "cpu/kernels.h"
#include "problem.h"

typedef struct tapconv_cpu_plan tapconv_cpu_plan;
typedef struct tapconv_job tapconv_job;

/* A range of flattened output channels, item*C_out + channel, [first, end): whole items, or part of one. */
typedef struct tapconv_span {
    int64_t first, end;
} tapconv_span;

/* A way to compute the convolution. Adding one: fill a row of the table in engine.c. */
typedef struct tapconv_family {
    const char *name;
    /* Lays the plan out for this family; 0 if it does not take the problem, -1 without memory. */
    int (*layout)(tapconv_cpu_plan *plan);
    /* The pieces that a span is cut into, for a team of this many. */
    int64_t (*units)(const tapconv_cpu_plan *plan, tapconv_span span, int team);
    /* Computes units [first, end) of the span, with the thread's scratch memory. */
    void (*compute)(const tapconv_job *job, tapconv_span span, int team, int64_t first, int64_t end, void *scratch);
} tapconv_family;

struct tapconv_cpu_plan {
    tapconv_shape shape;
    const tapconv_isa *isa;
    const tapconv_real_kernels *real;
    const tapconv_family *family;
    char kernel[48], reason[192];
    int threads;

    /* The convolution's own result needs no further pass: it goes from registers to y, or to `conv` before GroupNorm. */
    int direct;
    int stream; /* y is too large to stay in the caches */

    /* Staging (dense.c, depthwise.c): see the files' heads. */
    int panel;
    int samples_first;  /* all output channels pass over a piece of samples, not all samples over a block of channels */
    int64_t phases;     /* rows of a staged channel: phases of the stride, or taps in a panel */
    int32_t *phase;     /* [phases] */
    int32_t *offset;    /* [chunk_terms] of staged samples, then [last_chunk] of those of the last chunk */
    int64_t columns;    /* samples of a tile in time */
    int64_t tiles;      /* such tiles of an item */
    int64_t tile_items; /* items side by side in a tile, where items are shorter than a tile */
    int64_t row;        /* elements of a staged row */
    int64_t line;       /* samples of input under a tile; 0: taps are loaded one by one */
    int64_t chunk_terms; /* terms staged at a time */
    int64_t last_chunk;  /* terms of the last chunk */
    int64_t acc_row, acc_rows;
    int64_t stage_elements;

    /* GroupNorm (norm.c). */
    int conv_in_y;                    /* the convolution's result waits in y; otherwise in the workspace */
    int64_t wave;                     /* flattened channels of a wave */
    int64_t block_rows, group_blocks; /* statistics are taken over blocks of whole rows */

    /* The workspace: the shared part, then one part a thread. Offsets in bytes from its (aligned) beginning. */
    size_t conv_at, moments_at, bias_at, params_at, thread_at, thread_bytes, workspace_bytes;
};

/* One execute. */
struct tapconv_job {
    const tapconv_cpu_plan *plan;
    const tapconv_arrays *arrays;
    char *workspace;            /* aligned */
    const void *bias;           /* real, NULL without bias */
    const double *bias64;       /* the same in float64 */
    const double *gamma, *beta; /* float64; NULL unless affine */
};

/* dense.c: whether items are so short that they should lie side by side in a panel, so that a register tile is full. */
int tapconv_dense_merges(const tapconv_shape *s, int64_t lanes);

extern const tapconv_family tapconv_dense_window, tapconv_dense_panel, tapconv_depthwise;

/* pack.c */
size_t tapconv_packed_elements(const tapconv_shape *shape);
void tapconv_pack(const tapconv_cpu_plan *plan, const void *w, void *packed);
/* Whether all packed weights are finite: then terms whose samples are all padding may be left out. */
int tapconv_packed_finite(const tapconv_cpu_plan *plan, const void *packed);
/* The weights of term 0 of a channel, and their distance from term to term. */
const void *tapconv_packed_channel(const tapconv_cpu_plan *plan, const void *packed, int64_t channel, int64_t *step);

/* stage.c: n samples of channel `channel` of an item into dst, from time `start` on in steps of `stride`; zeros outside
 * the input. */
void tapconv_stage(const tapconv_job *job, void *dst, int64_t item, int64_t channel, int64_t start, int64_t stride,
                   int64_t n);
/* The phases of the stride that taps fall on; fills plan->phase and phases. 0 without memory. */
int tapconv_plan_phases(tapconv_cpu_plan *plan);
/* Where tap k lies in a channel staged by phases: row*plan->row + shift. */
int64_t tapconv_phase_offset(const tapconv_cpu_plan *plan, int64_t k);

/* emit.c: finished convolution rows to where they belong. `out` describes src, rows, count; the rest is filled here. */
void tapconv_emit_conv(const tapconv_job *job, tapconv_span span, int64_t item, int64_t channel, int64_t time,
                       tapconv_emit out);
/* How many of the columns at `out` come before the first that is aligned for streaming stores; -1 where rows of the result
 * are aligned differently, or are not to be streamed. */
int64_t tapconv_stream_head(const tapconv_cpu_plan *plan, const void *out, int64_t rows);
/* The place of (item, channel, time) in the convolution's result: y, or what waits for GroupNorm. Real type, NCL. */
void *tapconv_conv_at(const tapconv_job *job, tapconv_span span, int64_t item, int64_t channel, int64_t time);

/* norm.c */
void tapconv_norm_layout(tapconv_cpu_plan *plan);
void tapconv_norm_wave(const tapconv_job *job, tapconv_span span, int thread, int team);

/* run.c */
void tapconv_cpu_execute(const void *made, const tapconv_arrays *arrays);

tapconv_status tapconv_cpu_ceilings(const tapconv_plan_options *options, tapconv_math math, tapconv_ceilings *ceilings);

/* The first cache line from p on. */
static inline char *tapconv_aligned(char *p)
{
    return p + (64 - (uintptr_t)p % 64) % 64;
}

static inline int64_t tapconv_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t tapconv_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t tapconv_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static inline int64_t tapconv_round_up(int64_t a, int64_t b)
{
    return tapconv_ceil_div(a, b) * b;
}

#endif
