/* Measures the activations: every instruction set's float32 ones, and the card's, against the formulas in float64, and the float64 ones
 * against the formulas in long double where that is wider.
 *
 *     check_activations [STEP [ISA [ACTIVATION]]]
 *
 * takes every STEP-th of the 2^32 float32 values, which meets every exponent, ten times as many where the functions
 * bend, and besides them the values where something changes: zeros, infinities, NaN, powers of two, ends of intervals,
 * all with their neighbours. STEP 1 takes all.
 * The error of a result is in units of the last place of the exact result, 2^-149 at least. */
#include "activations.h"

#include "cpu/kernels/activate_f64.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_STEP 2029
#define MOST_ULP 2
#define MOST_ULP_F64 4
#define BLOCK 4093 /* odd: the last vector is not full */

#define CARD (1u << 31) /* beside the bits of instruction sets */

static const struct {
    uint32_t isa;
    const char *name;
    activations *run;
} sets[] = {
    {TAPCONV_ISA_SCALAR, "scalar", activations_scalar},
#if defined(__x86_64__)
    {TAPCONV_ISA_AVX2, "avx2", activations_avx2},
    {TAPCONV_ISA_AVX512, "avx512", activations_avx512},
#elif defined(__aarch64__)
    {TAPCONV_ISA_NEON, "neon", activations_neon},
#endif
#if defined(WITH_CARD)
    {CARD, "card", activations_card},
#endif
};
enum { SETS = sizeof sets / sizeof sets[0] };

typedef struct measure {
    double worst;
    float worst_in, worst_out;
    double worst_exact;
    int64_t checked, wrong, unequal_lanes;
} measure;

static double sigmoid(double v)
{
    return v < 0 ? exp(v) / (1 + exp(v)) : 1 / (1 + exp(-v));
}

static double exact(tapconv_activation activation, double v)
{
    switch (activation) {
    case TAPCONV_ACT_RELU: return v < 0 ? 0 : v;
    case TAPCONV_ACT_SILU: return v * sigmoid(v);
    case TAPCONV_ACT_GELU: return 0.5 * v * erfc(-sqrt(0.5) * v);
    case TAPCONV_ACT_GELU_TANH: return v * sigmoid(2 * sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v));
    case TAPCONV_ACT_MISH: {
        const double w = exp(fmin(v, 300)), n = w * (w + 2);
        return isnan(v) ? v : v * (n / (n + 2));
    }
    case TAPCONV_ACT_TANH: return tanh(v);
    case TAPCONV_ACT_SIGMOID: return sigmoid(v);
    case TAPCONV_ACT_ELU: return v > 0 ? v : expm1(v);
    case TAPCONV_ACT_LEAKY_RELU: return v > 0 ? v : v / 100;
    case TAPCONV_ACT_NONE: break;
    }
    return v;
}

static int same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void compare(measure *m, float in, float out, double want)
{
    double error = 0;
    m->checked++;
    if (isnan(want) || isinf(want)) {
        if (isnan(want) ? !isnan(out) : !((double)out == want)) error = INFINITY;
    } else {
        const int exponent = fabs(want) < 0x1p-126 ? -126 : ilogb(want);
        error = scalbn(fabs((double)out - want), 23 - exponent);
    }
    if (!(error <= MOST_ULP)) m->wrong++;
    if (error <= m->worst) return;
    m->worst = error, m->worst_in = in, m->worst_out = out, m->worst_exact = want;
}

/* Inputs gather until there is a block of them. */
typedef struct sweep {
    tapconv_activation activation;
    uint32_t isas;
    measure result[SETS];
    int64_t blocks;
    int64_t count;
    float in[BLOCK];
} sweep;

