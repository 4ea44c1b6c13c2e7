"""Values at which careless kernels fail. Every case runs on every instruction set and kernel family that takes it."""

import dataclasses

import judging
import numpy as np
import pytest
import tapconv_ctypes as tapconv
import torch
from judging import TORCH_TYPES, Arrays, check, judge, make_arrays, run, same_bits, text, truth, ways, with_fields

TYPES_AND_MATHS = [(kind, math) for kind, maths in tapconv.MATHS_OF_TYPE.items() for math in maths]
layouts = pytest.mark.parametrize("layout", tapconv.LAYOUTS)


def modes_where(wanted):
    return pytest.mark.parametrize("kind, math", [pair for pair in TYPES_AND_MATHS if wanted(*pair)])


modes = modes_where(lambda kind, math: True)


def tensor(values, kind="f32"):
    return torch.as_tensor(np.asarray(values, np.float64)).to(TORCH_TYPES[kind])


def depthwise(channels, length, kernel_size=1, **fields):
    return tapconv.problem(1, channels, channels, length, kernel_size, groups=channels, **fields)


# ------------------------------------------------------------------------------------------------------------ GroupNorm


@layouts
@pytest.mark.parametrize("norm_groups", [1, 4, 16])
@pytest.mark.parametrize("length", [7, 64, 1000])
@pytest.mark.parametrize("source", ["input", "bias", "both"])
def test_mean_far_from_zero(source, length, norm_groups, layout):
    """mean/std = 1e4 before GroupNorm: the normalised values hold 1e-3."""
    generator = np.random.default_rng(length)
    if source == "both":  # sums of twelve large terms
        p = tapconv.problem(1, 4, 16, length + 2, 3, norm_groups=norm_groups, layout=layout)
        x = 1e4 / 12**0.5 + generator.standard_normal((1, 4, length + 2))
        w = np.full((16, 4, 3), 12**-0.5)
        arrays = Arrays(tensor(x), tensor(w), origin="mean 1e4 in x, w constant")
    elif source == "input":
        p = depthwise(16, length, norm_groups=norm_groups, layout=layout)
        x = 1e4 + generator.standard_normal((1, 16, length))
        arrays = Arrays(tensor(x), tensor(np.ones((16, 1, 1))), origin="mean 1e4 in x")
    else:
        p = tapconv.problem(1, 8, 16, length + 2, 3, norm_groups=norm_groups, has_bias=1, layout=layout)
        arrays = dataclasses.replace(
            make_arrays(p), bias=tensor(np.full(16, 1e4)), origin="normal data of seed 0, bias 1e4"
        )
    reference, _ = truth(p, arrays)
    for call in ways(p):
        y = check(p, arrays, call).double().numpy()
        error = judging.relative_l2(y, reference) if source == "both" else np.abs(y - reference).max()
        assert error <= 1e-3, f"error {error:.3g}: {text(p, call, arrays)}"


@layouts
@modes
@pytest.mark.parametrize("eps", [1e-5, 0.0])
def test_constant_groups_are_beta(kind, math, eps, layout):
    largest = {"f32": 3e38, "f64": 1e308, "f16": 6e4, "bf16": 3e38}[kind if math != "f16" else "f16"]
    for value in (0.0, 0.1, -1e4, largest, 1e-41):
        for length, norm_groups in ((1, 6), (100, 1), (257, 6)):
            p = depthwise(
                6,
                length,
                norm_groups=norm_groups,
                norm_eps=eps,
                norm_affine=1,
                layout=layout,
                type=kind,
                param_type=kind,
                math=math,
            )
            arrays = Arrays(
                tensor(np.full((1, 6, length), value), kind),
                tensor(np.ones((6, 1, 1)), kind),
                None,
                tensor(np.linspace(-2, 2, 6), kind),
                tensor([0.1, -3, 0, 1e-6, 7, 1 / 3], kind),
                origin=f"x {value:g}, w 1",
            )
            for call in ways(p):
                y = run(p, arrays, call)
                assert torch.equal(y, arrays.beta[None, :, None].expand(y.shape)), f"not beta: {text(p, call, arrays)}"


@layouts
def test_constant_sums_are_beta(layout):
    """Rounded sums that are the same at every position, and a group that only bias reaches."""
    for length, left in ((300, 0), (1, 50)):
        p = tapconv.problem(
            2, 7, 6, length, 3, norm_groups=6, norm_affine=1, has_bias=1, norm_eps=0.0, padding_left=left, layout=layout
        )
        arrays = make_arrays(p, 3)
        arrays.x[...] = 0.1 if left == 0 else 0.0
        arrays.origin = "x constant"
        for call in ways(p):
            y = run(p, arrays, call)
            assert torch.equal(y, arrays.beta[None, :, None].expand(y.shape)), f"not beta: {text(p, call, arrays)}"


