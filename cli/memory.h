/* Allocation that fails instead of promising what the machine does not have: Linux hands out more memory than there is
 * and later kills the process that uses it. Arrays are 64-byte aligned. */
#ifndef TAPCONV_CLI_MEMORY_H
#define TAPCONV_CLI_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* NULL, with the sentence kept by fail(EXIT_CANNOT, ...), if `count` elements of `size` bytes cannot be had. Never NULL
 * for an empty array. `what` names the array. May be called from one thread only. */
void *memory_get(int64_t count, size_t size, const char *what);

/* Gives back; NULL is allowed. */
void memory_release(void *array);

/* Changes the size as realloc does; on failure the old array is still there. */
void *memory_resize(void *array, int64_t count, size_t size, const char *what);

#endif
