#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "failure.h"
#include "memory.h"
#include "npy.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, ".npy data are read and written as the machine has them");

/* NumPy's headers have about 120 bytes; a million leaves room for any padding. */
#define MOST_HEADER_BYTES 1000000
#define CHUNK_BYTES (INT64_C(1) << 20)

typedef struct header {
    tensor shape; /* as stored; the type is the file's */
    bool big_endian, column_major;
    int64_t count, bytes;
} header;

int64_t tensor_count(const tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->dimensions; i++) count *= t->shape[i];
    return count;
}

const char *tensor_shape_text(char *text, const tensor *t)
{
    size_t used = 0;
    for (int i = 0; i < t->dimensions; i++) {
        used += (size_t)snprintf(text + used, 80 - used, "%c%" PRId64, i == 0 ? '(' : ',', t->shape[i]);
    }
    snprintf(text + used, 80 - used, "%s", t->dimensions == 0 ? "()" : ")");
    return text;
}

/* ------------------------------------------------------------------------- the header: a Python dictionary, as text */

static int fail_header(const char *at)
{
    return fail(EXIT_BAD_INPUT,
                "its header is not NumPy's, at '%.40s'; allowed: a dictionary of descr, fortran_order and shape", at);
}

static void skip_blanks(const char **at)
{
    while (isspace((unsigned char)**at)) ++*at;
}

static bool take(const char **at, const char *text)
{
    skip_blanks(at);
    const size_t length = strlen(text);
    if (strncmp(*at, text, length) != 0) return false;
    *at += length;
    return true;
}

/* A quoted string without escapes; cut to `size`. */
static bool take_string(const char **at, char *text, size_t size)
{
    skip_blanks(at);
    const char quote = **at;
    if (quote != '\'' && quote != '"') return false;
    const char *end = strchr(*at + 1, quote);
    if (end == NULL) return false;
    const size_t length = (size_t)(end - *at - 1);
    snprintf(text, size, "%.*s", (int)(length < size ? length : size - 1), *at + 1);
    *at = end + 1;
    return true;
}

static int take_type(const char **at, header *h)
{
    static const struct {
        const char *name;
        tapconv_type type;
    } types[] = {{"f2", TAPCONV_F16}, {"f4", TAPCONV_F32}, {"f8", TAPCONV_F64}};
    char name[32];
    const char *start = *at;
    if (take_string(at, name, sizeof name)) {
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            if (name[0] == '\0' || strchr("<>=", name[0]) == NULL || strcmp(name + 1, types[i].name) != 0) continue;
            h->shape.type = types[i].type;
            h->big_endian = name[0] == '>';
            return 0;
        }
        return fail(EXIT_BAD_INPUT,
                    "its type is '%s'; allowed: float16, float32, float64 ('<f2', '<f4', '<f8', or '>...')", name);
    }
    return fail(EXIT_BAD_INPUT, "its type is %.40s; allowed: float16, float32, float64", start + strspn(start, " "));
}

static int take_shape(const char **at, header *h)
{
    const char *start = *at;
    if (!take(at, "(")) return fail_header(start);
    h->shape.dimensions = 0;
    while (!take(at, ")")) {
        skip_blanks(at);
        if (!isdigit((unsigned char)**at)) return fail_header(*at);
        int64_t size = 0;
        for (; isdigit((unsigned char)**at); ++*at) {
            if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, **at - '0', &size)) {
                return fail(EXIT_BAD_INPUT, "its shape '%.60s' is too large; allowed: sizes below 2^63", start);
            }
        }
        if (h->shape.dimensions == TENSOR_MOST_DIMENSIONS) {
            return fail(EXIT_BAD_INPUT, "its shape '%.60s' has too many dimensions; allowed: at most %d", start,
                        TENSOR_MOST_DIMENSIONS);
        }
        h->shape.shape[h->shape.dimensions++] = size;
        skip_blanks(at);
        if (**at != ')' && !take(at, ",")) return fail_header(*at);
    }
    return 0;
}

