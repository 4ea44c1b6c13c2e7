"""tapconv: the 1-D convolution layers of sequence models, with GroupNorm and activation fused.

    y = tapconv.conv1d(x, weight, bias, causal=True, activation="silu")

takes NumPy arrays or PyTorch tensors. With PyTorch there are modules as well, `CausalConv1d`, `Conv1dGroupNorm` and
`Conv1d`, and `replace`, which lets the library compute the convolutions of a model that is already there:

    model, report = tapconv.replace(model)
    print(report)

`verify` says how far a model is from float64, and whether TF32 is why; `restore` undoes `replace`.
"""

from ._core import cuda_devices
from ._core import version as _version
from ._functional import conv1d

__version__: str = _version()
__all__ = ["__version__", "conv1d", "cuda_devices"]

try:
    import torch as _torch  # noqa: F401
except ImportError:

    def __getattr__(name: str):
        if name in ("CausalConv1d", "Conv1d", "Conv1dGroupNorm", "replace", "restore", "verify"):
            raise AttributeError(f"tapconv.{name} needs PyTorch 2.4 or later: pip install torch")
        raise AttributeError(f"module 'tapconv' has no attribute {name!r}")

else:
    from ._replace import replace, restore
    from ._verify import verify
    from .modules import CausalConv1d, Conv1d, Conv1dGroupNorm

    __all__ += ["CausalConv1d", "Conv1d", "Conv1dGroupNorm", "replace", "restore", "verify"]
