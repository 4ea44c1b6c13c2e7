"""What all judges share: a case's arrays, its truth in PyTorch's float64, the error that it may have, and one call of
the library between guards.

A case fails with its canonical text, the options of the command line, so that it can be pasted behind `tapconv check`;
what the command line cannot say follows after a `#`.
"""

import dataclasses
import os

import numpy as np
import tapconv_ctypes as tapconv
import torch
import torch.nn.functional as F
from tapconv_ctypes import ACTIVATIONS, LAYOUTS, MATHS, TYPES

torch.set_num_threads(1)  # the problems are small

SEED = int(os.environ.get("TAPCONV_JUDGES_SEED", "20261130"))
SCALE = float(os.environ.get("TAPCONV_JUDGES_SCALE", "1"))

TORCH_TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
# Fraction bits and the exponent of the smallest normal number.
FORMATS = {"f32": (23, -126), "f64": (52, -1022), "f16": (10, -14), "bf16": (7, -126), "tf32": (10, -126)}
EPS32 = 2.0**-24
POISON = 0xFF  # a NaN in every type
GUARD = 1024


# ------------------------------------------------------------------------------------------------------------- the case


@dataclasses.dataclass
class Arrays:
    """Tensors in the problem's types, always (N, C, T); None for what the problem does not have."""

    x: torch.Tensor
    w: torch.Tensor
    bias: torch.Tensor | None = None
    gamma: torch.Tensor | None = None
    beta: torch.Tensor | None = None
    exact: bool = False  # small integers: sums are exact in any order
    origin: str = ""  # how they were made, for messages

    def _repr_pretty_(self, printer, cycle):  # hypothesis need not print every number
        printer.text(f"<{self.origin}>")


@dataclasses.dataclass
class Call:
    """How the library is asked to compute."""

    threads: int = 1
    isa: str | None = None
    kernel: str | None = None
    offset: int = 0  # elements by which arrays miss a 64-byte boundary


def text(p, call=None, arrays=None):
    options = [f"--shape {p.batch},{p.in_channels},{p.length} --out-channels {p.out_channels} --kernel {p.kernel_size}"]
    for name in ("stride", "dilation", "groups"):
        if getattr(p, name) != 1:
            options.append(f"--{name} {getattr(p, name)}")
    left, right = p.padding_left, p.padding_right
    if left and right == 0 and left == (p.kernel_size - 1) * p.dilation:
        options.append("--causal")
    elif left or right:
        options.append(f"--padding {left}" if left == right else f"--padding {left},{right}")
    if p.norm_groups:
        options.append(f"--norm-groups {p.norm_groups}")
        if p.norm_eps != 1e-5:
            options.append(f"--eps {p.norm_eps:g}")
    if p.activation:
        options.append(f"--activation {ACTIVATIONS[p.activation]}")
    if p.math:
        options.append(f"--math {MATHS[p.math]}")
    if call and call.threads:
        options.append(f"--threads {call.threads}")
    rest = [f"type {TYPES[p.type]}"] if p.type else []
    if p.has_bias or p.norm_affine:
        kinds = ["bias"] * p.has_bias + ["gamma and beta"] * p.norm_affine
        rest.append(f"with {', '.join(kinds)} in {TYPES[p.param_type]}")
    if p.layout:
        rest.append(f"layout {LAYOUTS[p.layout]}")
    if call:
        rest += [f"{name} {getattr(call, name)}" for name in ("isa", "kernel", "offset") if getattr(call, name)]
    if arrays is not None and arrays.origin:
        rest.append(arrays.origin)
    return " ".join(options) + (" # " + ", ".join(rest) if rest else "")


def with_fields(p, **fields):
    """A copy of the problem with other values in some fields (enumerations as numbers)."""
    values = {name: getattr(p, name) for name, _ in tapconv.Problem._fields_ if name != "reserved"}
    return tapconv.Problem(**(values | fields))


def out_length(p):
    return (p.length + p.padding_left + p.padding_right - p.dilation * (p.kernel_size - 1) - 1) // p.stride + 1


def terms(p):
    """How many products one output sums."""
    return p.in_channels // p.groups * p.kernel_size


STYLES = ("normal", "integers", "spread", "sparse", "constant", "nonfinite")


