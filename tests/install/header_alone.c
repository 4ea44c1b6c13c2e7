#include <tapconv.h>
