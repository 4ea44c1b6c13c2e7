"""Reads a suite file: layers by name, with what their lines and the comments above them say."""

import argparse
import dataclasses
import pathlib
import shlex
import sys

LAYERS = pathlib.Path(__file__).resolve().parent / "layers.suite"


@dataclasses.dataclass(frozen=True)
class Layer:
    name: str
    origin: str  # the comment above: the model and where its sizes come from
    options: str  # as the command takes them
    batch: int
    in_channels: int
    length: int
    out_channels: int
    kernel: int
    bias: bool
    stride: int
    dilation: int
    groups: int
    padding: tuple[int, int]
    norm_groups: int
    affine: bool
    activation: str

    @property
    def out_length(self):
        return (self.length + sum(self.padding) - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def group_channels(self):
        """Input channels that an output channel reads."""
        return self.in_channels // self.groups

    @property
    def is_depthwise(self):
        return self.group_channels == 1 and self.groups > 1

    @property
    def is_first(self):
        return self.in_channels == 1

    @property
    def flops(self):
        return 2 * self.batch * self.out_channels * self.out_length * self.group_channels * self.kernel


def _integers(text):
    return tuple(int(word) for word in text.split(","))


def _parser():
    parser = argparse.ArgumentParser(prog="suite line", add_help=False, allow_abbrev=False)
    parser.add_argument("--shape", type=_integers, required=True)
    parser.add_argument("--out-channels", type=int, required=True)
    parser.add_argument("--kernel", type=int, required=True)
    parser.add_argument("--bias", action="store_true")
    for name in ("--stride", "--dilation", "--groups"):
        parser.add_argument(name, type=int, default=1)
    zeros = parser.add_mutually_exclusive_group()
    zeros.add_argument("--padding", type=_integers, default=(0,))
    zeros.add_argument("--causal", action="store_true")
    parser.add_argument("--norm-groups", type=int, default=0)
    parser.add_argument("--affine", action="store_true")
    parser.add_argument("--activation", default="none")
    return parser


def parse(name, origin, options):
    """The layer that one line describes."""
    o = _parser().parse_args(shlex.split(options))
    batch, in_channels, length = o.shape
    padding = ((o.kernel - 1) * o.dilation, 0) if o.causal else (o.padding[0], o.padding[-1])
    return Layer(
        name, origin, options, batch, in_channels, length, o.out_channels, o.kernel, o.bias, o.stride, o.dilation,
        o.groups, padding, o.norm_groups, o.affine, o.activation,
    )  # fmt: skip


def read_text(text):
    """The layers of a suite, in its order."""
    layers, comment = [], ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            comment = line[1:].strip()
        elif line:
            name, options = line.split(":", 1)
            layers.append(parse(name.strip(), comment, options.strip()))
    return layers


def read(path=LAYERS):
    return read_text(pathlib.Path(path).read_text())


def chosen(names):
    """The suite's layers of a comma-separated list in its order, all without one; exits at a name that is none."""
    layers = read()
    if not names:
        return layers
    named = {layer.name: layer for layer in layers}
    if unknown := [name for name in names.split(",") if name not in named]:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: no layer {unknown[0]!r} in {LAYERS.name}")
    return [named[name] for name in names.split(",")]