static void flush(sweep *s)
{
    static double want[BLOCK];
    static float out[BLOCK], turned_in[BLOCK], turned_out[BLOCK];
    const int64_t n = s->count, turn = n > 1 ? 1 + s->blocks % (n - 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        want[i] = exact(s->activation, (double)s->in[i]);
        turned_in[i] = s->in[(i + turn) % n];
    }
    for (int k = 0; k < SETS; k++) {
        measure *const m = &s->result[k];
        if (!(s->isas & sets[k].isa)) continue;
        sets[k].run(s->activation, s->in, out, n);
        sets[k].run(s->activation, turned_in, turned_out, n);
        for (int64_t i = 0; i < n; i++) {
            compare(m, s->in[i], out[i], want[i]);
            if (!same_bits(turned_out[i], out[(i + turn) % n])) m->unequal_lanes++;
        }
    }
    s->blocks++;
    s->count = 0;
}

static void take(sweep *s, uint32_t bits)
{
    memcpy(&s->in[s->count++], &bits, sizeof bits);
    if (s->count == BLOCK) flush(s);
}

static void take_around(sweep *s, double value)
{
    const float center = (float)value;
    uint32_t bits;
    memcpy(&bits, &center, sizeof bits);
    for (uint32_t i = 0; i < 9; i++) {
        take(s, bits + i - 4);
        take(s, (bits + i - 4) ^ 0x80000000u);
    }
}

static void take_all(sweep *s, uint64_t step)
{
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += step) take(s, (uint32_t)bits);
    if (step == 1) return;
    for (uint64_t bits = 0x35800000; bits < 0x43800000; bits += step / 10 + 1) { /* 2^-20 to 2^8 */
        take(s, (uint32_t)bits);
        take(s, (uint32_t)bits ^ 0x80000000u);
    }
    take_around(s, 0); /* and NaN, whose bits are next to those of -0 */
    take_around(s, INFINITY);
    take(s, 0x7fc00000), take(s, 0xffc00000), take(s, 0x7fffffff);
    for (int exponent = -149; exponent <= 127; exponent++) take_around(s, scalbn(1, exponent));
    for (int i = 1; i < 512; i++) {
        take_around(s, i / 16.0);       /* ends of gelu's intervals; every clamp is among these */
        take_around(s, i * log(2) / 4); /* where an exponential's power of two changes */
    }
    take_around(s, 126);
}

static int report(const sweep *s)
{
    int failures = 0;
    for (int k = 0; k < SETS; k++) {
        const measure *const m = &s->result[k];
        if (!(s->isas & sets[k].isa)) continue;
        const int ok = m->checked > 0 && m->wrong == 0 && m->unequal_lanes == 0;
        printf("%-10s %-6s %10lld values, at most %.4f ulp: %.9g -> %.9g, exactly %.12g%s\n",
               tapconv_activation_name(s->activation), sets[k].name, (long long)m->checked, m->worst,
               (double)m->worst_in, (double)m->worst_out, m->worst_exact, ok ? "" : "  WRONG");
        if (m->wrong) printf("    %lld values are off by more than %d ulp\n", (long long)m->wrong, MOST_ULP);
        if (m->unequal_lanes) printf("    %lld values depend on their lane\n", (long long)m->unequal_lanes);
        failures += !ok;
    }
    fflush(stdout);
    return failures;
}

#if LDBL_MANT_DIG > 53
static long double sigmoid_wide(long double v)
{
    return v < 0 ? expl(v) / (1 + expl(v)) : 1 / (1 + expl(-v));
}

