"""tapconv::conv1d as an operator of PyTorch: kernels, shapes, gradients and autocast, registered through torch.library.

The operator takes what `tapconv.conv1d` has put into a plain form: padding as two integers, `norm_groups` 0 for none,
names as strings with "" for the default math mode. Its results are new and contiguous.

Gradients. The backward pass is composed of differentiable operators: PyTorch's own backward of GroupNorm and of the
activations, and tapconv::conv1d_backward, which is PyTorch's backward of the convolution in true float32: where cuDNN
might use TF32 it is told not to for the length of the call, and its setting is put back. That has to happen inside an
operator, since a compiled backward pass knows no Python. The value before GroupNorm and activation is computed anew
instead of being kept. Gradients are those of the exact function, whatever the math mode of the forward pass.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ._plans import CPU, CUDA, OWN_MATH, Planned, check_types, planned

KINDS = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}

library = torch.library.Library("tapconv", "DEF")
library.define(
    "conv1d(Tensor x, Tensor weight, Tensor? bias, Tensor? norm_weight, Tensor? norm_bias, SymInt stride, "
    "SymInt padding_left, SymInt padding_right, SymInt dilation, SymInt groups, SymInt norm_groups, float eps, "
    "str activation, str math) -> Tensor"
)
library.define(
    "conv1d_backward(Tensor gradient, Tensor x, Tensor weight, SymInt stride, SymInt padding_left, "
    "SymInt padding_right, SymInt dilation, SymInt groups, bool[] wanted) -> (Tensor, Tensor, Tensor)"
)
conv1d_op = torch.ops.tapconv.conv1d.default
conv1d_backward_op = torch.ops.tapconv.conv1d_backward.default


# -------------------------------------------------------------------------------------------------------------- forward


def check_tensors(x: Tensor, others: dict) -> torch.dtype | None:
    """The type of bias, norm_weight and norm_bias (None: there are none); TypeError or ValueError for a tensor that
    does not go with x."""
    if x.dtype not in KINDS:
        raise TypeError(f"x has the type {x.dtype}; it must be one of {', '.join(map(str, KINDS))}")
    kinds, device = {}, x.device
    for name, tensor in others.items():
        if tensor is not None:
            if tensor.device != device:
                raise ValueError(f"{name} is on {tensor.device} and x on {device}; both must be on one device")
            kinds[name] = tensor.dtype
    return check_types(x.dtype, kinds, torch.float32)


def _alike(dtype: torch.dtype, tensors: tuple[Tensor | None, ...]) -> bool:
    """Whether all are of one type and on the CPU, as they mostly are: then nothing else need be looked at."""
    for tensor in tensors:  # noqa: SIM110 (a generator takes longer, and this is in every call's way)
        if tensor is not None and (tensor.dtype is not dtype or not tensor.is_cpu):
            return False
    return True


def both_or_none(norm_weight: Tensor | None, norm_bias: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Scale and shift of GroupNorm, of which the library takes both or none: the one that is not given is 1 or 0."""
    if norm_weight is None and norm_bias is not None:
        norm_weight = torch.ones_like(norm_bias)
    elif norm_bias is None and norm_weight is not None:
        norm_bias = torch.zeros_like(norm_weight)
    return norm_weight, norm_bias


