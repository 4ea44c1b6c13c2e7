"""Fits the constants of src/cpu/kernels/activate.h and prints them with their errors. Needs mpmath.

    python3 scripts/minimax.py

Polynomials are fitted by least squares with Lawson's weights, which tends to the minimax one. Coefficients are rounded
to float32 one after another, lowest first, and the rest fitted again.
"""

import struct

from mpmath import cos, erfc, exp, expm1, log, lu_solve, matrix, mp, mpf, pi, sqrt

mp.dps = 40
LN2 = log(mpf(2))


def float32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def least_squares(xs, targets, weights, first, count):
    """Coefficients of x^first .. x^(first + count - 1), and the weighted errors that remain."""
    a, b = matrix(count, count), matrix(count, 1)
    for x, target, weight in zip(xs, targets, weights, strict=True):
        row = [x ** (first + j) for j in range(count)]
        for p in range(count):
            b[p] += weight * row[p] * target
            for q in range(count):
                a[p, q] += weight * row[p] * row[q]
    c = lu_solve(a, b)
    return [t - sum(c[j] * x ** (first + j) for j in range(count)) for x, t in zip(xs, targets, strict=True)], list(c)


def fit(function, weight, low, high, degree, nodes):
    """The polynomial for which max |weight (function - polynomial)| is least, and that maximum."""
    xs = [(low + high) / 2 + (high - low) / 2 * cos(pi * (i + mpf(1) / 2) / nodes) for i in range(nodes)]
    values, importance = [function(x) for x in xs], [weight(x) for x in xs]
    done = []
    for k in range(degree + 1):
        targets = [v - sum(c * x**j for j, c in enumerate(done)) for x, v in zip(xs, values, strict=True)]
        lawson, best = [mpf(1)] * nodes, None
        for _ in range(40 if k == 0 else 25):
            combined = [u * w**2 for u, w in zip(lawson, importance, strict=True)]
            errors, c = least_squares(xs, targets, combined, k, degree + 1 - k)
            errors = [abs(w * e) for w, e in zip(importance, errors, strict=True)]
            if best is None or max(errors) < best[0]:
                best = max(errors), c
            total = sum(u * e for u, e in zip(lawson, errors, strict=True))
            lawson = [u * e / total + mpf(10) ** -30 for u, e in zip(lawson, errors, strict=True)]
        done.append(float32(best[1][0]))
    grid = [low + (high - low) * i / mpf(401) for i in range(402)]
    return done, max(abs(weight(x) * (function(x) - sum(c * x**j for j, c in enumerate(done)))) for x in grid)


def show(name, coefficients, error):
    print(f"{name}: error 2^{float(log(error, 2)):.1f}")
    print("   ", ", ".join(float(c).hex() for c in coefficients))


def gelu_table():
    """On each interval of 2 + 2a: a centre near its middle where the function is nearly a float32, and a polynomial."""

    def function(a):
        return exp(a * a / 2) * erfc(a / sqrt(mpf(2))) / 2

    columns, worst, tiny = [], 0, mpf(10) ** -15
    for i in range(16):
        low, high = (mpf(2) ** (i // 4) * (1 + mpf(i % 4 + j) / 4) - 1 for j in (0, 1))
        high = min(high, mpf("14.75"))
        candidates = [float32((low + high) / 2 + k * (high - low) / 2**13) for k in range(-128, 129)]
        centre = min(candidates, key=lambda c: abs(float32(function(c)) / function(c) - 1))
        first, slack = function(centre), (high - low) / 1000

        def slope(d, centre=centre, first=first):
            return (function(centre + (d or tiny)) - first) / (d or tiny)

        def weight(d, centre=centre):
            return d / function(centre + d)

        rest, error = fit(slope, weight, low - centre - slack, high - centre + slack, 5, 42)
        columns.append([centre, float32(first), *rest])
        worst = max(worst, error, abs(float32(first) / first - 1))
    print(f"gelu: centres, then coefficients: error 2^{float(log(worst, 2)):.1f}")
    for row in zip(*columns, strict=True):
        print("    {" + ", ".join(f"{float(c):.9g}f" for c in row) + "},")


def gelu_polynomial():
    """With d = a/(a + 3): (a + 3) Phi(-a) exp(a^2/2) = 1.5 - 1.1875 d + d c(d - 0.4375)."""
    centre, slope, tiny = mpf("0.4375"), mpf("1.1875"), mpf(10) ** -12

    def function(d):
        a = 3 * d / (1 - d)
        return (a + 3) * exp(a * a / 2) * erfc(a / sqrt(mpf(2))) / 2

    def c(q):
        d = q + centre if abs(q + centre) > tiny else tiny
        return (function(d) - mpf("1.5") + slope * d) / d

    high = mpf("14.75") / mpf("17.75")
    return fit(c, lambda q: (q + centre) / function(q + centre), mpf("1e-6") - centre, high - centre, 9, 44)


def main():
    half = LN2 / 2 * mpf("1.0005")
    q = fit(lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), -half, half, 5, 80)
    show("exp(r) = 1 + r + r^2 q(r)", *q)
    p = fit(lambda f: expm1(f * LN2) / f, lambda f: abs(f / expm1(f * LN2)), mpf("-0.5005"), mpf("0.5005"), 5, 80)
    show("2^f = 1 + f p(f)", *p)
    gelu_table()
    show("gelu in d: c", *gelu_polynomial())


if __name__ == "__main__":
    main()
