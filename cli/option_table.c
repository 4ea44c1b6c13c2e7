#include "option_table.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* run takes its sizes from files. */
enum { SIZE_CALLS = PROBLEM_CALLS & ~CALL_RUN };

/* One problem's own; what suits all lines of a suite as well; what is no part of a problem. */
enum { SIZES = IN_PROBLEM | IN_SUITE, LAYER = SIZES | BESIDE_SUITE, SETTING = IN_SUITE | BESIDE_SUITE };

static const char *activation_choice(int64_t value)
{
    return tapconv_activation_name((tapconv_activation)value);
}

static const char *math_choice(int64_t value)
{
    return tapconv_math_name((tapconv_math)value);
}

static const char *layout_choice(int64_t value)
{
    return tapconv_layout_name((tapconv_layout)value);
}

static const char *isa_choice(int64_t value)
{
    return value < 32 ? tapconv_isa_name(UINT32_C(1) << value) : NULL;
}

static bool is_cpu_family(const char *name)
{
    const char *other;
    for (int32_t i = 0; (other = tapconv_kernel_name(i)) != NULL; i++) {
        if (strcmp(name, other) == 0) return true;
    }
    return false;
}

const char *option_family_name(int64_t index)
{
    const tapconv_plan_options cuda = {.device = TAPCONV_CUDA};
    int64_t count = 0;
    const char *name;
    for (int32_t i = 0; (name = tapconv_kernel_name(i)) != NULL; i++) {
        if (count++ == index) return name;
    }
    for (int32_t i = 0; (name = tapconv_device_kernel_name(&cuda, i)) != NULL; i++) {
        if (!is_cpu_family(name) && count++ == index) return name;
    }
    return NULL;
}

#define FIELD(name) offsetof(options, name)

