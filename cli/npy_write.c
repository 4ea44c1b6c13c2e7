#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "npy.h"

#define MOST_LINKS 40 /* as Linux has it */

/* The temporary file while there is one, for the signal handler. */
static char temporary[PATH_MAX + 32];
static volatile sig_atomic_t temporary_exists;
static pthread_t writer;

/* The signals that end a program without asking it, but for SIGKILL. */
static const int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
#define ENDING_SIGNALS (sizeof ending_signals / sizeof ending_signals[0])

/* Any thread may be given a signal; the one that writes handles it, so that it does not go on meanwhile. */
static void remove_temporary(int signal_number)
{
    if (!pthread_equal(pthread_self(), writer)) {
        pthread_kill(writer, signal_number);
        return;
    }
    if (temporary_exists) unlink(temporary);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_signals(void)
{
    writer = pthread_self();
    for (size_t i = 0; i < ENDING_SIGNALS; i++) {
        struct sigaction action;
        if (sigaction(ending_signals[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        action.sa_handler = remove_temporary;
        action.sa_flags = SA_RESTART; /* a thread that hands a signal on goes on */
        sigfillset(&action.sa_mask);
        sigaction(ending_signals[i], &action, NULL);
    }
    /* A file beyond the process's limit is then an error of write like any other. */
    signal(SIGXFSZ, SIG_IGN);
}

/* Signals wait until the file that was made is known, and known by its name. */
static int make_temporary(const char *directory)
{
    sigset_t ending, before;
    sigemptyset(&ending);
    for (size_t i = 0; i < ENDING_SIGNALS; i++) sigaddset(&ending, ending_signals[i]);
    watch_signals();
    pthread_sigmask(SIG_BLOCK, &ending, &before);
    snprintf(temporary, sizeof temporary, "%s/.tapconv-XXXXXX", directory);
    const int descriptor = mkstemp(temporary);
    const int reason = errno;
    temporary_exists = descriptor >= 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return descriptor;
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

/* The file that a symbolic link leads to, so that the link stays, also where there is no such file yet. Where links lead
 * in a circle it is one of them. What is no file keeps its name: /dev/stdout is a link with no name behind it in a pipe. */
static void resolve(const char *path, char resolved[PATH_MAX])
{
    if (!is_special(path) && realpath(path, resolved) != NULL) return;
    snprintf(resolved, PATH_MAX, "%s", path);
    if (is_special(path)) return;
    for (int links = 0; links < MOST_LINKS; links++) {
        char link[PATH_MAX], directory[PATH_MAX], next[2 * PATH_MAX];
        const ssize_t length = readlink(resolved, link, sizeof link - 1);
        if (length < 0) return;
        link[length] = '\0';
        directory_of(resolved, directory);
        const int whole =
            snprintf(next, sizeof next, "%s%s%s", link[0] == '/' ? "" : directory, link[0] == '/' ? "" : "/", link);
        if (whole >= PATH_MAX) return;
        memcpy(resolved, next, (size_t)whole + 1);
    }
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
    } else if (S_ISLNK(status.st_mode)) {
        return fail_write(option, path, ELOOP);
    }
    directory_of(target, directory);
    if (stat(directory, &status) != 0) return fail_write(option, path, errno);
    if (!S_ISDIR(status.st_mode)) return fail_write(option, path, ENOTDIR);
    return access(directory, W_OK | X_OK) == 0 ? 0 : fail_write(option, path, errno);
}

bool npy_is_output(const char *path)
{
    struct stat file, output;
    return is_special(path) && stat(path, &file) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
           file.st_dev == output.st_dev && file.st_ino == output.st_ino;
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
    const int descriptor = make_temporary(directory);
    if (descriptor < 0) return fail_write(option, path, errno);
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
