#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "option_table.h"

options options_default(void)
{
    return (options){.stride = 1,
                     .dilation = 1,
                     .groups = 1,
                     .eps = 1e-5,
                     .device = DEVICE_CPU,
                     .isa = CHOICE_NONE,
                     .kernel_family = CHOICE_NONE,
                     .atol = -1,
                     .rtol = -1,
                     .min_time = 0.5};
}

/* ---------------------------------------------------------------------------------------------------------- parsing */

static void allowed_text(const option_row *option, char *text, size_t size)
{
    text[0] = '\0';
    FILE *out = fmemopen(text, size, "w");
    if (out == NULL) return;
    option_write_allowed(out, option);
    fclose(out);
}

static int fail_value(const option_row *option, const char *value)
{
    char allowed[400];
    allowed_text(option, allowed, sizeof allowed);
    return fail(EXIT_BAD_INPUT, "%s is '%.300s'; allowed: %s", option->name, value, allowed);
}

static int find_option(const char *word)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (strcmp(option_rows[id].name, word) == 0) return id;
    }
    return -1;
}

int options_parse(options *o, int call, int count, char *const words[])
{
    bool here[OPTION_COUNT] = {false};
    for (int i = 0; i < count; i++) {
        const int id = find_option(words[i]);
        if (id < 0) {
            return fail(EXIT_BAD_INPUT, "'%.300s' is no option; 'tapconv --help' lists the options", words[i]);
        }
        const option_row *option = &option_rows[id];
        if ((option->calls & call) == 0) {
            char takers[80];
            option_calls_text(option->calls, takers, sizeof takers);
            return fail(
                EXIT_BAD_INPUT, "%s is no option of %s; it goes with: %s%s", option->name, call_name(call), takers,
                call == CALL_RUN && (option->places & IN_PROBLEM) != 0 ? " (run takes its sizes from files)" : "");
        }
        const char *value = "";
        if (option->argument != NULL) {
            if (++i == count) {
                char allowed[400];
                allowed_text(option, allowed, sizeof allowed);
                return fail(EXIT_BAD_INPUT, "%s is given without its value; allowed: %s", option->name, allowed);
            }
            value = words[i];
        }
        if (here[id] && strcmp(o->given[id], value) != 0) {
            return fail(EXIT_BAD_INPUT, "%s is given twice, as '%.300s' and as '%.300s'; allowed: once", option->name,
                        o->given[id], value);
        }
        if (!option_read(option, o, value)) return fail_value(option, value);
        o->given[id] = value;
        here[id] = true;
    }
    return 0;
}

/* -------------------------------------------------------------------------------------------------- the whole of it */

static int fail_both(option_id first, option_id second, const char *why)
{
    return fail(EXIT_BAD_INPUT, "%s and %s are given together; allowed: one of them, %s", option_rows[first].name,
                option_rows[second].name, why);
}

static int check_pairs(const options *o)
{
    static const struct {
        option_id first, second;
        const char *why;
    } excluding[] = {
        {OPTION_X, OPTION_SHAPE, "since the file has its sizes"},
        {OPTION_W, OPTION_OUT_CHANNELS, "since the file has its sizes"},
        {OPTION_W, OPTION_KERNEL, "since the file has its sizes"},
        {OPTION_B, OPTION_BIAS, "a bias from a file or a random one"},
        {OPTION_PADDING, OPTION_CAUSAL, "since --causal says what the padding is"},
        {OPTION_GAMMA, OPTION_AFFINE, "scale and shift from files or random ones"},
    };
    static const option_id with_norm[] = {OPTION_GAMMA, OPTION_BETA, OPTION_EPS, OPTION_AFFINE};
    for (size_t i = 0; i < sizeof excluding / sizeof excluding[0]; i++) {
        if (o->given[excluding[i].first] != NULL && o->given[excluding[i].second] != NULL) {
            return fail_both(excluding[i].first, excluding[i].second, excluding[i].why);
        }
    }
    for (size_t i = 0; i < sizeof with_norm / sizeof with_norm[0]; i++) {
        if (o->given[with_norm[i]] != NULL && o->given[OPTION_NORM_GROUPS] == NULL) {
            return fail(EXIT_BAD_INPUT, "%s%s%.300s is given without --norm-groups; allowed: only with it",
                        option_rows[with_norm[i]].name, *o->given[with_norm[i]] != '\0' ? " " : "",
                        o->given[with_norm[i]]);
        }
    }
    if ((o->gamma != NULL) != (o->beta != NULL)) {
        return fail(EXIT_BAD_INPUT, "%s '%.300s' is given alone; allowed: --gamma and --beta together, or neither",
                    o->gamma != NULL ? "--gamma" : "--beta", o->gamma != NULL ? o->gamma : o->beta);
    }
    return 0;
}

static int fail_missing(const char *missing, const char *allowed)
{
    return fail(EXIT_BAD_INPUT, "%s is missing; allowed: %s", missing, allowed);
}