@layouts
@pytest.mark.parametrize("eps", [1e-5, 0.0])
@pytest.mark.parametrize("math", ["f32", "tf32", "bf16", "f64"])
def test_channels_far_apart_before_groupnorm(math, eps, layout):
    """Channels of 1e-30 to 1e30, each normalised alone: their variances are beyond float32's range."""
    p = depthwise(61, 100, norm_groups=61, norm_eps=eps, math=math, layout=layout)
    arrays = Arrays(
        make_arrays(p).x * tensor(np.logspace(-30, 30, 61))[:, None],
        tensor(np.ones((61, 1, 1))),
        origin="normal channels 1e-30 to 1e30 apart",
    )
    for call in ways(p):
        check(p, arrays, call)


@layouts
@pytest.mark.parametrize("math", ["f32", "tf32", "bf16", "f64"])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_groups_as_wide_as_float32(activation, math, layout):
    """Mean and value of opposite signs, so far apart that float32 has no number for their distance."""
    p = depthwise(6, 100, norm_groups=3, activation=activation, math=math, layout=layout)
    x = np.full((1, 6, 100), -3e38)
    x[:, ::2, 3::17] = 3e38
    arrays = Arrays(tensor(x), tensor(np.ones((6, 1, 1))), origin="x -3e38, some 3e38")
    for call in ways(p):
        check(p, arrays, call)


# ---------------------------------------------------------------------------------------------------------------- range


@layouts
@pytest.mark.parametrize("math", ["f32", "tf32", "bf16", "f64"])
@pytest.mark.parametrize("scaled", ["x", "x against w", "outputs", "one sample", "decay"])
def test_wide_range(scaled, math, layout):
    p = tapconv.problem(1, 61, 20, 150, 3, padding_left=2, math=math, layout=layout)
    arrays = make_arrays(p)
    scale = tensor(np.logspace(-30, 30, 61))
    if scaled.startswith("x"):
        arrays.x *= scale[:, None]
    if scaled == "x against w":
        arrays.w /= scale[:, None]
    if scaled == "outputs":
        arrays.w *= scale[::3, None][:20, None]
    if scaled == "one sample":
        arrays.x[0, 7, 75] *= 1e9
    if scaled == "decay":
        arrays.x *= tensor(np.logspace(0, -40, 150))
    arrays.origin = f"normal data, wide range: {scaled}"
    for call in ways(p):
        check(p, arrays, call)


@layouts
@pytest.mark.parametrize("math", ["f32", "tf32", "bf16", "f64"])
def test_depthwise_channels_far_apart(math, layout):
    """No channel may feel another."""
    p = depthwise(61, 100, 4, padding_left=3, math=math, layout=layout)
    arrays = make_arrays(p)
    arrays.x *= tensor(np.logspace(-30, 30, 61))[:, None]
    for call in ways(p):
        check(p, arrays, call)


@layouts
@modes_where(lambda kind, math: kind == "f16" or math in (kind, "f32", "f64"))
def test_subnormals(kind, math, layout):
    """Multiples of the smallest positive number: sums of few of them are exact, unless flushed to zero. (Where math
    rounds operands to a type that has no numbers so close to zero there is nothing to see.)"""
    smallest = {"f32": 2.0**-149, "f64": 2.0**-1074, "f16": 2.0**-24, "bf16": 2.0**-133}[kind]
    for p in (
        tapconv.problem(2, 3, 20, 90, 5, padding_left=4, type=kind, math=math, layout=layout),
        depthwise(20, 90, 3, padding_right=2, type=kind, math=math, layout=layout),
    ):
        arrays = make_arrays(p, 1, "integers")
        for x, w in ((smallest, 1), (1, smallest), (smallest * 2**9, 2.0**-9)):
            if w < 1 < 2 * smallest * 2**9 or (kind == "f16" and w == 2.0**-9):
                continue
            scaled = dataclasses.replace(arrays, x=arrays.x * x, w=arrays.w * w, origin=f"integers, x*{x:g}, w*{w:g}")
            for call in ways(p):
                y = check(p, scaled, call)
                assert y.count_nonzero() > y.numel() // 2, text(p, call, scaled)