const option_row option_rows[OPTION_COUNT] = {
    [OPTION_X] = {"-x", "FILE", KIND_FILE, FIELD(x), PROBLEM_CALLS, SIZES, 0, 0, NULL,
                  "input, .npy or .wav: (N,C_in,T), or (C_in,T) for one item"},
    [OPTION_W] = {"-w", "FILE", KIND_FILE, FIELD(w), PROBLEM_CALLS, SIZES, 0, 0, NULL,
                  "weight, .npy: (C_out,C_in/groups,K)"},
    [OPTION_B] = {"-b", "FILE", KIND_FILE, FIELD(b), PROBLEM_CALLS, SIZES, 0, 0, NULL, "bias, .npy: (C_out)"},
    [OPTION_SHAPE] = {"--shape", "N,C_in,T", KIND_SHAPE, FIELD(shape), SIZE_CALLS, SIZES, 0, 0, NULL,
                      "sizes of a random input instead of -x, in this order in either layout"},
    [OPTION_OUT_CHANNELS] = {"--out-channels", "C", KIND_INTEGER, FIELD(out_channels), SIZE_CALLS, SIZES, 1, MOST_SIZE,
                             NULL, "with --kernel: sizes of a random weight instead of -w"},
    [OPTION_KERNEL] = {"--kernel", "K", KIND_INTEGER, FIELD(kernel), SIZE_CALLS, SIZES, 1, MOST_SIZE, NULL, "taps"},
    [OPTION_BIAS] = {"--bias", NULL, KIND_FLAG, FIELD(bias), SIZE_CALLS, SIZES, 0, 0, NULL,
                     "a random bias instead of -b"},
    [OPTION_STRIDE] = {"--stride", "S", KIND_INTEGER, FIELD(stride), PROBLEM_CALLS, LAYER, 1, MOST_SIZE, NULL,
                       "samples from one output to the next; default 1"},
    [OPTION_DILATION] = {"--dilation", "D", KIND_INTEGER, FIELD(dilation), PROBLEM_CALLS, LAYER, 1, MOST_SIZE, NULL,
                         "samples from one tap to the next; default 1"},
    [OPTION_GROUPS] = {"--groups", "G", KIND_INTEGER, FIELD(groups), PROBLEM_CALLS, LAYER, 1, MOST_SIZE, NULL,
                       "of channels; divides C_in and C_out; default 1"},
    [OPTION_PADDING] = {"--padding", "P or L,R", KIND_PADDING, FIELD(padding), PROBLEM_CALLS, LAYER, 0, 0, NULL,
                        "zeros on both sides, or left and right; default 0"},
    [OPTION_CAUSAL] = {"--causal", NULL, KIND_FLAG, FIELD(causal), PROBLEM_CALLS, LAYER, 0, 0, NULL,
                       "left padding (K-1)*D, right padding 0; excludes --padding"},
    [OPTION_NORM_GROUPS] = {"--norm-groups", "G", KIND_INTEGER, FIELD(norm_groups), PROBLEM_CALLS, LAYER, 1, MOST_SIZE,
                            NULL, "GroupNorm of G groups after the convolution; divides C_out"},
    [OPTION_GAMMA] = {"--gamma", "FILE", KIND_FILE, FIELD(gamma), PROBLEM_CALLS, SIZES, 0, 0, NULL,
                      "GroupNorm's scale, .npy: (C_out); with --beta"},
    [OPTION_BETA] = {"--beta", "FILE", KIND_FILE, FIELD(beta), PROBLEM_CALLS, SIZES, 0, 0, NULL,
                     "GroupNorm's shift, .npy: (C_out); with --gamma"},
    [OPTION_EPS] = {"--eps", "E", KIND_REAL, FIELD(eps), PROBLEM_CALLS, LAYER, 0, 0, NULL,
                    "GroupNorm's epsilon; default 1e-5"},
    [OPTION_AFFINE] = {"--affine", NULL, KIND_FLAG, FIELD(affine), SIZE_CALLS, SIZES, 0, 0, NULL,
                       "random scale and shift instead of --gamma and --beta"},
    [OPTION_ACTIVATION] = {"--activation", "NAME", KIND_CHOICE, FIELD(activation), PROBLEM_CALLS, LAYER, 0, 0,
                           activation_choice, "last, after bias and GroupNorm; default none"},
    [OPTION_MATH] = {"--math", "MODE", KIND_CHOICE, FIELD(math), PROBLEM_CALLS, LAYER, 0, 0, math_choice,
                     "the arithmetic; default f32, accurate float32"},
    [OPTION_LAYOUT] = {"--layout", "NAME", KIND_CHOICE, FIELD(layout), PROBLEM_CALLS, LAYER, 0, 0, layout_choice,
                       "of x and y: (N,C,T), or (N,T,C) for nlc; default ncl"},
    [OPTION_DEVICE] = {"--device", "NAME", KIND_DEVICE, FIELD(device), PROBLEM_CALLS, LAYER, 0, 0, NULL,
                       "cpu, cuda, cuda:1 ...; explain also takes a card by name: cuda:h200; default cpu"},
    [OPTION_THREADS] = {"--threads", "N", KIND_INTEGER, FIELD(threads), PROBLEM_CALLS, LAYER, 1, 65536, NULL,
                        "CPU threads; default: one a core"},
    [OPTION_ISA] = {"--isa", "NAME", KIND_CHOICE, FIELD(isa), PROBLEM_CALLS, LAYER, 0, 0, isa_choice,
                    "the instruction set; default: the widest that this machine has"},
    [OPTION_FORCE_KERNEL] = {"--force-kernel", "NAME", KIND_CHOICE, FIELD(kernel_family), PROBLEM_CALLS, LAYER, 0, 0,
                             option_family_name, "the kernel family; default: the library chooses"},
    [OPTION_O] = {"-o", "FILE", KIND_FILE, FIELD(o), CALL_RUN, 0, 0, 0, NULL,
                  "where y goes, .npy: float32 (float64 for --math f64)"},
    [OPTION_JSON] = {"--json", NULL, KIND_FLAG, FIELD(json), PROBLEM_CALLS | CALL_INFO, BESIDE_SUITE, 0, 0, NULL,
                     "one JSON object a line instead of the table"},
    [OPTION_SUITE] = {"--suite", "FILE", KIND_FILE, FIELD(suite), SIZE_CALLS, BESIDE_SUITE, 0, 0, NULL,
                      "many problems, a line each: a name, a colon, options; # starts a comment"},
    [OPTION_SEED] = {"--seed", "N", KIND_INTEGER, FIELD(seed), CALL_CHECK | CALL_BENCH, SETTING, 0, INT64_C(1) << 62,
                     NULL, "of the random data, or the first of several; default 0"},
    [OPTION_SEEDS] = {"--seeds", "COUNT", KIND_INTEGER, FIELD(seeds), CALL_CHECK, SETTING, 1, 1000000, NULL,
                      "how many seeds to check; default 3"},
    [OPTION_ATOL] = {"--atol", "A", KIND_REAL, FIELD(atol), CALL_CHECK, SETTING, 0, 0, NULL,
                     "absolute tolerance; default by mode: f32, tf32, f16, bf16 1e-4, f64 1e-12"},
    [OPTION_RTOL] = {"--rtol", "R", KIND_REAL, FIELD(rtol), CALL_CHECK, SETTING, 0, 0, NULL,
                     "relative tolerance; default by mode: f32, tf32 1e-4, f16 1e-3, bf16 4e-3, f64 1e-12"},
    [OPTION_AGAINST] = {"--against", "FILE", KIND_FILE, FIELD(against), CALL_CHECK, IN_SUITE, 0, 0, NULL,
                        "a result of the same problem from elsewhere, .npy, to compare as well"},
    [OPTION_RUNS] = {"--runs", "COUNT", KIND_INTEGER, FIELD(runs), CALL_BENCH, SETTING, 1, 1000000, NULL,
                     "how many timed runs; default: as many as --min-time takes, at least 5"},
    [OPTION_MIN_TIME] = {"--min-time", "SECONDS", KIND_REAL, FIELD(min_time), CALL_BENCH, SETTING, 0, 0, NULL,
                         "time at least this long, unless --runs is given; default 0.5"},
    [OPTION_PLAIN] = {"--plain", NULL, KIND_FLAG, FIELD(plain), CALL_BENCH, SETTING, 0, 0, NULL,
                      "also say how many times faster than the plain float64 loops, timed on samples"},
};