static int parse_header(const char *text, header *h)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0;
    const char *at = text;
    if (!take(&at, "{")) return fail_header(at);
    while (!take(&at, "}")) {
        char key[32];
        const char *start = at;
        if (!take_string(&at, key, sizeof key) || !take(&at, ":")) return fail_header(start);
        int field, failed = 0;
        if (strcmp(key, "descr") == 0) {
            field = DESCR;
            failed = take_type(&at, h);
        } else if (strcmp(key, "fortran_order") == 0) {
            field = ORDER;
            h->column_major = take(&at, "True");
            if (!h->column_major && !take(&at, "False")) return fail_header(at);
        } else if (strcmp(key, "shape") == 0) {
            field = SHAPE;
            failed = take_shape(&at, h);
        } else {
            return fail_header(start);
        }
        if (failed != 0) return failed;
        if ((seen & field) != 0) return fail_header(start);
        seen |= field;
        skip_blanks(&at);
        if (*at != '}' && !take(&at, ",")) return fail_header(at);
    }
    skip_blanks(&at);
    if (*at != '\0' || seen != (DESCR | ORDER | SHAPE)) return fail_header(*at != '\0' ? at : text);
    h->count = 1;
    /* Checked without the zero sizes, as NumPy does: (0, 2^62, 2^62) has no elements but its strides overflow. */
    for (int i = 0; i < h->shape.dimensions; i++) {
        const int64_t size = h->shape.shape[i];
        if (__builtin_mul_overflow(h->count, size > 0 ? size : 1, &h->count) || h->count > INT64_MAX / 8) {
            char shape[80];
            return fail(EXIT_BAD_INPUT, "its shape %s is too large; allowed: below 2^60 elements",
                        tensor_shape_text(shape, &h->shape));
        }
    }
    h->count = tensor_count(&h->shape);
    h->bytes = h->count * (int64_t)tapconv_type_bytes(h->shape.type);
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- the file */

static int fail_read(FILE *file, const char *what)
{
    if (ferror(file)) return fail(EXIT_BAD_INPUT, "cannot be read: %s", strerror(errno));
    return fail(EXIT_BAD_INPUT, "it ends within %s; allowed: a complete .npy file", what);
}

/* Reads `bytes` bytes. Where the file's size is not known beforehand, the memory grows with what arrives, so that no
 * header can ask for more than there is. */
static int read_data(FILE *file, int64_t bytes, bool size_known, void **data)
{
    static const char *const what = "its data";
    int64_t have = 0, room = size_known || bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
    *data = NULL;
    for (;;) {
        void *larger = memory_resize(*data, room, 1, what);
        if (larger == NULL) return EXIT_CANNOT;
        *data = larger;
        const size_t got = fread((char *)*data + have, 1, (size_t)(room - have), file);
        have += (int64_t)got;
        if (have < room) return fail_read(file, what);
        if (have == bytes) return 0;
        room = room > bytes / 2 ? bytes : 2 * room;
    }
}

static int read_header(FILE *file, header *h, int64_t *data_start)
{
    unsigned char start[12];
    if (fread(start, 1, 8, file) != 8 || memcmp(start, "\x93NUMPY", 6) != 0) {
        if (ferror(file)) return fail(EXIT_BAD_INPUT, "cannot be read: %s", strerror(errno));
        return fail(EXIT_BAD_INPUT, "it does not begin as a .npy file does; allowed: .npy files");
    }
    if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
        return fail(EXIT_BAD_INPUT, "its .npy version is %d.%d; allowed: 1.0, 2.0, 3.0", start[6], start[7]);
    }
    const size_t width = start[6] == 1 ? 2 : 4;
    if (fread(start + 8, 1, width, file) != width) return fail_read(file, "the header");
    int64_t length = 0;
    for (size_t i = width; i > 0; i--) length = length * 256 + start[8 + i - 1];
    if (length > MOST_HEADER_BYTES) {
        return fail(EXIT_BAD_INPUT, "its header has %" PRId64 " bytes; allowed: at most %d", length, MOST_HEADER_BYTES);
    }
    char *text = memory_get(length + 1, 1, "the header");
    if (text == NULL) return EXIT_CANNOT;
    int failed = 0;
    if (fread(text, 1, (size_t)length, file) != (size_t)length) failed = fail_read(file, "the header");
    text[length] = '\0';
    if (failed == 0 && memchr(text, '\0', (size_t)length) != NULL) failed = fail_header("a zero byte");
    if (failed == 0) failed = parse_header(text, h);
    memory_release(text);
    *data_start = 8 + (int64_t)width + length;
    return failed;
}

