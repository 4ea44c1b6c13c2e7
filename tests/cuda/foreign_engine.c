/* Shared objects that are not this library's engine: FOREIGN says in what way. */
#include "engine.h"

#define WITHOUT_ENTRY 0
#define OTHER_VERSION 1
#define OTHER_TABLE 2
#define WITHOUT_TABLE 3

#if FOREIGN == WITHOUT_ENTRY
__attribute__((visibility("default"))) int tapconv_something_else = 1;
#else
tapconv_cuda_entry tapconv_cuda_engine_entry;

__attribute__((visibility("default"))) const tapconv_engine *
tapconv_cuda_engine_entry(void (*keep_sentence)(const char *sentence))
{
    static const tapconv_engine engine = {
        .table_bytes = sizeof engine - (FOREIGN == OTHER_TABLE ? sizeof engine.time : 0),
        .version = FOREIGN == OTHER_VERSION ? "0.0.1" : TAPCONV_VERSION_TEXT,
    };
    (void)keep_sentence;
    return FOREIGN == WITHOUT_TABLE ? NULL : &engine;
}
#endif
