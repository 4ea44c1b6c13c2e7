"""Problems for hypothesis: every option of the family, ugly sizes, and as much work as a quick test can afford."""

import hypothesis
import judging
import tapconv_ctypes as tapconv
from hypothesis import strategies as st
from tapconv_ctypes import ACTIVATIONS, LAYOUTS, MATHS_OF_TYPE

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16, 17, 23, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 160)
KERNELS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 31, 64, 65)
LENGTHS = (
    1,
    2,
    3,
    5,
    7,
    8,
    13,
    15,
    16,
    17,
    31,
    32,
    33,
    47,
    61,
    63,
    64,
    65,
    97,
    127,
    128,
    129,
    211,
    257,
    509,
    1021,
    2053,
)
EPSILONS = (1e-5, 1e-3, 0.5, 1e-12, 0.0)


def examples(count):
    """Settings of a generated test: `count` problems, the same ones in every run with one seed."""

    def decorate(test):
        settings = hypothesis.settings(
            max_examples=max(1, round(count * judging.SCALE)),
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        return hypothesis.seed(judging.SEED)(settings(test))

    return decorate


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


@st.composite
def channels(draw):
    """(in_channels, out_channels, groups)"""
    kind = draw(st.sampled_from(("dense", "depthwise", "grouped")))
    if kind == "dense":
        return draw(st.sampled_from(CHANNELS)), draw(st.sampled_from(CHANNELS)), 1
    if kind == "depthwise":
        count = draw(st.sampled_from(CHANNELS))
        return count, count * draw(st.sampled_from((1, 1, 1, 2, 3))), count
    groups = draw(st.integers(2, 9))
    return groups * draw(st.sampled_from(CHANNELS[:14])), groups * draw(st.sampled_from(CHANNELS[:14])), groups


@st.composite
def problems(
    draw, work=1e6, types=tuple(MATHS_OF_TYPE), maths=None, norm=None, activation=None, batches=(1, 2, 3, 5, 0)
):
    """A legal problem of about `work` multiplications at most. The keywords narrow a choice; `norm` False or True."""
    in_channels, out_channels, groups = draw(channels())
    kernel_size = draw(st.sampled_from(KERNELS))
    stride = draw(st.sampled_from((1, 1, 1, 1, 2, 3, 4, 5, 8)))
    dilation = draw(st.sampled_from((1, 1, 1, 2, 3, 4, 8, 17)))
    reach = (kernel_size - 1) * dilation
    padding = draw(st.sampled_from(("none", "causal", "same", "any", "wide")))
    left, right = {
        "none": lambda: (0, 0),
        "causal": lambda: (reach, 0),
        "same": lambda: (reach // 2, reach - reach // 2),
        "any": lambda: (draw(st.integers(0, reach + 1)), draw(st.integers(0, reach + 1))),
        "wide": lambda: (draw(st.integers(0, 2 * reach + 9)), draw(st.integers(0, 2 * reach + 9))),
    }[padding]()
    batch = draw(st.sampled_from(batches))
    per_output = max(1, batch) * out_channels * (in_channels // groups) * kernel_size
    longest = max(1, int(work / per_output)) * stride
    length = min(draw(st.sampled_from(LENGTHS) | st.integers(0, 300)), longest)
    right += max(0, reach + 1 - length - left - right)
    kind = draw(st.sampled_from(types))
    allowed = [m for m in MATHS_OF_TYPE[kind] if maths is None or m in maths]
    fields = {}
    if draw(st.booleans()) if norm is None else norm:
        fields["norm_groups"] = draw(st.sampled_from(divisors(out_channels)))
        fields["norm_eps"] = draw(st.sampled_from(EPSILONS))
        fields["norm_affine"] = draw(st.integers(0, 1))
    return tapconv.problem(
        batch,
        in_channels,
        out_channels,
        length,
        kernel_size,
        stride=stride,
        dilation=dilation,
        groups=groups,
        padding_left=left,
        padding_right=right,
        has_bias=draw(st.integers(0, 1)),
        activation=draw(st.sampled_from(ACTIVATIONS)) if activation is None else activation,
        layout=draw(st.sampled_from(LAYOUTS)),
        type=kind,
        param_type=draw(st.sampled_from((kind, "f32"))),
        math=draw(st.sampled_from(allowed)),
        **fields,
    )


@st.composite
def calls(draw, p):
    """A way to compute the problem; a forced kernel family is one that takes it."""
    call = judging.Call(
        threads=draw(st.integers(1, 4)),
        isa=draw(st.sampled_from((None, *tapconv.isas()))),
        offset=draw(st.integers(0, 7)),
    )
    call.kernel = draw(st.sampled_from((None, *tapconv.kernels())))
    if call.kernel and not judging.takes(p, call):
        assert call.kernel != "dense-panel", f"dense-panel takes every problem, but not {judging.text(p, call)}"
        call.kernel = None
    return call


@st.composite
def cases(draw, styles=judging.STYLES, **narrowed):
    """(problem, arrays, call)"""
    p = draw(problems(**narrowed))
    arrays = judging.make_arrays(p, draw(st.integers(0, 2**31 - 1)), draw(st.sampled_from(styles)))
    return p, arrays, draw(calls(p))
