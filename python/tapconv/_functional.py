"""tapconv.conv1d: the public function, and the short way that an eager call takes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ._plans import OWN_MATH, activation_name, check_shapes, checked_integers, padding_pair

try:
    import torch
except ImportError:
    torch = None
else:
    import torch.nn.functional as F
    from torch.autograd import forward_ad

    from ._ops import KINDS, PackedWeights, both_or_none, conv1d_op, execute, true_float32


def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    causal: bool = False,
    norm_groups: int | None = None,
    norm_weight: Any = None,
    norm_bias: Any = None,
    eps: float = 1e-5,
    activation: str | None = None,
    math: str | None = None,
) -> Any:
    """activation(GroupNorm(bias + conv1d(x, weight))); bias, GroupNorm and activation are each optional.

    Args:
        x: (N, C_in, T) or (C_in, T), T samples a channel; float32, float64, float16 or bfloat16. A PyTorch tensor, a
            NumPy array, or what gives its memory by DLPack or as a buffer. Copied only if it is not contiguous.
        weight: (C_out, C_in/groups, K), of x's type and device.
        bias: (C_out,), of x's type or float32.
        stride, dilation: in samples, at least 1.
        padding: zeros on both sides, or (left, right), or "valid", or "same".
        groups: divides C_in and C_out.
        causal: (K-1)*dilation zeros on the left and none on the right, so that y[t] sees no sample after x[t].
        norm_groups: groups of GroupNorm, which divide C_out; None for no GroupNorm.
        norm_weight, norm_bias: (C_out,), of bias's type; scale (default 1) and shift (default 0) of GroupNorm.
        eps: added to GroupNorm's variance.
        activation: "relu", "silu", "gelu", "gelu-tanh", "mish", "tanh", "sigmoid", "elu" (alpha 1) or "leaky-relu"
            (slope 0.01); None for none.
        math: "f32", "tf32", "f16", "bf16" or "f64", the arithmetic's promise; None: f32 for float32, else x's type.

    Returns:
        (N, C_out, T_out) or (C_out, T_out), of x's type, contiguous, on x's device: a tensor for a tensor, otherwise a
        NumPy array. T_out = floor((T + left + right - dilation*(K-1) - 1) / stride) + 1.

    Raises:
        ValueError, TypeError: an argument that is not allowed; the sentence begins with its name.
        RuntimeError: x is on a GPU that this build or machine has no engine for, or the GPU refused.
    """
    geometry = (stride, padding, dilation, groups, causal)
    norm = (norm_groups, norm_weight, norm_bias, eps)
    if torch is None or not isinstance(x, torch.Tensor):
        from . import _numpy

        return _numpy.conv1d(x, weight, bias, *geometry, *norm, activation, math)
    return run(x, weight, bias, *geometry, *norm, activation, math)


if torch is not None:
    _included = torch._C._dispatch_tls_local_include_set
    _autocast = getattr(
        torch._C, "_is_any_autocast_enabled", lambda: any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
    )
    _with_grad = torch.is_grad_enabled
    _tracing = torch.compiler.is_compiling
    _tensor_types = (torch.Tensor, torch.nn.Parameter)
    _strided = torch.strided
    # PyTorch 2.4 has no numbers for sets of keys, only their names.
    _keys = getattr(torch._C.DispatchKeySet, "raw_repr", repr)
    _no_mode = _keys(_included())
    _transform = torch._C._functorch.peek_interpreter_stack
    by_torch = {
        "none": lambda v: v,
        "relu": F.relu,
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu-tanh": lambda v: F.gelu(v, approximate="tanh"),
        "mish": F.mish,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "elu": F.elu,
        "leaky-relu": F.leaky_relu,
    }

    def _plain(tensor) -> bool:
        """Whether data_ptr() gives a dense tensor's values as they are."""
        return (
            type(tensor) in _tensor_types
            and (tensor.is_cpu or tensor.is_cuda)
            and tensor.layout is _strided
            and not tensor.is_neg()
            and not tensor._is_zerotensor()
        )

    def _straight(x, weight, bias, norm_weight, norm_bias) -> bool:
        """Whether nothing but the computation is asked for: no gradient, no tracing, autocast, functorch or mode, no
        subclass, and memory behind every tensor. The dispatcher would do nothing else then, and is left out."""
        if not (_plain(x) and _plain(weight)) or _autocast() or _keys(_included()) != _no_mode:
            return False
        if forward_ad._current_level >= 0:
            return False
        grad = _with_grad()
        if grad and (x.requires_grad or weight.requires_grad):
            return False
        for tensor in (bias, norm_weight, norm_bias):
            if tensor is not None and (not _plain(tensor) or (grad and tensor.requires_grad)):
                return False
        return True

    def _by_torch(
        x, weight, bias, stride, left, right, dilation, groups, norm_groups, norm_weight, norm_bias, eps, activation
    ):
        """The layer by PyTorch's operators, which know forward-mode gradients and torch.func's transforms."""
        unbatched = x.dim() == 2
        if unbatched:
            x = x.unsqueeze(0)
        padding = left
        if left != right:
            x, padding = F.pad(x, (left, right)), 0
        with true_float32() if x.is_cuda else contextlib.nullcontext():
            v = F.conv1d(x, weight, bias, stride, padding, dilation, groups)
        if norm_groups:
            v = F.group_norm(v, norm_groups, norm_weight, norm_bias, eps)
        v = by_torch[activation](v)
        return v.squeeze(0) if unbatched else v

    def run(
        x,
        weight,
        bias,
        stride,
        padding,
        dilation,
        groups,
        causal,
        norm_groups,
        norm_weight,
        norm_bias,
        eps,
        activation,
        math,
        cache: PackedWeights | None = None,
    ):
        """conv1d of tensors; `cache` holds a module's packed weights."""
        if not _tracing() and _straight(x, weight, bias, norm_weight, norm_bias):
            # Lists cannot be looked up.
            if type(padding) is list:
                padding = tuple(padding)
            if type(stride) is list or type(dilation) is list:
                stride, dilation, groups, norm_groups = checked_integers(stride, dilation, groups, norm_groups)
            return execute(
                x,
                weight,
                bias,
                norm_weight,
                norm_bias,
                stride,
                padding,
                dilation,
                groups,
                causal,
                norm_groups,
                eps,
                activation,
                math,
                cache,
            )
        for name, tensor in (
            ("weight", weight),
            ("bias", bias),
            ("norm_weight", norm_weight),
            ("norm_bias", norm_bias),
        ):
            if not isinstance(tensor, torch.Tensor) and not (tensor is None and name != "weight"):
                raise TypeError(f"{name} is a {type(tensor).__name__}; it must be a tensor, as x is")
        beyond = not _tracing() and (forward_ad._current_level >= 0 or _transform() is not None)
        stride, dilation, groups, norm_groups = checked_integers(stride, dilation, groups, norm_groups)
        channels = {"bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
        channels = {name: None if tensor is None else tensor.shape for name, tensor in channels.items()}
        check_shapes(x.shape, weight.shape, channels, groups, norm_groups)
        left, right = padding_pair(padding, weight.shape[2], stride, dilation, causal)
        if left < 0 or right < 0:
            raise ValueError(f"padding is {padding!r}; it must not be negative")
        if beyond:
            if math not in (None, OWN_MATH.get(KINDS.get(x.dtype))):
                raise NotImplementedError(f"math is {math!r}; forward-mode gradients and torch.func have x's own alone")
            geometry = (stride, left, right, dilation, groups)
            norm = (norm_groups, norm_weight, norm_bias, eps)
            return _by_torch(x, weight, bias, *geometry, *norm, activation_name(activation))
        norm_weight, norm_bias = both_or_none(norm_weight, norm_bias)
        return conv1d_op(
            x,
            weight,
            bias,
            norm_weight,
            norm_bias,
            stride,
            left,
            right,
            dilation,
            groups,
            norm_groups or 0,
            float(eps),
            activation_name(activation),
            math or "",
        )
