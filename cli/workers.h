/* Plain threads over numbered jobs, for filling arrays and for the reference, which are no part of what is timed. */
#ifndef TAPCONV_CLI_WORKERS_H
#define TAPCONV_CLI_WORKERS_H

#include <stdint.h>

typedef void (*worker_job)(void *context, int64_t job, int worker);

#define WORKERS_MOST 64

/* How many workers a run with `threads` (0: one a core) has: 1 to WORKERS_MOST, at most `jobs`. */
int workers_count(int64_t threads, int64_t jobs);

/* Runs jobs 0 to jobs-1, each once, on `workers` threads numbered from 0; returns when all are done. */
void workers_run(int workers, int64_t jobs, worker_job run, void *context);

#endif
