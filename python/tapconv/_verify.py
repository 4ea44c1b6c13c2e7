"""tapconv.verify: how far two models are from float64, which of them is off, and whether TF32 is why."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ._replace import restore

# Relative L2 error that a model's arithmetic may have. From 2e-5 on it may be TF32 in place of float32.
LIMITS = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
ALIKE = 10  # times; errors closer than this are of one kind
# Both as in `tapconv check --against` (cli/compare.c).
TF32_RANGE = (2e-5, 0.5)
TF32_FALL = 5

aten = torch.ops.aten
# Which arguments a tensor core would multiply.
CONVOLUTIONS = {aten.convolution.default: (0, 1), torch.ops.tapconv.conv1d.default: (0, 1)}
PRODUCTS = {
    aten.mm.default: (0, 1),
    aten.bmm.default: (0, 1),
    aten.addmm.default: (1, 2),
    aten.baddbmm.default: (1, 2),
}


def round_tf32(values: Tensor, truncate: bool = False) -> Tensor:
    """The values as a TF32 unit takes them: a fraction of 10 bits, to nearest with ties away from zero, or cut off."""
    narrow = values.to(torch.float32)
    bits = narrow.view(torch.int32)
    rounded = ((bits if truncate else bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return torch.where(narrow.isfinite(), rounded, narrow).to(values.dtype)


class _Rounded(TorchDispatchMode):
    """Rounds what convolutions, and matrix products where asked, multiply."""

    def __init__(self, truncate: bool, products: bool) -> None:
        super().__init__()
        self.truncate = truncate
        self.operands = CONVOLUTIONS | (PRODUCTS if products else {})

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        which = self.operands.get(func)
        if which is not None:
            args = tuple(round_tf32(a, self.truncate) if i in which else a for i, a in enumerate(args))
        return func(*args, **(kwargs or {}))


@dataclasses.dataclass(frozen=True)
class Errors:
    """One side's output beside float64: relative L2 over it all, the largest difference, and how many values are not
    finite where the reference is, or the reverse. `tf32` says what was rounded if the error has TF32's signature."""

    rel_l2: float
    max_abs: float
    nonfinite: int
    limit: float
    tf32: str | None = None

    @property
    def ok(self) -> bool:
        return self.nonfinite == 0 and self.rel_l2 <= self.limit


@dataclasses.dataclass(frozen=True)
class Output:
    name: str
    shape: tuple[int, ...]
    model: Errors
    original: Errors

    @property
    def verdict(self) -> str:
        sides = {"model": self.model, "original": self.original}
        off = [name for name, side in sides.items() if not side.ok]
        if not off:
            return "both right"
        words = " and ".join(off) + (" is off" if len(off) == 1 else " are off")
        named = [f"{name}: TF32, {side.tf32}" for name, side in sides.items() if side.tf32]
        if named:
            return f"{words} ({'; '.join(named)})"
        errors = [self.model.rel_l2, self.original.rel_l2]
        finite = not (self.model.nonfinite or self.original.nonfinite)
        if len(off) == 2 and finite and max(errors) <= ALIKE * min(errors):
            return "both are off alike: the model enlarges rounding errors"
        return words


@dataclasses.dataclass(frozen=True)
class Verification:
    """What `verify` found, an Output for each tensor of the result. str() is a table."""

    outputs: list[Output]

    @property
    def ok(self) -> bool:
        """Whether the model's side is right in every output."""
        return all(output.model.ok for output in self.outputs)

    def __str__(self) -> str:
        lines = []
        for output in self.outputs:
            lines.append(f"{output.name} {output.shape}: {output.verdict}")
            for name in ("model", "original"):
                side = getattr(output, name)
                numbers = f"rel L2 {side.rel_l2:.2e}  max {side.max_abs:.2e}  limit {side.limit:.0e}"
                if side.nonfinite:
                    numbers += f", {side.nonfinite} values not finite where float64 is, or the reverse"
                lines.append(f"  {name:<9} {numbers}")
        return "\n".join(lines)


