#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

typedef enum kind {
    KIND_FILE,
    KIND_FLAG,
    KIND_INTEGER,
    KIND_REAL,
    KIND_SHAPE,
    KIND_PADDING,
    KIND_CHOICE,
    KIND_DEVICE
} kind;

enum { PROBLEM_CALLS = CALL_RUN | CALL_CHECK | CALL_BENCH | CALL_EXPLAIN, SIZE_CALLS = PROBLEM_CALLS & ~CALL_RUN };
enum {
    IN_PROBLEM = 1,
    IN_SUITE = 2,
    BESIDE_SUITE = 4
}; /* part of the canonical text; allowed in a suite's line; beside */
enum { SIZES = IN_PROBLEM | IN_SUITE, LAYER = SIZES | BESIDE_SUITE, SETTING = IN_SUITE | BESIDE_SUITE };

typedef struct row {
    const char *name, *argument;
    kind kind;
    size_t field;                         /* where the value stands in struct options */
    int calls;                            /* that take the option */
    int places;                           /* IN_PROBLEM ... */
    int64_t least;                        /* of KIND_INTEGER and KIND_REAL */
    int64_t most;                         /* of KIND_INTEGER; 0: no limit */
    const char *(*choice)(int64_t value); /* of KIND_CHOICE: the name of a value, NULL beyond the last */
    const char *help;
} row;

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

static const char *family_choice(int64_t value)
{
    return tapconv_kernel_name((int32_t)value);
}

#define FIELD(name) offsetof(options, name)

static const row rows[OPTION_COUNT] = {
    [OPTION_X] = {"-x", "FILE", KIND_FILE, FIELD(x), PROBLEM_CALLS, SIZES, 0, 0, NULL,
                  "input, .npy or .wav: (N,C_in,T), or (C_in,T) for one item"},
    [OPTION_W] = {"-w", "FILE", KIND_FILE, FIELD(w), PROBLEM_CALLS, SIZES, 0, 0, NULL,
                  "weight, .npy: (C_out,C_in/groups,K)"},
    [OPTION_B] = {"-b", "FILE", KIND_FILE, FIELD(b), PROBLEM_CALLS, SIZES, 0, 0, NULL, "bias, .npy: (C_out)"},
    [OPTION_SHAPE] = {"--shape", "N,C_in,T", KIND_SHAPE, FIELD(shape), SIZE_CALLS, SIZES, 0, 0, NULL,
                      "sizes of a random input instead of -x, in this order in either layout"},
    [OPTION_OUT_CHANNELS] = {"--out-channels", "C", KIND_INTEGER, FIELD(out_channels), SIZE_CALLS, SIZES, 1, 0, NULL,
                             "with --kernel: sizes of a random weight instead of -w"},
    [OPTION_KERNEL] = {"--kernel", "K", KIND_INTEGER, FIELD(kernel), SIZE_CALLS, SIZES, 1, 0, NULL, "taps"},
    [OPTION_BIAS] = {"--bias", NULL, KIND_FLAG, FIELD(bias), SIZE_CALLS, SIZES, 0, 0, NULL,
                     "a random bias instead of -b"},
    [OPTION_STRIDE] = {"--stride", "S", KIND_INTEGER, FIELD(stride), PROBLEM_CALLS, LAYER, 1, 0, NULL,
                       "samples from one output to the next; default 1"},
    [OPTION_DILATION] = {"--dilation", "D", KIND_INTEGER, FIELD(dilation), PROBLEM_CALLS, LAYER, 1, 0, NULL,
                         "samples from one tap to the next; default 1"},
    [OPTION_GROUPS] = {"--groups", "G", KIND_INTEGER, FIELD(groups), PROBLEM_CALLS, LAYER, 1, 0, NULL,
                       "of channels; divides C_in and C_out; default 1"},
    [OPTION_PADDING] = {"--padding", "P or L,R", KIND_PADDING, FIELD(padding), PROBLEM_CALLS, LAYER, 0, 0, NULL,
                        "zeros on both sides, or left and right; default 0"},
    [OPTION_CAUSAL] = {"--causal", NULL, KIND_FLAG, FIELD(causal), PROBLEM_CALLS, LAYER, 0, 0, NULL,
                       "left padding (K-1)*D, right padding 0; excludes --padding"},
    [OPTION_NORM_GROUPS] = {"--norm-groups", "G", KIND_INTEGER, FIELD(norm_groups), PROBLEM_CALLS, LAYER, 1, 0, NULL,
                            "GroupNorm of G groups after the convolution; divides C_out"},
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
                       "cpu, cuda, cuda:1 ...; default cpu"},
    [OPTION_THREADS] = {"--threads", "N", KIND_INTEGER, FIELD(threads), PROBLEM_CALLS, LAYER, 1, 65536, NULL,
                        "CPU threads; default: one a core"},
    [OPTION_ISA] = {"--isa", "NAME", KIND_CHOICE, FIELD(isa), PROBLEM_CALLS, LAYER, 0, 0, isa_choice,
                    "the instruction set; default: the widest that this machine has"},
    [OPTION_FORCE_KERNEL] = {"--force-kernel", "NAME", KIND_CHOICE, FIELD(kernel_family), PROBLEM_CALLS, LAYER, 0, 0,
                             family_choice, "the kernel family; default: the library chooses"},
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
    return rows[id].name;
}

