#include "workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct pool {
    worker_job run;
    void *context;
    int64_t jobs;
    atomic_int_fast64_t next;
    atomic_int next_worker;
} pool;

int workers_count(int64_t threads, int64_t jobs)
{
    int64_t count = threads > 0 ? threads : sysconf(_SC_NPROCESSORS_ONLN);
    if (count > jobs) count = jobs;
    if (count > WORKERS_MOST) count = WORKERS_MOST;
    return count < 1 ? 1 : (int)count;
}

static void *work(void *argument)
{
    pool *shared = argument;
    const int worker = atomic_fetch_add(&shared->next_worker, 1);
    for (;;) {
        const int64_t job = atomic_fetch_add(&shared->next, 1);
        if (job >= shared->jobs) return NULL;
        shared->run(shared->context, job, worker);
    }
}

void workers_run(int workers, int64_t jobs, worker_job run, void *context)
{
    pool shared = {.run = run, .context = context, .jobs = jobs};
    pthread_t threads[WORKERS_MOST];
    int started = 0;
    /* A thread that cannot be had is done without: the calling thread takes every job that nobody else takes. */
    while (started < workers - 1 && pthread_create(&threads[started], NULL, work, &shared) == 0) started++;
    work(&shared);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
