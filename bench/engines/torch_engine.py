"""PyTorch in inference mode: as a user writes it, with weights packed for oneDNN, channels last, and compiled."""

import data as layer_data
import torch
import torch._inductor.config
import torch.nn.functional as F

from engines import Formulation, Run

ACTIVATIONS = {
    "none": lambda v: v,
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "mish": F.mish,
    "tanh": torch.tanh,
}
# What torch.compile with frozen weights calls: the activations that oneDNN applies itself.
FUSED_ACTIVATIONS = {"none": "none", "relu": "relu", "silu": "swish", "gelu": "gelu", "tanh": "tanh"}

torch._inductor.config.freezing = True  # packs the weights of compiled layers
torch._inductor.config.compile_threads = 1  # a pool of compilers would stay beside the timed code


def versions():
    onednn = next(line for line in torch.__config__.show().splitlines() if "MKL-DNN" in line)
    return {"torch": torch.__version__, "oneDNN of torch": onednn.split("MKL-DNN")[1].split("(")[0].strip()}


class Layer(torch.nn.Module):
    """The layer with every choice made: dimensions, who pads, packed weights or not."""

    def __init__(self, layer, data, two_d=False, channels_last=False, trim=False, packed=False):
        super().__init__()
        self.layer, self.two_d, self.channels_last, self.packed = layer, two_d, channels_last, packed
        self.norm_groups, self.out_length = layer.norm_groups, layer.out_length
        left, right = layer.padding
        self.zeros, own = ((0, 0), left) if left == right or trim else ((left, right), 0)
        self.trims = trim
        lift = [0] if two_d else []
        self.stride = [1] * len(lift) + [layer.stride]
        self.padding = [*lift, own]
        self.dilation = [1] * len(lift) + [layer.dilation]
        self.activate = ACTIVATIONS[layer.activation]
        tensors = {"w": data.w, "b": data.bias, "gamma": data.gamma, "beta": data.beta, "x": data.x}
        tensors = {name: None if array is None else torch.from_numpy(array) for name, array in tensors.items()}
        x, w = tensors.pop("x"), tensors.pop("w")
        if two_d:
            x, w = x[:, :, None], w[:, :, None]
        if channels_last:
            x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
        self.fused = FUSED_ACTIVATIONS.get(layer.activation) if packed and not layer.norm_groups else None
        if packed:
            shape = list(x.shape)
            shape[-1] += sum(self.zeros)
            reorder = torch.ops.mkldnn._reorder_convolution_weight
            w = reorder(w, self.padding, self.stride, self.dilation, layer.groups, shape)
        self.x, self.w = x, w
        self.b, self.gamma, self.beta = tensors["b"], tensors["gamma"], tensors["beta"]

    def convolve(self, x):
        if any(self.zeros):
            x = F.pad(x, self.zeros)
        settings = (self.padding, self.stride, self.dilation, self.layer.groups)
        if self.packed:
            fused = self.fused or "none"
            y = torch.ops.mkldnn._convolution_pointwise(x, self.w, self.b, *settings, fused, [], "none")
        else:
            convolve = F.conv2d if self.two_d else F.conv1d
            y = convolve(x, self.w, self.b, settings[1], settings[0], *settings[2:])
        return y[..., : self.out_length] if self.trims else y

    def forward(self, x):
        y = self.convolve(x)
        if self.norm_groups:
            y = F.group_norm(y, self.norm_groups, self.gamma, self.beta, layer_data.EPS)
        if self.fused is None:
            y = self.activate(y)
        return y if self.channels_last else y.contiguous()


def _run(layer, module, threads):
    torch.set_num_threads(threads)
    y = None

    def run():
        nonlocal y
        with torch.inference_mode():
            y = module(module.x)

    def result():
        return y.reshape(layer.batch, layer.out_channels, layer.out_length).numpy()

    return Run(run, result)


def _compiled(layer, data, threads):
    module = Layer(layer, data).eval()
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    compiled = torch.compile(module)
    x, y = module.x, None

    def run():
        nonlocal y
        with torch.no_grad():
            y = compiled(x)

    def result():
        return y.detach().numpy()

    return Run(run, result)


def formulations(layer, data, threads):
    def eager(name, layout="ncl", **choices):
        return Formulation(name, layout, lambda: _run(layer, Layer(layer, data, **choices), threads))

    yield eager("1-D")
    pads = {"": False}
    if layer.padding[0] != layer.padding[1]:
        pads |= {", trimmed": True}
        yield eager("1-D, trimmed", trim=True)
    for suffix, trim in pads.items():
        yield eager("2-D, packed" + suffix, two_d=True, packed=True, trim=trim)
        last = {"two_d": True, "channels_last": True, "trim": trim}
        yield eager("2-D, channels last, packed" + suffix, "nlc", packed=True, **last)
        if layer.is_depthwise:
            yield eager("2-D" + suffix, two_d=True, trim=trim)
            yield eager("2-D, channels last" + suffix, "nlc", **last)
    if layer.norm_groups:
        yield Formulation("compiled", "ncl", lambda: _compiled(layer, data, threads))
