"""tapconv: the 1-D convolution layers of sequence models, with GroupNorm and activation fused.

    y = tapconv.conv1d(x, weight, bias, causal=True, activation="silu")

takes NumPy arrays or PyTorch tensors. With PyTorch there are modules as well: `CausalConv1d`,
`Conv1dGroupNorm` and `Conv1d`.
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
        if name in ("CausalConv1d", "Conv1d", "Conv1dGroupNorm"):
            raise AttributeError(f"tapconv.{name} needs PyTorch 2.4 or later: pip install torch")
        raise AttributeError(f"module 'tapconv' has no attribute {name!r}")

else:
    from .modules import CausalConv1d, Conv1d, Conv1dGroupNorm

    __all__ += ["CausalConv1d", "Conv1d", "Conv1dGroupNorm"]
