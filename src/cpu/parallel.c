#include "cpu/parallel.h"

#ifdef _OPENMP
#include <omp.h>

void tapconv_parallel(int threads, void (*body)(void *context, int thread, int team), void *context)
{
    if (threads <= 1) {
        body(context, 0, 1);
        return;
    }
#pragma omp parallel num_threads(threads)
    body(context, omp_get_thread_num(), omp_get_num_threads());
}

void tapconv_barrier(int team)
{
    /* A team of one may run within a caller's own parallel region, whose barrier this must not be. */
    if (team <= 1) return;
#pragma omp barrier
}

int tapconv_default_threads(void)
{
    return omp_get_max_threads();
}
#else
void tapconv_parallel(int threads, void (*body)(void *context, int thread, int team), void *context)
{
    (void)threads;
    body(context, 0, 1);
}

void tapconv_barrier(int team)
{
    (void)team;
}

int tapconv_default_threads(void)
{
    return 1;
}
#endif