@layouts
def test_products_that_become_subnormal(layout):
    p = tapconv.problem(1, 5, 20, 90, 3, layout=layout)
    arrays = make_arrays(p)
    arrays.x *= 1e-20
    arrays.w *= 1e-21
    for call in ways(p):
        y = check(p, arrays, call)
        assert y.count_nonzero() >= 0.99 * y.numel(), text(p, call, arrays)


@layouts
@modes_where(lambda kind, math: kind in ("f16", "bf16"))
def test_rounding_once(kind, math, layout):
    """Sums in the middle between two numbers of the type, and next to it."""
    fraction, _ = judging.FORMATS[kind]
    half = 2.0 ** -(fraction + 1)
    p = tapconv.problem(1, 3, 1, 5, 1, type=kind, math=math, layout=layout)
    x = [[1, 1, 1, 1 + 2 * half, -1], [half, half, -half, half, -half], [half * 2.0**-8] * 5]
    for nudge in (0, 1, -1):  # by half * 2^-12, which float32 sums still see
        arrays = Arrays(
            tensor([x], kind),
            tensor([[[1], [1], [nudge * 2.0**-4]]], kind),
            exact=True,
            origin=f"1 + half an ulp, nudged by {nudge}",
        )
        for call in ways(p):
            y = check(p, arrays, call)
            assert nudge or y.tolist() == [[[1, 1, 1 - half, 1 + 4 * half, -1]]], text(p, call, arrays)
    if math == "f64":  # 1 + half + half*2^-20 is beyond the middle, but float32 would round it to the middle first
        q = tapconv.problem(1, 3, 1, 1, 1, type=kind, math=math, layout=layout)
        arrays = Arrays(
            tensor([[[1], [half], [half * 2.0**-8]]], kind),
            tensor([[[1], [1], [2.0**-12]]], kind),
            exact=True,
            origin="1 + half an ulp + a little",
        )
        for call in ways(q):
            assert check(q, arrays, call).item() == 1 + 2 * half, text(q, call, arrays)


def test_f16_overflow():
    """65504 is the largest f16; from 65520 on it is infinity, for results and for rounded operands."""
    p = tapconv.problem(1, 2, 1, 4, 1, type="f16", math="f16")
    arrays = Arrays(
        tensor([[[65504, 65504, -65504, 65504], [15, 16, -16, 0]]], "f16"),
        tensor([[[1], [1]]], "f16"),
        exact=True,
        origin="x near 65504, w 1",
    )
    for call in ways(p):
        assert check(p, arrays, call).tolist() == [[[65504, np.inf, -np.inf, 65504]]], text(p, call, arrays)
    p = tapconv.problem(1, 1, 1, 4, 1, math="f16")
    arrays = Arrays(tensor([[[65519.9, 65520, -1e30, 1]]]), tensor([[[1]]]), exact=True, origin="x near 65520, w 1")
    for call in ways(p):
        assert check(p, arrays, call).tolist() == [[[65504, np.inf, -np.inf, 1]]], text(p, call, arrays)


# ---------------------------------------------------------------------------------------------------------- NaN and Inf


SPECIAL = (np.nan, np.inf, -np.inf)
SHAPES = {  # batch, in_channels, out_channels, length, kernel_size, and what is not the default
    "dense": ((2, 5, 20, 70, 4), {"padding_left": 3, "padding_right": 2}),
    "strided": ((2, 5, 20, 70, 4), {"padding_left": 3, "stride": 3}),
    "dilated": ((2, 5, 20, 70, 3), {"padding_left": 10, "dilation": 5}),
    "grouped": ((2, 8, 20, 70, 3), {"padding_left": 1, "padding_right": 1, "groups": 4}),
    "depthwise": ((2, 20, 20, 70, 4), {"padding_left": 3, "groups": 20}),
    "short": ((2, 33, 40, 4, 3), {"padding_left": 1, "padding_right": 1}),
}


