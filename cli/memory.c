#include "memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

/* The size stands in front of the array, so that releasing it can be counted. */
#define ALIGNMENT 64

static uint64_t outstanding;

static bool read_number(const char *path, const char *prefix, uint64_t *number)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        found = strncmp(line, prefix, strlen(prefix)) == 0 && sscanf(line + strlen(prefix), "%" SCNu64, number) == 1;
    }
    fclose(file);
    return found;
}

/* What is free when the program starts: the machine's, or the control group's if that is less. Unlimited where the
 * system does not say. */
static uint64_t available_at_start(void)
{
    uint64_t available = UINT64_MAX, kilobytes, limit, used;
    if (read_number("/proc/meminfo", "MemAvailable:", &kilobytes)) available = kilobytes * 1024;
    if (read_number("/sys/fs/cgroup/memory.max", "", &limit) &&
        read_number("/sys/fs/cgroup/memory.current", "", &used) && limit >= used && limit - used < available) {
        available = limit - used;
    }
    return available;
}

static bool may_take(uint64_t bytes)
{
    static uint64_t available;
    if (available == 0) available = available_at_start();
    return outstanding <= available && bytes <= available - outstanding;
}

static void *no_memory(double bytes, const char *what)
{
    fail(EXIT_CANNOT, "out of memory: %s needs %.4g MiB more than the %.4g MiB already held, and that is not available",
         what, bytes / 1048576.0, (double)outstanding / 1048576.0);
    return NULL;
}

void *memory_get(int64_t count, size_t size, const char *what)
{
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)count, (uint64_t)size, &bytes) || bytes > SIZE_MAX - 2 * ALIGNMENT) {
        return no_memory((double)count * (double)size, what);
    }
    const uint64_t rounded = (bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *block = may_take(rounded) ? aligned_alloc(ALIGNMENT, (size_t)rounded) : NULL;
    if (block == NULL) return no_memory((double)bytes, what);
    memcpy(block, &rounded, sizeof rounded);
    outstanding += rounded;
    return block + ALIGNMENT;
}

void memory_release(void *array)
{
    if (array == NULL) return;
    char *block = (char *)array - ALIGNMENT;
    uint64_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    outstanding -= bytes;
    free(block);
}

void *memory_resize(void *array, int64_t count, size_t size, const char *what)
{
    void *larger = memory_get(count, size, what);
    if (larger == NULL) return NULL;
    if (array != NULL) {
        uint64_t held;
        memcpy(&held, (char *)array - ALIGNMENT, sizeof held);
        const uint64_t old_bytes = held - ALIGNMENT, new_bytes = (uint64_t)count * size;
        memcpy(larger, array, (size_t)(old_bytes < new_bytes ? old_bytes : new_bytes));
        memory_release(array);
    }
    return larger;
}
