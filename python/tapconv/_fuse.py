"""Chains of padding, convolution, GroupNorm and activation in a user's own forward, done as one layer.

Modules stay what they are and where they are: names, parameters, hooks, and what each does when it is called alone.
Only the forward around them changes: the object's class becomes a subclass of its own class whose forward runs the
user's forward as torch.fx wrote it down, with `chain` in place of each chain. Whenever that might not be what the
user's forward would do now - a child was exchanged, an attribute assigned, another argument given, a compiler is
tracing - the user's forward itself runs.
"""

from __future__ import annotations

import copy
import copyreg
import inspect
import pickle
import types
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from . import _functional
from ._trace import MOST_ARGUMENTS, Refused, own_graph, required_arguments
from .modules import Convolution, hooked

CONVOLUTION = "convolution"
PROGRAM = "_tapconv_program"
ORIGINAL = "_tapconv_original"


# ---------------------------------------------------------------------------------------------------------- activations


def activation_of(module: nn.Module) -> str | None:
    """The library's name of what an activation module computes; None if it is another function."""
    kind = type(module)
    if kind is nn.GELU:
        return {"none": "gelu", "tanh": "gelu-tanh"}.get(module.approximate)
    if kind is nn.ELU:
        return "elu" if module.alpha == 1 else None
    if kind is nn.LeakyReLU:
        return "leaky-relu" if module.negative_slope == 0.01 else None
    return {
        nn.ReLU: "relu",
        nn.SiLU: "silu",
        nn.Mish: "mish",
        nn.Tanh: "tanh",
        nn.Sigmoid: "sigmoid",
    }.get(kind)


FUNCTIONS = {
    F.relu: "relu",
    torch.relu: "relu",
    F.silu: "silu",
    F.gelu: "gelu",
    F.mish: "mish",
    torch.tanh: "tanh",
    F.tanh: "tanh",
    torch.sigmoid: "sigmoid",
    F.sigmoid: "sigmoid",
    F.elu: "elu",
    F.leaky_relu: "leaky-relu",
}
OPTIONS = {"inplace": (False, True), "alpha": (1,), "negative_slope": (0.01,)}


def function_of(node: fx.Node) -> str | None:
    """The same of a call of an activation function."""
    if node.op == "call_method":
        known = node.target in ("relu", "tanh", "sigmoid")
        return node.target if known and len(node.args) == 1 and not node.kwargs else None
    name = FUNCTIONS.get(node.target) if node.op == "call_function" else None
    if name is None or len(node.args) > 1:
        return None
    options = dict(node.kwargs)
    options.pop("input", None)
    if name == "gelu":
        name = {"none": "gelu", "tanh": "gelu-tanh"}.get(options.pop("approximate", "none"))
    return name if all(value in OPTIONS.get(key, ()) for key, value in options.items()) else None


# --------------------------------------------------------------------------------------------------------------- chains


def chain(x: Tensor, conv: nn.Module, left: int, right: int, norm: nn.Module | None, activation) -> Tensor:
    """activation(norm(conv(F.pad(x, (left, right))))): each but conv may be missing, activation is a module or a name.

    In one step without gradients; with gradients GroupNorm and activation are PyTorch's, which keep for the backward
    pass what one step would have to compute again. Under autocast and where somebody listens, each module is called."""
    if not isinstance(conv, Convolution) or hooked(conv) or _functional._autocast():
        if left or right:
            x = conv._padded(x, left, right) if isinstance(conv, Convolution) else F.pad(x, (left, right))
        v = conv(x)
    else:
        name = activation if activation is None or isinstance(activation, str) else activation_of(activation)
        if (
            (norm is None and activation is None)
            or torch.is_grad_enabled()
            or (activation is not None and name is None)
            or (isinstance(activation, nn.Module) and hooked(activation))
            or not _together(x, conv, norm)
        ):
            v = conv._run(x, None, None, left, right)
        else:
            return conv._run(x, norm, name, left, right)
    if norm is not None:
        v = norm(v)
    if activation is None:
        return v
    return _functional.by_torch[activation](v) if isinstance(activation, str) else activation(v)


