"""The operator among PyTorch's machinery: gradients, compilation, export, autocast, functional transforms, DDP."""

import copy
import itertools
import pickle

import pytest
import tapconv
import torch
import torch.nn.functional as F
from tapconv._ops import true_float32
from torch import nn

ACTIVATIONS = (None, "relu", "silu", "gelu", "gelu-tanh", "mish", "tanh", "sigmoid", "elu", "leaky-relu")


def layer_inputs(norm, affine, bias, dtype=torch.float64):
    torch.manual_seed(3)
    tensors = {"x": torch.randn(2, 4, 9), "weight": torch.randn(6, 2, 3)}
    if bias:
        tensors["bias"] = torch.randn(6)
    if norm and affine:
        tensors |= {"norm_weight": torch.randn(6), "norm_bias": torch.randn(6)}
    return {name: t.to(dtype).requires_grad_() for name, t in tensors.items()}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm, affine, bias", [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 1)])
def test_gradients(activation, norm, affine, bias):
    """Of every option, once and twice."""
    tensors = layer_inputs(norm, affine, bias)
    geometries = itertools.cycle(
        [{"stride": 2, "padding": (2, 1)}, {"dilation": 2, "causal": True}, {"padding": 1}, {"padding": "same"}]
    )
    index = 4 * ACTIVATIONS.index(activation) + 2 * norm + affine + bias
    geometry = next(itertools.islice(geometries, index % 4, None))

    def call(*values):
        return tapconv.conv1d(
            **dict(zip(tensors, values, strict=True)),
            groups=2,
            norm_groups=3 if norm else None,
            activation=activation,
            **geometry,
        )

    values = list(tensors.values())
    assert torch.autograd.gradcheck(call, values)
    assert torch.autograd.gradgradcheck(call, values)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.bfloat16, 0.06), (torch.float16, 0.02)])
def test_gradients_in_other_types(device, dtype, tolerance):
    tensors = [t.detach().to(device, dtype).requires_grad_() for t in layer_inputs(1, 1, 1).values()]

    def ours(x, w, b, g, h):
        return tapconv.conv1d(
            x, w, b, padding=1, groups=2, norm_groups=3, norm_weight=g, norm_bias=h, activation="silu"
        )

    def exact(x, w, b, g, h):
        return F.silu(F.group_norm(F.conv1d(x, w, b, padding=1, groups=2), 3, g, h))

    ours_gradients = torch.autograd.grad(ours(*tensors).double().square().sum(), tensors)
    wide = [t.detach().double().requires_grad_() for t in tensors]
    for got, want in zip(ours_gradients, torch.autograd.grad(exact(*wide).square().sum(), wide), strict=True):
        assert got.dtype == dtype
        assert (got.double() - want).norm() <= tolerance * want.norm()


def test_gradients_of_some(device):
    """Only what asks for a gradient gets one."""
    for wanted in itertools.product([False, True], repeat=3):
        x, w, b = (torch.randn(s, device=device) for s in ((2, 4, 9), (6, 4, 3), (6,)))
        tensors = [t.requires_grad_(flag) for t, flag in zip((x, w, b), wanted, strict=True)]
        y = tapconv.conv1d(*tensors, padding=1, norm_groups=2, activation="tanh")
        assert y.requires_grad == any(wanted)
        if any(wanted):
            y.sum().backward()
        assert [t.grad is not None for t in tensors] == list(wanted)


def test_an_empty_batch_has_gradients(device):
    x, w = (
        torch.randn(0, 4, 9, device=device, requires_grad=True),
        torch.randn(6, 4, 3, device=device, requires_grad=True),
    )
    tapconv.conv1d(x, w, norm_groups=2, activation="silu").sum().backward()
    assert x.grad.shape == x.shape and not w.grad.any()


def cudnn_precision():
    """Whether, and how, cuDNN's convolutions may use TF32; PyTorch has another name for it from 2.9 on."""
    conv = getattr(torch.backends.cudnn, "conv", None)
    return conv.fp32_precision if hasattr(conv, "fp32_precision") else torch.backends.cudnn.allow_tf32


@pytest.fixture
def tf32_allowed():
    """As it is by default. The public flag cannot be set once PyTorch's own samples have been imported."""
    before = torch.backends.cudnn.allow_tf32
    torch._C._set_cudnn_allow_tf32(True)
    yield
    torch._C._set_cudnn_allow_tf32(before)


def test_backward_leaves_flags_alone(device, tf32_allowed):
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, cudnn_precision()
    with pytest.raises(KeyError), true_float32():
        assert cudnn_precision() in (False, "ieee")
        raise KeyError
    test_gradients_in_other_types(device, torch.float32, 1e-4)
    assert before == (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, cudnn_precision())


@pytest.mark.parametrize("norm", [0, 3])
def test_opcheck(device, norm):
    tensors = [t.detach().float().to(device).requires_grad_() for t in layer_inputs(norm, 1, 1).values()]
    parameters = tensors[3:] if norm else [None, None]
    arguments = (*tensors[:3], *parameters, 1, 2, 0, 1, 2, norm, 1e-5, "silu", "")
    torch.library.opcheck(torch.ops.tapconv.conv1d.default, arguments)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile_with_dynamic_shapes(device, backend):
    torch._dynamo.reset()
    module = nn.Sequential(tapconv.CausalConv1d(4, 8, 3), tapconv.Conv1dGroupNorm(8, 6, 2, activation="silu")).to(
        device
    )
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
    for batch, length in ((2, 30), (3, 47), (5, 64)):
        x = torch.randn(batch, 4, length, device=device, requires_grad=True)
        got, want = compiled(x), module(x)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(torch.autograd.grad(got.sum(), x), torch.autograd.grad(want.sum(), x))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), want)
    torch._dynamo.reset()