@layouts
@modes
@pytest.mark.parametrize("shape", SHAPES)
def test_one_special_sample(shape, kind, math, layout):
    """It reaches the windows that contain it, and no bit of any other output."""
    sizes, options = SHAPES[shape]
    p = tapconv.problem(*sizes, **options, type=kind, math=math, layout=layout)
    arrays = make_arrays(p)
    for call in ways(p):
        clean = run(p, arrays, call)
        for i, value in enumerate(SPECIAL):
            at = (i % 2, p.in_channels * i // 3, (p.length - 1) * i // 2)
            marked = dataclasses.replace(arrays, x=arrays.x.clone(), origin=f"normal data, x{list(at)} {value}")
            marked.x[at] = value
            y = check(p, marked, call)
            untouched = torch.from_numpy(np.isfinite(truth(p, marked)[0]))
            assert 0 < untouched.count_nonzero() < y.numel()
            assert same_bits(y[untouched], clean[untouched]), f"changed neighbours: {text(p, call, marked)}"


@layouts
@modes
@pytest.mark.parametrize("shape", SHAPES)
def test_one_special_weight(shape, kind, math, layout):
    """It reaches its output channel: also through padding, where 0*Inf and 0*NaN are NaN."""
    sizes, options = SHAPES[shape]
    p = tapconv.problem(*sizes, **options, type=kind, math=math, layout=layout)
    arrays = make_arrays(p)
    for call in ways(p):
        for i, value in enumerate(SPECIAL):
            at = (p.out_channels * i // 3, p.in_channels // p.groups - 1, (p.kernel_size - 1) * i // 2)
            marked = dataclasses.replace(arrays, w=arrays.w.clone(), origin=f"normal data, w{list(at)} {value}")
            marked.w[at] = value
            y = check(p, marked, call)
            others = torch.arange(p.out_channels) != at[0]
            assert y[:, others].isfinite().all() and not y[:, ~others].isfinite().any(), text(p, call, marked)


@layouts
@modes
def test_infinities_that_meet(kind, math, layout):
    p = tapconv.problem(1, 4, 3, 40, 3, padding_left=2, type=kind, math=math, layout=layout)
    arrays = make_arrays(p)
    arrays.x[0, 0, 10], arrays.x[0, 1, 10], arrays.x[0, 2, 12], arrays.x[0, 3, 20] = np.inf, -np.inf, np.inf, np.inf
    arrays.w[1, 3] = 0  # 0*Inf
    arrays.origin = "normal data, infinities"
    for call in ways(p):
        check(p, arrays, call)


@layouts
@modes
@pytest.mark.parametrize("activation", tapconv.ACTIVATIONS)
def test_special_values_through_bias_norm_and_activation(activation, kind, math, layout):
    """A special sample takes its item's group with it, special parameters their channel; nothing else changes."""
    p = tapconv.problem(
        2,
        4,
        12,
        50,
        3,
        has_bias=1,
        norm_groups=4,
        norm_affine=1,
        type=kind,
        param_type=kind,
        math=math,
        layout=layout,
        activation=activation,
    )
    plain = with_fields(p, norm_groups=0, norm_affine=0)
    arrays = make_arrays(p)
    arrays.origin = "normal data with specials"
    for call in [judging.Call(isa=isa) for isa in tapconv.isas()]:
        for value in SPECIAL:
            for name in ("x", "bias", "gamma", "beta"):
                marked = dataclasses.replace(arrays, **{name: getattr(arrays, name).clone()})
                getattr(marked, name).view(-1)[5] = value
                check(p, marked, call)
                if name in ("x", "bias"):
                    check(plain, dataclasses.replace(marked, gamma=None, beta=None), call)


# ---------------------------------------------------------------------------------------------------------- activations


def every(kind):
    """All numbers of a 16-bit type; of f32 and f64 all exponents with many fractions, and special values."""
    if kind in ("f16", "bf16"):
        return torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(TORCH_TYPES[kind])
    if kind == "f32":
        sweep = torch.arange(0, 2**31, 49_999, dtype=torch.int64).to(torch.int32).view(torch.float32)
    else:
        exponents = np.repeat(np.arange(-1074, 1024, dtype=np.float64), 8)
        sweep = tensor(np.ldexp(1 + np.random.default_rng(0).random(exponents.size), exponents.astype(int)), "f64")
    near = tensor(np.linspace(0, 30, 20_001), kind)
    both = torch.cat([sweep, near])
    return torch.cat([both, -both, tensor([np.nan, np.inf, -np.inf], kind)])


@pytest.mark.parametrize(
    "kind, math", [("f32", "f32"), ("f32", "f64"), ("f64", "f64"), ("f16", "f16"), ("bf16", "bf16")]
)
@pytest.mark.parametrize("activation", tapconv.ACTIVATIONS)
def test_activations_everywhere(activation, kind, math):
    """Within 2 ulp of the formula in float32, rounded once, over the whole range of numbers."""
    values = every(kind)
    for layout in tapconv.LAYOUTS:
        p = tapconv.problem(1, 1, 1, values.numel(), 1, activation=activation, type=kind, math=math, layout=layout)
        arrays = Arrays(values[None, None], tensor([[[1]]], kind), exact=True, origin=f"all values of {kind}, w 1")
        for isa in tapconv.isas():
            call = judging.Call(isa=isa)
            judge(p, arrays, run(p, arrays, call), call)