def _together(x: Tensor, conv: Convolution, norm: nn.Module | None) -> bool:
    """Whether the library takes all in one step, and it means the same."""
    if conv.bias is not None and conv.bias.dtype != x.dtype:
        return False
    if norm is None:
        return True
    weight, shift = norm.weight, norm.bias
    return (
        x.dim() == conv._dimensions
        and not hooked(norm)
        and (weight is None or weight.dtype == x.dtype)
        and (shift is None or shift.dtype == x.dtype)
    )


@dataclass
class Chain:
    """What was found: the convolution's path below the module, and the words for it."""

    path: str
    words: list[str]


def _zeros(node: fx.Node, modules: dict, dimensions: int) -> tuple[int, int] | None:
    """(left, right) of a node that pads time with zeros; time is x's last dimension or, of 4, the one before it."""
    if node.op == "call_module":
        pad = modules[node.target]
        if type(pad) is nn.ConstantPad1d:
            amounts, value = pad.padding, pad.value
        elif type(pad) is nn.ZeroPad1d:
            amounts, value = pad.padding, 0
        else:
            return None
        if hooked(pad):
            return None
    elif node.op == "call_function" and node.target in (F.pad, torch._C._nn.pad):
        given = dict(zip(("input", "pad", "mode", "value"), node.args)) | dict(node.kwargs)
        if given.get("mode", "constant") != "constant":
            return None
        amounts, value = given.get("pad"), given.get("value")
    else:
        return None
    if not isinstance(amounts, (tuple, list)) or value not in (None, 0):
        return None
    if dimensions == 4:
        amounts = amounts[2:] if len(amounts) == 4 and tuple(amounts[:2]) == (0, 0) else ()
    if len(amounts) != 2:
        return None
    good = all(isinstance(a, int) and not isinstance(a, bool) and a >= 0 for a in amounts)
    return tuple(amounts) if good else None


def _input(node: fx.Node) -> fx.Node | None:
    """The one tensor that a node reads."""
    given = node.args[0] if node.args else node.kwargs.get("input")
    return given if isinstance(given, fx.Node) else None


def _is_norm(module: nn.Module, conv: nn.Module) -> bool:
    return (
        isinstance(module, nn.GroupNorm)
        and type(module).forward is nn.GroupNorm.forward
        and type(module).__call__ is nn.Module.__call__
        and module.num_channels == conv.out_channels
    )


def rewrite(graph: fx.Graph, module: nn.Module) -> list[Chain]:
    """Puts `chain` into the graph wherever it finds one; what it found."""
    modules = dict(module.named_modules(remove_duplicate=False))
    # Between the steps of a chain nothing else may run: it might change a tensor in place.
    order = [n for n in graph.nodes if n.op not in ("get_attr", "placeholder", "output")]
    index = {node: i for i, node in enumerate(order)}

    def next_of(node):
        i = index[node] + 1
        following = order[i] if i < len(order) else None
        alone = len(node.users) == 1 and following in node.users and _input(following) is node
        return following if alone and len([n for n in following.all_input_nodes if n is node]) == 1 else None

    found = []
    for node in order:
        conv = modules.get(node.target) if node.op == "call_module" else None
        if not isinstance(conv, Convolution) or len(node.args) != 1 or node.kwargs or _input(node) is None:
            continue
        first, left, right, words = node, 0, 0, []
        before = _input(node)
        if before in index and next_of(before) is node and conv.padding_mode == "zeros" and not conv._causal:
            amounts = _zeros(before, modules, conv._dimensions)
            if amounts is not None and _input(before) is not None:
                first, (left, right) = before, amounts
                words.append("pad")
        words.append(CONVOLUTION)
        last, norm, activation = node, None, None
        following = next_of(last)
        if following is not None and following.op == "call_module" and _is_norm(modules[following.target], conv):
            norm, last = following.target, following
            words.append("GroupNorm")
            following = next_of(last)
        if following is not None:
            if following.op == "call_module":
                name = activation_of(modules[following.target])
                if name is not None and len(following.args) == 1 and not following.kwargs:
                    activation, last = following, following
                    words.append(name)
            else:
                name = function_of(following)
                if name is not None:
                    activation, last = name, following
                    words.append(name)
        if first is node and last is node:
            continue
        source = _input(first)
        with graph.inserting_after(last):
            fused = graph.create_node("call_function", chain)
        last.replace_all_uses_with(fused)
        with graph.inserting_before(fused):
            attributes = [
                graph.create_node("get_attr", path) if isinstance(path, str) else None
                for path in (node.target, norm, activation.target if isinstance(activation, fx.Node) else None)
            ]
        act = activation if isinstance(activation, str) else attributes[2]
        fused.args = (source, attributes[0], left, right, attributes[1], act)
        step = last
        while step is not None:
            earlier = _input(step) if step is not first else None
            graph.erase_node(step)
            step = earlier
        found.append(Chain(node.target, words))
    return found


