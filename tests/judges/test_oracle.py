"""The library's own float64 reference and its conversions, against PyTorch and NumPy."""

import ctypes

import generating
import judging
import numpy as np
import pytest
import tapconv_ctypes as tapconv
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import TORCH_TYPES, Guarded, with_fields
from tapconv_ctypes import LAYOUTS, MATHS, TYPES


def address(tensor):
    return None if tensor is None else tensor.data_ptr()


def stored(p, arrays):
    """Contiguous tensors in the problem's layout, in tapconv_reference's order."""
    x = arrays.x.transpose(1, 2) if LAYOUTS[p.layout] == "nlc" else arrays.x
    return [None if t is None else t.contiguous() for t in (x, arrays.w, arrays.bias, arrays.gamma, arrays.beta)]


@generating.examples(400)
@given(generating.problems(work=3e5), st.integers(0, 1000), st.sampled_from(judging.STYLES), st.data())
def test_reference(p, seed, style, data):
    """All of it, and one group of one item, whatever the math mode: operands are taken as stored."""
    arrays = judging.make_arrays(p, seed, style)
    given = stored(p, arrays)
    exact = with_fields(p, math=MATHS.index("f64"))
    swap = LAYOUTS[p.layout] == "nlc"
    shape = (
        (p.batch, judging.out_length(p), p.out_channels) if swap else (p.batch, p.out_channels, judging.out_length(p))
    )
    memory = Guarded(int(np.prod(shape)) * 8)
    tapconv.require(tapconv.library().tapconv_reference(ctypes.byref(p), *map(address, given), memory.address))
    assert memory.intact(), judging.text(p, None, arrays)
    y = torch.from_numpy(np.frombuffer(memory.bytes.tobytes()).reshape(shape).copy())
    y = y.transpose(1, 2) if swap else y
    # Judged as a float64 layer whose arrays are these, exactly.
    wide = judging.Arrays(
        *(None if t is None else t.double() for t in (arrays.x, arrays.w, arrays.bias, arrays.gamma, arrays.beta)),
        arrays.exact,
        arrays.origin,
    )
    judging.judge(with_fields(exact, type=TYPES.index("f64"), param_type=TYPES.index("f64")), wide, y)
    if p.batch == 0:
        return
    item = data.draw(st.integers(0, p.batch - 1))
    groups = p.norm_groups or p.out_channels
    group = data.draw(st.integers(0, groups - 1))
    size = p.out_channels // groups
    rows = Guarded(size * y.shape[2] * 8)
    tapconv.require(
        tapconv.library().tapconv_reference_group(ctypes.byref(p), *map(address, given), item, group, rows.address)
    )
    assert rows.intact(), judging.text(p, None, arrays)
    got = np.frombuffer(rows.bytes.tobytes()).reshape(size, -1)
    whole = y[item, group * size : (group + 1) * size].numpy()
    assert np.array_equal(got, whole, equal_nan=True), f"group {group} of item {item}: {judging.text(p, None, arrays)}"


@pytest.mark.parametrize("eps", [1e-5, 0.0])
@pytest.mark.parametrize("value", [0.1, -1 / 3, 1e308, 1e-310])
def test_reference_of_constant_groups(value, eps):
    """Exactly beta, also where a mean from the plain sum would be rounded or overflow."""
    for length in (3, 100):
        p = tapconv.problem(
            1, 2, 2, length, 1, groups=2, norm_groups=1, norm_eps=eps, norm_affine=1, type="f64", math="f64"
        )
        x, w = torch.full((1, 2, length), value, dtype=torch.float64), torch.ones(2, 1, 1, dtype=torch.float64)
        gamma, beta = torch.tensor([2.0, -3.0]), torch.tensor([0.7, -11.0])
        y = torch.empty(1, 2, length, dtype=torch.float64)
        given = map(address, (x, w, None, gamma, beta, y))
        tapconv.require(tapconv.library().tapconv_reference(ctypes.byref(p), *given))
        assert torch.equal(y, beta.double()[None, :, None].expand(y.shape)), f"x {value}: {judging.text(p)}"


