"""Arguments checked and plans made, without NumPy or PyTorch.

`planned` is the one way to a plan: it is cached by everything that decides the problem, so that a call that was made
before costs one look-up. The cache holds the PLANS latest problems and may be used from any thread; a plan that drops
out of it lives on as long as somebody executes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Union

from . import _core

PLANS = 512

# The header's enumerations: a name stands at the index that is its value.
TYPES = ("float32", "float64", "float16", "bfloat16")
MATHS = ("f32", "tf32", "f16", "bf16", "f64")
ACTIVATIONS = ("none", "relu", "silu", "gelu", "gelu-tanh", "mish", "tanh", "sigmoid", "elu", "leaky-relu")
OWN_MATH = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
CPU, CUDA = 0, 1

Padding = Union[int, str, tuple[int, int]]


class Planned:
    """A plan and what a call needs to know of it. Sizes are in bytes; `out_shape` is y's."""

    __slots__ = ("execute", "out_shape", "pack", "packed_bytes", "plan", "run", "scratch_bytes", "workspace_offset")

    def __init__(self, plan: _core.Plan, out_shape: tuple[int, ...], info: dict) -> None:
        self.plan = plan
        self.run, self.pack, self.execute = plan.run, plan.pack, plan.execute
        self.out_shape = out_shape
        self.packed_bytes: int = info["packed_weights_bytes"]
        # On a GPU one allocation holds both packed weights and workspace.
        self.workspace_offset = -(-self.packed_bytes // 256) * 256
        self.scratch_bytes = self.workspace_offset + info["workspace_bytes"]


def activation_name(activation: str | None) -> str:
    """The library's name of an activation; underscores are as good as hyphens."""
    if activation is None:
        return "none"
    name = activation.replace("_", "-") if isinstance(activation, str) else None
    if name not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it must be None or one of {', '.join(ACTIVATIONS[1:])}")
    return name


def one_integer(name: str, value: int | Sequence[int]) -> int:
    """An integer, or the one of a sequence of length 1, as torch.nn.functional.conv1d takes it."""
    if isinstance(value, (tuple, list)) and len(value) == 1:
        value = value[0]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; it must be an integer")
    return value


def padding_pair(padding: object, kernel_size: int, stride: int, dilation: int, causal: bool) -> tuple[int, int]:
    """(left, right) zeros."""
    reach = (kernel_size - 1) * dilation
    if causal:
        if padding != 0:
            raise ValueError(f"padding is {padding!r}; it must be 0 with causal, which pads (K-1)*dilation on the left")
        return reach, 0
    if isinstance(padding, str):
        if padding == "valid":
            return 0, 0
        if padding != "same":
            raise ValueError(f"padding is {padding!r}; it must be 'valid', 'same', an integer or a pair of integers")
        if stride != 1:
            raise ValueError(f"padding is 'same' and stride is {stride}; 'same' needs a stride of 1")
        return reach // 2, reach - reach // 2
    if isinstance(padding, (tuple, list)) and len(padding) == 2:
        return one_integer("padding", padding[0]), one_integer("padding", padding[1])
    both = one_integer("padding", padding)
    return both, both


def check_types(x: object, others: dict, float32: object) -> object | None:
    """The type of bias, norm_weight and norm_bias, None if there are none; refuses types that do not go with x's. Types
    are PyTorch's or NumPy's; `others` has weight's, too, and that of each argument that is given."""
    param = None
    for name, kind in others.items():
        if name == "weight":
            if kind != x:
                raise TypeError(f"weight has the type {kind}; it must be x's, {x}")
        elif kind not in (x, float32) or (param is not None and kind != param):
            raise TypeError(
                f"{name} has the type {kind}; bias, norm_weight and norm_bias are all of x's type, {x}, or all float32"
            )
        else:
            param = kind
    return param


def check_shapes(x: Sequence[int], w: Sequence[int], channels: dict, groups: int, norm_groups: int | None) -> None:
    """Refuses what the library would refuse in the words of its own structs."""
    if len(x) not in (2, 3):
        raise ValueError(f"x has the shape {tuple(x)}; it must be (N, C_in, T) or (C_in, T)")
    if len(w) != 3:
        raise ValueError(f"weight has the shape {tuple(w)}; it must be (C_out, C_in/groups, K)")
    if min(w) < 1:
        raise ValueError(f"weight has the shape {tuple(w)}; no size may be 0")
    if groups < 1:
        raise ValueError(f"groups is {groups}; it must be at least 1")
    if w[0] % groups:
        raise ValueError(f"groups is {groups}; it must divide the {w[0]} output channels of weight")
    if x[-2] != w[1] * groups:
        raise ValueError(
            f"x has {x[-2]} channels; a weight of the shape {tuple(w)} with groups {groups} takes {w[1] * groups}"
        )
    for name, shape in channels.items():
        if shape is not None and tuple(shape) != (w[0],):
            raise ValueError(f"{name} has the shape {tuple(shape)}; it must be ({w[0]},), one value an output channel")
    if norm_groups is None:
        if channels["norm_weight"] is not None or channels["norm_bias"] is not None:
            raise ValueError("norm_weight and norm_bias are for GroupNorm; they must be None without norm_groups")
    elif norm_groups < 1 or w[0] % norm_groups:
        raise ValueError(f"norm_groups is {norm_groups}; it must be at least 1 and divide the {w[0]} output channels")


def checked_integers(
    stride: object, dilation: object, groups: object, norm_groups: object
) -> tuple[int, int, int, int | None]:
    """The integer arguments, each refused by its name."""
    checked = []
    for name, value in (("stride", stride), ("dilation", dilation), ("groups", groups)):
        number = one_integer(name, value)
        if number < 1:
            raise ValueError(f"{name} is {number}; it must be at least 1")
        checked.append(number)
    return (*checked, None if norm_groups is None else one_integer("norm_groups", norm_groups))


@lru_cache(maxsize=PLANS, typed=True)
def planned(
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    bias_shape: tuple[int, ...] | None,
    norm_weight_shape: tuple[int, ...] | None,
    norm_bias_shape: tuple[int, ...] | None,
    kind: str,
    param_kind: str,
    stride: int,
    padding: Padding,
    dilation: int,
    groups: int,
    causal: bool,
    norm_groups: int | None,
    eps: float,
    activation: str | None,
    math: str | None,
    device: int = CPU,
    device_index: int = 0,
    threads: int = 0,
) -> Planned:
    """The plan of a call. `kind` and `param_kind` are of TYPES; `threads` 0 means one a core."""
    stride, dilation, groups, norm_groups = checked_integers(stride, dilation, groups, norm_groups)
    channels = {"bias": bias_shape, "norm_weight": norm_weight_shape, "norm_bias": norm_bias_shape}
    check_shapes(x_shape, w_shape, channels, groups, norm_groups)
    left, right = padding_pair(padding, w_shape[2], stride, dilation, causal)
    if min(left, right) < 0:
        raise ValueError(f"padding is {padding!r}; it must not be negative")
    math = OWN_MATH[kind] if math is None else math
    if math not in MATHS:
        raise ValueError(f"math is {math!r}; it must be None or one of {', '.join(MATHS)}")
    if not isinstance(eps, (int, float)):
        raise TypeError(f"eps is {eps!r}; it must be a number")
    batch = x_shape[0] if len(x_shape) == 3 else 1
    plan = _core.plan(
        batch,
        x_shape[-2],
        w_shape[0],
        x_shape[-1],
        w_shape[2],
        stride,
        dilation,
        groups,
        left,
        right,
        norm_groups or 0,
        eps,
        norm_weight_shape is not None,
        bias_shape is not None,
        ACTIVATIONS.index(activation_name(activation)),
        0,
        TYPES.index(kind),
        TYPES.index(param_kind),
        MATHS.index(math),
        device,
        device_index,
        threads,
    )
    info = plan.info()
    shape = (w_shape[0], info["out_length"])
    return Planned(plan, (batch, *shape) if len(x_shape) == 3 else shape, info)
