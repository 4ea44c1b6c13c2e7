#include "support.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 512 /* bytes; a multiple of 64, and more than a kernel may read beside its input */
#define MOST_PRINTED 20

static int64_t passed, failed;
static int quiet;
static char context[1024];

void check_passed(int64_t count)
{
    passed += count;
}

int64_t check_failures(void)
{
    return failed;
}

void check_context(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);
}

int check_fail(const char *format, ...)
{
    failed++;
    if (quiet || failed > MOST_PRINTED) return 0;
    va_list arguments;
    va_start(arguments, format);
    printf("FAILED: ");
    vprintf(format, arguments);
    printf("\n    %s\n", context);
    va_end(arguments);
    fflush(stdout);
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- random */
static uint64_t state;

void check_seed(uint64_t seed)
{
    state = seed;
}

uint64_t check_bits(void)
{
    /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t check_between(int64_t low, int64_t high)
{
    return low + (int64_t)(check_bits() % (uint64_t)(high - low + 1));
}

int check_chance(int64_t one_in)
{
    return check_between(1, one_in) == 1;
}

double check_normal(void)
{
    /* Twelve uniform numbers: near enough, and the same bits on every machine. */
    double sum = -6;
    for (int i = 0; i < 3; i++)
        for (uint64_t bits = check_bits(), j = 0; j < 4; j++, bits >>= 16) sum += (double)(bits & 0xffff) * 0x1p-16;
    return sum;
}

double check_small_integer(void)
{
    return (double)check_between(-4, 4);
}

void check_set_special(void *array, tapconv_type type, int64_t index)
{
    const uint64_t sign = check_bits() & 1, fraction = check_bits();
    const uint64_t which = check_bits() % 7;
    const int fraction_bits = type == TAPCONV_F64 ? 52 : type == TAPCONV_F32 ? 23 : type == TAPCONV_F16 ? 10 : 7;
    const int bits = 8 * (int)tapconv_type_bytes(type);
    const uint64_t all = ((uint64_t)1 << fraction_bits) - 1, infinity = ((uint64_t)1 << (bits - 1)) - 1 - all;
    const uint64_t magnitudes[] = {
        infinity,
        infinity | ((uint64_t)1 << (fraction_bits - 1)) | (fraction & all >> 3), /* a quiet NaN, and no poison */
        0,
        1 + (fraction & all) % all, /* subnormal */
        infinity - 1,               /* the largest */
        all + 1,                    /* the smallest normal */
        (fraction & (all << 1 | 1)) % infinity,
    };
    const uint64_t value = magnitudes[which] | sign << (bits - 1);
    if (bits == 64) {
        memcpy((uint64_t *)array + index, &value, sizeof value);
    } else if (bits == 32) {
        const uint32_t narrow = (uint32_t)value;
        memcpy((uint32_t *)array + index, &narrow, sizeof narrow);
    } else {
        const uint16_t narrow = (uint16_t)value;
        memcpy((uint16_t *)array + index, &narrow, sizeof narrow);
    }
}

/* ---------------------------------------------------------------------------------------------------------- buffers */
/* Odd bytes are 0xff and even ones 0xf1 or more: a NaN in every type, wherever an element of it may begin. */
static unsigned char poison_at(int64_t offset)
{
    const uint64_t mixed = (uint64_t)offset * 0x9e3779b97f4a7c15u;
    return offset % 2 != 0 ? 0xffu : (unsigned char)(0xf1u + (mixed >> 40) % 14);
}

check_buffer check_buffer_make(size_t bytes, size_t misaligned)
{
    check_buffer buffer = {.bytes = bytes};
    buffer.memory = malloc(bytes + 2 * GUARD + 128);
    if (!buffer.memory) {
        printf("no memory for %zu bytes\n", bytes);
        exit(1);
    }
    char *const memory = buffer.memory;
    buffer.data = memory + (64 - (uintptr_t)memory % 64) % 64 + GUARD + misaligned % 64;
    check_buffer_poison(&buffer);
    return buffer;
}

void check_buffer_free(check_buffer *buffer)
{
    free(buffer->memory);
    *buffer = (check_buffer){0};
}

void check_buffer_poison(const check_buffer *buffer)
{
    for (int64_t i = -GUARD; i < (int64_t)buffer->bytes + GUARD; i++) buffer->data[i] = (char)poison_at(i);
}

int check_guards(const check_buffer *buffer, const char *name)
{
    for (int64_t i = -GUARD; i < (int64_t)buffer->bytes + GUARD; i++) {
        if (i == 0) i = (int64_t)buffer->bytes;
        if ((unsigned char)buffer->data[i] != poison_at(i))
            return check_fail("%s of %zu bytes was overwritten at byte %" PRId64, name, buffer->bytes, i);
    }
    check_passed(1);
    return 1;
}

int check_untouched(const check_buffer *buffer, size_t at, size_t size)
{
    for (size_t i = at; i < at + size; i++)
        if ((unsigned char)buffer->data[i] != poison_at((int64_t)i)) return 0;
    return 1;
}

uint64_t check_hash(const void *data, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *const p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

/* ------------------------------------------------------------------------------------------------------ comparisons */
int check_close(double got, double want, double tolerance)
{
    if (isnan(want)) return isnan(got);
    if (isinf(want)) return got == want;
    return fabs(got - want) <= tolerance;
}

int check_same(const void *got, const void *want, tapconv_type type)
{
    if (memcmp(got, want, tapconv_type_bytes(type)) == 0) return 1;
    return isnan(tapconv_get(got, type, 0)) && isnan(tapconv_get(want, type, 0));
}

/* Elements that are no part of the lattice are untouched, those that are are not; then the guards. */
static int check_touched(const check_buffer *buffer, const check_lattice *l)
{
    const size_t size = tapconv_type_bytes(l->type), elements = buffer->bytes / size;
    char *const part = calloc(elements + 1, 1);
    if (!part) exit(1);
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t i = 0; i < l->count + l->slack; i++) {
            const size_t at = (size_t)(r * l->row + i * l->step);
            if (i < l->count)
                part[at] = 1;
            else if (at < elements && !part[at])
                part[at] = 2;
        }
    for (size_t i = 0; i < elements; i++) {
        if (part[i] == 2 || check_untouched(buffer, i * size, size) == !part[i]) continue;
        check_fail("element %zu of %zu was %s", i, elements,
                   part[i] ? "not written" : "written, and is no part of the result");
        free(part);
        return 0;
    }
    free(part);
    return check_guards(buffer, "the result");
}

int check_values(const check_buffer *buffer, const check_lattice *l, const double *want, const double *tolerance)
{
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t i = 0; i < l->count; i++) {
            const double got = tapconv_get(buffer->data, l->type, r * l->row + i * l->step);
            const int64_t at = r * l->count + i;
            const double most = tolerance ? tolerance[at] : 0;
            if (!check_close(got, want[at], most))
                return check_fail("row %" PRId64 ", column %" PRId64 ": %.17g instead of %.17g, allowed %.3g", r, i,
                                  got, want[at], most);
        }
    check_passed(l->rows * l->count);
    return check_touched(buffer, l);
}

int check_same_values(const check_buffer *buffer, const check_lattice *l, const void *want)
{
    const size_t size = tapconv_type_bytes(l->type);
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t i = 0; i < l->count; i++) {
            const char *const got = buffer->data + (size_t)(r * l->row + i * l->step) * size;
            const char *const wanted = (const char *)want + (size_t)(r * l->count + i) * size;
            if (!check_same(got, wanted, l->type))
                return check_fail("row %" PRId64 ", column %" PRId64 ": the bits of %.17g instead of %.17g", r, i,
                                  tapconv_get(got, l->type, 0), tapconv_get(wanted, l->type, 0));
        }
    check_passed(l->rows * l->count);
    return check_touched(buffer, l);
}

