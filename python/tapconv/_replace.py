"""tapconv.replace: the convolutions of a user's own model, computed by this library; tapconv.restore undoes it.

An object stays the same object with the same parameters, hooks, names and state_dict keys; only its class changes. A
convolution's class becomes one with this library's forward, and a module around convolutions gets a forward in which
padding, convolution, GroupNorm and activation are one step (_fuse.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import parametrize

from . import _core
from ._fuse import CONVOLUTION, ORIGINAL, PROGRAM, Copied, Refused, Rewritten, fuse, subclass
from ._ops import KINDS, PackedColumn, PackedWeights
from .modules import CausalConv1d, Column, Conv1d, Conv1dGroupNorm, Convolution

REPLACED = "_tapconv_replaced"


class _Copied(Copied, Convolution):
    """The base of what stands for a user's subclass of nn.Conv1d."""


class _Column(Copied, Column):
    """The base of what stands for nn.Conv2d with kernels of one column."""


def _is_column(module: nn.Module) -> bool:
    """Whether an nn.Conv2d is a convolution along the third dimension alone."""
    return (
        isinstance(module, nn.Conv2d)
        and module.kernel_size[1] == 1
        and module.kernel_size[0] > 1
        and module.padding_mode == "zeros"
        and (isinstance(module.padding, str) or module.padding[1] == 0)
    )


@dataclass(frozen=True)
class Entry:
    """One module: its path in the model, what it is, whether it is replaced, and why not (or what is worth knowing)."""

    path: str
    what: str
    replaced: bool
    reason: str


@dataclass
class Report:
    """What `replace` did. str() is a table."""

    entries: list[Entry] = field(default_factory=list)

    @property
    def replaced(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.replaced]

    @property
    def left(self) -> list[Entry]:
        return [entry for entry in self.entries if not entry.replaced]

    def __str__(self) -> str:
        rows = [("", "path", "what", "")]
        rows += [("yes" if e.replaced else "no", e.path or "(the model)", e.what, e.reason) for e in self.entries]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip() for row in rows]
        lines.append(
            f"{len(self.replaced)} replaced, {len(self.left)} left; parameters and state_dict keys are what they were"
        )
        return "\n".join(lines)


def _words(conv: nn.Module) -> str:
    kernel = conv.kernel_size[0] if isinstance(conv, nn.Conv1d) else conv.kernel_size
    parts = [f"{conv.in_channels}, {conv.out_channels}, {kernel}"]
    for name in ("stride", "dilation"):
        if getattr(conv, name)[0] != 1:
            parts.append(f"{name}={getattr(conv, name)[0]}")
    if conv.groups != 1:
        parts.append(f"groups={conv.groups}")
    return f"{'Conv1d' if isinstance(conv, nn.Conv1d) else 'Conv2d'}({', '.join(parts)})"


def _base(module: nn.Module) -> type:
    """The module's class before parametrisations were put on it."""
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)


def _refusal(conv: nn.Module) -> str | None:
    """Why this convolution is left as it is."""
    base, plain = _base(conv), nn.Conv1d if isinstance(conv, nn.Conv1d) else nn.Conv2d
    if isinstance(conv, LazyModuleMixin):
        return "it is not initialised yet: call the model once, then replace"
    for name in ("forward", "_conv_forward", "__call__", "__getattr__", "__getattribute__"):
        if getattr(base, name, None) is not getattr(plain, name, None):
            return f"its class {base.__name__} has a {name} of its own"
    if "forward" in conv.__dict__ or "_conv_forward" in conv.__dict__:
        return "the object has a forward of its own, put over its class's"
    if not parametrize.is_parametrized(conv):
        weight = conv._parameters.get("weight")
        weight = conv.__dict__.get("weight") if weight is None else weight  # where weight_norm's hook puts it
        if type(weight) not in (torch.Tensor, nn.Parameter):
            return f"its weight is a {type(weight).__name__}"
    for tensor in [*conv.parameters(), *conv.buffers()]:
        if tensor.dtype not in KINDS:
            return f"its type is {tensor.dtype}"
        if tensor.device.type not in ("cpu", "cuda", "meta"):
            return f"it is on {tensor.device}"
        if tensor.is_cuda and not _core.cuda_devices():
            return f"it is on {tensor.device}, and this build of tapconv is for the CPU only"
    return None


def _adopt(conv: nn.Module) -> None:
    """Gives the object a class with this library's forward."""
    base, kind = _base(conv), type(conv)
    column = not isinstance(conv, nn.Conv1d)
    new = Conv1d if base is nn.Conv1d else subclass(base, (_Column if column else _Copied,))
    if kind is not base:
        # A parametrised object's class was made for it: the same again, on the new base, which is put back when
        # the parametrisations are removed.
        own = {name: value for name, value in kind.__dict__.items() if name not in ("__dict__", "__weakref__")}
        new = type(kind.__name__, (new,), own)
    conv.__class__ = new
    conv.__dict__["_packed"] = PackedColumn() if column else PackedWeights()
    conv.__dict__[REPLACED] = True


