/* The library, as the calls use it: plan, pack, execute. */
#ifndef TAPCONV_CLI_ENGINE_H
#define TAPCONV_CLI_ENGINE_H

#include "layer.h"

typedef struct engine {
    tapconv_plan *plan;
    tapconv_plan_info info;
    tapconv_plan_options where; /* that the plan was made with */
    tapconv_arrays arrays;      /* of an execute: the host's, or on the GPU */
    const void *w;              /* likewise */
    void *packed, *inputs[5];   /* inputs: those on the GPU, in the order of engine.c */
    tensor y;                   /* as the library writes it */
    tensor result;              /* the same in float32 or float64; shares y's memory where y has that type */
} engine;

tapconv_plan_options engine_plan_options(const options *o);

/* Plans the layer; nothing else is there yet. */
int engine_plan(engine *e, const options *o, const layer *l);

/* Takes memory for everything that an execute needs. */
int engine_allocate(engine *e, const layer *l);

/* Brings the layer's arrays to where they are computed with, and packs its weights. */
int engine_pack(engine *e, const layer *l);

/* Fills y with NaN, so that a sample that nobody writes shows. */
int engine_poison(engine *e);

/* On a GPU it may still be computing afterwards. */
int engine_execute(engine *e);

/* Returns when the GPU is done. */
int engine_wait(const engine *e);

bool engine_on_gpu(const engine *e);

/* Brings y into `result`. */
int engine_fetch(engine *e);

void engine_close(engine *e);

#endif