static const struct {
    int call;
    const char *name;
} calls[] = {
    {CALL_RUN, "run"}, {CALL_CHECK, "check"}, {CALL_BENCH, "bench"}, {CALL_EXPLAIN, "explain"}, {CALL_INFO, "info"}};

const char *option_name(option_id id)
{
    return option_rows[id].name;
}

const char *call_name(int call)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].call == call) return calls[i].name;
    }
    return "";
}

void option_write_allowed(FILE *out, const option_row *option)
{
    const char *name;
    switch (option->kind) {
    case KIND_FLAG: break;
    case KIND_FILE: fputs("the name of a file", out); break;
    case KIND_INTEGER: fprintf(out, "a whole number, %" PRId64 " to %" PRId64, option->least, option->most); break;
    case KIND_REAL: fprintf(out, "a finite number, %" PRId64 " or more, that float64 can hold", option->least); break;
    case KIND_SHAPE:
        fprintf(out, "three whole numbers N,C_in,T with N >= 0, C_in >= 1, T >= 0, each at most %" PRId64, MOST_SIZE);
        break;
    case KIND_PADDING: fprintf(out, "one whole number P or two L,R, each 0 to %" PRId64, MOST_SIZE); break;
    case KIND_CHOICE:
        for (int64_t i = 0; (name = option->choice(i)) != NULL; i++) fprintf(out, "%s%s", i > 0 ? " " : "", name);
        break;
    case KIND_DEVICE: fputs("cpu, cuda, or cuda:N with N from 0", out); break;
    }
}

void option_calls_text(int mask, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if ((mask & calls[i].call) == 0) continue;
        if (text[0] != '\0') strncat(text, ", ", size - strlen(text) - 1);
        strncat(text, calls[i].name, size - strlen(text) - 1);
    }
}