# --------------------------------------------------------------------------------------------------- a class of its own


def subclass(original: type, bases: tuple[type, ...]) -> type:
    """The class that stands for `original` in objects that were changed: bases, then `original`, whose name it has.
    There is one for each, and it is not kept alive: the classes that there are know their subclasses."""
    for known in type.__subclasses__(original):
        if known.__dict__.get(ORIGINAL) is original and known.__bases__ == (*bases, original):
            return known
    names = {key: getattr(original, key) for key in ("__module__", "__qualname__", "__doc__")}
    return type(original.__name__, (*bases, original), {ORIGINAL: original, "_tapconv_bases": bases, **names})


def _made(original: type, bases: tuple[type, ...], *arguments) -> object:
    return copyreg.__newobj__(subclass(original, bases), *arguments)


class Copied:
    """Copies and pickles: by the name of the original class, since the subclass cannot be imported."""

    def __reduce_ex__(self, protocol):
        reduced = super().__reduce_ex__(protocol)
        kind = type(self)
        usual = isinstance(reduced, tuple) and reduced[0] is copyreg.__newobj__ and reduced[1][0] is kind
        if not usual or ORIGINAL not in kind.__dict__:
            return reduced
        return (_made, (kind._tapconv_original, kind._tapconv_bases, *reduced[1][1:]), *reduced[2:])


class Program:
    """The rewritten forward of one object, of each of its modes. `watched`: containers (None: the object itself) and
    the children that they had when forward was written down."""

    __slots__ = ("arguments", "functions", "sources", "watched")

    def __init__(self, arguments: int, sources: dict, watched: list) -> None:
        self.arguments, self.sources, self.watched = arguments, sources, watched
        self.functions = {mode: _compiled(*source) for mode, source in sources.items()}

    def __reduce__(self):
        # The children follow as state: they may refer to the object that has this program.
        sources = {mode: source for mode, source in self.sources.items() if _can_be_pickled(source)}
        return Program, (self.arguments, sources, []), (None, {"watched": self.watched})

    def __deepcopy__(self, memo: dict) -> Program:
        copied = Program(self.arguments, {}, [])
        memo[id(self)] = copied
        copied.functions, copied.sources = dict(self.functions), self.sources
        copied.watched = copy.deepcopy(self.watched, memo)
        return copied

    def function(self, owner: nn.Module):
        for container, children in self.watched:
            if tuple((owner if container is None else container)._modules.values()) != children:
                self.forget()
                return None
        return self.functions.get(owner.training)

    def forget(self) -> None:
        self.functions, self.sources, self.watched = {}, {}, []


def _can_be_pickled(source: tuple) -> bool:
    """A forward may call functions that no name leads to; after a pickle the user's own forward runs then."""
    try:
        pickle.dumps(source)
    except Exception:
        return False
    return True


def _compiled(source: str, names: dict):
    scope = {name: _resolved(value) for name, value in names.items()}
    exec(compile(source, "<tapconv: a rewritten forward>", "exec"), scope)
    return scope["forward"]