static int check_presence(const options *o, int call)
{
    if (o->card != NULL && call != CALL_EXPLAIN) {
        return fail(EXIT_BAD_INPUT,
                    "--device is 'cuda:%.100s'; allowed: cpu, cuda, or cuda:N (a card by name is for explain alone)",
                    o->card);
    }
    if (call == CALL_RUN) {
        static const option_id needed[] = {OPTION_X, OPTION_W, OPTION_O};
        for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
            if (o->given[needed[i]] == NULL)
                return fail_missing(option_rows[needed[i]].name, "run -x FILE -w FILE -o FILE ...");
        }
        return 0;
    }
    if (o->x == NULL && o->given[OPTION_SHAPE] == NULL) return fail_missing("the input", "-x FILE or --shape N,C_in,T");
    if (o->w == NULL && (o->given[OPTION_OUT_CHANNELS] == NULL || o->given[OPTION_KERNEL] == NULL)) {
        return fail_missing(o->given[OPTION_OUT_CHANNELS] != NULL ? "--kernel"
                            : o->given[OPTION_KERNEL] != NULL     ? "--out-channels"
                                                                  : "the weight",
                            "-w FILE, or --out-channels C and --kernel K");
    }
    if (o->against != NULL && (o->x == NULL || o->w == NULL || o->bias || o->affine)) {
        return fail(EXIT_BAD_INPUT,
                    "--against '%.300s' is given with random data; allowed: with data from files (-x, -w ...)",
                    o->against);
    }
    if (o->against != NULL && o->seeds > 1) {
        return fail_both(OPTION_AGAINST, OPTION_SEEDS, "since data from files are the same for every seed");
    }
    return 0;
}

/* Beside --suite, options are defaults for all of its lines; what belongs to one problem alone is refused. In a line,
 * what belongs to the whole call is. */
static int check_places(const options *o, int place, const char *where)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (o->given[id] != NULL && (option_rows[id].places & place) == 0) {
            return fail(EXIT_BAD_INPUT, "%s%s%.300s is given %s, where it has no place", option_rows[id].name,
                        *o->given[id] != '\0' ? " " : "", o->given[id], where);
        }
    }
    return 0;
}

int options_check(const options *o, int call, bool suite_base)
{
    if (call == CALL_INFO) return 0;
    if (suite_base) return check_places(o, BESIDE_SUITE, "beside --suite");
    const int failed = check_pairs(o);
    return failed != 0 ? failed : check_presence(o, call);
}

int options_parse_line(options *o, int call, int count, char *const words[])
{
    options line = options_default();
    int failed = options_parse(&line, call, count, words);
    if (failed == 0) failed = check_places(&line, IN_SUITE, "in a suite's line");
    if (failed == 0) failed = options_parse(o, call, count, words);
    return failed != 0 ? failed : options_check(o, call, false);
}

/* ------------------------------------------------------------------------------------------------------------- text */

void options_write_problem(FILE *out, const options *o)
{
    const options defaults = options_default();
    options canonical = *o;
    int64_t reach;
    /* --causal and the padding that it stands for are one problem, so they have one text. */
    if (o->given[OPTION_KERNEL] != NULL && !__builtin_mul_overflow(o->kernel - 1, o->dilation, &reach)) {
        if (o->causal || (o->padding[0] == reach && o->padding[1] == 0)) {
            canonical.causal = reach > 0;
            canonical.padding[0] = 0;
        }
    }
    const char *space = "";
    for (int id = 0; id < OPTION_COUNT; id++) {
        if ((option_rows[id].places & IN_PROBLEM) == 0 || option_is_default(&option_rows[id], &canonical, &defaults))
            continue;
        fprintf(out, "%s%s", space, option_rows[id].name);
        if (option_rows[id].argument != NULL) putc(' ', out);
        option_write(out, &option_rows[id], &canonical);
        space = " ";
    }
}

char *options_problem_text(const options *o)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out != NULL) {
        options_write_problem(out, o);
        if (fclose(out) == 0) return text;
    }
    free(text);
    fail(EXIT_CANNOT, "out of memory: the problem's text");
    return NULL;
}

void options_write_help(FILE *out)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        const option_row *option = &option_rows[id];
        char left[64], takers[80];
        snprintf(left, sizeof left, "%s %s", option->name, option->argument != NULL ? option->argument : "");
        option_calls_text(option->calls & ~CALL_INFO, takers, sizeof takers);
        fprintf(out, "  %-20s %s\n", left, option->help);
        if (option->kind == KIND_CHOICE) {
            fprintf(out, "  %-20s one of: ", "");
            option_write_allowed(out, option);
            putc('\n', out);
        }
        if ((option->calls & PROBLEM_CALLS) != PROBLEM_CALLS) fprintf(out, "  %-20s (%s)\n", "", takers);
    }
}
