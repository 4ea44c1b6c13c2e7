/* A team of threads. The caller is thread 0; what runs is the same whatever provides the threads. */
#ifndef TAPCONV_CPU_PARALLEL_H
#define TAPCONV_CPU_PARALLEL_H

/* Runs body(context, thread, team) for thread = 0 .. team - 1 at once and returns when all are done. The team may be
 * smaller than `threads`, never larger. */
void tapconv_parallel(int threads, void (*body)(void *context, int thread, int team), void *context);

/* All of the team arrive before any goes on. Only within body, with body's team. */
void tapconv_barrier(int team);

/* One a core that this process may use. */
int tapconv_default_threads(void);

#endif
