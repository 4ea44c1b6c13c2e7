/* src/cpu/parallel.h by plain pthreads, started anew for each call: slow, but the thread sanitizer understands every
 * step, which it does not of an OpenMP runtime that was not compiled for it. For tests only. */
#define _POSIX_C_SOURCE 200809L /* barriers */

#include "cpu/parallel.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_THREADS 64

typedef struct team {
    void (*body)(void *context, int thread, int team);
    void *context;
    int size;
    pthread_barrier_t barrier;
} team;

typedef struct member {
    team *of;
    int thread;
} member;

static _Thread_local team *current;

static void *run_member(void *argument)
{
    const member *const m = argument;
    current = m->of;
    m->of->body(m->of->context, m->thread, m->of->size);
    return NULL;
}

void tapconv_parallel(int threads, void (*body)(void *context, int thread, int team), void *context)
{
    if (threads <= 1) {
        body(context, 0, 1);
        return;
    }
    team t = {.body = body, .context = context, .size = threads < MOST_THREADS ? threads : MOST_THREADS};
    if (pthread_barrier_init(&t.barrier, NULL, (unsigned)t.size) != 0) abort();
    pthread_t handles[MOST_THREADS];
    member members[MOST_THREADS];
    for (int i = 1; i < t.size; i++) {
        members[i] = (member){&t, i};
        if (pthread_create(&handles[i], NULL, run_member, &members[i]) != 0) abort();
    }
    members[0] = (member){&t, 0};
    run_member(&members[0]);
    for (int i = 1; i < t.size; i++) pthread_join(handles[i], NULL);
    pthread_barrier_destroy(&t.barrier);
}

void tapconv_barrier(int team)
{
    if (team > 1) pthread_barrier_wait(&current->barrier);
}

int tapconv_default_threads(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}
