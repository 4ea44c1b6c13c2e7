/* Loads the CUDA engine, a shared object of its own, when it is first asked for. It is loaded once and stays: plans hold
 * its functions. A failure is not remembered, so that a later call may find what was missing. */
#define _GNU_SOURCE /* dladdr */

#include "engine.h"
#include "error.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define ENGINE_NAME "libtapconv_cuda.so"
#define MOST_PATH 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const tapconv_engine *loaded;
static char loaded_path[MOST_PATH];

static void keep_sentence(const char *sentence)
{
    (void)tapconv_fail(TAPCONV_DEVICE_ERROR, "%s", sentence);
}

/* Beside what holds this code: the shared library, or the program that the static one is part of. A program in bin/ has
 * the engine where it was installed, in TAPCONV_ENGINE_FOLDER from there. */
static void find_beside(char path[MOST_PATH])
{
    static const char *const folders[] = {"", TAPCONV_ENGINE_FOLDER "/"};
    Dl_info self = {0}, program = {0};
    const char *name = dladdr((const void *)&loaded, &self) != 0 && self.dli_fname ? self.dli_fname : "";
    char program_name[MOST_PATH];
    /* A program has the name that it was called by, which need not say where it is. */
    const unsigned long in_it = getauxval(AT_PHDR);
    const void *headers;
    memcpy(&headers, &in_it, sizeof headers);
    const int in_program = dladdr(headers, &program) != 0 && self.dli_fbase == program.dli_fbase;
    const ssize_t length = in_program ? readlink("/proc/self/exe", program_name, sizeof program_name - 1) : 0;
    if (length > 0) {
        program_name[length] = '\0';
        name = program_name;
    }
    const char *slash = strrchr(name, '/');
    const int folder = slash ? (int)(slash - name) + 1 : 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, MOST_PATH, "%.*s%s" ENGINE_NAME, folder, name, folders[i]);
        if (access(path, F_OK) == 0) return;
    }
    snprintf(path, MOST_PATH, "%.*s" ENGINE_NAME, folder, name);
}

static tapconv_status fail(const char *path, const char *reason)
{
    /* dlerror() mostly begins with the path. */
    if (strncmp(reason, path, strlen(path)) == 0)
        return tapconv_fail(TAPCONV_NO_DEVICE, "device is cuda, whose engine cannot be loaded: %.400s", reason);
    return tapconv_fail(TAPCONV_NO_DEVICE, "device is cuda, whose engine %.250s cannot be loaded: %.200s", path,
                        reason);
}

static tapconv_status load(const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        const char *reason = dlerror();
        return fail(path, reason ? reason : "the system does not say why");
    }
    tapconv_cuda_entry *entry;
    *(void **)&entry = dlsym(object, TAPCONV_CUDA_ENTRY); /* as POSIX has it */
    const tapconv_engine *engine = entry ? entry(keep_sentence) : NULL;
    const int fits = engine && engine->table_bytes == sizeof *engine && strcmp(engine->version, tapconv_version()) == 0;
    if (!fits) {
        char reason[160];
        if (!entry)
            snprintf(reason, sizeof reason, "it has no " TAPCONV_CUDA_ENTRY);
        else if (!engine)
            snprintf(reason, sizeof reason, "it gives no engine");
        else
            snprintf(reason, sizeof reason,
                     "it is of tapconv %.40s with a table of %zu bytes, the library is %s with %zu", engine->version,
                     engine->table_bytes, tapconv_version(), sizeof *engine);
        const tapconv_status status = fail(path, reason);
        dlclose(object);
        return status;
    }
    loaded = engine;
    snprintf(loaded_path, sizeof loaded_path, "%s", path);
    return TAPCONV_OK;
}

tapconv_status tapconv_cuda_load(const tapconv_engine **engine, const char *path)
{
    char beside[MOST_PATH];
    tapconv_status status = TAPCONV_OK;
    if (path && (!path[0] || strlen(path) >= MOST_PATH))
        return tapconv_fail(TAPCONV_INVALID_ARGUMENT, "engine_path has %zu characters; it must have 1 to %d",
                            strlen(path), MOST_PATH - 1);
    pthread_mutex_lock(&lock);
    if (!loaded) {
        if (!path) find_beside(beside);
        status = load(path ? path : beside);
    } else if (path && strcmp(path, loaded_path) != 0) {
        status = tapconv_fail(TAPCONV_INVALID_ARGUMENT,
                              "engine_path is \"%.200s\"; it must be NULL or \"%.200s\", which is loaded", path,
                              loaded_path);
    }
    if (status == TAPCONV_OK) *engine = loaded;
    pthread_mutex_unlock(&lock);
    return status;
}