def _named(value: object) -> object:
    """What a pickle can hold of a global of a generated forward: modules and functions by their names."""
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    name = getattr(value, "__name__", None)
    for home in (torch, F, torch._C._nn, __import__("operator"), __import__("math"), __import__("builtins")):
        if isinstance(name, str) and getattr(home, name, None) is value:
            return ("function", home.__name__, name)
    return ("value", value)


def _resolved(value: tuple) -> object:
    kind, *rest = value
    if kind == "value":
        return rest[0]
    home = __import__(rest[0], fromlist=["_"])
    return home if kind == "module" else getattr(home, rest[1])


class Rewritten(Copied):
    """A base before the user's class, of an object that has a Program."""

    def forward(self, *args, **kwargs):
        program = self.__dict__.get(PROGRAM)
        if program is not None and not kwargs and len(args) == program.arguments and not _functional._tracing():
            for argument in args:
                if not isinstance(argument, Tensor):
                    break
            else:
                function = program.function(self)
                if function is not None:
                    return function(self, *args)
        return super().forward(*args, **kwargs)

    def __setattr__(self, name, value):
        if name != "training" and PROGRAM in self.__dict__:
            self.__dict__[PROGRAM].forget()
        super().__setattr__(name, value)

    def __delattr__(self, name):
        if PROGRAM in self.__dict__:
            self.__dict__[PROGRAM].forget()
        super().__delattr__(name)

    # torch.fx calls the one that has as many arguments as forward requires, so that the others have their defaults.

    def _tapconv_traced_1(self, a):
        return super().forward(a)

    def _tapconv_traced_2(self, a, b):
        return super().forward(a, b)

    def _tapconv_traced_3(self, a, b, c):
        return super().forward(a, b, c)

    def _tapconv_traced_4(self, a, b, c, d):
        return super().forward(a, b, c, d)


assert hasattr(Rewritten, f"_tapconv_traced_{MOST_ARGUMENTS}")


def _containers(module: nn.Module) -> list:
    """The object itself, and what it reaches through lists and dictionaries of modules."""
    found, todo = [(None, tuple(module._modules.values()))], list(module._modules.values())
    while todo:
        child = todo.pop()
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            found.append((child, tuple(child._modules.values())))
            todo += child._modules.values()
    return found


def fuse(module: nn.Module) -> list[Chain]:
    """Rewrites the object's forward if there are chains in it; which. Refused leaves the object as it was."""
    original = type(module)
    if "forward" in module.__dict__:
        raise Refused("the object has a forward of its own, put over its class's")
    if nn.utils.parametrize.is_parametrized(module):
        raise Refused("it is parametrised itself")
    if isinstance(module, (fx.GraphModule, torch.jit.ScriptModule)):
        raise Refused("its forward is generated")
    if original.__call__ is not nn.Module.__call__:
        raise Refused("its class has a __call__ of its own")
    arguments = required_arguments(original.forward)
    if inspect.iscoroutinefunction(original.forward) or inspect.isgeneratorfunction(original.forward):
        raise Refused("forward is a generator")
    try:
        module.__class__ = subclass(original, (Rewritten,))
    except TypeError as error:
        raise Refused(f"its class cannot have a subclass: {error}") from None
    training, sources, found = module.training, {}, {}
    done = False
    try:
        for mode in (training, not training):
            module.__dict__["training"] = mode
            try:
                graph = own_graph(module, f"_tapconv_traced_{arguments}")
            except Refused:
                if mode == training:
                    raise
                continue
            found[mode] = rewrite(graph, module)
            if found[mode]:
                code = graph.python_code("self")
                source = code.src
                names = {name: _named(value) for name, value in code.globals.items()}
                sources[mode] = (source, names)
        module.__dict__["training"] = training
        if sources:
            module.__dict__[PROGRAM] = Program(arguments, sources, _containers(module))
            done = True
    finally:
        module.__dict__["training"] = training
        if not done:
            module.__class__ = original
    return found[training] or found.get(not training, []) if done else []
