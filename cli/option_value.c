/* The values of options as text: read strictly, written canonically. */
#include <inttypes.h>
#include <string.h>

#include "numbers.h"
#include "option_table.h"

static bool parse_padding(const char *text, int64_t padding[2])
{
    int64_t sides[2];
    if (parse_int64(text, &sides[0]))
        sides[1] = sides[0];
    else if (!parse_list(text, sides, 2))
        return false;
    if (sides[0] < 0 || sides[1] < 0 || sides[0] > MOST_SIZE || sides[1] > MOST_SIZE) return false;
    memcpy(padding, sides, sizeof sides);
    return true;
}

static bool parse_shape(const char *text, int64_t shape[3])
{
    int64_t sizes[3];
    if (!parse_list(text, sizes, 3) || sizes[0] < 0 || sizes[1] < 1 || sizes[2] < 0) return false;
    if (sizes[0] > MOST_SIZE || sizes[1] > MOST_SIZE || sizes[2] > MOST_SIZE) return false;
    memcpy(shape, sizes, sizeof sizes);
    return true;
}

/* Cards are called by letters, then digits, then anything: h200, rtx4090. */
static bool is_card(const char *text)
{
    const size_t letters = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    return letters > 0 && strspn(text + letters, "0123456789") > 0 &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static bool parse_device(const char *text, options *o)
{
    int64_t index = DEVICE_CPU;
    const char *card = NULL;
    if (strcmp(text, "cpu") != 0) {
        index = 0;
        if (strncmp(text, "cuda", 4) != 0 || (text[4] != ':' && text[4] != '\0')) return false;
        if (text[4] == ':' && is_card(text + 5))
            card = text + 5;
        else if (text[4] == ':' && (text[5] == '-' || !parse_int64(text + 5, &index) || index > INT32_MAX))
            return false;
    }
    o->device = index;
    o->card = card;
    return true;
}

static bool parse_choice(const option_row *option, const char *text, int64_t *value)
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

bool option_read(const option_row *option, options *o, const char *text)
{
    void *field = (char *)o + option->field;
    int64_t integer;
    double real;
    switch (option->kind) {
    case KIND_FLAG: *(bool *)field = true; return true;
    case KIND_FILE: *(const char **)field = text; return *text != '\0';
    case KIND_INTEGER:
        if (!parse_int64(text, &integer) || integer < option->least || integer > option->most) return false;
        *(int64_t *)field = integer;
        return true;
    case KIND_REAL:
        if (!parse_real(text, &real) || !(real >= (double)option->least)) return false;
        *(double *)field = real + 0.0; /* -0 becomes 0 */
        return true;
    case KIND_SHAPE: return parse_shape(text, field);
    case KIND_PADDING: return parse_padding(text, field);
    case KIND_CHOICE: return parse_choice(option, text, field);
    case KIND_DEVICE: return parse_device(text, o);
    }
    return false;
}

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

void option_write(FILE *out, const option_row *option, const options *o)
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
        if (o->card != NULL)
            fprintf(out, "cuda:%s", o->card);
        else if (integers[0] == 0)
            fputs("cuda", out);
        else
            fprintf(out, "cuda:%" PRId64, integers[0]);
        break;
    }
}

bool option_is_default(const option_row *option, const options *o, const options *defaults)
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