/* Pipes and devices have no size to check. */
static int check_size(FILE *file, const header *h, int64_t data_start, bool *size_known)
{
    struct stat status;
    const int descriptor = fileno(file);
    *size_known = descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    if (!*size_known) return 0;
    const int64_t there = (int64_t)status.st_size - data_start;
    if (there == h->bytes) return 0;
    char shape[80];
    return fail(EXIT_BAD_INPUT, "it has %" PRId64 " bytes of data; allowed for its shape %s: %" PRId64, there,
                tensor_shape_text(shape, &h->shape), h->bytes);
}

static void reverse_bytes(char *data, int64_t count, size_t width)
{
    for (int64_t i = 0; i < count; i++, data += width) {
        for (size_t low = 0, high = width - 1; low < high; low++, high--) {
            const char byte = data[low];
            data[low] = data[high];
            data[high] = byte;
        }
    }
}

/* Column-major to row-major: walks the source in order and the destination by its strides. */
static void transpose(const tensor *t, const char *source, char *destination, size_t width)
{
    int64_t shape[TENSOR_MOST_DIMENSIONS] = {1, 1, 1}, stride[TENSOR_MOST_DIMENSIONS] = {0, 0, 0};
    int64_t step = 1;
    for (int i = t->dimensions - 1; i >= 0; i--) {
        shape[i] = t->shape[i];
        stride[i] = step;
        step *= t->shape[i];
    }
    for (int64_t k = 0; k < shape[2]; k++) {
        for (int64_t j = 0; j < shape[1]; j++) {
            for (int64_t i = 0; i < shape[0]; i++, source += width) {
                memcpy(destination + (size_t)(i * stride[0] + j * stride[1] + k * stride[2]) * width, source, width);
            }
        }
    }
}

/* Both take the array and give one back; the array is released where another takes its place. */
static int into_row_major(tensor *t)
{
    const size_t width = tapconv_type_bytes(t->type);
    void *rows = memory_get(tensor_count(t), width, "the array in C order");
    if (rows == NULL) return EXIT_CANNOT;
    /* An array without elements may still have 10^17 columns to walk through. */
    if (tensor_count(t) > 0) transpose(t, t->data, rows, width);
    memory_release(t->data);
    t->data = rows;
    return 0;
}

static int into_type(tensor *t, tapconv_type type)
{
    const int64_t count = tensor_count(t);
    void *converted = memory_get(count, tapconv_type_bytes(type), "the converted array");
    if (converted == NULL) return EXIT_CANNOT;
    const tapconv_status status = tapconv_convert(converted, type, t->data, t->type, count);
    memory_release(t->data);
    t->data = converted;
    t->type = type;
    return status == TAPCONV_OK ? 0 : fail_library(status, "converting");
}

int npy_read_stream(tensor *t, FILE *file, tapconv_type type, bool sizes_only)
{
    header h = {0};
    int64_t data_start = 0;
    bool size_known = false;
    int failed = read_header(file, &h, &data_start);
    if (failed == 0) failed = check_size(file, &h, data_start, &size_known);
    if (failed != 0) return failed;
    *t = h.shape;
    if (sizes_only) return 0;
    void *data;
    failed = read_data(file, h.bytes, size_known, &data);
    t->data = data;
    if (failed == 0 && getc(file) != EOF) failed = fail(EXIT_BAD_INPUT, "it has bytes after its data; allowed: none");
    if (failed == 0) {
        if (h.big_endian) reverse_bytes(t->data, h.count, tapconv_type_bytes(t->type));
        if (h.column_major && t->dimensions > 1) failed = into_row_major(t);
    }
    if (failed == 0 && t->type != type) failed = into_type(t, type);
    if (failed != 0) {
        memory_release(t->data);
        t->data = NULL;
    }
    return failed;
}

int npy_read(tensor *t, const char *option, const char *path, tapconv_type type, bool sizes_only)
{
    *t = (tensor){0};
    FILE *file = fopen(path, "rb");
    int failed;
    if (file == NULL) {
        failed = fail(errno == ENOMEM ? EXIT_CANNOT : EXIT_BAD_INPUT, "cannot be opened: %s", strerror(errno));
    } else {
        failed = npy_read_stream(t, file, type, sizes_only);
        fclose(file);
    }
    if (failed == 0) return 0;
    char place[4200];
    snprintf(place, sizeof place, "%s %.4096s", option, path);
    return fail_within(failed, place);
}