const char *call_name(int call)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].call == call) return calls[i].name;
    }
    return "";
}

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

/* ---------------------------------------------------------------------------------------------------------- numbers */

/* Reads the digits at *text and moves behind them. */
static bool take_int64(const char **text, int64_t *value)
{
    const char *digit = *text;
    const bool negative = *digit == '-';
    if (negative) digit++;
    if (*digit < '0' || *digit > '9') return false;
    int64_t number = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        const int64_t units = *digit - '0';
        if (__builtin_mul_overflow(number, 10, &number)) return false;
        if (__builtin_add_overflow(number, negative ? -units : units, &number)) return false;
    }
    *text = digit;
    *value = number;
    return true;
}

bool parse_int64(const char *text, int64_t *value)
{
    return take_int64(&text, value) && *text == '\0';
}

bool parse_real(const char *text, double *value)
{
    /* strtod alone would take blanks in front, hexadecimal, "nan" and "infinity". */
    if (*text == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') return false;
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

const char *format_real(char *text, double value)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return text;
}

static bool parse_list(const char *text, int64_t *values, int count)
{
    for (int i = 0; i < count; i++) {
        if (i > 0 && *text++ != ',') return false;
        if (!take_int64(&text, &values[i])) return false;
    }
    return *text == '\0';
}

static bool parse_padding(const char *text, int64_t padding[2])
{
    int64_t sides[2];
    if (parse_int64(text, &sides[0]))
        sides[1] = sides[0];
    else if (!parse_list(text, sides, 2))
        return false;
    if (sides[0] < 0 || sides[1] < 0) return false;
    memcpy(padding, sides, sizeof sides);
    return true;
}

static bool parse_shape(const char *text, int64_t shape[3])
{
    int64_t sizes[3];
    if (!parse_list(text, sizes, 3) || sizes[0] < 0 || sizes[1] < 1 || sizes[2] < 0) return false;
    memcpy(shape, sizes, sizeof sizes);
    return true;
}

static bool parse_device(const char *text, int64_t *device)
{
    int64_t index = 0;
    if (strcmp(text, "cpu") == 0) {
        *device = DEVICE_CPU;
        return true;
    }
    if (strncmp(text, "cuda", 4) != 0) return false;
    if (text[4] == ':' && (text[5] == '-' || !parse_int64(text + 5, &index))) return false;
    if ((text[4] != ':' && text[4] != '\0') || index > INT32_MAX) return false;
    *device = index;
    return true;
}

static bool parse_choice(const row *option, const char *text, int64_t *value)
{
    const char *name;
    for (int64_t i = 0; (name = option->choice(i)) != NULL; i++) {
        if (strcmp(name, text) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------------------- parsing */

static bool parse_value(const row *option, options *o, const char *text)
{
    void *field = (char *)o + option->field;
    int64_t integer;
    double real;
    switch (option->kind) {
    case KIND_FLAG: *(bool *)field = true; return true;
    case KIND_FILE: *(const char **)field = text; return *text != '\0';
    case KIND_INTEGER:
        if (!parse_int64(text, &integer) || integer < option->least) return false;
        if (option->most > 0 && integer > option->most) return false;
        *(int64_t *)field = integer;
        return true;
    case KIND_REAL:
        if (!parse_real(text, &real) || !(real >= (double)option->least)) return false;
        *(double *)field = real + 0.0; /* -0 becomes 0 */
        return true;
    case KIND_SHAPE: return parse_shape(text, field);
    case KIND_PADDING: return parse_padding(text, field);
    case KIND_CHOICE: return parse_choice(option, text, field);
    case KIND_DEVICE: return parse_device(text, field);
    }
    return false;
}

/* What an option's value may be, for error sentences and --help. */
static void write_allowed(FILE *out, const row *option)
{
    const char *name;
    switch (option->kind) {
    case KIND_FLAG: break;
    case KIND_FILE: fputs("the name of a file", out); break;
    case KIND_INTEGER:
        if (option->most > 0)
            fprintf(out, "a whole number, %" PRId64 " to %" PRId64, option->least, option->most);
        else
            fprintf(out, "a whole number, %" PRId64 " or more, below 2^63", option->least);
        break;
    case KIND_REAL: fprintf(out, "a finite number, %" PRId64 " or more", option->least); break;
    case KIND_SHAPE: fputs("three whole numbers N,C_in,T with N >= 0, C_in >= 1, T >= 0", out); break;
    case KIND_PADDING: fputs("one whole number P or two L,R, each 0 or more", out); break;
    case KIND_CHOICE:
        for (int64_t i = 0; (name = option->choice(i)) != NULL; i++) fprintf(out, "%s%s", i > 0 ? " " : "", name);
        break;
    case KIND_DEVICE: fputs("cpu, cuda, or cuda:N with N from 0", out); break;
    }
}

static void allowed_text(const row *option, char *text, size_t size)
{
    text[0] = '\0';
    FILE *out = fmemopen(text, size, "w");
    if (out == NULL) return;
    write_allowed(out, option);
    fclose(out);
}

static void calls_text(int mask, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if ((mask & calls[i].call) == 0) continue;
        if (text[0] != '\0') strncat(text, ", ", size - strlen(text) - 1);
        strncat(text, calls[i].name, size - strlen(text) - 1);
    }
}

static int fail_value(const row *option, const char *value)
{
    char allowed[400];
    allowed_text(option, allowed, sizeof allowed);
    return fail(EXIT_BAD_INPUT, "%s is '%.300s'; allowed: %s", option->name, value, allowed);
}

static int find_option(const char *word)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (strcmp(rows[id].name, word) == 0) return id;
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
        const row *option = &rows[id];
        if ((option->calls & call) == 0) {
            char takers[80];
            calls_text(option->calls, takers, sizeof takers);
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
        if (!parse_value(option, o, value)) return fail_value(option, value);
        o->given[id] = value;
        here[id] = true;
    }
    return 0;
}

/* --------------------------------------------------------------------------------------------------- the whole of it */

static int fail_both(option_id first, option_id second, const char *why)
{
    return fail(EXIT_BAD_INPUT, "%s and %s are given together; allowed: one of them, %s", rows[first].name,
                rows[second].name, why);
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
                        rows[with_norm[i]].name, *o->given[with_norm[i]] != '\0' ? " " : "", o->given[with_norm[i]]);
        }
    }
    if ((o->gamma != NULL) != (o->beta != NULL)) {
        return fail(EXIT_BAD_INPUT, "%s '%.300s' is given alone; allowed: --gamma and --beta together, or neither",
                    o->gamma != NULL ? "--gamma" : "--beta", o->gamma != NULL ? o->gamma : o->beta);
    }
    return 0;
}

