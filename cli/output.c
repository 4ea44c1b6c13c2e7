#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "failure.h"

/* Longer than any row: only output_flush writes, so that the reason of a failed write is seen where it happens. */
static char buffer[1 << 18];

void output_open(void)
{
    if (!isatty(STDOUT_FILENO)) setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

int output_flush(void)
{
    static int reason;
    errno = 0;
    if (fflush(stdout) != 0 && reason == 0) reason = errno;
    if (ferror(stdout) != 0 && reason == 0) reason = EIO;
    return reason == 0 ? 0 : fail(EXIT_CANNOT, "standard output cannot be written: %s", strerror(reason));
}
