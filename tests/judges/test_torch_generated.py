"""The whole family against PyTorch in float64, over generated problems."""

import ctypes

import generating
import judging
import pytest
import tapconv_ctypes as tapconv
from hypothesis import given
from hypothesis import strategies as st


@generating.examples(1200)
@given(generating.cases())
def test_any_problem(case):
    judging.check(*case)


@generating.examples(400)
@given(generating.cases(types=("f32",), maths=("f32",), styles=("normal", "spread")))
def test_float32(case):
    judging.check(*case)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(
    "in_channels, kernel_size", [(8, 4), (16, 4), (24, 3), (24, 5), (64, 2), (48, 3), (64, 8), (160, 7)]
)
def test_float32_beside_pytorch(in_channels, kernel_size, groups):
    """PyTorch's shortest chains of additions, where the promise is hardest to keep: grouped, about a hundred terms."""
    p = tapconv.problem(2, in_channels * groups, 16 * groups, 300 + kernel_size, kernel_size, groups=groups)
    for call in judging.ways(p):
        judging.check(p, judging.make_arrays(p), call)


@generating.examples(250)
@given(generating.cases(types=("f16", "bf16"), maths=("f16", "bf16")))
def test_half_types(case):
    judging.check(*case)


@generating.examples(30)
@given(generating.cases(work=3e7, batches=(1, 2)))
def test_larger_problems(case):
    judging.check(*case)


@generating.examples(500)
@given(generating.problems(), st.integers(1, 40))
def test_too_short_an_input_is_refused(p, missing):
    """T_out is right, and a receptive field that is `missing` samples longer than the padded input is refused."""
    assert tapconv.out_length(p) == judging.out_length(p), judging.text(p)
    p.dilation = 1
    p.kernel_size = p.length + p.padding_left + p.padding_right + missing
    length = ctypes.c_int64(-7)
    status = tapconv.library().tapconv_problem_check(ctypes.byref(p), ctypes.byref(length))
    assert status == tapconv.INVALID_ARGUMENT and length.value == -7, judging.text(p)
    assert str(p.kernel_size) in tapconv.library().tapconv_last_error().decode(), judging.text(p)
