/* tapconv info: what is built in, and what the machine has. */
#include <stdio.h>
#include <unistd.h>

#include "commands.h"
#include "json.h"

#define MOST_NAMES 64

static int isa_names(uint32_t mask, const char *names[MOST_NAMES])
{
    int count = 0;
    for (uint32_t bit = 0; bit < 32; bit++) {
        if ((mask >> bit & 1) != 0) names[count++] = tapconv_isa_name(UINT32_C(1) << bit);
    }
    return count;
}

static int kernel_names(const char *names[MOST_NAMES])
{
    int count = 0;
    while (count < MOST_NAMES && (names[count] = tapconv_kernel_name(count)) != NULL) count++;
    return count;
}

static void print_names(const char *label, const char *const *names, int count)
{
    fputs(label, stdout);
    for (int i = 0; i < count; i++) printf("%s%s", i > 0 ? ", " : "", names[i]);
    puts(count > 0 ? "" : "none");
}

int command_info(const options *o)
{
    const char *isas[MOST_NAMES], *kernels[MOST_NAMES];
    const int isa_count = isa_names(tapconv_cpu_features(), isas), kernel_count = kernel_names(kernels);
    const char *build_type = TAPCONV_CLI_BUILD_TYPE[0] != '\0' ? TAPCONV_CLI_BUILD_TYPE : "not set";
    if (o->json) {
        json_begin();
        json_string("version", tapconv_version());
        json_string("compiler", TAPCONV_CLI_COMPILER);
        json_string("build_type", build_type);
        json_bool("openmp", TAPCONV_CLI_HAS_OPENMP != 0);
        json_bool("libsndfile", TAPCONV_CLI_HAS_SNDFILE != 0);
        json_integer("cores", sysconf(_SC_NPROCESSORS_ONLN));
        json_strings("cpu_features", isas, isa_count);
        json_strings("gpus", NULL, 0);
        json_strings("kernels", kernels, kernel_count);
        json_end();
        return 0;
    }
    printf("version       tapconv %s\n", tapconv_version());
    printf("compiler      %s\n", TAPCONV_CLI_COMPILER);
    printf("build type    %s\n", build_type);
    printf("OpenMP        %s\n", TAPCONV_CLI_HAS_OPENMP != 0 ? "yes" : "no: one thread");
    printf("libsndfile    %s\n", TAPCONV_CLI_HAS_SNDFILE != 0 ? "yes: -x takes .wav" : "no: -x takes .npy only");
    printf("cores         %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    print_names("CPU features  ", isas, isa_count);
    puts("GPUs          none (this build has no CUDA engine)");
    print_names("kernels       ", kernels, kernel_count);
    return 0;
}
