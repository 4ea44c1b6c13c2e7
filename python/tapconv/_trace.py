"""A module's own forward as a torch.fx graph whose calls of children stay calls, or the reason why it has none.

torch.fx runs forward once with stand-ins and writes down what they meet. What it cannot see would be lost in a graph
made so, so everything that might hide such a thing is refused: `with` blocks and decorators (no_grad, autocast,
checkpoint), questions about types or modes, random numbers, tensors made on the way, attributes that forward writes.
"""

from __future__ import annotations

import dis
import inspect
import os
import random
import sys
import threading

import torch
from torch import fx, nn

MOST_ARGUMENTS = 4

# Names of functions whose answer is another one for a stand-in or at another time.
QUESTIONS = {
    *("isinstance", "issubclass", "type", "callable", "is_tensor"),
    *("is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "get_autocast_dtype"),
    *("is_scripting", "is_tracing", "is_compiling", "is_in_onnx_export", "is_fx_tracing"),
    *("environ", "getenv", "perf_counter", "time"),
    *("set_grad_enabled", "inference_mode", "no_grad", "enable_grad", "autocast", "checkpoint"),
}
CONTEXTS = frozenset({"SETUP_WITH", "BEFORE_WITH", "LOAD_SPECIAL"})
TORCH = os.path.dirname(torch.__file__) + os.sep
LIBRARY = os.path.dirname(os.__file__) + os.sep
HERE = os.path.dirname(__file__) + os.sep
_WRAPPERS = (("utils", "_contextlib.py"), ("utils", "checkpoint.py"), ("amp", ""), ("autograd", ""))
WRAPPERS = tuple(TORCH + os.path.join(*parts) for parts in _WRAPPERS)

# fx replaces nn.Module.__call__ for everybody while it traces.
_lock = threading.RLock()


class Refused(Exception):
    """Why a forward has no graph."""


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def create_arg(self, a):
        # A tensor that is neither parameter nor buffer was made while tracing.
        known = isinstance(a, nn.Parameter) or any(a is b for b in self.root.buffers())
        if isinstance(a, torch.Tensor) and not known:
            raise Refused("forward makes a tensor that does not come from its inputs")
        return super().create_arg(a)


def required_arguments(forward) -> int:
    """How many arguments forward must be given beside self."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())[1:]
    except (TypeError, ValueError):
        raise Refused("forward has no signature") from None
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if any(p.kind is p.KEYWORD_ONLY for p in required):
        raise Refused("forward needs keyword arguments")
    if not 1 <= len(required) <= MOST_ARGUMENTS:
        raise Refused(f"forward needs {len(required)} arguments; 1 to {MOST_ARGUMENTS} are looked into")
    return len(required)


def _is_users(file: str) -> bool:
    """Not PyTorch's, which torch.fx calls while it traces, nor Python's, nor this package's."""
    standard = file.startswith(LIBRARY) and "site-packages" not in file and "dist-packages" not in file
    return not (standard or file.startswith((TORCH, HERE, "<frozen ")))


def _look_through(codes) -> None:
    for code in codes:
        if code.co_filename.startswith(WRAPPERS):
            raise Refused("forward is decorated, or changes gradients' or autocast's mode on the way")
        if not _is_users(code.co_filename):
            continue
        asked = QUESTIONS.intersection(code.co_names)
        if asked:
            raise Refused(f"{code.co_name} uses {sorted(asked)[0]}, whose answer may change")
        if any(instruction.opname in CONTEXTS for instruction in dis.get_instructions(code)):
            raise Refused(f"{code.co_name} has a with block")


def _random_states() -> tuple:
    return torch.random.get_rng_state().clone(), random.getstate()


def _contents(module: nn.Module) -> dict:
    """What forward might write: attributes, and the items of attributes that are containers."""
    kept = {}
    for name, value in module.__dict__.items():
        inner = None
        if isinstance(value, dict):
            inner = list(value.items())
        elif isinstance(value, (list, set)):
            inner = list(value)
        kept[name] = (value, inner)
    return kept


def _put_back(module: nn.Module, before: dict) -> bool:
    """Undoes what changed; whether something had."""
    changed = False
    for name in [name for name in module.__dict__ if name not in before]:
        del module.__dict__[name]
        changed = True
    for name, (value, inner) in before.items():
        if module.__dict__.get(name, module) is not value:
            module.__dict__[name] = value
            changed = True
        if isinstance(value, dict):
            now = list(value.items())
            same = len(now) == len(inner) and all(a[0] is b[0] and a[1] is b[1] for a, b in zip(now, inner))
        elif inner is not None:
            now = list(value)
            same = len(now) == len(inner) and all(a is b for a, b in zip(now, inner))
        else:
            continue
        if not same:
            value.clear()
            value.update(inner) if isinstance(value, (dict, set)) else value.extend(inner)
            changed = True
    return changed


def own_graph(module: nn.Module, method: str) -> fx.Graph:
    """The graph of `method` of the module's class, which calls forward with as many arguments as it requires. Leaves
    the module and the random generators as they were; Refused with a reason."""
    if any(isinstance(value, torch.Tensor) for value in module.__dict__.values()):
        raise Refused("it has a tensor that is neither parameter nor buffer")
    codes = set()

    def note(frame, event, argument):
        if event == "call":
            codes.add(frame.f_code)

    tracer = _Tracer()
    tracer.traced_func_name = method
    with _lock:
        before, states = _contents(module), _random_states()
        profiler = sys.getprofile()
        try:
            sys.setprofile(note)
            graph = tracer.trace(module)
        except Refused:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise Refused(f"torch.fx cannot trace forward: {lines[0]}") from None
        finally:
            sys.setprofile(profiler)
            changed = _put_back(module, before)
            now = _random_states()
            torch.random.set_rng_state(states[0])
            random.setstate(states[1])
    if changed:
        raise Refused("forward writes attributes")
    if not torch.equal(now[0], states[0]) or now[1] != states[1]:
        raise Refused("forward draws random numbers on the way")
    _look_through(codes)
    return graph