def _note(conv: nn.Module) -> str:
    if parametrize.is_parametrized(conv) or "weight" not in conv._parameters:
        return "its weight is computed, and for long inputs packed, with every call"
    return "" if isinstance(conv, nn.Conv1d) else "for inputs of one column; others are PyTorch's"


def _own_convolutions(module: nn.Module) -> dict[str, nn.Module]:
    """Convolutions that the module's own forward may call: children, also those in lists and dictionaries."""
    found = {}
    for name, child in module._modules.items():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            found |= {f"{name}.{path}": conv for path, conv in _own_convolutions(child).items()}
        elif isinstance(child, Convolution):
            found[name] = child
    return found


def replace(model: nn.Module) -> tuple[nn.Module, Report]:
    """Lets this library compute the convolutions of `model`, in place. Returns the model and a Report.

    Every torch.nn.Conv1d whose forward is nn.Conv1d's is replaced; where a module's own forward (or nn.Sequential) has
    padding with zeros, Conv1d, GroupNorm and activation in a row, they are done in one step. Results are those of
    PyTorch's layers in true arithmetic of their type, to rounding. Parameters, hooks, training mode, requires_grad and
    state_dict keys stay; copies and pickles work.

    `tapconv.restore(model)` puts back what was there. Replace before torch.compile, and while no other thread runs a
    model.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; it must be a torch.nn.Module")
    if hasattr(model, "_orig_mod"):
        raise ValueError("model is compiled; it must be replaced first, then given to torch.compile")
    places: dict[nn.Module, list[str]] = {}
    scripted: list[str] = []
    for path, module in model.named_modules(remove_duplicate=False):
        if any(path.startswith(f"{root}.") or not root for root in scripted):
            continue
        if isinstance(module, torch.jit.ScriptModule):
            scripted.append(path)
        places.setdefault(module, []).append(path)
    entries: dict[str, Entry] = {}
    for module, paths in places.items():
        path = paths[0]
        if isinstance(module, torch.jit.ScriptModule):
            entries[path] = Entry(path, type(module).__name__, False, "compiled by torch.jit")
        elif isinstance(module, (Conv1d, CausalConv1d, Conv1dGroupNorm)):
            continue
        elif (isinstance(module, nn.Conv1d) or _is_column(module)) and not isinstance(module, Convolution):
            reason = _refusal(module)
            if reason is None:
                _adopt(module)
                notes = [_note(module), f"also {', '.join(paths[1:])}" if len(paths) > 1 else ""]
                reason, done = "; ".join(filter(None, notes)), True
            else:
                done = False
            entries[path] = Entry(path, _words(module), done, reason)
        elif isinstance(module, nn.ConvTranspose1d):
            entries[path] = Entry(path, type(module).__name__, False, "transposed convolutions are PyTorch's")
    for module, paths in places.items():
        if isinstance(module, (torch.jit.ScriptModule, Rewritten, CausalConv1d, Conv1dGroupNorm)):
            continue
        own = _own_convolutions(module)
        if not own or isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            continue
        path = paths[0]
        try:
            chains = fuse(module)
        except Refused as refusal:
            words = f"{type(module).__name__}.forward"
            entries[f"{path} forward"] = Entry(path, words, False, f"not looked into for chains: {refusal}")
            continue
        for found in chains:
            conv = own.get(found.path)
            known = entries.get(places[conv][0]) if conv in places else None
            if known is not None and known.replaced:
                words = [_words(conv) if word == CONVOLUTION else word for word in found.words]
                entries[known.path] = Entry(known.path, " + ".join(words), True, known.reason)
    return model, Report(list(entries.values()))


def restore(model: nn.Module) -> nn.Module:
    """Undoes `replace`, in place: every object has its own class again. Returns the model."""
    for module in model.modules():
        if isinstance(module, Rewritten):
            module.__dict__.pop(PROGRAM, None)
            module.__class__ = getattr(type(module), ORIGINAL)
        elif module.__dict__.get(REPLACED):
            base, kind = _base(module), type(module)
            old = nn.Conv1d if base is Conv1d else getattr(base, ORIGINAL)
            if kind is not base:
                own = {name: value for name, value in kind.__dict__.items() if name not in ("__dict__", "__weakref__")}
                old = type(kind.__name__, (old,), own)
            module.__class__ = old
            del module.__dict__[REPLACED], module.__dict__["_packed"]
    return model