static int fail_missing(const char *missing, int call, const char *allowed)
{
    return fail(EXIT_BAD_INPUT, "%s: %s is missing; allowed: %s", call_name(call), missing, allowed);
}

static int check_presence(const options *o, int call)
{
    if (call == CALL_RUN) {
        static const option_id needed[] = {OPTION_X, OPTION_W, OPTION_O};
        for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
            if (o->given[needed[i]] == NULL)
                return fail_missing(rows[needed[i]].name, call, "run -x FILE -w FILE -o FILE ...");
        }
        return 0;
    }
    if (o->x == NULL && o->given[OPTION_SHAPE] == NULL)
        return fail_missing("the input", call, "-x FILE or --shape N,C_in,T");
    if (o->w == NULL && (o->given[OPTION_OUT_CHANNELS] == NULL || o->given[OPTION_KERNEL] == NULL)) {
        return fail_missing(o->given[OPTION_OUT_CHANNELS] != NULL ? "--kernel"
                            : o->given[OPTION_KERNEL] != NULL     ? "--out-channels"
                                                                  : "the weight",
                            call, "-w FILE, or --out-channels C and --kernel K");
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
        if (o->given[id] != NULL && (rows[id].places & place) == 0) {
            return fail(EXIT_BAD_INPUT, "%s%s%.300s is given %s, where it has no place", rows[id].name,
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

/* ----------------------------------------------------------------------------------------------- the canonical text */

/* Quoted as a shell and a suite read it back, where it must be. */
static void write_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:+=@%";
    if (word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    }
    putc('\'', out);
}

static void write_value(FILE *out, const row *option, const options *o)
{
    const void *field = (const char *)o + option->field;
    const int64_t *integers = field;
    char real[32];
    switch (option->kind) {
    case KIND_FLAG: break;
    case KIND_FILE: write_word(out, *(const char *const *)field); break;
    case KIND_INTEGER: fprintf(out, "%" PRId64, integers[0]); break;
    case KIND_REAL: fputs(format_real(real, *(const double *)field), out); break;
    case KIND_SHAPE: fprintf(out, "%" PRId64 ",%" PRId64 ",%" PRId64, integers[0], integers[1], integers[2]); break;
    case KIND_PADDING:
        fprintf(out, integers[0] == integers[1] ? "%" PRId64 : "%" PRId64 ",%" PRId64, integers[0], integers[1]);
        break;
    case KIND_CHOICE: fputs(option->choice(integers[0]), out); break;
    case KIND_DEVICE:
        if (integers[0] == 0)
            fputs("cuda", out);
        else
            fprintf(out, "cuda:%" PRId64, integers[0]);
        break;
    }
}

static bool is_default(const row *option, const options *o, const options *defaults)
{
    const char *field = (const char *)o + option->field, *standard = (const char *)defaults + option->field;
    switch (option->kind) {
    case KIND_FLAG: return !*(const bool *)(const void *)field;
    case KIND_FILE: return *(const char *const *)(const void *)field == NULL;
    case KIND_REAL: return *(const double *)(const void *)field == *(const double *)(const void *)standard;
    case KIND_SHAPE: return memcmp(field, standard, 3 * sizeof(int64_t)) == 0;
    case KIND_PADDING: return memcmp(field, standard, 2 * sizeof(int64_t)) == 0;
    default: return memcmp(field, standard, sizeof(int64_t)) == 0;
    }
}

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
        if ((rows[id].places & IN_PROBLEM) == 0 || is_default(&rows[id], &canonical, &defaults)) continue;
        fprintf(out, "%s%s", space, rows[id].name);
        if (rows[id].argument != NULL) putc(' ', out);
        write_value(out, &rows[id], &canonical);
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

/* ------------------------------------------------------------------------------------------------------------- help */

void options_write_help(FILE *out)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        const row *option = &rows[id];
        char left[64], takers[80];
        snprintf(left, sizeof left, "%s %s", option->name, option->argument != NULL ? option->argument : "");
        calls_text(option->calls & ~CALL_INFO, takers, sizeof takers);
        fprintf(out, "  %-20s %s\n", left, option->help);
        if (option->kind == KIND_CHOICE) {
            fprintf(out, "  %-20s one of: ", "");
            write_allowed(out, option);
            putc('\n', out);
        }
        if ((option->calls & PROBLEM_CALLS) != PROBLEM_CALLS) fprintf(out, "  %-20s (%s)\n", "", takers);
    }
}