def _tensors(value: Any, name: str = "output") -> Iterator[tuple[str, Tensor]]:
    """Every floating-point tensor of a result, and where it is."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(item, f"{name}[{index}]")
    elif dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            yield from _tensors(getattr(value, one.name), f"{name}.{one.name}")


def _double(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, Mapping):
        return {key: _double(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_double(item) for item in value)
    return value


@contextlib.contextmanager
def _evaluating(*models: nn.Module) -> Iterator[None]:
    """Without gradients, each module in evaluation mode, and as it was afterwards."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    try:
        for model in models:
            model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _call(model: nn.Module, x: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if isinstance(x, Mapping):
            return model(**x)
        return model(*x) if isinstance(x, (list, tuple)) else model(x)


def _distance(got: Tensor, want: Tensor) -> tuple[float, float, int]:
    """Relative L2, largest difference, and values finite on one side only."""
    got = got.detach().to(want.device, torch.float64)
    if got.shape != want.shape:
        raise ValueError(f"one side's output has the shape {tuple(got.shape)}, the other's {tuple(want.shape)}")
    finite = got.isfinite() & want.isfinite()
    same = finite | (got.isnan() & want.isnan()) | (got == want)
    difference = torch.where(finite, got - want, 0.0)
    scale = torch.where(finite, want, 0.0).norm().item()
    error = difference.norm().item()
    relative = error / scale if scale else (0.0 if error == 0 else math.inf)
    return relative, difference.abs().max().item() if difference.numel() else 0.0, int((~same).sum())


def _limit(model: nn.Module, y: Tensor, tolerance: float | None) -> float:
    if tolerance is not None:
        return tolerance
    kinds = {p.dtype for p in model.parameters()} | {y.dtype}
    return max(LIMITS[kind] for kind in kinds if kind in LIMITS)


def verify(model: nn.Module, original: nn.Module, x: Any, *, tolerance: float | None = None) -> Verification:
    """Runs both models on x, and a float64 copy of `original`; says how far each output of each side is from float64.

    Args:
        model: what `tapconv.replace` gave, or any other model of the same outputs.
        original: the one it came from, as `copy.deepcopy(model)` before `replace`, or
            `tapconv.restore(copy.deepcopy(model))` after it.
        x: the input: a tensor, a tuple of arguments, or a dictionary of keyword arguments.
        tolerance: the relative L2 error that is right; None: 2e-5 for float32, 5e-3 for float16, 4e-2 for bfloat16 and
            1e-10 for float64, the coarsest that a side has.

    Returns:
        a Verification: `.ok`, `.outputs`, and a table as str(). A side whose error falls to a fifth or less when
        convolutions, or convolutions and matrix products, of the float64 copy multiply operands rounded to TF32 is said
        to have run in TF32.

    Both run in evaluation mode, without gradients, and are left as they were.
    """
    with _evaluating(model, original):
        ours, theirs = _call(model, x), _call(original, x)
        # After a call, so that the weight that an old-style weight_norm computes can be copied.
        exact = restore(copy.deepcopy(original)).double()
        wide = _double(x)
        try:
            truth = _call(exact, wide)
        except RuntimeError as error:
            raise RuntimeError(f"original does not run in float64, which verify compares with: {error}") from error
        sides = {"model": list(_tensors(ours)), "original": list(_tensors(theirs))}
        truths = list(_tensors(truth))
        if not truths or any(len(side) != len(truths) for side in sides.values()):
            counts = {name: len(side) for name, side in sides.items()} | {"float64": len(truths)}
            raise ValueError(f"the sides give different numbers of floating-point tensors: {counts}")
        distances = {
            name: [_distance(got, want) for (_, got), (_, want) in zip(side, truths)] for name, side in sides.items()
        }
        signatures = _signatures(exact, wide, sides, distances)
    outputs = []
    for i, (name, want) in enumerate(truths):
        errors = {}
        for side, owner in (("model", model), ("original", original)):
            limit = _limit(owner, sides[side][i][1], tolerance)
            errors[side] = Errors(*distances[side][i], limit, signatures.get((side, i)))
        outputs.append(Output(name, tuple(want.shape), errors["model"], errors["original"]))
    return Verification(outputs)


def _signatures(exact: nn.Module, wide: Any, sides: dict, distances: dict) -> dict[tuple[str, int], str]:
    """Which outputs are where TF32 would put them."""
    open_cases = {
        (side, i)
        for side, found in distances.items()
        for i, (relative, _, _) in enumerate(found)
        if TF32_RANGE[0] <= relative <= TF32_RANGE[1] and sides[side][i][1].dtype == torch.float32
    }
    best: dict[tuple[str, int], tuple[float, str]] = {}
    for products, truncate in ((False, False), (False, True), (True, False), (True, True)):
        if not open_cases:
            break
        with _Rounded(truncate, products):
            rounded = list(_tensors(_call(exact, wide)))
        for side, i in open_cases:
            relative, _, _ = _distance(sides[side][i][1], rounded[i][1])
            if TF32_FALL * relative <= distances[side][i][0] and relative < best.get((side, i), (math.inf,))[0]:
                words = "operands " + ("cut off" if truncate else "rounded")
                words += " in convolutions" + (" and matrix products" if products else "")
                words += f": {relative:.1e} from what that gives"
                best[side, i] = (relative, words)
    return {case: words for case, (_, words) in best.items()}
