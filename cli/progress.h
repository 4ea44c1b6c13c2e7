/* A line on standard error for whatever takes longer than two seconds, when standard error is a terminal. A thread of
 * its own draws it, so that it also lives through calls that report nothing. */
#ifndef TAPCONV_CLI_PROGRESS_H
#define TAPCONV_CLI_PROGRESS_H

/* What is being done from now on; the seconds count from the first call. `what` must stay. NULL: nothing; the line is
 * wiped away, so that rows can be printed. */
void progress_show(const char *what);

/* How much of it is done, 0 to 1. May be called from any thread. */
void progress_set(double fraction);

#endif
