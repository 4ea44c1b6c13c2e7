/* The activations on vectors of float32, within 2 ulp of their formulas for every input, subnormal results included
 * (there an ulp is 2^-149). A lane's result depends on nothing but its value. tests/kernels measures the
 * errors.
 *
 * NaN gives NaN. A v of -Inf gives NaN in silu, gelu, gelu_tanh and mish, as the formulas do (-Inf times 0) and
 * PyTorch does; every other value at an infinity is the limit. Clamps are written so that NaN passes: min and max
 * return their second operand then.
 *
 * The constants that are not plain mathematics were fitted by scripts/minimax.py. */
#ifndef TAPCONV_ACTIVATE_H
#define TAPCONV_ACTIVATE_H

/* exp(-y) = 2^n * (1 + s), |s| < 0.42: s keeps the digits near 1 that 1 + s would round away. */
typedef struct vf_exp {
    vf n, s;
} vf_exp;

/* exp(-r) - 1 for |r| <= ln(2)/2: r^2 q(r) - r, q minimax; error 2^-30.8, before rounding. */
static inline vf activate_expm1_reduced(vf r)
{
    const vf q01 = vf_fma(vf_set1(-0x1.555554p-3f), r, vf_set1(0.5f));
    const vf q23 = vf_fma(vf_set1(-0x1.11130ep-7f), r, vf_set1(0x1.5554e8p-5f));
    const vf q45 = vf_fma(vf_set1(-0x1.9dfbcep-13f), r, vf_set1(0x1.6d4cc6p-10f));
    const vf r2 = vf_mul(r, r);
    return vf_fms(r2, vf_fma(r2, vf_fma(r2, q45, q23), q01), r);
}

/* For y in [-127 ln 2, 252 ln 2]: r = y + n ln 2. The upper part of ln 2 has 16 bits, so that n times it is exact, and
 * with it the first sum. */
static inline vf_exp activate_exp_minus(vf y)
{
    const vf n = vf_round(vf_mul(y, vf_set1(-0x1.715476p+0f))), upper = vf_fma(n, vf_set1(0x1.62e4p-1f), y);
    return (vf_exp){n, activate_expm1_reduced(vf_fma(n, vf_set1(0x1.7f7d1cp-20f), upper))};
}

/* The same for the sum of y and a tiny low, and 2^n where n is no less than -126 and no more than 127. */
static inline vf_exp activate_exp_minus_sum(vf y, vf low, vf *power)
{
    vf n;
    *power = vf_pow2_near(y, vf_set1(-0x1.715476p+0f), &n);
    const vf upper = vf_fma(n, vf_set1(0x1.62e4p-1f), y);
    return (vf_exp){n, activate_expm1_reduced(vf_fma(n, vf_set1(0x1.7f7d1cp-20f), vf_add(upper, low)))};
}

/* v / (1 + e), as v / (2^-m + 2^(n-m) (1 + s)) * 2^-m with m = max(n, 0): nothing overflows, and the last operation is
 * the one that may round to a subnormal. Where 2^-m is too small to be added to 2^(n-m) it goes to s instead. */
static inline vf activate_over_1_plus(vf v, vf_exp e)
{
    const vf below = vf_min(e.n, vf_zero()), minus_m = vf_sub(below, e.n);
    const vf scale = vf_pow2(below);
    const vf power = vf_pow2(minus_m), sum = vf_add(scale, power), lost = vf_sub(power, vf_sub(sum, scale));
    const vf divisor = vf_fma(scale, vf_add(e.s, lost), sum);
    return vf_scale2(vf_div(v, divisor), minus_m);
}

/* result, or NaN for v = -Inf, which the clamps of `result` have lost. */
static inline vf activate_nan_at_minus_infinity(vf v, vf result)
{
    return vf_fma(vf_min(vf_zero(), v), vf_zero(), result);
}

static inline vf activate_relu(vf v)
{
    return vf_max(vf_zero(), v);
}

/* For any v. Below -126, v exp(v) is 0 in float32; above 20, 1 + exp(-v) is 1. */
static inline vf activate_silu_anywhere(vf v)
{
    const vf x = vf_max(vf_set1(-126), v);
    const vf_exp e = activate_exp_minus(vf_min(vf_set1(20), x));
    return activate_nan_at_minus_infinity(v, activate_over_1_plus(x, e));
}

/* Between -85 and 85 nothing overflows and no result is subnormal: v / (1 + 2^n (1 + s)) as it stands. Lanes beyond take
 * the long way, which is gone only where there are any; whichever way a vector goes, a lane gets the same. */