/* -------------------------------------------------------------------------------------------------------- self-test */
typedef enum fault {
    NO_FAULT,
    WRONG_ELEMENT,
    WRONG_SIGN_OF_ZERO,
    NAN_ELEMENT,
    UNWRITTEN_ELEMENT,
    GAP_WRITTEN,
    GUARD_BEFORE,
    GUARD_BEHIND,
    FAULTS
} fault;

/* A 3 x 5 lattice in a buffer of 3 x 7, with one fault; whether check_values and check_same_values pass. */
static void compare_with_fault(fault what, tapconv_type type, int *values, int *bits)
{
    const check_lattice l = {.type = type, .rows = 3, .row = 7, .count = 5, .step = 1};
    const size_t size = tapconv_type_bytes(type);
    check_buffer buffer = check_buffer_make(21 * size, 0);
    double want[15];
    double same[15]; /* of `type` */
    for (int64_t i = 0; i < 15; i++) {
        want[i] = (double)(i - 7);
        tapconv_set(same, type, i, want[i]);
        tapconv_set(buffer.data, type, i / 5 * 7 + i % 5, want[i]);
    }
    if (what == WRONG_ELEMENT) tapconv_set(buffer.data, type, 18, 7.0625);
    if (what == WRONG_SIGN_OF_ZERO) tapconv_set(buffer.data, type, 9, -0.0);
    if (what == NAN_ELEMENT) tapconv_set(buffer.data, type, 18, NAN);
    if (what == UNWRITTEN_ELEMENT) {
        check_buffer fresh = check_buffer_make(21 * size, 0);
        memcpy(buffer.data + 18 * size, fresh.data + 18 * size, size);
        check_buffer_free(&fresh);
        want[14] = NAN; /* even where NaN is what is wanted */
        tapconv_set(same, type, 14, NAN);
    }
    if (what == GAP_WRITTEN) tapconv_set(buffer.data, type, 6, 0);
    if (what == GUARD_BEFORE) tapconv_set(buffer.data - size, type, 0, 0);
    if (what == GUARD_BEHIND) tapconv_set(buffer.data, type, 21, 0);
    *values = check_values(&buffer, &l, want, NULL);
    *bits = check_same_values(&buffer, &l, same);
    check_buffer_free(&buffer);
}