def test_export(device):
    module = tapconv.Conv1dGroupNorm(4, 6, 2, activation="gelu").to(device).eval()
    x = torch.randn(2, 4, 30, device=device)
    length = torch.export.Dim("length", min=8, max=4096)
    program = torch.export.export(module, (x,), dynamic_shapes=({2: length},))
    for longer in (x, torch.randn(2, 4, 77, device=device)):
        torch.testing.assert_close(program.module()(longer), module(longer))


def test_autocast(device):
    x, w, b = torch.randn(2, 4, 30, device=device), torch.randn(6, 4, 3, device=device), torch.randn(6, device=device)
    gamma = torch.rand(6, device=device, requires_grad=True)
    with torch.autocast(device, torch.bfloat16):
        y, theirs = tapconv.conv1d(x, w, b), F.conv1d(x, w, b)
        assert y.dtype == theirs.dtype == torch.bfloat16
        normal = tapconv.conv1d(x, w, b, norm_groups=3, norm_weight=gamma, norm_bias=b)
        other = F.group_norm(theirs, 3, gamma, b)
        assert normal.dtype == other.dtype
        if device == "cpu":  # a GPU has no float64
            assert tapconv.conv1d(x.double(), w.double()).dtype == torch.float64
    torch.testing.assert_close(y.float(), theirs.float(), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(normal.float(), other.float(), rtol=5e-2, atol=5e-2)
    normal.float().sum().backward()
    assert gamma.grad.dtype == torch.float32


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", [0, 3])
def test_forward_mode_and_transforms(device, activation, norm):
    """By PyTorch's operators, also under torch.func; another math mode is refused there."""
    wide = {name: t.detach() for name, t in layer_inputs(norm, 1, 1).items()}
    dtype, other = (torch.float64, "f32") if device == "cpu" else (torch.float32, "tf32")
    tensors = {name: t.to(device, dtype) for name, t in wide.items()}
    x, wide_x = tensors.pop("x"), wide.pop("x")
    options = {"stride": 2, "padding": (2, 1), "groups": 2, "norm_groups": norm or None, "activation": activation}

    def ours(value, tensors=tensors):
        return tapconv.conv1d(value, **tensors, **options)

    wide_tangent = torch.randn_like(wide_x)
    tangent = wide_tangent.to(x)
    y, slope = torch.func.jvp(ours, (x,), (tangent,))
    step = 1e-6 * wide_tangent
    torch.testing.assert_close(y, ours(x))
    quotient = (ours(wide_x + step, wide) - ours(wide_x - step, wide)) / 2e-6
    error = {"rtol": 1e-4, "atol": 1e-6 if dtype == torch.float64 else 1e-4}
    torch.testing.assert_close(slope.cpu().double(), quotient, **error)
    several = torch.stack([x, 2 * x, x + 1])
    torch.testing.assert_close(torch.vmap(ours)(several), torch.stack([ours(value) for value in several]))
    torch.testing.assert_close(ours(x[0]), torch.func.vmap(ours)(x)[0])
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(ours(dual)).tangent, slope)
        with pytest.raises(NotImplementedError, match="math is"):
            tapconv.conv1d(dual, tensors["weight"], groups=2, math=other)


def test_meta():
    with torch.device("meta"):
        module = tapconv.Conv1dGroupNorm(4, 6, 2, stride=2)
        y = module(torch.empty(3, 4, 31))
    assert y.is_meta and y.shape == (3, 6, 16)


def test_copies(device):
    module = tapconv.Conv1dGroupNorm(4, 6, 2).to(device)
    x = torch.randn(2, 4, 20, device=device)
    with torch.no_grad():
        y = module(x)
        for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            assert torch.equal(copied(x), y)
            copied.conv.weight.mul_(2)
            copied.norm.bias.add_(1)
            assert not torch.equal(copied(x), y) and torch.equal(module(x), y)


def test_cuda_graphs(device):
    if device != "cuda":
        pytest.skip("CUDA graphs are a GPU's: --device cuda runs this")
    module = tapconv.Conv1dGroupNorm(4, 6, 2, activation="silu").cuda()
    x = torch.randn(2, 4, 300, device="cuda")
    with torch.no_grad():
        module(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = module(x)
        for _ in range(3):
            x.copy_(torch.randn_like(x))
            module.conv.weight.mul_(1.5)
            graph.replay()
            assert torch.equal(y, module(x))


def test_distributed_data_parallel(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        module = tapconv.Conv1dGroupNorm(4, 6, 2, activation="silu")
        parallel = nn.parallel.DistributedDataParallel(copy.deepcopy(module))
        x = torch.randn(2, 4, 20)
        parallel(x).square().sum().backward()
        module(x).square().sum().backward()
        for got, want in zip(parallel.parameters(), module.parameters(), strict=True):
            torch.testing.assert_close(got.grad, want.grad)
    finally:
        torch.distributed.destroy_process_group()
