"""tapconv.conv1d: values against float64, PyTorch's own samples, NumPy, refusals, threads and memory."""

import concurrent.futures
import os
import pathlib

import generating
import judging
import numpy as np
import pytest
import tapconv
import tapconv_ctypes
import torch
import torch.nn.functional as F
from hypothesis import given
from torch.testing._internal.common_methods_invocations import op_db

CONV1D = next(op for op in op_db if op.name == "nn.functional.conv1d")
GROUP_NORM = next(op for op in op_db if op.name == "nn.functional.group_norm")


def options_of(p):
    """The keywords of tapconv.conv1d for a problem of the library."""
    return {
        "stride": p.stride,
        "padding": (p.padding_left, p.padding_right),
        "dilation": p.dilation,
        "groups": p.groups,
        "norm_groups": p.norm_groups or None,
        "eps": p.norm_eps,
        "activation": tapconv_ctypes.ACTIVATIONS[p.activation],
        "math": tapconv_ctypes.MATHS[p.math],
    }


@generating.examples(300)
@given(generating.cases())
def test_any_problem(device, case):
    p, arrays, *_ = case
    p = judging.with_fields(p, layout=0)
    if device != "cpu" and "f64" in (tapconv_ctypes.MATHS[p.math], tapconv_ctypes.TYPES[p.type]):
        return  # float64 is the CPU's alone

    def there(tensor):
        return None if tensor is None else tensor.to(device)

    y = tapconv.conv1d(
        there(arrays.x),
        there(arrays.w),
        there(arrays.bias),
        norm_weight=there(arrays.gamma),
        norm_bias=there(arrays.beta),
        **options_of(p),
    )
    judging.judge(p, arrays, y.cpu())


def gradients(function, tensors):
    tensors = [t if t is None else t.detach().clone().requires_grad_() for t in tensors]
    y = function(*tensors)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).reshape(y.shape)
    return y, torch.autograd.grad((y * weights).sum(), [t for t in tensors if t is not None])


def test_conv1d_samples_of_pytorch():
    count = 0
    for sample in CONV1D.sample_inputs("cpu", torch.float64):
        weight, bias = sample.args

        def ours(x, w, b=None, kwargs=sample.kwargs):
            return tapconv.conv1d(x, w, b, **kwargs)

        def theirs(x, w, b=None, kwargs=sample.kwargs):
            return F.conv1d(x, w, b, **kwargs)

        tensors = (sample.input, weight, bias)
        torch.testing.assert_close(gradients(ours, tensors), gradients(theirs, tensors), rtol=1e-10, atol=1e-10)
        meta = ours(*(None if t is None else t.detach().to("meta") for t in tensors))
        expected = theirs(*tensors)
        assert (meta.shape, meta.stride(), meta.dtype) == (expected.shape, expected.stride(), expected.dtype)
        torch._dynamo.reset()
        compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(gradients(compiled, tensors), gradients(theirs, tensors), rtol=1e-10, atol=1e-10)
        count += 1
    assert count >= 10


def test_group_norm_samples_of_pytorch():
    count = 0
    for sample in GROUP_NORM.sample_inputs("cpu", torch.float64):
        x, groups, kwargs = sample.input, sample.args[0], sample.kwargs
        if kwargs.get("eps", 1e-5) < 0 or x.numel() == 0:
            continue
        channels, eps = x.shape[1], kwargs.get("eps", 1e-5)
        flat = x.reshape(x.shape[0], channels, -1)
        identity = torch.ones(channels, 1, 1, dtype=x.dtype)

        def ours(x, weight, bias, groups=groups, channels=channels, w=identity, eps=eps):
            return tapconv.conv1d(
                x, w, groups=channels, norm_groups=groups, norm_weight=weight, norm_bias=bias, eps=eps
            )

        def theirs(x, weight, bias, groups=groups, eps=eps):
            return F.group_norm(x, groups, weight, bias, eps)

        tensors = (flat, kwargs.get("weight"), kwargs.get("bias"))
        torch.testing.assert_close(gradients(ours, tensors), gradients(theirs, tensors), rtol=1e-9, atol=1e-9)
        count += 1
    assert count >= 4


def test_conv1d_refuses_what_pytorch_refuses():
    count = 0
    for error in CONV1D.error_inputs("cpu"):
        sample = error.sample_input
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            tapconv.conv1d(sample.input, *sample.args, **sample.kwargs)
        count += 1
    assert count >= 6


X, W, B = torch.ones(2, 4, 9), torch.ones(6, 2, 3), torch.ones(6)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "name, kind, arguments",
    [
        ("x", ValueError, {"x": X[0, 0]}),
        ("x", ValueError, {"x": X[:, :3]}),
        ("x", TypeError, {"x": X.int()}),
        ("weight", ValueError, {"weight": W[0]}),
        ("weight", TypeError, {"weight": W.double()}),
        ("bias", ValueError, {"bias": B[:5]}),
        ("bias", TypeError, {"bias": B.half()}),
        ("stride", ValueError, {"stride": 0}),
        ("stride", TypeError, {"stride": 1.5}),
        ("padding", ValueError, {"padding": -1}),
        ("padding", ValueError, {"padding": "full"}),
        ("padding", ValueError, {"padding": 1, "causal": True}),
        ("padding", ValueError, {"padding": "same", "stride": 2}),
        ("dilation", ValueError, {"dilation": 0}),
        ("groups", ValueError, {"groups": 4}),
        ("norm_groups", ValueError, {"norm_groups": 4}),
        ("norm_weight", ValueError, {"norm_weight": B}),
        ("norm_bias", ValueError, {"norm_groups": 3, "norm_weight": B, "norm_bias": B[:2]}),
        ("activation", ValueError, {"activation": "swish"}),
        ("math", ValueError, {"math": "f8"}),
        ("eps", ValueError, {"norm_groups": 3, "eps": -1.0}),
    ],
)
def test_refusals_name_the_argument(name, kind, arguments, grad):
    given = {"x": X, "weight": W, "bias": B, "groups": 2} | arguments
    given["x"] = given["x"].clone().requires_grad_(grad and given["x"].is_floating_point())
    with pytest.raises(kind, match=name):
        tapconv.conv1d(**given)


