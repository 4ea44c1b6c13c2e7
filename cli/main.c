/* The tapconv command: finds the call, reads its options, prints the one line of a failure. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "failure.h"
#include "output.h"

static const struct {
    const char *name;
    int call;
    int (*run)(const options *o);
    const char *help;
} commands[] = {
    {"run", CALL_RUN, command_run, "one layer on real arrays: reads tensors, computes, writes -o"},
    {"check", CALL_CHECK, command_check, "the same problem, compared with the float64 reference over several seeds"},
    {"bench", CALL_BENCH, command_bench,
     "times problems: ms, GFLOP/s, GB/s, % of the ceiling measured in the same run"},
    {"explain", CALL_EXPLAIN, command_explain,
     "without running: output shape, kernel and why, FLOPs, bytes, floor, workspace"},
    {"info", CALL_INFO, command_info, "version, build options, CPU features, GPUs, kernels present"},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(void)
{
    puts("tapconv: the 1-D convolution layers of sequence models,\n"
         "y = activation(GroupNorm(bias + conv1d(x, w))), GroupNorm, bias and activation each optional.\n\n"
         "usage: tapconv CALL OPTIONS\n");
    for (size_t i = 0; i < COMMANDS; i++) printf("  %-8s %s\n", commands[i].name, commands[i].help);
    puts("\nOptions (a call in brackets: for that call only):\n");
    options_write_help(stdout);
    puts("\nA problem's options in this order, defaults left out, are its name in suites and results.\n"
         "Random data: x normal(0,1); w and bias uniform in +-1/sqrt(C_in/groups*K); gamma 0.5..1.5, beta +-0.5.\n"
         "`check` in tf32, f16 and bf16 compares with float64 sums of the operands as rounded to that type, and above\n"
         "10 GFLOP on at least 100,000 outputs drawn at random.\n"
         "Exit status: 0 done; 1 a check failed its tolerance; 2 wrong usage or bad input; 3 the machine could not do "
         "it.\n\n"
         "  tapconv run -x x.npy -w w.npy --causal -o y.npy\n"
         "  tapconv bench --shape 2,256,8192 --out-channels 256 --kernel 4 --causal\n"
         "  tapconv check --shape 4,128,1024 --out-channels 256 --kernel 3 --padding 1 --norm-groups 32 --affine");
}

static int run(int count, char *words[])
{
    if (count < 2) return fail(EXIT_BAD_INPUT, "no call is given; 'tapconv --help' lists what there is");
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            print_help();
            return EXIT_DONE;
        }
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(words[1], commands[i].name) != 0) continue;
        options o = options_default();
        const int failed = options_parse(&o, commands[i].call, count - 2, words + 2);
        return failed != 0 ? failed : commands[i].run(&o);
    }
    return fail(EXIT_BAD_INPUT, "'%.300s' is no call; allowed: run check bench explain info, or --help", words[1]);
}

int main(int count, char *words[])
{
    output_open();
    int status = run(count, words);
    if (status < EXIT_BAD_INPUT) {
        const int failed = output_flush();
        if (failed != 0) status = failed;
    }
    if (status != EXIT_DONE) {
        const char *call = count > 1 ? words[1] : "";
        for (size_t i = 0; i < COMMANDS; i++) {
            if (strcmp(call, commands[i].name) == 0) fprintf(stderr, "tapconv %s: %s\n", call, failure_text());
            if (strcmp(call, commands[i].name) == 0) return status;
        }
        fprintf(stderr, "tapconv: %s\n", failure_text());
    }
    return status;
}
