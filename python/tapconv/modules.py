"""Modules with the constructors, parameters and names of what they stand for.

Each keeps its weights packed between calls without gradients, for as long as they come from the same live tensor,
storage and version: optimiser steps, load_state_dict, in-place edits, an assignment of `.data` and weight_norm are
all seen. What leaves no trace is an edit in place through `.data` (`w.data.mul_(2)`): call `repack()` after it.
Within torch.compile, torch.export and the capture of a CUDA graph weights are packed with every call.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._functional import run
from ._ops import PackedWeights
from ._plans import activation_name


def _hooked(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


class Conv1d(nn.Conv1d):
    """torch.nn.Conv1d, with zeros as padding. x (N, C_in, T) or (C_in, T) -> y (N, C_out, T_out) or (C_out, T_out)."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode is {self.padding_mode!r}; it must be 'zeros'")
        self._causal = False
        self._packed = PackedWeights()

    def repack(self) -> None:
        """Forgets the packed weights; needed only after an edit in place through `.data`."""
        self._packed.clear()

    def _run(self, x: Tensor, norm: nn.GroupNorm | None = None, activation: str | None = None) -> Tensor:
        groups, gamma, beta, eps = None, None, None, 1e-5
        if norm is not None:
            groups, gamma, beta, eps = norm.num_groups, norm.weight, norm.bias, norm.eps
        padding = self.padding if isinstance(self.padding, str) else self.padding[0]
        return run(
            x,
            self.weight,
            self.bias,
            self.stride[0],
            padding,
            self.dilation[0],
            self.groups,
            self._causal,
            groups,
            gamma,
            beta,
            eps,
            activation,
            None,
            self._packed,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._run(input)


class CausalConv1d(nn.Module):
    """y = Conv1d(F.pad(x, ((kernel_size-1)*dilation, 0))): y[t] sees no sample after x[t].

    x (N, in_channels, T) or (in_channels, T) -> y (N, out_channels, T). Parameters: conv1d.weight, conv1d.bias.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, dilation: int = 1, bias: bool = False
    ) -> None:
        super().__init__()
        self.conv1d = Conv1d(in_channels, out_channels, kernel_size, dilation=dilation, bias=bias)
        self.conv1d._causal = True

    def repack(self) -> None:
        """Forgets the packed weights; needed only after an edit in place through `.data`."""
        self.conv1d.repack()

    def forward(self, x: Tensor) -> Tensor:
        return self.conv1d(x)


class Conv1dGroupNorm(nn.Module):
    """y = activation(GroupNorm(Conv1d(x))), the convolution without bias.

    x (N, in_channels, T) or (in_channels, T) -> y (N, out_channels, T_out), T and T_out in samples. Parameters:
    conv.weight, norm.weight, norm.bias (without `affine` only the first). `activation` is one of tapconv.conv1d's.
    Hooks on `conv` or `norm` are honoured: the two then run one after the other.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_groups: int,
        kernel_size: int = 3,
        stride: int = 1,
        padding: int = 1,
        dilation: int = 1,
        eps: float = 1e-5,
        affine: bool = True,
        activation: str | None = None,
    ) -> None:
        super().__init__()
        self.conv = Conv1d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation, bias=False
        )
        self.norm = nn.GroupNorm(num_groups, out_channels, eps=eps, affine=affine)
        self.activation = activation_name(activation)

    def repack(self) -> None:
        """Forgets the packed weights; needed only after an edit in place through `.data`."""
        self.conv.repack()

    def extra_repr(self) -> str:
        return f"activation={self.activation}"

    def forward(self, x: Tensor) -> Tensor:
        if not (_hooked(self.conv) or _hooked(self.norm)):
            return self.conv._run(x, self.norm, self.activation)
        unbatched = x.dim() == 2
        v = self.conv(x.unsqueeze(0) if unbatched else x)
        v = self.norm(v)
        if self.activation != "none":
            # An identity, so that the activation is tapconv's own.
            identity = torch.ones(v.shape[1], 1, 1, dtype=v.dtype, device=v.device)
            v = run(v, identity, None, 1, 0, 1, v.shape[1], False, None, None, None, 1e-5, self.activation, None)
        return v.squeeze(0) if unbatched else v