static inline vf activate_silu(vf v)
{
    const vf size = vf_abs(v), most = vf_set1(85);
    vf n;
    const vf power = vf_pow2_near(v, vf_set1(-0x1.715476p+0f), &n), upper = vf_fma(n, vf_set1(0x1.62e4p-1f), v);
    const vf s = activate_expm1_reduced(vf_fma(n, vf_set1(0x1.7f7d1cp-20f), upper));
    const vf result = vf_div(v, vf_add(power, vf_fma(power, s, vf_set1(1))));
    return vf_any_gt(size, most) ? vf_select_gt(size, most, activate_silu_anywhere(v), result) : result;
}

static inline vf activate_sigmoid(vf v)
{
    const vf y = vf_min(vf_set1(20), vf_max(vf_set1(-126), v));
    return activate_over_1_plus(vf_set1(1), activate_exp_minus(y));
}

/* With a = exp(-2|v|) - 1, good to the last digits near 0 because n is 0 and a is s there: |tanh v| = -a / (2 + a). */
static inline vf activate_tanh(vf v)
{
    const vf_exp e = activate_exp_minus(vf_min(vf_set1(20), vf_abs(vf_add(v, v))));
    const vf scale = vf_pow2(e.n);
    const vf a = vf_fma(scale, e.s, vf_sub(scale, vf_set1(1)));
    const vf divisor = vf_fma(scale, e.s, vf_add(scale, vf_set1(1)));
    return vf_copysign(vf_div(a, divisor), v);
}

static inline vf activate_elu(vf v)
{
    const vf_exp e = activate_exp_minus(vf_min(vf_set1(20), vf_neg(vf_min(vf_zero(), v))));
    const vf scale = vf_pow2(e.n);
    return vf_select_gt(v, vf_zero(), v, vf_fma(scale, e.s, vf_sub(scale, vf_set1(1))));
}

static inline vf activate_leaky_relu(vf v)
{
    return vf_select_gt(v, vf_zero(), v, vf_mul(v, vf_set1(0.01f)));
}

/* With w = exp(v) and d = (1 + w)^2 + 1, tanh(log(1 + w)) is (w^2 + 2w)/d. To round little:
 *     n >= 0:   v (1 - 2/d)        n < 0:   v w (1 - (w^2 + w)/d), times 2^n last.
 * d and w^2 + w are expanded at w = 2^n, where they are exact. */
static inline vf activate_mish(vf v)
{
    const vf x = vf_max(vf_set1(-126), v), y = vf_min(vf_set1(20), x);
    const vf zero = vf_zero(), one = vf_set1(1), minus_half = vf_set1(-0.5f);
    const vf_exp e = activate_exp_minus(vf_neg(y));
    const vf scale = vf_pow2(e.n), more = vf_mul(scale, e.s), base = vf_add(scale, one);
    const vf slope = vf_add(vf_add(base, base), more), d = vf_fma(slope, more, vf_fma(base, base, one));
    const vf product = vf_fma(vf_sub(slope, one), more, vf_fma(scale, scale, scale));
    const vf part = vf_div(vf_select_gt(e.n, minus_half, vf_set1(2), product), d);
    /* whole + rest is v or v (1 + s). Where y is less than v, what comes off is too small to matter. */
    const vf s = vf_select_gt(e.n, minus_half, zero, e.s), whole = vf_fma(y, s, y);
    const vf rest = vf_fma(y, s, vf_sub(y, whole));
    const vf result = vf_add(vf_select_gt(e.n, minus_half, x, whole), vf_fnma(whole, part, rest));
    return activate_nan_at_minus_infinity(v, vf_scale2(result, vf_min(zero, e.n)));
}

/* 2^f - 1 for |f| <= 1/2: f times a minimax polynomial; error 2^-26.2 of the result, before rounding. */
static inline vf activate_exp2m1_reduced(vf f)
{
    const vf f2 = vf_mul(f, f);
    const vf q12 = vf_fma(vf_set1(0x1.c6afa4p-5f), f, vf_set1(0x1.ebfbdep-3f));
    const vf q34 = vf_fma(vf_set1(0x1.5ef176p-10f), f, vf_set1(0x1.3b2c36p-7f));
    const vf rest = vf_fma(f2, vf_fma(f2, vf_set1(0x1.429ef4p-13f), q34), q12);
    return vf_fma(f, vf_set1(0x1.62e43p-1f), vf_mul(f2, rest));
}

/* v sigmoid(u), u = 2 sqrt(2/pi) (v + 0.044715 v^3). exp(-u) needs u to some 2^-32 of itself, and gets it in units of
 * ln 2: -u/ln 2 = v g, where g = a + b v^2 is the sum of two floats, made of a and b that are sums of two; the upper
 * part of a has so few bits that g - a is exact. Below -12 the result is 0 in float32; above 6, sigmoid(u) is 1. */
