"""The judges judged: right results pass, and every kind of wrong one is caught."""

import dataclasses

import generating
import judging
import numpy as np
import pytest
import tapconv_ctypes as tapconv
import torch
from hypothesis import given
from hypothesis import strategies as st
from tapconv_ctypes import TYPES


def formula(p, arrays):
    """bias + conv1d as the sums of the header's formula, without PyTorch's; (N, C_out, T_out) in float64."""
    x, w = judging.operands(p, arrays.x).numpy(), judging.operands(p, arrays.w).numpy()
    y = np.zeros((p.batch, p.out_channels, judging.out_length(p)))
    if p.has_bias:
        y += arrays.bias.double().numpy()[:, None]
    inputs, outputs = p.in_channels // p.groups, p.out_channels // p.groups
    for n, o, t in np.ndindex(y.shape):
        for c, k in np.ndindex(w.shape[1:]):
            at = t * p.stride + k * p.dilation - p.padding_left
            sample = x[n, o // outputs * inputs + c, at] if 0 <= at < p.length else 0.0
            with np.errstate(invalid="ignore"):
                y[n, o, t] += w[o, c, k] * sample
    return y


def stored(p, y):
    return torch.from_numpy(judging.rounded(y, TYPES[p.type])).to(judging.TORCH_TYPES[TYPES[p.type]])


small = generating.problems(work=500, norm=False, activation="none", batches=(1, 2, 3))


@generating.examples(25)
@given(small, st.sampled_from(judging.STYLES), st.integers(0, 1000))
def test_the_formula_passes(p, style, seed):
    arrays = judging.make_arrays(p, seed, style)
    judging.judge(p, arrays, stored(p, formula(p, arrays)))


@pytest.mark.parametrize("kind, math", [(k, m) for k, maths in tapconv.MATHS_OF_TYPE.items() for m in maths])
@pytest.mark.parametrize("norm_groups", [0, 1, 3, 6])
def test_wrong_results_are_caught(kind, math, norm_groups):
    p = tapconv.problem(
        2,
        4,
        6,
        53,
        5,
        padding_left=4,
        dilation=2,
        has_bias=1,
        type=kind,
        math=math,
        param_type=kind,
        norm_groups=norm_groups,
        norm_affine=int(norm_groups > 0),
        activation="silu",
    )
    arrays = judging.make_arrays(p)
    right = stored(p, judging.truth(p, arrays)[0])
    judging.judge(p, arrays, right)

    def wrong(change):
        y = right.clone()
        changed = change(y)
        with pytest.raises(AssertionError, match=r"--shape 2,4,53 --out-channels 6 --kernel 5 .*normal data of seed 0"):
            judging.judge(p, arrays, y if changed is None else changed)

    def set_one(value):
        def change(y):
            y[1, 3, 17] = value

        return change

    wrong(set_one(np.nan))
    wrong(set_one(np.inf))
    wrong(set_one(0))
    off = {"f32": 2e-5, "f64": 1e-10, "f16": 4e-3, "bf16": 3e-2}[kind]
    wrong(set_one(right[1, 3, 17].double() * (1 + off) + off))
    wrong(lambda y: y.flip(0))
    wrong(lambda y: y.roll(1, 1))
    wrong(lambda y: y.roll(1, 2))
    wrong(lambda y: y[..., :-1])
    others = [dataclasses.replace(arrays, w=arrays.w.flip(2)), dataclasses.replace(arrays, x=arrays.x.roll(1, 2))]
    if norm_groups != 6:  # a channel that is normalised alone loses its bias
        others.append(dataclasses.replace(arrays, bias=torch.zeros_like(arrays.bias)))
    for other in others:
        wrong(lambda y, other=other: stored(p, judging.truth(p, other)[0]))


def test_truncated_tf32_is_caught():
    p = tapconv.problem(1, 64, 32, 200, 3, math="tf32")
    arrays = judging.make_arrays(p)

    def truncate(tensor):
        return (tensor.view(torch.int32) & ~0x1FFF).view(torch.float32)

    cut = dataclasses.replace(arrays, x=truncate(arrays.x), w=truncate(arrays.w))
    with pytest.raises(AssertionError, match="elements are wrong"):
        judging.judge(p, arrays, stored(p, judging.truth(p, cut)[0]))


def test_careless_float32_is_caught():
    """Sums that are truncated every few terms, as tensor cores do it, pass the elementwise bound of one long sum, but
    not beside PyTorch's. (Rounding to nearest would not do: some of PyTorch's own kernels add one by one.)"""
    p = tapconv.problem(1, 256, 64, 128, 5)
    arrays = judging.make_arrays(p)
    x, w = arrays.x[0].double().numpy(), arrays.w.double().numpy()
    y = np.zeros((64, 124))
    for c in range(256):
        for k in range(5):
            y += w[:, c, k, None] * x[None, c, k : k + 124]
        y.view(np.int64)[...] &= -(1 << 29)  # float32's fraction, towards 0
    y = y.astype(np.float32)
    with pytest.raises(AssertionError, match=r"relative L2 error .* PyTorch's in f32"):
        judging.judge(p, arrays, torch.from_numpy(y)[None])


@pytest.mark.parametrize("layout", tapconv.LAYOUTS)
@pytest.mark.parametrize(
    "fault, message",
    [
        ("none", None),
        ("last element unwritten", "1 of 60 elements of y were not written, first 59"),
        ("one byte after y", "outside y"),
        ("far before y", "outside y"),
        ("one byte after workspace", "outside workspace"),
        ("one byte after packed_weights", "outside packed_weights"),
        ("packed weights changed", "packed_weights was changed"),
        ("x changed", "x was changed"),
    ],
)
def test_stray_writes_are_caught(layout, fault, message):
    p = tapconv.problem(2, 4, 3, 12, 3, layout=layout)
    arrays = judging.make_arrays(p)
    y = stored(p, judging.truth(p, arrays)[0])

    def execute(plan, memory):
        judging.execute(plan, memory)
        if fault == "last element unwritten":
            memory["y"].bytes[-4:] = judging.POISON ^ (0x55 if memory["y"].rewritten else 0)
            memory["y"].rewritten = True
        elif fault.startswith("one byte after "):
            memory[fault.split()[-1]]._after[0] = 0
        elif fault == "far before y":
            memory["y"]._before[-judging.GUARD] = 0
        elif fault == "packed weights changed":
            memory["packed_weights"].bytes[5] ^= 1
        elif fault == "x changed":
            memory["x"].bytes[0] ^= 1

    judging.Guarded.rewritten = False
    if message is None:
        judging.judge(p, arrays, judging.run(p, arrays, judging.Call(), execute))
        assert judging.relative_l2(judging.run(p, arrays).double().numpy(), y.double().numpy()) < 1e-6
    else:
        with pytest.raises(AssertionError, match=message):
            judging.run(p, arrays, judging.Call(), execute)


def test_canonical_text():
    p = tapconv.problem(
        2,
        4,
        6,
        53,
        5,
        padding_left=8,
        dilation=2,
        groups=2,
        stride=3,
        norm_groups=3,
        norm_eps=0.001,
        norm_affine=1,
        activation="gelu-tanh",
        math="bf16",
        type="bf16",
        param_type="f32",
        layout="nlc",
    )
    assert judging.text(p, judging.Call(threads=2, isa="scalar", kernel="dense-panel")) == (
        "--shape 2,4,53 --out-channels 6 --kernel 5 --stride 3 --dilation 2 --groups 2 --causal --norm-groups 3 "
        "--eps 0.001 --activation gelu-tanh --math bf16 --threads 2 # type bf16, with gamma and beta in f32, "
        "layout nlc, isa scalar, kernel dense-panel"
    )
    assert judging.text(tapconv.problem(1, 2, 3, 4, 1)) == "--shape 1,2,4 --out-channels 3 --kernel 1"
    assert judging.text(tapconv.problem(1, 2, 3, 4, 3, padding_left=1, padding_right=1)).endswith(" --padding 1")
    assert judging.text(tapconv.problem(1, 2, 3, 4, 3, padding_right=1)).endswith(" --padding 0,1")
