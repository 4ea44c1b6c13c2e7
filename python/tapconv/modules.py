"""Modules with the constructors, parameters and names of what they stand for.

Each keeps its weights packed between calls without gradients, for as long as they come from the same live tensor,
storage and version: optimiser steps, load_state_dict, in-place edits, an assignment of `.data` and weight_norm are
all seen. What leaves no trace is an edit in place through `.data` (`w.data.mul_(2)`): call `repack()` after it.
Within torch.compile, torch.export and the capture of a CUDA graph weights are packed with every call.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from ._functional import by_torch, run
from ._ops import PackedWeights
from ._plans import activation_name, padding_pair

# Packing a weight costs as much as computing some hundred samples with it.
SHORT = 1024


def hooked(module: nn.Module) -> bool:
    """Whether calling the module does more than its class's forward: hooks, or a forward of the object's own."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
        or everywhere._global_forward_hooks
        or everywhere._global_forward_pre_hooks
        or everywhere._global_backward_hooks
        or everywhere._global_backward_pre_hooks
    )


def norm_terms(norm: nn.GroupNorm | None) -> tuple[int | None, Tensor | None, Tensor | None, float]:
    """What conv1d takes of it: groups, scale, shift, epsilon."""
    return (None, None, None, 1e-5) if norm is None else (norm.num_groups, norm.weight, norm.bias, norm.eps)


class Convolution:
    """The forward pass of an nn.Conv1d by tapconv; a base before it. The object has a PackedWeights in `_packed`."""

    _causal = False
    _dimensions = 3

    def repack(self) -> None:
        """Forgets the packed weights; needed only after an edit in place through `.data`."""
        self._packed.clear()

    def _run(
        self,
        x: Tensor,
        norm: nn.GroupNorm | None = None,
        activation: str | None = None,
        left: int = 0,
        right: int = 0,
    ) -> Tensor:
        """activation(norm(self(F.pad(x, (left, right)))))."""
        if "weight" not in self._parameters and not self._causal and x.is_cpu and x[..., 0, :].numel() < SHORT:
            # The weight is computed, and would be packed, for this call alone.
            return self._by_torch(x, norm, activation, left, right)
        if x.dtype is torch.float64 and x.is_cuda:  # which the CUDA engine has not
            reach = (self.kernel_size[0] - 1) * self.dilation[0] if self._causal else 0
            return self._by_torch(x, norm, activation, left + reach, right)
        groups, gamma, beta, eps = norm_terms(norm)
        stride, dilation = self.stride[0], self.dilation[0]
        padding = self.padding if isinstance(self.padding, str) else self.padding[0]
        if left or right:
            own = padding_pair(padding, self.kernel_size[0], stride, dilation, False)
            padding = (own[0] + left, own[1] + right)
        elif self.padding_mode != "zeros":
            x = F.pad(x, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return run(
            x,
            self.weight,
            self.bias,
            stride,
            padding,
            dilation,
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

    def _by_torch(
        self, x: Tensor, norm: nn.GroupNorm | None, activation: str | None, left: int, right: int
    ) -> Tensor:
        v = super().forward(self._padded(x, left, right) if left or right else x)
        if norm is not None:
            v = norm(v) if v.dim() > 2 else norm(v.unsqueeze(0)).squeeze(0)
        return v if activation is None else by_torch[activation](v)

    @staticmethod
    def _padded(x: Tensor, left: int, right: int) -> Tensor:
        return F.pad(x, (left, right))

    def forward(self, input: Tensor) -> Tensor:
        return self._run(input)


class Column(Convolution):
    """The same of an nn.Conv2d whose kernel is one column wide: where x (N, C, T, 1) is so, too, it is a convolution
    along T. Other inputs are PyTorch's. The object has a PackedColumn in `_packed`."""

    _dimensions = 4

    def _run(
        self,
        x: Tensor,
        norm: nn.GroupNorm | None = None,
        activation: str | None = None,
        left: int = 0,
        right: int = 0,
    ) -> Tensor:
        if x.dim() != 4 or x.shape[3] != 1 or (x.dtype is torch.float64 and x.is_cuda):
            return self._by_torch(x, norm, activation, left, right)
        groups, gamma, beta, eps = norm_terms(norm)
        stride, dilation = self.stride[0], self.dilation[0]
        padding = self.padding if isinstance(self.padding, str) else self.padding[0]
        own = padding_pair(padding, self.kernel_size[0], stride, dilation, False)
        return run(
            x[..., 0],
            self._packed.column(self.weight),
            self.bias,
            stride,
            (own[0] + left, own[1] + right),
            dilation,
            self.groups,
            False,
            groups,
            gamma,
            beta,
            eps,
            activation,
            None,
            self._packed,
        ).unsqueeze(-1)

    @staticmethod
    def _padded(x: Tensor, left: int, right: int) -> Tensor:
        return F.pad(x, (0, 0, left, right))


class Conv1d(Convolution, nn.Conv1d):
    """torch.nn.Conv1d. x (N, C_in, T) or (C_in, T) -> y (N, C_out, T_out) or (C_out, T_out)."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._packed = PackedWeights()


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
        if not (hooked(self.conv) or hooked(self.norm)):
            return self.conv._run(x, self.norm, self.activation)
        unbatched = x.dim() == 2
        v = self.conv(x.unsqueeze(0) if unbatched else x)
        v = self.norm(v)
        if self.activation != "none":
            # An identity, so that the activation is tapconv's own.
            identity = torch.ones(v.shape[1], 1, 1, dtype=v.dtype, device=v.device)
            v = run(v, identity, None, 1, 0, 1, v.shape[1], False, None, None, None, 1e-5, self.activation, None)
        return v.squeeze(0) if unbatched else v