def converted(values, destination):
    """A contiguous tensor through tapconv_convert."""
    source = next(name for name, kind in TORCH_TYPES.items() if kind == values.dtype)
    memory = Guarded(values.numel() * tapconv.TYPE_BYTES[destination])
    tapconv.require(
        tapconv.library().tapconv_convert(
            memory.address, TYPES.index(destination), values.data_ptr(), TYPES.index(source), values.numel()
        )
    )
    assert memory.intact()
    return torch.from_numpy(memory.bytes.copy()).view(TORCH_TYPES[destination])


def float64_values():
    """Numbers on, between and next to the numbers of every type, and beyond their ranges."""
    halves = torch.cat(
        [torch.arange(0, 2**15, dtype=torch.int16).view(kind).double() for kind in (torch.float16, torch.bfloat16)]
    )
    halves = halves[halves.isfinite()].unique()
    middles = (halves[1:] + halves[:-1]) / 2
    singles = torch.arange(0, 255 << 23, 104_729, dtype=torch.int32).view(torch.float32).double()
    ties = singles + torch.from_numpy(judging.ulp(singles.numpy(), "f32")) / 2
    values = torch.cat([halves, middles, singles, ties, torch.tensor([65520.0, 2.0**-25, 2.0**-150, 1e300, 5e-324])])
    values = torch.cat(
        [values, torch.nextafter(values, torch.tensor(torch.inf)), torch.nextafter(values, torch.tensor(0.0))]
    )
    return torch.cat([values, -values, torch.tensor([torch.nan, torch.inf, -torch.inf])]).double()


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("destination", TYPES)
def test_convert(destination, source):
    """One rounding, to nearest even."""
    values = float64_values().to(TORCH_TYPES[source]).contiguous()
    expected = judging.rounded(values.double().numpy(), destination)
    assert np.array_equal(converted(values, destination).double().numpy(), expected, equal_nan=True)


def test_round_tf32():
    """Ties go away from zero."""
    values = float64_values().float()
    p = tapconv.problem(1, 1, 1, 1, 1, math="tf32")
    expected = judging.operands(p, values).float()
    memory = Guarded(values.numel() * 4)
    memory.bytes[:] = values.view(torch.uint8).numpy()
    tapconv.library().tapconv_round_tf32(memory.address, values.numel())
    assert memory.intact()
    rounded = torch.from_numpy(memory.bytes.copy()).view(torch.float32)
    torch.testing.assert_close(rounded, expected, rtol=0, atol=0, equal_nan=True)


def test_names_and_constructors():
    """What the ctypes binding states twice is what the library says."""
    library = tapconv.library()
    for names, of in (
        (tapconv.TYPES, library.tapconv_type_name),
        (tapconv.MATHS, library.tapconv_math_name),
        (tapconv.LAYOUTS, library.tapconv_layout_name),
        (tapconv.ACTIVATIONS, library.tapconv_activation_name),
    ):
        assert [of(i).decode() for i in range(len(names))] == list(names)
        assert of(len(names)) is None and of(-1) is None
    assert [library.tapconv_type_bytes(i) for i in range(5)] == [tapconv.TYPE_BYTES[name] for name in TYPES] + [0]
    for made, ours in (
        (library.tapconv_conv1d(2, 3, 4, 50, 5, 6), tapconv.problem(2, 3, 4, 50, 5, padding_left=6, padding_right=6)),
        (
            library.tapconv_causal_conv1d(2, 3, 4, 50, 5, 6),
            tapconv.problem(2, 3, 4, 50, 5, dilation=6, padding_left=24),
        ),
        (
            library.tapconv_conv1d_groupnorm(2, 3, 4, 50, 5, 6, 2),
            tapconv.problem(2, 3, 4, 50, 5, padding_left=6, padding_right=6, norm_groups=2, norm_affine=1),
        ),
    ):
        assert bytes(made) == bytes(ours)
