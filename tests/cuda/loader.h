/* What the tests of the engine's loading share. */
#ifndef LOADER_H
#define LOADER_H

#include <tapconv.h>

/* Plans a small layer on a described card with the engine at `path`; NULL: where the library looks for it. */
tapconv_status plan_with(const char *path);

#endif