static inline vf activate_gelu_tanh(vf v)
{
    const vf x = vf_max(vf_set1(-12), v), y = vf_min(vf_set1(6), x);
    const vf a = vf_set1(-2.296875f), a_low = vf_set1(-0.0053331982f);
    const vf b = vf_set1(-0x1.a5a7dp-4f), b_low = vf_set1(2.0161985e-09f);
    const vf square = vf_mul(y, y), square_low = vf_fms(y, y, square);
    const vf g = vf_fma(square, b, a), lack = vf_fms(square, b, vf_sub(g, a));
    const vf g_low = vf_add(lack, vf_fma(square_low, b, vf_fma(square, b_low, a_low)));
    const vf product = vf_mul(y, g), product_low = vf_fma(y, g_low, vf_fms(y, g, product)), n = vf_round(product);
    const vf_exp e = {n, activate_exp2m1_reduced(vf_add(vf_sub(product, n), product_low))};
    return activate_nan_at_minus_infinity(v, activate_over_1_plus(x, e));
}

/* a Phi(-a) exp(a^2/2) as m + low, for a in [0, 14.75]; Phi is the normal distribution. */
typedef struct vf_tail {
    vf m, low;
} vf_tail;

#ifdef SIMD_HAS_PICK
/* Phi(-a) exp(a^2/2), Phi the normal distribution: a polynomial in a - centre on each of 16 intervals, picked by 2 +
 * 2a. The centres lie where the first coefficient is a float32 to 2^-30 or better; error below 2^-27.5 relative. */
static _Alignas(64) const float activate_gelu_centre[16] = {
    0.124481201f, 0.373779297f, 0.628082275f, 0.871704102f, 1.25170898f, 1.7477417f,  2.2421875f,  2.75036621f,
    3.51171875f,  4.50634766f,  5.49511719f,  6.49060059f,  8.02050781f, 10.0229492f, 11.9702148f, 13.8583374f};
static _Alignas(64) const float activate_gelu_coefficient[7][16] = {
    {0.45397082f, 0.37991786f, 0.32275039f, 0.280279398f, 0.230571628f, 0.185400695f, 0.154068798f, 0.130710289f,
     0.106032737f, 0.0846935436f, 0.0704016164f, 0.0600988828f, 0.0490005799f, 0.039417956f, 0.0331000239f,
     0.0286395587f},
    {-0.342431456f, -0.256936848f, -0.196228474f, -0.154621586f, -0.110333711f, -0.0749097541f, -0.0534911491f,
     -0.0394411199f, -0.0265851356f, -0.0172837302f, -0.0120771481f, -0.00886443723f, -0.00593274832f, -0.00385810924f,
     -0.00272788364f, -0.00204561278f},
    {0.205672279f, 0.141940087f, 0.0997513756f, 0.0727475733f, 0.046232976f, 0.0272388943f, 0.0170658082f,
     0.0111163845f, 0.00633662101f, 0.00340352743f, 0.00201813597f, 0.00128168252f, 0.000708469888f, 0.000374163326f,
     0.000223336232f, 0.000145383048f},
    {-0.105607197f, -0.0679610968f, -0.044527147f, -0.030400617f, -0.0174869597f, -0.00910101552f, -0.0050753383f,
     -0.00295555824f, -0.00144409202f, -0.000648706045f, -0.00032907899f, -0.000181838448f, -8.34751481e-05f,
     -3.59605219e-05f, -1.81660016e-05f, -1.0281884e-05f},
    {0.048129335f, 0.0291355122f, 0.0179464258f, 0.011559139f, 0.00608536927f, 0.00283322786f, 0.00142135716f,
     0.000746794918f, 0.000316127582f, 0.000119998542f, 5.24460957e-05f, 2.53405778e-05f, 9.71003556e-06f,
     3.42615726e-06f, 1.46834191e-06f, 7.23678568e-07f},
    {-0.0200983807f, -0.0114259766f, -0.00657795416f, -0.00416430505f, -0.00199689716f, -0.000834723178f,
     -0.000380958547f, -0.000182319825f, -6.79424411e-05f, -2.19055109e-05f, -8.24776725e-06f, -3.52400548e-06f,
     -1.141604e-06f, -3.2881141e-07f, -1.19550492e-07f, -5.07947e-08f},
    {0.00773453387f, 0.00409936998f, 0.00233990769f, 0.00148700725f, 0.000611553784f, 0.000230236401f, 9.68615568e-05f,
     4.21359218e-05f, 1.40571392e-05f, 3.84335544e-06f, 1.2514339e-06f, 4.78326626e-07f, 1.31287607e-07f,
     3.10042125e-08f, 9.53951051e-09f, 3.49006046e-09f},
};

