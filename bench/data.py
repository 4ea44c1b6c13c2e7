"""A layer's arrays, the same for every engine, and samples of its float64 truth, computed with NumPy alone."""

import dataclasses
import math
import zlib

import numpy as np

EPS = 1e-5
ALIGNMENT = 64
SAMPLED_CHANNELS = 8


@dataclasses.dataclass
class Data:
    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray | None
    gamma: np.ndarray | None
    beta: np.ndarray | None


@dataclasses.dataclass
class Sample:
    """The truth of channels [first, first + len(rows)) of one item."""

    item: int
    first: int
    rows: np.ndarray


def aligned(shape, dtype=np.float32):
    """An empty array that begins at a cache line."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = np.empty(count + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + count].view(dtype).reshape(shape)


def poisoned(shape):
    """The same full of NaN: what an engine does not write cannot pass for a result that was here before."""
    array = aligned(shape)
    array.fill(np.nan)
    return array


def make(layer):
    """Normal input, weights and bias as PyTorch initialises them, a norm that does something."""
    random = np.random.default_rng(zlib.crc32(layer.name.encode()))
    spread = 1 / math.sqrt(layer.group_channels * layer.kernel)

    def uniform(shape):
        values = aligned(shape)
        values[...] = random.uniform(-spread, spread, shape)
        return values

    x = aligned((layer.batch, layer.in_channels, layer.length))
    random.standard_normal(dtype=np.float32, out=x)
    w = uniform((layer.out_channels, layer.group_channels, layer.kernel))
    bias = uniform((layer.out_channels,)) if layer.bias else None
    gamma = beta = None
    if layer.affine:
        gamma, beta = (random.normal(mean, 0.1, layer.out_channels).astype(np.float32) for mean in (1, 0))
    return Data(x, w, bias, gamma, beta)


def _convolve(layer, data, item, first, count):
    per_group = layer.out_channels // layer.groups
    padded = np.pad(data.x[item].astype(np.float64), ((0, 0), layer.padding))
    span = layer.stride * (layer.out_length - 1) + 1
    rows = np.zeros((count, layer.out_length))
    for group in range(first // per_group, (first + count - 1) // per_group + 1):
        begin, end = max(first, group * per_group), min(first + count, (group + 1) * per_group)
        inputs = padded[group * layer.group_channels : (group + 1) * layer.group_channels]
        w = data.w[begin:end].astype(np.float64)
        for k in range(layer.kernel):
            window = inputs[:, k * layer.dilation : k * layer.dilation + span : layer.stride]
            rows[begin - first : end - first] += w[:, :, k] @ window
    if data.bias is not None:
        rows += data.bias[first : first + count, None]
    return rows


def _activate(name, v):
    if name == "relu":
        return np.maximum(v, 0)
    if name == "silu":
        return v / (1 + np.exp(-v))
    if name == "gelu":
        return v / 2 * (1 + np.vectorize(math.erf, otypes=[float])(v / math.sqrt(2)))
    if name == "mish":
        return v * np.tanh(np.logaddexp(0, v))
    if name == "tanh":
        return np.tanh(v)
    assert name == "none", name
    return v


def samples(layer, data):
    """The first and the last channels (with a norm: its first and last groups) of the first and the last item."""
    count = layer.out_channels // layer.norm_groups if layer.norm_groups else min(SAMPLED_CHANNELS, layer.out_channels)
    found = []
    for item, first in {(0, 0), (layer.batch - 1, layer.out_channels - count)}:
        rows = _convolve(layer, data, item, first, count)
        if layer.norm_groups:
            rows = (rows - rows.mean()) / math.sqrt(rows.var() + EPS)
            rows = rows * data.gamma[first : first + count, None] + data.beta[first : first + count, None]
        found.append(Sample(item, first, _activate(layer.activation, rows)))
    return found


def relative_error(y, truth):
    """Relative L2 error of y (N, C, T_out) over the samples; NaN where y has one."""
    squares = scale = 0.0
    for sample in truth:
        rows = y[sample.item, sample.first : sample.first + len(sample.rows)].astype(np.float64)
        squares += float(((rows - sample.rows) ** 2).sum())
        scale += float((sample.rows**2).sum())
    return math.sqrt(squares / scale)
