"""The samples of PyTorch's own operator tests for conv1d and group_norm, taken from its generators."""

import re

import judging
import pytest
import tapconv_ctypes as tapconv
import torch
from torch.testing._internal.common_methods_invocations import op_db

CONV1D = next(op for op in op_db if op.name == "nn.functional.conv1d")
GROUP_NORM = next(op for op in op_db if op.name == "nn.functional.group_norm")
MODES = [(kind, math) for kind, maths in tapconv.MATHS_OF_TYPE.items() for math in maths]


def only(value):
    """The one number of a number or tuple."""
    return value[0] if isinstance(value, tuple) else value


def conv1d_problem(sample, **fields):
    """The problem of a conv1d sample with an unbatched or batched input."""
    w, bias = sample.args
    options = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | sample.kwargs
    x = sample.input if sample.input.ndim == 3 else sample.input[None]
    dilation, padding, reach = only(options["dilation"]), only(options["padding"]), w.shape[2] - 1
    left, right = {
        "valid": (0, 0),
        "same": (dilation * reach // 2, dilation * reach - dilation * reach // 2),
    }.get(padding, (padding, padding))
    return tapconv.problem(
        x.shape[0],
        x.shape[1],
        w.shape[0],
        x.shape[2],
        w.shape[2],
        stride=only(options["stride"]),
        dilation=dilation,
        groups=options["groups"],
        padding_left=left,
        padding_right=right,
        has_bias=int(bias is not None),
        **fields,
    )


@pytest.mark.parametrize("layout", tapconv.LAYOUTS)
@pytest.mark.parametrize("kind, math", MODES)
def test_conv1d(kind, math, layout):
    count = 0
    for sample in CONV1D.sample_inputs("cpu", torch.float64):
        storage = judging.TORCH_TYPES[kind]
        p = conv1d_problem(sample, type=kind, param_type=kind, math=math, layout=layout)
        x = sample.input if sample.input.ndim == 3 else sample.input[None]
        w, bias = sample.args
        arrays = judging.Arrays(
            x.to(storage), w.to(storage), None if bias is None else bias.to(storage), origin=f"conv1d sample {count}"
        )
        y = judging.check(p, arrays)
        theirs = CONV1D.op(sample.input, *sample.args, **sample.kwargs)
        assert y.shape[3 - theirs.ndim :] == theirs.shape, judging.text(p)
        if kind == "f64":
            torch.testing.assert_close(y.reshape(theirs.shape), theirs, rtol=1e-12, atol=1e-12)
        count += 1
    assert count >= 10


def test_conv1d_errors():
    """What PyTorch refuses is refused, as far as the interface can say it: one type, and a w with K."""
    count = 0
    for error in CONV1D.error_inputs("cpu"):
        sample = error.sample_input
        if (
            sample.args[0].ndim != 3
            or sample.input.dtype != sample.args[0].dtype
            or sample.args[1].dtype != sample.input.dtype
        ):
            continue
        p = conv1d_problem(sample)
        with pytest.raises(tapconv.Error) as refusal:
            tapconv.out_length(p)
        assert refusal.value.status == tapconv.INVALID_ARGUMENT
        named = [
            name
            for name, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1))
            if only(sample.kwargs.get(name, default)) not in (default, "same")
        ]
        assert re.search("|".join(named), str(refusal.value)), f"{named} is not named: {refusal.value}"
        count += 1
    assert count >= 6


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("kind, math", MODES)
def test_group_norm(kind, math, depthwise):
    """GroupNorm behind an identity, K 1; sizes behind the channels become T, as they are for GroupNorm."""
    normalised = refused = 0
    for sample in GROUP_NORM.reference_inputs("cpu", torch.float64):
        storage = judging.TORCH_TYPES[kind]
        channels, affine = sample.input.shape[1], "weight" in sample.kwargs
        x = sample.input.reshape(sample.input.shape[0], channels, sample.input[:1, :1].numel() or 1)
        p = tapconv.problem(
            x.shape[0],
            channels,
            channels,
            x.shape[2],
            1,
            groups=channels if depthwise else 1,
            norm_groups=sample.args[0],
            norm_eps=sample.kwargs.get("eps", 1e-5),
            norm_affine=int(affine),
            type=kind,
            param_type=kind,
            math=math,
        )
        w = torch.ones(channels, 1, 1) if depthwise else torch.eye(channels)[..., None]
        arrays = judging.Arrays(x.to(storage), w.to(storage), origin=f"group_norm sample {normalised + refused}")
        if affine:
            arrays.gamma, arrays.beta = (sample.kwargs[name].to(storage) for name in ("weight", "bias"))
        if p.norm_eps < 0:  # where PyTorch gives NaN at times
            with pytest.raises(tapconv.Error, match=r"norm_eps.*-0.5"):
                tapconv.out_length(p)
            refused += 1
            continue
        y = judging.check(p, arrays)
        if kind == "f64":
            theirs = GROUP_NORM.op(sample.input, *sample.args, **sample.kwargs)
            torch.testing.assert_close(y.reshape(theirs.shape), theirs, rtol=1e-12, atol=1e-12)
        normalised += 1
    assert normalised >= 20 and refused >= 1


def test_group_norm_errors():
    for error in GROUP_NORM.error_inputs("cpu"):
        shape = error.sample_input.input.shape
        if len(shape) == 3:
            p = tapconv.problem(shape[0], shape[1], shape[1], shape[2], 1, norm_groups=error.sample_input.args[0])
            with pytest.raises(tapconv.Error, match=r"norm_groups.*2.*7|norm_groups.*7.*2"):
                tapconv.out_length(p)
            return
    raise AssertionError("PyTorch has no sample with channels that its groups do not divide")