def test_numpy():
    generator = np.random.default_rng(1)
    x, w, bias = (generator.standard_normal(s).astype(np.float32) for s in ((2, 4, 50), (6, 4, 3), (6,)))
    y = tapconv.conv1d(x, w, bias, padding=1, activation="silu")
    expected = F.silu(F.conv1d(*map(torch.from_numpy, (x, w, bias)), padding=1))
    assert isinstance(y, np.ndarray) and y.dtype == np.float32
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-5)
    strided = np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    np.testing.assert_array_equal(tapconv.conv1d(strided, w, bias, padding=[1], activation="silu"), y)
    assert tapconv.conv1d(x[:0], w).shape == (0, 6, 48)
    norm = tapconv.conv1d(x, w, norm_groups=3, norm_bias=bias)
    expected = F.group_norm(F.conv1d(torch.from_numpy(x), torch.from_numpy(w)), 3, None, torch.from_numpy(bias))
    np.testing.assert_allclose(norm, expected.numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="weight"):
        tapconv.conv1d(x, w.astype(np.float64))
    with pytest.raises(TypeError, match="x is a list"):
        tapconv.conv1d([1.0], w)


def test_dlpack_and_buffers():
    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x, w = np.ones((1, 2, 8), np.float32), np.ones((3, 2, 2), np.float32)
    expected = tapconv.conv1d(x, w)
    np.testing.assert_array_equal(tapconv.conv1d(Foreign(x), Foreign(w)), expected)
    np.testing.assert_array_equal(tapconv.conv1d(memoryview(x), memoryview(w)), expected)


def test_numpy_alone():
    """Where PyTorch cannot be imported, NumPy arrays still work, and a module says what is missing."""
    import subprocess
    import sys

    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy, tapconv\n"
        "print(tapconv.conv1d(numpy.ones((1, 1, 4), 'f4'), numpy.ones((1, 1, 2), 'f4')).sum())\n"
        "try: tapconv.CausalConv1d\n"
        "except AttributeError as missing: print(missing)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.startswith("6.0") and "needs PyTorch" in done.stdout


def test_inputs_in_any_form(device):
    x, w = torch.randn(2, 4, 33, device=device), torch.randn(6, 4, 3, device=device)
    y = tapconv.conv1d(x, w)
    channels_last = x.transpose(1, 2).contiguous().transpose(1, 2)
    strided = torch.stack([x, x], -1)[..., 0]
    negative = torch._neg_view(-x)
    for other in (channels_last, strided, negative):
        assert torch.equal(tapconv.conv1d(other, w), y)
    assert torch.equal(tapconv.conv1d(x[0], w), y[0])
    assert torch.equal(tapconv.conv1d(x, w.transpose(0, 1).contiguous().transpose(0, 1)), y)
    assert tapconv.conv1d(x[:0], w, norm_groups=2).shape == (0, 6, 31)
    with torch.inference_mode():
        assert torch.equal(tapconv.conv1d(x, w), y)
        assert torch.equal(tapconv.conv1d(x.clone(), w.clone()), y)


def test_devices_are_counted_or_what_is_missing_is_said():
    has_engine = (pathlib.Path(tapconv.__file__).parent / "libtapconv_cuda.so").exists()
    if has_engine and torch.cuda.is_available():
        assert tapconv.cuda_devices() == torch.cuda.device_count()
    else:
        with pytest.raises(RuntimeError, match="driver|device" if has_engine else "engine"):
            tapconv.cuda_devices()


def test_threads():
    """Many threads plan, pack and execute at once."""
    torch.manual_seed(0)
    cases = [(torch.randn(2, 8, 40 + n), torch.randn(8, 8, 3)) for n in range(24)]
    expected = [F.conv1d(x, w, padding=1) for x, w in cases]

    def work(seed):
        for n in np.random.default_rng(seed).permutation(len(cases)):
            torch.testing.assert_close(tapconv.conv1d(*cases[n], padding=1), expected[n], rtol=1e-4, atol=1e-4)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_does_not_grow():
    x, w = torch.randn(1, 8, 200), torch.randn(8, 8, 3)
    module = tapconv.CausalConv1d(8, 8, 3)

    def calls(count):
        for n in range(count):
            tapconv.conv1d(x, w)
            tapconv.conv1d(x[..., : 20 + n % 150], w)  # more problems than are needed to fill and empty a cache of few
            with torch.no_grad():
                module(x)
            tapconv.conv1d(x.numpy(), w.numpy())
            if n % 10 == 0:
                module(x).sum().backward()

    calls(1000)
    before = resident_bytes()
    calls(10000)
    assert resident_bytes() - before < 2**22
