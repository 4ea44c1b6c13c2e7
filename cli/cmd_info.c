/* tapconv info: what is built in, and what the machine has. */
#include <stdio.h>
#include <unistd.h>

#include "commands.h"
#include "json.h"

#define MOST_NAMES 64
#define MOST_GPUS 32
#define GPU_TEXT 256

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

/* The GPUs as text, a row of `texts` each; `*reason` says why there are none. The engine's sentence is within one line. */
static int gpu_texts(char texts[MOST_GPUS][GPU_TEXT], const char **reason)
{
    tapconv_plan_options where = {.device = TAPCONV_CUDA};
    int32_t count = 0;
    *reason = "the driver finds none";
    if (tapconv_device_count(&where, &count) != TAPCONV_OK) {
        *reason = tapconv_last_error();
        return 0;
    }
    if (count > MOST_GPUS) count = MOST_GPUS;
    for (int32_t i = 0; i < count; i++) {
        tapconv_device_info gpu;
        where.device_index = i;
        if (tapconv_device_describe(&where, &gpu) != TAPCONV_OK)
            snprintf(texts[i], sizeof texts[i], "cuda:%d: %.200s", (int)i, tapconv_last_error());
        else
            snprintf(texts[i], sizeof texts[i],
                     "cuda:%d: %s, compute capability %d.%d, %d multiprocessors, %.1f GiB, driver for CUDA %d.%d",
                     (int)i, gpu.name, (int)gpu.major, (int)gpu.minor, (int)gpu.multiprocessors,
                     (double)gpu.memory_bytes / 1073741824.0, (int)(gpu.driver_version / 1000),
                     (int)(gpu.driver_version % 1000 / 10));
    }
    return count;
}

static int cuda_kernel_names(const char *names[MOST_NAMES])
{
    const tapconv_plan_options where = {.device = TAPCONV_CUDA};
    int count = 0;
    while (count < MOST_NAMES && (names[count] = tapconv_device_kernel_name(&where, count)) != NULL) count++;
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
    const char *isas[MOST_NAMES], *kernels[MOST_NAMES], *cuda_kernels[MOST_NAMES], *gpus[MOST_GPUS], *no_gpus;
    static char gpu_rows[MOST_GPUS][GPU_TEXT];
    const int isa_count = isa_names(tapconv_cpu_features(), isas), kernel_count = kernel_names(kernels);
    const int cuda_kernel_count = cuda_kernel_names(cuda_kernels), gpu_count = gpu_texts(gpu_rows, &no_gpus);
    for (int i = 0; i < gpu_count; i++) gpus[i] = gpu_rows[i];
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
        json_strings("gpus", gpus, gpu_count);
        json_strings("kernels", kernels, kernel_count);
        json_strings("cuda_kernels", cuda_kernels, cuda_kernel_count);
        return json_end();
    }
    printf("version       tapconv %s\n", tapconv_version());
    printf("compiler      %s\n", TAPCONV_CLI_COMPILER);
    printf("build type    %s\n", build_type);
    printf("OpenMP        %s\n", TAPCONV_CLI_HAS_OPENMP != 0 ? "yes" : "no: one thread");
    printf("libsndfile    %s\n", TAPCONV_CLI_HAS_SNDFILE != 0 ? "yes: -x takes .wav" : "no: -x takes .npy only");
    printf("cores         %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    print_names("CPU features  ", isas, isa_count);
    for (int i = 0; i < gpu_count; i++) printf("%-14s%s\n", i == 0 ? "GPUs" : "", gpus[i]);
    if (gpu_count == 0) printf("GPUs          none: %s\n", no_gpus);
    print_names("kernels       ", kernels, kernel_count);
    print_names("CUDA kernels  ", cuda_kernels, cuda_kernel_count);
    return 0;
}
