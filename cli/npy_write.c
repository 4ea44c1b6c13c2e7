#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "npy.h"

/* The temporary file while there is one, for the signal handler. */
static char temporary[PATH_MAX + 32];
static volatile sig_atomic_t temporary_exists;

static void remove_temporary(int signal_number)
{
    if (temporary_exists) unlink(temporary);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_signals(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action;
        if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        action.sa_handler = remove_temporary;
        action.sa_flags = 0;
        sigemptyset(&action.sa_mask);
        sigaction(signals[i], &action, NULL);
    }
    /* A file beyond the process's limit is then an error of write like any other. */
    signal(SIGXFSZ, SIG_IGN);
}

/* A wrong path is the caller's; anything else is the machine's. */
static int fail_write(const char *option, const char *path, int reason)
{
    static const int wrong_path[] = {ENOENT, EACCES, EPERM, ENOTDIR, EISDIR, EROFS, ENAMETOOLONG, ELOOP, EINVAL, ENXIO};
    int status = EXIT_CANNOT;
    for (size_t i = 0; i < sizeof wrong_path / sizeof wrong_path[0]; i++) {
        if (reason == wrong_path[i]) status = EXIT_BAD_INPUT;
    }
    return fail(status,
                "%s %.4000s cannot be written: %s; allowed: a file in a directory that exists and can be written",
                option, path, strerror(reason));
}

static int write_header(FILE *file, const tensor *t)
{
    char shape[128] = "", header[256];
    size_t used = 0;
    for (int i = 0; i < t->dimensions; i++) {
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%" PRId64 ", ", t->shape[i]);
    }
    const int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                                t->type == TAPCONV_F64 ? "<f8" : "<f4", shape);
    /* Padded with blanks and ended by a newline, so that the data begin at a multiple of 64. */
    const int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    putc(padded % 256, file);
    putc(padded / 256, file);
    fprintf(file, "%-*s\n", padded - 1, header);
    return ferror(file) != 0 ? -1 : 0;
}

/* Returns 0 or what errno said. Closes the file. */
static int write_all(FILE *file, const tensor *t)
{
    const size_t width = tapconv_type_bytes(t->type);
    const size_t count = (size_t)tensor_count(t);
    errno = 0;
    const bool written =
        write_header(file, t) == 0 && fwrite(t->data, width, count, file) == count && fflush(file) == 0;
    const int reason = errno;
    if (fclose(file) == 0 && written) return 0;
    return !written && reason != 0 ? reason : errno != 0 ? errno : EIO;
}

/* The file that a symbolic link leads to, so that the link stays; `path` itself where there is nothing yet. */
static void resolve(const char *path, char resolved[PATH_MAX])
{
    if (realpath(path, resolved) == NULL) snprintf(resolved, PATH_MAX, "%s", path);
}

static void directory_of(const char *path, char directory[PATH_MAX])
{
    snprintf(directory, PATH_MAX, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL)
        snprintf(directory, PATH_MAX, ".");
    else
        slash[slash == directory] = '\0';
}

static bool is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

int npy_check_writable(const char *option, const char *path)
{
    char target[PATH_MAX], directory[PATH_MAX];
    struct stat status;
    if (strlen(path) >= PATH_MAX) return fail_write(option, path, ENAMETOOLONG);
    resolve(path, target);
    if (target[strlen(target) - 1] == '/' || (stat(target, &status) == 0 && S_ISDIR(status.st_mode))) {
        return fail_write(option, path, EISDIR);
    }
    if (is_special(target)) return access(target, W_OK) == 0 ? 0 : fail_write(option, path, errno);
    if (lstat(target, &status) != 0) {
        if (errno != ENOENT) return fail_write(option, path, errno);
    } else if (S_ISLNK(status.st_mode)) { /* it leads nowhere, or realpath had followed it */
        return fail_write(option, path, ENOENT);
    }
    directory_of(target, directory);
    if (stat(directory, &status) != 0) return fail_write(option, path, errno);
    if (!S_ISDIR(status.st_mode)) return fail_write(option, path, ENOTDIR);
    return access(directory, W_OK | X_OK) == 0 ? 0 : fail_write(option, path, errno);
}

static int write_directly(const tensor *t, const char *option, const char *path)
{
    FILE *file = fopen(path, "wb");
    const int reason = file == NULL ? errno : write_all(file, t);
    return reason == 0 ? 0 : fail_write(option, path, reason);
}

int npy_write(const tensor *t, const char *option, const char *path)
{
    char target[PATH_MAX], directory[PATH_MAX];
    const int failed = npy_check_writable(option, path);
    if (failed != 0) return failed;
    resolve(path, target);
    if (is_special(target)) return write_directly(t, option, path);
    directory_of(target, directory);
    snprintf(temporary, sizeof temporary, "%s/.tapconv-XXXXXX", directory);
    watch_signals();
    const int descriptor = mkstemp(temporary);
    if (descriptor < 0) return fail_write(option, path, errno);
    temporary_exists = 1;
    /* mkstemp's files are private; the result has the mode of a new file, or of the one it replaces. */
    struct stat status;
    const mode_t mask = umask(0);
    umask(mask);
    const mode_t mode = stat(target, &status) == 0 ? status.st_mode & 0777 : 0666 & ~mask;
    int reason = fchmod(descriptor, mode) == 0 ? 0 : errno;
    FILE *file = fdopen(descriptor, "wb");
    if (file == NULL) {
        reason = errno;
        close(descriptor);
    } else if (reason == 0) {
        reason = write_all(file, t);
    } else {
        fclose(file);
    }
    if (reason == 0 && rename(temporary, target) != 0) reason = errno;
    if (reason != 0) unlink(temporary);
    temporary_exists = 0;
    return reason == 0 ? 0 : fail_write(option, path, reason);
}