def make_arrays(p, seed=0, style="normal"):
    """Arrays from a seed: `normal` numbers; small `integers`; magnitudes `spread` over some decades; `sparse`, mostly
    zeros; a `constant` input; `nonfinite`, with some NaN and Inf in x, and at times in w."""
    generator = np.random.default_rng([SEED, seed])
    n = terms(p)
    storage, param = TORCH_TYPES[TYPES[p.type]], TORCH_TYPES[TYPES[p.param_type]]

    def numbers(shape, scale=1.0):
        if style == "integers":
            return generator.integers(-4, 5, shape).astype(np.float64)
        values = generator.standard_normal(shape) * scale
        if style == "spread":
            values *= 10.0 ** generator.uniform(-3, 1, shape)
        if style == "sparse":
            values *= generator.random(shape) < 0.1
        return values

    x = numbers((p.batch, p.in_channels, p.length))
    w = numbers((p.out_channels, p.in_channels // p.groups, p.kernel_size), n**-0.5)
    if style == "constant":
        x[...] = generator.standard_normal()
    if style == "nonfinite":
        specials = np.array([np.nan, np.inf, -np.inf])
        for array in (x, w) if generator.random() < 0.3 else (x,):
            if array.size:
                where = generator.integers(0, array.size, generator.integers(1, 4))
                array.reshape(-1)[where] = specials[generator.integers(0, 3, where.size)]
    arrays = Arrays(
        torch.from_numpy(x).to(storage),
        torch.from_numpy(w).to(storage),
        exact=style == "integers",
        origin=f"{style} data of seed {seed}",
    )
    if p.has_bias:
        arrays.bias = torch.from_numpy(numbers(p.out_channels)).to(param)
    if p.norm_affine:
        arrays.gamma = torch.from_numpy(1 + 0.5 * numbers(p.out_channels)).to(param)
        arrays.beta = torch.from_numpy(numbers(p.out_channels)).to(param)
    return arrays


# ------------------------------------------------------------------------------------------------------------- rounding


def ulp(values, kind):
    """The spacing of the format's numbers at each magnitude."""
    fraction, smallest = FORMATS[kind]
    exponent = np.frexp(values)[1] - 1
    return np.ldexp(1.0, np.where(values == 0, smallest, np.maximum(exponent, smallest)) - fraction)


def rounded(values, kind):
    """float64 values rounded once to the nearest-even number of a format, still as float64."""
    if kind == "f64":
        return values
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.where(np.isfinite(values), values, 0)
        spacing = ulp(finite, kind)
        nearest = np.rint(finite / spacing) * spacing
        fraction, smallest = FORMATS[kind]
        largest = (2 - 2.0**-fraction) * 2.0 ** (1 - smallest)
        nearest = np.where(np.abs(nearest) > largest, np.copysign(np.inf, nearest), nearest)
        return np.where(np.isfinite(values), nearest, values)


def operands(p, tensor):
    """x or w as the math mode sees it, in float64."""
    math = MATHS[p.math]
    if math in ("f16", "bf16"):
        tensor = tensor.to(TORCH_TYPES[math])
    elif math == "tf32":
        bits = tensor.float().view(torch.int32)
        nearest = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
        tensor = torch.where(torch.isfinite(tensor), nearest, tensor.float())
    return tensor.double()


# ---------------------------------------------------------------------------------------------------------------- truth


def _sigmoid(v):
    """PyTorch's is 0 where exp(-v) overflows, though the result would not be."""
    small = torch.exp(-v.abs())
    return torch.where(v < 0, small, 1.0) / (1 + small)


# Formulas that in float64 keep their relative accuracy far on the left, where PyTorch's cancel or underflow.
FLOAT64_ACTIVATIONS = {
    "sigmoid": _sigmoid,
    "silu": lambda v: v * _sigmoid(v),
    "gelu": lambda v: v / 2 * torch.special.erfc(v * -(0.5**0.5)),
    "gelu-tanh": lambda v: v * _sigmoid(2 * (2 / torch.pi) ** 0.5 * (v + 0.044715 * v**3)),
}


def torch_activation(p, v):
    name = ACTIVATIONS[p.activation]
    if v.dtype == torch.float64 and name in FLOAT64_ACTIVATIONS:
        return FLOAT64_ACTIVATIONS[name](v)
    return {
        "none": lambda v: v,
        "relu": F.relu,
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu-tanh": lambda v: F.gelu(v, approximate="tanh"),
        "mish": F.mish,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "elu": F.elu,
        "leaky-relu": lambda v: F.leaky_relu(v, 0.01),
    }[name](v)


def torch_conv(p, x, w, bias=None):
    return F.conv1d(F.pad(x, (p.padding_left, p.padding_right)), w, bias, p.stride, 0, p.dilation, p.groups)


def pytorch(p, arrays):
    """What PyTorch computes in the problem's own type."""
    y = torch_conv(p, arrays.x, arrays.w, arrays.bias)
    if p.norm_groups:
        y = torch.group_norm(y, p.norm_groups, arrays.gamma, arrays.beta, p.norm_eps)
    return torch_activation(p, y).double().numpy()


def _double(tensor):
    return None if tensor is None else tensor.double()


def _normalise(p, arrays, v, error):
    """GroupNorm of v, and to first order the error that errors of v and float32 statistics and arithmetic leave."""
    eps = EPS32 if MATHS[p.math] != "f64" else 1e-13
    gamma, beta = _double(arrays.gamma), _double(arrays.beta)
    # Scaled and shifted here: group_norm itself folds the mean into beta, which makes NaN of infinite parameters.
    z = torch.group_norm(v, p.norm_groups, None, None, p.norm_eps)
    z = z if gamma is None else z * gamma[:, None] + beta[:, None]
    grouped = v.reshape(p.batch, p.norm_groups, -1)
    error = error.reshape(grouped.shape)
    mean = grouped.mean(-1, keepdim=True)
    # Scaled so that the squares of a group's values stay finite.
    scale = grouped.abs().amax(-1, keepdim=True).clamp(min=1e-300)
    variance = (grouped / scale).var(-1, correction=0, keepdim=True) * scale**2
    inverse = (variance + p.norm_eps).rsqrt()
    mean_error = error.mean(-1, keepdim=True) + eps * (2 * mean.abs() + 4 * variance.sqrt())
    std_error = inverse * (error.square().mean(-1, keepdim=True).sqrt() + mean_error) + 8 * eps
    deviation = (grouped - mean).abs() * inverse
    z_error = inverse * (error + mean_error + 2 * eps * mean.abs()) + deviation * std_error
    # Where errors are not small beside the deviation the first order says nothing, and nothing can be asked.
    z_error = torch.where(inverse * error.amax(-1, keepdim=True) > 0.05, torch.inf, z_error).reshape(v.shape)
    absolute_gamma = 1.0 if gamma is None else gamma.abs()[:, None]
    absolute_beta = 0.0 if beta is None else beta.abs()[:, None]
    z_error = absolute_gamma * z_error + 4 * eps * (z.abs() + absolute_beta)
    # A constant group is beta, exactly, also where eps 0 would make the formula 0/0.
    constant = (grouped == grouped[..., :1]).all(-1, keepdim=True) & grouped.isfinite()
    constant = constant.reshape(v.shape)
    plain = torch.zeros(p.out_channels, dtype=torch.float64) if beta is None else beta
    z = torch.where(constant, plain[:, None], z)
    return z, torch.where(constant, 0.0, z_error)


def truth(p, arrays):
    """(y, error): the formula in float64 of the operands that the math mode sees, and how far from it a result may be
    before it is rounded to the type of y."""
    x, w, bias = operands(p, arrays.x), operands(p, arrays.w), _double(arrays.bias)
    v = torch_conv(p, x, w, bias)
    magnitude = torch_conv(p, x.abs(), w.abs())
    if MATHS[p.math] == "f64":
        error = 1e-12 * (magnitude + v.abs())
        result_ulp, result_ulps = "f64", 1000
    elif arrays.exact and not p.norm_groups:
        error = torch.zeros_like(v)
        result_ulp, result_ulps = "f32", 2
    else:
        n = terms(p)
        error = (4 + n**0.5) * EPS32 * magnitude + p.has_bias * EPS32 * v.abs() + (n + 2) * 2.0**-149
        result_ulp, result_ulps = "f32", 2
    error = torch.where(torch.isfinite(v), error, 0.0)
    if p.norm_groups:
        v, error = _normalise(p, arrays, v, error)
    y = torch_activation(p, v)
    if p.activation:
        reach = torch.maximum((torch_activation(p, v + error) - y).abs(), (torch_activation(p, v - error) - y).abs())
        reach = torch.where(torch.isinf(error), torch.inf, reach)
        exact = ACTIVATIONS[p.activation] == "relu"
        finite = torch.where(torch.isfinite(y), y, 0.0)
        error = reach if exact else reach + result_ulps * torch.from_numpy(ulp(finite.numpy(), result_ulp))
    error = torch.where(torch.isfinite(y), error, 0.0)
    return y.numpy(), error.numpy()


def relative_l2(y, reference):
    scale = np.linalg.norm(reference)
    return np.linalg.norm(y - reference) / scale if scale > 0 else np.linalg.norm(y - reference)


def judge(p, arrays, y, call=None):
    """Fails unless y, (N, C, T_out) in the problem's type, is what the formula gives within the mode's promise."""
    said = text(p, call, arrays)
    shape = (p.batch, p.out_channels, out_length(p))
    assert tuple(y.shape) == shape, f"shape {tuple(y.shape)} instead of {shape}: {said}"
    if 0 in shape:
        return
    kind, math = TYPES[p.type], MATHS[p.math]
    y = y.double().numpy()
    reference, error = truth(p, arrays)
    low, high = rounded(reference - error, kind), rounded(reference + error, kind)
    right = ((y >= low) & (y <= high)) | (np.isnan(y) & np.isnan(reference))
    if not right.all():
        first = tuple(int(i) for i in np.argwhere(~right)[0])
        raise AssertionError(
            f"{np.count_nonzero(~right)} of {y.size} elements are wrong, the first is y{list(first)} = {y[first]:.17g} "
            f"instead of {reference[first]:.17g} within {error[first]:.3g} before rounding to {kind}: {said}"
        )
    if not (np.isfinite(reference).all() and np.isfinite(error).all() and np.abs(reference).max() < 6e4):
        return
    ours = relative_l2(y, reference)
    if math == "tf32" and kind == "f32":
        assert ours <= 2e-5, f"relative L2 error {ours:.3g} is above 2e-5: {said}"
    if math == "f64" and kind == "f64" and not (p.norm_groups or arrays.exact):
        assert ours <= 1e-12, f"relative L2 error {ours:.3g} is above 1e-12: {said}"
    # PyTorch has one type for all; and in small samples, or groups of few values, luck decides.
    one_type = math == kind != "f64" and (p.param_type == p.type or not (p.has_bias or p.norm_affine))
    many = y.size >= 1024 and (not p.norm_groups or y[0].size // p.norm_groups >= 32)
    if one_type and many:
        theirs = relative_l2(pytorch(p, arrays), reference)
        bound = 1.2 * theirs + 5e-8 if kind == "f32" else 1.001 * theirs
        assert ours <= bound or np.isnan(theirs), (
            f"relative L2 error {ours:.4g}, PyTorch's in {kind} is {theirs:.4g}: {said}"
        )


# ------------------------------------------------------------------------------------------------------------- the call


class Guarded:
    """Memory for one array between two guards; all of it is poison at first."""

    def __init__(self, size, alignment=64, offset=0):
        self._all = np.full(size + 2 * GUARD + 2 * alignment, POISON, np.uint8)
        start = GUARD + -(self._all.ctypes.data + GUARD) % alignment + offset % alignment
        self.bytes = self._all[start : start + size]
        self.address = self._all.ctypes.data + start
        self._before, self._after = self._all[:start], self._all[start + size :]

    def intact(self):
        return bool((self._before == POISON).all() and (self._after == POISON).all())


def _stored(tensor, call):
    """A tensor's bytes between guards, and a copy of them."""
    if tensor is None:
        return None
    size = tensor.element_size()
    memory = Guarded(tensor.numel() * size, offset=call.offset * size)
    if tensor.numel():
        memory.bytes[:] = tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8).numpy()
    memory.given = memory.bytes.copy()
    return memory


def execute(plan, memory, packing=None):
    """Packs, by another plan of the layer if one is given, and executes; `memory` has one Guarded, or None, for each
    array of tapconv_arrays and `w`."""
    packed = memory["packed_weights"]
    (packing or plan).pack(memory["w"].address, packed.address, len(packed.bytes))
    packed.given = packed.bytes.copy()
    addresses = {name: m.address for name, m in memory.items() if m is not None and name != "w"}
    plan.execute(tapconv.Arrays(**addresses, workspace_bytes=len(memory["workspace"].bytes)))


def run(p, arrays, call=None, execute=execute):
    """The library's y as (N, C, T_out), after checks that it wrote all of y and nothing else."""
    call = call or Call()
    said = text(p, call, arrays)
    swap = LAYOUTS[p.layout] == "nlc"
    try:
        plan = tapconv.Plan(p, call.threads, tapconv.isas()[call.isa] if call.isa else 0, call.kernel)
    except tapconv.Error as refusal:
        raise AssertionError(f"a legal problem was refused, {refusal}: {said}") from refusal
    with plan:
        info = plan.info
        assert info.out_length == out_length(p), f"T_out {info.out_length} instead of {out_length(p)}: {said}"
        assert not call.threads or info.threads <= call.threads, f"{info.threads} threads: {said}"
        assert not call.isa or info.isa.decode() == call.isa, f"planned for {info.isa.decode()}: {said}"
        assert not call.kernel or info.kernel.decode().startswith(call.kernel), f"kernel {info.kernel.decode()}: {said}"
        storage = TORCH_TYPES[TYPES[p.type]]
        shape = (p.batch, info.out_length, p.out_channels) if swap else (p.batch, p.out_channels, info.out_length)
        count = int(np.prod(shape))
        memory = {
            "x": _stored(arrays.x.transpose(1, 2) if swap else arrays.x, call),
            "w": _stored(arrays.w, call),
            "bias": _stored(arrays.bias, call),
            "gamma": _stored(arrays.gamma, call),
            "beta": _stored(arrays.beta, call),
            "packed_weights": Guarded(info.packed_weights_bytes, offset=8 * call.offset),
            "workspace": Guarded(info.workspace_bytes, offset=call.offset),
            "y": Guarded(count * storage.itemsize, offset=call.offset * storage.itemsize),
        }
        try:
            execute(plan, memory)
            first = memory["y"].bytes.copy()
            if (
                (first.reshape(count, storage.itemsize) == POISON).all(1).any()
            ):  # not written, or a NaN that looks like poison
                memory["y"].bytes[:] = POISON ^ 0x55
                execute(plan, memory)
        except tapconv.Error as refusal:
            raise AssertionError(f"a legal call was refused, {refusal}: {said}") from refusal
    for name, m in memory.items():
        if m is not None:
            assert m.intact(), f"bytes outside {name} were written: {said}"
            if name not in ("y", "workspace"):
                assert np.array_equal(m.bytes, m.given), f"{name} was changed by execute: {said}"
    unwritten = np.flatnonzero((memory["y"].bytes != first).reshape(count, storage.itemsize).any(1))
    assert unwritten.size == 0, (
        f"{unwritten.size} of {count} elements of y were not written, first {unwritten[0]}: {said}"
    )
    y = torch.empty(shape, dtype=storage)
    if count:
        y.view(-1).view(torch.uint8).numpy()[:] = first
    return y.transpose(1, 2).contiguous() if swap else y


def takes(p, call):
    """Whether the forced kernel family takes the problem."""
    try:
        tapconv.Plan(p, call.threads, tapconv.isas()[call.isa] if call.isa else 0, call.kernel).close()
    except tapconv.Error as refusal:
        assert refusal.status == tapconv.INVALID_ARGUMENT, text(p, call)
        return False
    return True


def ways(p):
    """Every instruction set with every kernel family that takes the problem, and with the library's own choice."""
    calls = (Call(isa=isa, kernel=kernel) for isa in tapconv.isas() for kernel in (None, *tapconv.kernels()))
    return [call for call in calls if call.kernel is None or takes(p, call)]


def check(p, arrays, call=None):
    """Runs a case and judges it."""
    y = run(p, arrays, call)
    judge(p, arrays, y, call)
    return y


def same_bits(a, b):
    """Whether two tensors hold the same bytes."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return a.shape == b.shape and torch.equal(a.view(bits), b.view(bits))
