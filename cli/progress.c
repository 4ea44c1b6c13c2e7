#include "progress.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *doing;
static double started, done;
static bool drawn;

static void draw(void)
{
    const double seconds = clock_seconds() - started;
    if (doing == NULL || seconds < 2) return;
    if (done > 0)
        fprintf(stderr, "\r\033[K%s: %.0f s, %.0f %%", doing, seconds, 100 * done);
    else
        fprintf(stderr, "\r\033[K%s: %.0f s", doing, seconds);
    fflush(stderr);
    drawn = true;
}

static void *draw_for_ever(void *unused)
{
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        pthread_mutex_lock(&lock);
        draw();
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

void progress_show(const char *what)
{
    static int terminal = -1; /* not known yet */
    if (terminal < 0) {
        pthread_t thread;
        terminal = isatty(STDERR_FILENO) && pthread_create(&thread, NULL, draw_for_ever, NULL) == 0;
        if (terminal) pthread_detach(thread);
    }
    if (!terminal) return;
    pthread_mutex_lock(&lock);
    if (started == 0) started = clock_seconds();
    doing = what;
    done = 0;
    if (what == NULL && drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        drawn = false;
    }
    pthread_mutex_unlock(&lock);
}

void progress_set(double fraction)
{
    pthread_mutex_lock(&lock);
    done = fraction;
    pthread_mutex_unlock(&lock);
}