static long double exact_wide(tapconv_activation activation, long double v)
{
    const long double pi = acosl(-1);
    switch (activation) {
    case TAPCONV_ACT_RELU: return v < 0 ? 0 : v;
    case TAPCONV_ACT_SILU: return v * sigmoid_wide(v);
    case TAPCONV_ACT_GELU: {
        /* The argument of a steep function, rounded: corrected by the slope. */
        const long double root = sqrtl(0.5L),
                          root_low = (0.5L - root * root - fmal(root, root, -root * root)) / (2 * root);
        const long double x = -v * root, lack = isinf(v) ? 0 : fmal(-v, root, -x) - v * root_low;
        return v / 2 * (erfcl(x) - 2 / sqrtl(pi) * expl(-x * x) * lack);
    }
    case TAPCONV_ACT_GELU_TANH: return v * sigmoid_wide(2 * sqrtl(2 / pi) * (v + 0.044715L * v * v * v));
    case TAPCONV_ACT_MISH: {
        const long double w = expl(fminl(v, 300)), n = w * (w + 2);
        return isnan(v) ? v : v * (n / (n + 2));
    }
    case TAPCONV_ACT_TANH: return tanhl(v);
    case TAPCONV_ACT_SIGMOID: return sigmoid_wide(v);
    case TAPCONV_ACT_ELU: return v > 0 ? v : expm1l(v);
    case TAPCONV_ACT_LEAKY_RELU: return v > 0 ? v : v / 100;
    case TAPCONV_ACT_NONE: break;
    }
    return v;
}

static int check_f64(tapconv_activation activation, int64_t count)
{
    double worst = 0, worst_in = 0;
    int64_t wrong = 0;
    for (int64_t i = -count; i <= count; i++) {
        /* Evenly to 1600 in one half of the values, by exponent from 2^-1074 to 2^1023 in the other. */
        const double part = (double)i / (double)count;
        const double by_exponent = i ? copysign(exp2(2097 * fabs(part) - 1074), part) : copysign(0, part);
        const double values[2] = {800 * part + by_exponent * 0x1p-1000, by_exponent};
        for (int k = 0; k < 2; k++) {
            const double v = values[k], out = activate_f64(activation, v);
            const long double want = exact_wide(activation, v);
            double error = 0;
            if (!(fabsl(want) <= DBL_MAX)) {
                if (isnan(want) ? !isnan(out) : !(out == want)) error = INFINITY;
            } else {
                const int exponent = fabsl(want) < 0x1p-1022L ? -1022 : ilogbl(want);
                error = (double)scalbnl(fabsl((long double)out - want), 52 - exponent);
            }
            if (!(error <= MOST_ULP_F64)) wrong++;
            if (!(error <= worst)) worst = error, worst_in = v;
        }
    }
    printf("%-10s f64    %10" PRId64 " values, at most %.4f ulp: %.17g%s\n", tapconv_activation_name(activation),
           4 * count + 2, worst, worst_in, wrong ? "  WRONG" : "");
    return wrong > 0;
}
#else
static int check_f64(tapconv_activation activation, int64_t count)
{
    (void)count;
    printf("%-10s f64    skipped: long double is no wider\n", tapconv_activation_name(activation));
    return 0;
}
#endif

int main(int argc, char **argv)
{
    const uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : DEFAULT_STEP;
    uint32_t isas = tapconv_cpu_features() | CARD;
    int swept = 0, failures = 0;
    if (step < 1 || argc > 4) {
        fprintf(stderr, "usage: %s [STEP [ISA [ACTIVATION]]]\n", argv[0]);
        return 2;
    }
    for (int k = 0; k < SETS; k++)
        if (argc > 2 && strcmp(argv[2], sets[k].name) != 0) isas &= ~sets[k].isa;
    for (int a = TAPCONV_ACT_RELU; a < TAPCONV_ACTIVATION_COUNT; a++) {
        static sweep s;
        if (argc > 3 && strcmp(argv[3], tapconv_activation_name((tapconv_activation)a)) != 0) continue;
        memset(&s, 0, sizeof s);
        s.activation = (tapconv_activation)a;
        s.isas = isas;
        take_all(&s, step);
        flush(&s);
        failures += report(&s) + check_f64((tapconv_activation)a, 1 + 400000000 / (2000 + (int64_t)step));
        swept += isas != 0;
    }
    if (swept == 0) {
        fprintf(stderr, "nothing was checked\n");
        return 1;
    }
    return failures > 0;
}
