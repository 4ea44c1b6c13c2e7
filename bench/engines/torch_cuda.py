"""PyTorch on a GPU in inference mode: as a user writes it, with cuDNN's search, from a captured graph, and compiled."""

import torch
import torch.nn.functional as F

from engines.torch_engine import ACTIVATIONS

STORAGE = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def set_mode(mode):
    """PyTorch's own float32 modes: true float32, or operands rounded to TF32."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"


class Layer(torch.nn.Module):
    """The layer on the GPU. Unequal padding is padded before, or, with `trim`, convolved beyond the end and cut."""

    def __init__(self, layer, data, mode, eps, trim=False):
        super().__init__()

        def stored(array, dtype=STORAGE[mode]):
            return None if array is None else torch.from_numpy(array).to("cuda", dtype)

        self.layer, self.trim, self.eps = layer, trim, eps
        self.x, self.w = stored(data.x), stored(data.w)
        self.bias, self.gamma, self.beta = stored(data.bias), stored(data.gamma), stored(data.beta)
        self.activate = ACTIVATIONS[layer.activation]

    def forward(self, x):
        layer, (left, right) = self.layer, self.layer.padding
        own = left if left == right or self.trim else 0
        if own == 0 and (left or right):
            x = F.pad(x, (left, right))
        y = F.conv1d(x, self.w, self.bias, layer.stride, own, layer.dilation, layer.groups)
        if self.trim:
            y = y[..., : layer.out_length]
        if layer.norm_groups:
            y = F.group_norm(y, layer.norm_groups, self.gamma, self.beta, self.eps)
        return self.activate(y).contiguous()


def forms(layer, data, mode, eps):
    """{name: (module, whether cuDNN searches)}: the uncompiled ways to write the layer."""
    trims = (False, True) if layer.padding[0] > layer.padding[1] else (False,)
    modules = {("trimmed" if trim else "padded"): Layer(layer, data, mode, eps, trim) for trim in trims}
    return {
        f"{name}{', searched' if searched else ''}": (module, searched)
        for name, module in modules.items()
        for searched in (False, True)
    }


def run_of(module, searched):
    """A function that runs it; cuDNN's choices are kept by problem, so that the flag must be set at every call."""

    def run():
        torch.backends.cudnn.benchmark = searched
        return module(module.x)

    return run


def compiled_run(layer, data, mode, eps):
    """torch.compile's default mode; the graph is captured by who times it."""
    set_mode(mode)
    torch.backends.cudnn.benchmark = True
    module = Layer(layer, data, mode, eps)
    compiled = torch.compile(module, dynamic=False)
    return lambda: compiled(module.x)