def execute(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    stride: int,
    padding: object,
    dilation: int,
    groups: int,
    causal: bool,
    norm_groups: int | None,
    eps: float,
    activation: str | None,
    math: str | None,
    cache: PackedWeights | None = None,
) -> Tensor:
    """Computes, without autograd. Arguments are the user's; a `cache` re-uses packed weights (see PackedWeights)."""
    dtype = x.dtype
    on_cpu = x.is_cpu
    if on_cpu and dtype in KINDS and _alike(dtype, (weight, bias, norm_weight, norm_bias)):
        param = dtype
    else:
        others = {"weight": weight, "bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
        param = check_tensors(x, others) or dtype
    if bias is not None and not bias.is_contiguous():
        bias = bias.contiguous()
    if norm_weight is not None or norm_bias is not None:
        norm_weight, norm_bias = (t.contiguous() for t in both_or_none(norm_weight, norm_bias))
    if on_cpu:
        device, index, threads = CPU, 0, torch.get_num_threads()
    else:
        device, index, threads = CUDA, x.get_device(), 0
    try:
        plan = planned(
            x.shape,
            weight.shape,
            None if bias is None else bias.shape,
            None if norm_weight is None else norm_weight.shape,
            None if norm_bias is None else norm_bias.shape,
            KINDS[dtype],
            KINDS[param],
            stride,
            padding,
            dilation,
            groups,
            causal,
            norm_groups,
            eps,
            activation,
            math,
            device,
            index,
            threads,
        )
    except RuntimeError as refusal:
        if device == CUDA and "engine" in str(refusal):
            raise RuntimeError(
                f"x is on {x.device}, but this build of tapconv is for the CPU only; build it where nvcc 12.4 or later "
                f"is found ({refusal})"
            ) from None
        raise
    if not x.is_contiguous():
        x = x.contiguous()
    y = torch.empty(plan.out_shape, dtype=dtype, device=x.device)
    if on_cpu:
        if cache is None:
            if not weight.is_contiguous():
                weight = weight.contiguous()
            packed, source = 0, weight.data_ptr()
        else:
            held = cache.get(plan, weight, 0)
            packed, source = held.data_ptr(), 0
        plan.run(
            x.data_ptr(),
            source,
            packed,
            0 if bias is None else bias.data_ptr(),
            0 if norm_weight is None else norm_weight.data_ptr(),
            0 if norm_bias is None else norm_bias.data_ptr(),
            y.data_ptr(),
        )
    else:
        _execute_cuda(plan, x, weight, bias, norm_weight, norm_bias, y, cache)
    return y


def _execute_cuda(
    plan: Planned,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    y: Tensor,
    cache: PackedWeights | None,
) -> None:
    """Enqueues on x's device's current stream; memory is from PyTorch's allocator, which keeps it for that stream."""
    stream = torch.cuda.current_stream(x.device).cuda_stream
    # A graph must not refer to packed weights that may be replaced after its capture, nor may packed weights that are
    # only captured, not yet computed, be used outside: within a capture they are the graph's own.
    if cache is not None and not torch.cuda.is_current_stream_capturing():
        held = cache.get(plan, weight, stream)
        packed = held.data_ptr()
        scratch = torch.empty(plan.scratch_bytes - plan.workspace_offset, dtype=torch.uint8, device=x.device)
        workspace = scratch.data_ptr()
    else:
        scratch = torch.empty(plan.scratch_bytes, dtype=torch.uint8, device=x.device)
        packed = scratch.data_ptr()
        workspace = packed + plan.workspace_offset
        weight = weight.contiguous()
        plan.pack(weight.data_ptr(), packed, stream)
    pointers = (0 if t is None else t.data_ptr() for t in (bias, norm_weight, norm_bias, y))
    plan.execute(x.data_ptr(), packed, *pointers, workspace, stream)


class PackedWeights:
    """Packed weights of a module, re-used while they come from the same live tensor, storage, address and version.

    The storage is held weakly: its memory is freed as ever, but no other storage can pass for it. A copied or pickled
    module begins without packed weights.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple | None = None

    def clear(self) -> None:
        self._held = None

    def get(self, plan: Planned, weight: Tensor, stream: int) -> Tensor:
        held = self._held  # one look: another thread may replace it meanwhile
        if weight.is_inference():  # has no version
            return self._pack(plan, weight, stream)
        storage = weight.untyped_storage()
        version = weight._version
        key = (storage._cdata, weight.data_ptr(), version, weight.dtype, weight.shape, weight.stride(), stream)
        if held is not None and held[0]() is weight and held[1] == key and held[3].nbytes == plan.packed_bytes:
            return held[3]
        packed = self._pack(plan, weight, stream)
        if weight._version == version:
            self._held = (weakref.ref(weight), key, StorageWeakRef(storage), packed)
        return packed

    @staticmethod
    def _pack(plan: Planned, weight: Tensor, stream: int) -> Tensor:
        packed = torch.empty(plan.packed_bytes, dtype=torch.uint8, device=weight.device)
        contiguous = weight.contiguous()
        plan.pack(contiguous.data_ptr(), packed.data_ptr(), stream)
        return packed

    def __reduce__(self) -> tuple:
        return PackedWeights, ()

    def __deepcopy__(self, memo: dict) -> PackedWeights:
        return PackedWeights()


class PackedColumn(PackedWeights):
    """The same for weights (C_out, C_in/groups, K, 1). Their view (C_out, C_in/groups, K) is kept, since packed weights
    belong to one tensor object."""

    __slots__ = ("_view",)

    def __init__(self) -> None:
        super().__init__()
        self._view: tuple | None = None

    def clear(self) -> None:
        super().clear()
        self._view = None

    def column(self, weight: Tensor) -> Tensor:
        if torch.compiler.is_compiling() or (torch.is_grad_enabled() and weight.requires_grad) or weight.is_inference():
            return weight[..., 0]
        view = self._view
        if view is not None and view[0]() is weight and view[1].data_ptr() == weight.data_ptr():
            same = view[1].dtype is weight.dtype and view[1].stride() == weight.stride()[:3]
            if same and view[1].shape == weight.shape[:3]:
                return view[1]
        column = weight.detach()[..., 0]
        self._view = (weakref.ref(weight), column)
        return column

    def __reduce__(self) -> tuple:
        return PackedColumn, ()

    def __deepcopy__(self, memo: dict) -> PackedColumn:
        return PackedColumn()


def _kernel(x, weight, bias, norm_weight, norm_bias, stride, left, right, *options):
    tensors = (x, weight, bias, norm_weight, norm_bias)
    dilation, groups, norm_groups, eps, activation, math = options
    return execute(
        *tensors, stride, (left, right), dilation, groups, False, norm_groups or None, eps, activation, math or None
    )


library.impl("conv1d", _kernel, "CPU")
library.impl("conv1d", _kernel, "CUDA")


def out_length(length, kernel_size, stride, padding_left, padding_right, dilation):
    return (length + padding_left + padding_right - dilation * (kernel_size - 1) - 1) // stride + 1


@torch.library.register_fake("tapconv::conv1d")
def _fake(x, weight, bias, norm_weight, norm_bias, stride, padding_left, padding_right, dilation, groups, *_):
    others = {"weight": weight, "bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
    check_tensors(x, others)
    torch._check(x.dim() in (2, 3), lambda: f"x has {x.dim()} dimensions; it must be (N, C_in, T) or (C_in, T)")
    torch._check(weight.dim() == 3, lambda: "weight must be (C_out, C_in/groups, K)")
    torch._check(x.shape[-2] == weight.shape[1] * groups, lambda: "x's channels are not those that weight takes")
    reach = dilation * (weight.shape[2] - 1)
    torch._check(
        x.shape[-1] + padding_left + padding_right > reach,
        lambda: "x and its padding are shorter than the kernel reaches",
    )
    t_out = out_length(x.shape[-1], weight.shape[2], stride, padding_left, padding_right, dilation)
    return x.new_empty((*x.shape[:-2], weight.shape[0], t_out))


# ------------------------------------------------------------------------------------------------------------- backward

_tf32_lock = threading.RLock()


@contextlib.contextmanager
def true_float32() -> Iterator[None]:
    """cuDNN's convolutions without TF32; the setting is the process's, is put back, and one call at a time has it."""
    with _tf32_lock:
        conv = getattr(torch.backends.cudnn, "conv", None)
        # From 2.9 on the setting is a precision; reading the old flag beside it may be an error there.
        if conv is not None and hasattr(conv, "fp32_precision"):
            before = conv.fp32_precision
            if before == "ieee":
                yield
                return
            conv.fp32_precision = "ieee"
            try:
                yield
            finally:
                conv.fp32_precision = before
        else:
            allowed = torch._C._get_cudnn_allow_tf32()
            torch._C._set_cudnn_allow_tf32(False)
            try:
                yield
            finally:
                torch._C._set_cudnn_allow_tf32(allowed)


def _convolution_backward(gradient, x, weight, stride, left, right, dilation, groups, wanted):
    length = x.shape[-1]
    padding = left
    if left != right:
        x = torch.nn.functional.pad(x, (left, right))
        padding = 0
    results = torch.ops.aten.convolution_backward(
        gradient, x, weight, [weight.shape[0]], [stride], [padding], [dilation], False, [0], groups, wanted
    )
    grads = [r if w else x.new_empty(0) for r, w in zip(results, wanted)]
    if wanted[0] and left != right:
        grads[0] = grads[0][..., left : left + length].contiguous()
    return tuple(g.contiguous() for g in grads)


def _backward_cpu(gradient, x, weight, *rest):
    return _convolution_backward(gradient, x, weight, *rest)


def _backward_cuda(gradient, x, weight, *rest):
    with true_float32():
        return _convolution_backward(gradient, x, weight, *rest)


library.impl("conv1d_backward", _backward_cpu, "CPU")
library.impl("conv1d_backward", _backward_cuda, "CUDA")


@torch.library.register_fake("tapconv::conv1d_backward")
def _backward_fake(gradient, x, weight, stride, padding_left, padding_right, dilation, groups, wanted):
    shapes = (x.shape, weight.shape, (weight.shape[0],))
    return tuple(x.new_empty(shape if w else (0,)) for shape, w in zip(shapes, wanted))


def _save_backward(ctx, inputs, output):
    gradient, x, weight, *options, wanted = inputs
    ctx.save_for_backward(gradient, x, weight)
    ctx.options, ctx.wanted = options, wanted


def _double_backward(ctx, grad_x, grad_weight, grad_bias):
    """Of conv1d_backward, which is linear in each of its three tensors."""
    gradient, x, weight = ctx.saved_tensors
    stride, left, right, dilation, groups = ctx.options
    geometry = (stride, left, right, dilation, groups)

    def convolve(a, b):
        return conv1d_op(a, b, None, None, None, *geometry, 0, 0.0, "none", "")

    need_gradient, need_x, need_weight = ctx.needs_input_grad[:3]
    to_gradient = to_x = to_weight = None
    if ctx.wanted[0] and grad_x is not None:
        if need_gradient:
            to_gradient = convolve(grad_x.contiguous(), weight)
        if need_weight:
            to_weight = conv1d_backward_op(gradient, grad_x.contiguous(), weight, *geometry, [False, True, False])[1]
    if ctx.wanted[1] and grad_weight is not None:
        if need_gradient:
            more = convolve(x, grad_weight.contiguous())
            to_gradient = more if to_gradient is None else to_gradient + more
        if need_x:
            to_x = conv1d_backward_op(gradient, x, grad_weight.contiguous(), *geometry, [True, False, False])[0]
    if ctx.wanted[2] and grad_bias is not None and need_gradient:
        more = grad_bias[:, None].expand_as(gradient)
        to_gradient = more if to_gradient is None else to_gradient + more
    return to_gradient, to_x, to_weight, None, None, None, None, None, None


torch.library.register_autograd("tapconv::conv1d_backward", _double_backward, setup_context=_save_backward)


def activation_backward(name: str, gradient: Tensor, v: Tensor) -> Tensor:
    """The gradient with respect to v, the value that was activated."""
    aten = torch.ops.aten
    if name == "none":
        return gradient
    if name == "relu":
        return aten.threshold_backward(gradient, v, 0)
    # PyTorch's own backward of these two has no gradient of its own.
    if name == "silu":
        if not torch.is_grad_enabled():
            return aten.silu_backward(gradient, v)
        s = torch.sigmoid(v)
        return gradient * (s * (1 + v * (1 - s)))
    if name in ("gelu", "gelu-tanh"):
        return aten.gelu_backward(gradient, v, approximate="tanh" if name == "gelu-tanh" else "none")
    if name == "mish":
        if not torch.is_grad_enabled():
            return aten.mish_backward(gradient, v)
        t = torch.tanh(torch.nn.functional.softplus(v))
        return gradient * (t + v * torch.sigmoid(v) * (1 - t * t))
    if name == "tanh":
        return aten.tanh_backward(gradient, torch.tanh(v))
    if name == "sigmoid":
        return aten.sigmoid_backward(gradient, torch.sigmoid(v))
    if name == "elu":
        return aten.elu_backward(gradient, 1.0, 1.0, 1.0, False, v)
    return aten.leaky_relu_backward(gradient, v, 0.01, False)


def _norm_backward_by_formula(activation, gradient, z, gamma, beta, norm_groups, eps):
    """Gradients of activation(GroupNorm(z)) with respect to z, gamma and beta by operators that have gradients
    themselves, which PyTorch's native_group_norm_backward has not."""
    batch, channels, length = z.shape

    def grouped(tensor):
        return tensor.reshape(batch, norm_groups, channels // norm_groups, length)

    z = grouped(z)
    rstd = (z.var((2, 3), correction=0, keepdim=True) + eps).rsqrt()
    normal = (z - z.mean((2, 3), keepdim=True)) * rstd
    flat = normal.reshape(batch, channels, length)
    v = flat if gamma is None else flat * gamma[:, None] + beta[:, None]
    gradient = activation_backward(activation, gradient, v)
    to_gamma = to_beta = None
    if gamma is not None:
        to_gamma, to_beta = (gradient * flat).sum((0, 2)), gradient.sum((0, 2))
        gradient = gradient * gamma[:, None]
    gradient = grouped(gradient)
    inner = gradient.mean((2, 3), keepdim=True) + normal * (gradient * normal).mean((2, 3), keepdim=True)
    return (rstd * (gradient - inner)).reshape(batch, channels, length), to_gamma, to_beta


def _save(ctx, inputs, output):
    x, weight, bias, norm_weight, norm_bias, *options = inputs
    ctx.save_for_backward(x, weight, bias, norm_weight, norm_bias)
    ctx.options = options


def _backward(ctx, gradient):
    x, weight, bias, norm_weight, norm_bias = ctx.saved_tensors
    stride, left, right, dilation, groups, norm_groups, eps, activation, _ = ctx.options
    need_x, need_weight, need_bias, need_gamma, need_beta = ctx.needs_input_grad[:5]
    geometry = (stride, left, right, dilation, groups)
    unbatched = x.dim() == 2
    if unbatched:
        x, gradient = x.unsqueeze(0), gradient.unsqueeze(0)
    x, gradient = x.contiguous(), gradient.contiguous()
    to_gamma = to_beta = None
    if norm_groups or activation != "none":
        # GroupNorm and activations in float32 at least, as the forward pass has them.
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        z = conv1d_op(x, weight, bias, None, None, *geometry, 0, 0.0, "none", "").to(wide)
        gradient = gradient.to(wide)
        if norm_groups:
            gamma = None if norm_weight is None else norm_weight.to(wide)
            beta = None if norm_bias is None else norm_bias.to(wide)
            # If the gradient is to be differentiated again, or traced: PyTorch 2.4 has no backward of GroupNorm for
            # sizes that are symbols.
            if torch.is_grad_enabled() or any(type(size) is not int for size in z.shape):
                gradient, to_gamma, to_beta = _norm_backward_by_formula(
                    activation, gradient, z, gamma, beta, norm_groups, eps
                )
            else:
                sizes = (z.shape[0], z.shape[1], z.shape[2], norm_groups)
                v, mean, rstd = torch.ops.aten.native_group_norm(z, gamma, beta, *sizes, eps)
                gradient = activation_backward(activation, gradient, v).contiguous()
                wanted = [need_x or need_weight or need_bias, need_gamma, need_beta]
                gradient, to_gamma, to_beta = torch.ops.aten.native_group_norm_backward(
                    gradient, z, mean, rstd, gamma, *sizes, wanted
                )
            to_gamma = to_gamma.to(norm_weight.dtype) if need_gamma else None
            to_beta = to_beta.to(norm_bias.dtype) if need_beta else None
        else:
            gradient = activation_backward(activation, gradient, z)
    to_x = to_weight = to_bias = None
    if need_x or need_weight or need_bias:
        wanted = [need_x, need_weight, need_bias]
        gradient = gradient.to(x.dtype).contiguous()
        to_x, to_weight, to_bias = conv1d_backward_op(gradient, x, weight, *geometry, wanted)
        to_x = (to_x.squeeze(0) if unbatched else to_x) if need_x else None
        to_weight = to_weight if need_weight else None
        to_bias = to_bias.to(bias.dtype) if need_bias else None
    return (to_x, to_weight, to_bias, to_gamma, to_beta, *[None] * 9)


torch.library.register_autograd("tapconv::conv1d", _backward, setup_context=_save)


# ------------------------------------------------------------------------------------------------------------- autocast


def _autocast(device_type: str, key: str):
    """As PyTorch casts convolution and GroupNorm: the convolution's operands to autocast's type. Bias and GroupNorm's
    parameters stay float32. On a GPU PyTorch's group_norm gives float32, and so does a layer with GroupNorm here: its
    operands are rounded to autocast's type by the math mode."""
    without = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        eligible = tensor is not None and tensor.is_floating_point() and tensor.dtype != torch.float64
        return tensor.to(dtype) if eligible else tensor

    def call(x, weight, bias, norm_weight, norm_bias, *options):
        *options, norm_groups, eps, activation, math = options
        with torch._C._ExcludeDispatchKeyGuard(without):
            dtype = torch.get_autocast_dtype(device_type)
            if norm_groups and device_type == "cuda":
                math = math or (OWN_MATH[KINDS[dtype]] if x.dtype != torch.float64 else "")
                dtype = torch.float32
            x, weight = cast(x, dtype), cast(weight, dtype)
            bias, norm_weight, norm_bias = (cast(t, torch.float32) for t in (bias, norm_weight, norm_bias))
            return conv1d_op(x, weight, bias, norm_weight, norm_bias, *options, norm_groups, eps, activation, math)

    return call


library.impl("conv1d", _autocast("cpu", "AutocastCPU"), "AutocastCPU")
library.impl("conv1d", _autocast("cuda", "AutocastCUDA"), "AutocastCUDA")