static inline vf_tail activate_tail(vf a)
{
    const vf which = vf_fma(a, vf_set1(2), vf_set1(2));
    const vf d = vf_sub(a, vf_pick(activate_gelu_centre, which)), first = vf_pick(activate_gelu_coefficient[0], which);
    vf rest = vf_pick(activate_gelu_coefficient[6], which);
    rest = vf_fma(rest, d, vf_pick(activate_gelu_coefficient[5], which));
    rest = vf_fma(rest, d, vf_pick(activate_gelu_coefficient[4], which));
    rest = vf_fma(rest, d, vf_pick(activate_gelu_coefficient[3], which));
    rest = vf_fma(rest, d, vf_pick(activate_gelu_coefficient[2], which));
    rest = vf_fma(rest, d, vf_pick(activate_gelu_coefficient[1], which));
    rest = vf_mul(rest, vf_mul(a, d));
    const vf m = vf_mul(a, first);
    return (vf_tail){m, vf_add(rest, vf_fms(a, first, m))};
}

#else

/* Without cheap tables one polynomial: with d = a/(a + 3) it is d (1.5 - 1.1875 d + d c(d - 0.4375)), c minimax; error 2^-28
 * relative. What d lacks of the quotient is taken along, and so is what the linear part is rounded by; top - base is
 * exact because base is 0.5 at least. */
static inline vf_tail activate_tail(vf a)
{
    const vf three = vf_set1(3), third = vf_set1(0x1.555556p-2f), slope = vf_set1(1.1875f), top = vf_set1(1.5f);
    const vf sum = vf_add(a, three), d = vf_div(a, sum);
    const vf lack = vf_fnma(d, vf_sub(a, vf_sub(sum, three)), vf_fnma(d, sum, a));
    const vf d_low = vf_mul(lack, vf_fnma(d, third, third)); /* 1/(a + 3) = (1 - d)/3 */
    const vf base = vf_fnma(slope, d, top), base_low = vf_fnma(slope, d, vf_sub(top, base));
    const vf q = vf_sub(d, vf_set1(0.4375f)), q2 = vf_mul(q, q);
    vf even = vf_fma(vf_set1(0x1.7df198p-8f), q2, vf_set1(-0x1.a33b52p-5f));
    even = vf_fma(even, q2, vf_set1(0x1.065b5cp-3f));
    even = vf_fma(even, q2, vf_set1(-0x1.9d4d9ap-3f));
    even = vf_fma(even, q2, vf_set1(-0x1.aebf3ep-2f));
    vf odd = vf_fma(vf_set1(0x1.01eaf0p-4f), q2, vf_set1(-0x1.8adf64p-4f));
    odd = vf_fma(odd, q2, vf_set1(0x1.1b2374p-3f));
    odd = vf_fma(odd, q2, vf_set1(-0x1.27316ap-2f));
    odd = vf_fma(odd, q2, vf_set1(0x1.132682p+0f));
    const vf more = vf_fma(vf_fma(odd, q, even), d, base_low), m = vf_mul(d, base);
    /* The whole's derivative by d, to 6 % of the whole. */
    const vf growth = vf_fma(vf_fma(vf_set1(2.32f), d, vf_set1(-3.6f)), d, vf_set1(1.44f));
    return (vf_tail){m, vf_fma(d, more, vf_fma(d_low, growth, vf_fms(d, base, m)))};
}
#endif

/* gelu(v) = max(v, 0) - |v| Phi(-|v|); what is subtracted is (m + t) 2^n with the largest product m and the sum t of
 * all that is smaller, m's rounding included. Above 14.75 it is 0 in float32; up to 13 it is normal, or exact where v is
 * subnormal. */
static inline vf activate_gelu(vf v)
{
    const vf a = vf_min(vf_set1(14.75f), vf_abs(v)), half = vf_mul(a, vf_set1(0.5f)), square = vf_mul(a, half);
    vf power;
    const vf_exp e = activate_exp_minus_sum(square, vf_fms(a, half, square), &power);
    const vf_tail tail = activate_tail(a);
    const vf t = vf_fma(tail.m, e.s, vf_fma(tail.low, e.s, tail.low)), whole = vf_add(tail.m, t);
    const vf less = vf_any_gt(a, vf_set1(13)) ? vf_scale2(whole, e.n) : vf_mul(whole, power);
    /* v - min(v, 0) is max(v, 0), but NaN for -Inf. */
    return vf_sub(vf_sub(v, vf_min(v, vf_zero())), less);
}

#endif