static int self_test(void)
{
    int wrong = 0;
    quiet = 1;
    for (int type = 0; type < TAPCONV_TYPE_COUNT; type++)
        for (int what = 0; what < FAULTS; what++) {
            int values, bits;
            compare_with_fault((fault)what, (tapconv_type)type, &values, &bits);
            wrong += bits != (what == NO_FAULT) || values != (what == NO_FAULT || what == WRONG_SIGN_OF_ZERO);
        }
    wrong += check_close(NAN, 1, 1) || check_close(1, NAN, 1) || check_close(INFINITY, 1, 1) ||
             check_close(1, 2, NAN) || check_close(-INFINITY, INFINITY, INFINITY) || !check_close(NAN, NAN, 0) ||
             !check_close(1, 1.5, 0.5);
    quiet = 0;
    passed = failed = 0;
    return wrong;
}

int64_t check_begin(int argc, char **argv, int64_t rounds)
{
    uint64_t seed = 20261130;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
        } else if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0) {
            rounds = strtoll(argv[i + 1], NULL, 0);
        } else {
            printf("usage: %s [--seed N] [--rounds N]\n", argv[0]);
            exit(2);
        }
    }
    if (self_test() != 0) {
        printf("FAILED: the comparisons do not find what is wrong\n");
        exit(1);
    }
    printf("--seed %" PRIu64 " --rounds %" PRId64 "\n", seed, rounds);
    fflush(stdout);
    check_seed(seed);
    return rounds;
}

int check_end(void)
{
    printf("%" PRId64 " comparisons, %" PRId64 " failures\n", passed, failed);
    if (passed == 0) printf("FAILED: nothing was compared\n");
    return failed > 0 || passed == 0;
}
