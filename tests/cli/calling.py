"""Calls the tapconv command, and says independently (NumPy, float64) what it must compute."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("TAPCONV_CLI") or os.environ.get("TAPCONV_COMMAND") or str(ROOT / "build" / "tapconv")
SANITIZED = b"__asan_init" in Path(COMMAND).read_bytes() if Path(COMMAND).exists() else False
TIMEOUT_S = 120


def call(*words, status=0, **options):
    """Runs the command. A failure must be one line on standard error; success must print nothing there."""
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, **{"timeout": TIMEOUT_S} | options)
    done.out, done.err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == status, f"{words}: status {done.returncode}\n{done.out[-2000:]}\n{done.err[-2000:]}"
    if status == 0:
        assert done.err == ""
    else:
        assert done.err.endswith("\n") and done.err.count("\n") == 1, done.err
        assert done.err.startswith("tapconv"), done.err
    return done


def call_json(*words, **options):
    """The objects that a call prints with --json."""
    return [
        json.loads(line, parse_constant=refuse_constant) for line in call(*words, "--json", **options).out.splitlines()
    ]


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def save(path, array):
    np.save(path, array)
    return path


def activate(name, v):
    erf = np.vectorize(__import__("math").erf, otypes=[float])
    sigmoid = 1 / (1 + np.exp(-v))
    return {
        "none": lambda: v,
        "relu": lambda: np.maximum(v, 0),
        "silu": lambda: v * sigmoid,
        "gelu": lambda: v / 2 * (1 + erf(v / np.sqrt(2))),
        "gelu-tanh": lambda: v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))),
        "mish": lambda: v * np.tanh(np.log1p(np.exp(v))),
        "tanh": lambda: np.tanh(v),
        "sigmoid": lambda: sigmoid,
        "elu": lambda: np.where(v > 0, v, np.expm1(v)),
        "leaky-relu": lambda: np.where(v > 0, v, 0.01 * v),
    }[name]()


def expected(
    x,
    w,
    bias=None,
    stride=1,
    dilation=1,
    groups=1,
    padding=(0, 0),
    norm_groups=0,
    gamma=None,
    beta=None,
    eps=1e-5,
    activation="none",
):
    """The layer in float64; x is (N, C_in, T)."""
    x, w = x.astype(float), w.astype(float)
    batch, _, length = x.shape
    out_channels, group_in, taps = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), padding))
    out_length = (length + sum(padding) - dilation * (taps - 1) - 1) // stride + 1
    starts = np.arange(out_length) * stride
    y = np.zeros((batch, out_channels, out_length))
    group_out = out_channels // groups
    for g in range(groups):
        rows = slice(g * group_out, (g + 1) * group_out)
        for k in range(taps):
            window = padded[:, g * group_in : (g + 1) * group_in, starts + k * dilation]
            y[:, rows] += np.einsum("oc,nct->not", w[rows, :, k], window)
    if bias is not None:
        y += bias.astype(float)[:, None]
    if norm_groups:
        grouped = y.reshape(batch, norm_groups, -1)
        centered = grouped - grouped.mean(-1, keepdims=True)
        y = (centered / np.sqrt((centered**2).mean(-1, keepdims=True) + eps)).reshape(y.shape)
        if gamma is not None:
            y = y * gamma.astype(float)[:, None] + beta.astype(float)[:, None]
    return activate(activation, y)


def relative_error(y, reference):
    return np.linalg.norm(y.astype(float) - reference) / np.linalg.norm(reference)


def to_bf16(array):
    """float32 values rounded to the nearest bfloat16, ties to even."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def to_tf32(array):
    """float32 values rounded to the nearest TF32, ties away from zero."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def truncated_to_tf32(array):
    return (array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
