"""tapconv.replace: the same results, parameters and names, whatever the model; and what it must leave alone."""

import copy
import gc
import io
import pickle
import random
import threading

import pytest
import tapconv
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def assert_near(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    error = (got - want).norm() / want.norm().clamp_min(1e-30)
    assert not error > TOLERANCE[want.dtype], f"relative L2 {error:.2e}"


def replaced(model):
    """(the original, the replaced model, the report); with what must hold for every model."""
    original = copy.deepcopy(model)
    parameters, keys = list(model.parameters()), list(model.state_dict())
    modules, modes = list(model.modules()), [module.training for module in model.modules()]
    same, report = tapconv.replace(model)
    assert same is model and list(model.state_dict()) == keys
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert all(a is b for a, b in zip(model.modules(), modules, strict=True))
    assert [module.training for module in model.modules()] == modes
    for module, old in zip(model.modules(), original.modules(), strict=True):
        assert isinstance(module, type(old)) or parametrize.is_parametrized(module)
        assert type(module).__name__ == type(old).__name__
    return original, model, report


def compare(original, model, *inputs, seed=1):
    """Results with and without gradients, and the gradients."""
    results = []
    for side in (original, model):
        torch.manual_seed(seed)
        side.zero_grad()
        xs = [x.clone().requires_grad_() for x in inputs]
        y = side(*xs)
        y.square().sum().backward()
        gradients = [x.grad for x in xs] + [p.grad for p in side.parameters() if p.grad is not None]
        with torch.no_grad():
            torch.manual_seed(seed)
            without = side(*inputs)
        results.append((y.detach(), gradients, without))
    (want, wanted, without), (got, gotten, ours) = results
    assert_near(got, want)
    assert_near(ours, without)
    for a, b in zip(gotten, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def what(report, path):
    (entry,) = [entry for entry in report.entries if entry.path == path and entry.replaced]
    return entry.what


def reason(report, path):
    (entry,) = [entry for entry in report.left if entry.path == path]
    return entry.reason


# --------------------------------------------------------------------------------------------------------------- chains

CHAINS = [
    ([nn.ConstantPad1d((3, 1), 0.0), nn.Conv1d(4, 6, 3)], "pad + Conv1d(4, 6, 3)"),
    ([nn.ZeroPad1d((0, 2)), nn.Conv1d(4, 6, 3, padding=1)], "pad + Conv1d(4, 6, 3)"),
    ([nn.ZeroPad1d((1, 2)), nn.Conv1d(4, 6, 4, padding="same", dilation=2)], "pad + Conv1d(4, 6, 4, dilation=2)"),
    ([nn.Conv1d(4, 6, 3, stride=2, bias=False), nn.GroupNorm(2, 6)], "Conv1d(4, 6, 3, stride=2) + GroupNorm"),
    ([nn.Conv1d(4, 6, 3, groups=2), nn.GroupNorm(6, 6, affine=False)], "Conv1d(4, 6, 3, groups=2) + GroupNorm"),
    ([nn.Conv1d(4, 6, 3), nn.GroupNorm(3, 6, eps=0.1), nn.ELU()], "Conv1d(4, 6, 3) + GroupNorm + elu"),
    ([nn.ZeroPad1d((2, 0)), nn.Conv1d(4, 6, 3), nn.GroupNorm(3, 6), nn.GELU("tanh")], None),
    ([nn.Conv1d(4, 6, 3), nn.LeakyReLU()], "Conv1d(4, 6, 3) + leaky-relu"),
    ([nn.Conv1d(4, 6, 3), nn.ReLU(inplace=True)], "Conv1d(4, 6, 3) + relu"),
    # What looks like a chain and is none.
    ([nn.ConstantPad1d((3, 1), 0.5), nn.Conv1d(4, 6, 3)], "Conv1d(4, 6, 3)"),
    ([nn.ConstantPad1d((-1, 2), 0.0), nn.Conv1d(4, 6, 3)], "Conv1d(4, 6, 3)"),
    ([nn.ReflectionPad1d(2), nn.Conv1d(4, 6, 3)], "Conv1d(4, 6, 3)"),
    ([nn.ZeroPad1d(2), nn.Conv1d(4, 6, 3, padding=1, padding_mode="reflect")], "Conv1d(4, 6, 3)"),
    ([nn.Conv1d(4, 6, 3), nn.LeakyReLU(0.2)], "Conv1d(4, 6, 3)"),
    ([nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6), nn.ReLU()], "Conv1d(4, 6, 3)"),
    ([nn.Conv1d(4, 6, 3), nn.Dropout(0.5), nn.ReLU()], "Conv1d(4, 6, 3)"),
]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layers, words", CHAINS)
def test_chains_in_sequential(device, layers, words, dtype):
    torch.manual_seed(2)
    original, model, report = replaced(nn.Sequential(*copy.deepcopy(layers)).to(device, dtype))
    path = str([isinstance(layer, nn.Conv1d) for layer in layers].index(True))
    assert what(report, path) == (words or "pad + Conv1d(4, 6, 3) + GroupNorm + gelu-tanh")
    for _ in range(2):
        compare(original, model, torch.randn(3, 4, 40, device=device, dtype=dtype))
        original.eval(), model.eval()
    if not any(isinstance(layer, (nn.GroupNorm, nn.BatchNorm1d)) for layer in layers):
        with torch.no_grad():
            x = torch.randn(4, 40, device=device, dtype=dtype)
            assert_near(model(x), original(x))


class Block(nn.Module):
    def __init__(self, channels=6, dilation=2):
        super().__init__()
        self.reach = 2 * dilation
        self.conv = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.norm = nn.GroupNorm(2, channels)
        self.out = nn.ModuleList([nn.Conv1d(channels, channels, 1)])
        self.scale = nn.Parameter(torch.ones(channels, 1))

    def causal(self, x):
        return self.norm(self.conv(F.pad(x, (self.reach, 0))))

    def forward(self, x, skip=None):
        h = F.silu(self.causal(x))
        if skip is not None:
            h = h + skip
        h = F.dropout(h, 0.5, self.training)
        return x + self.scale * torch.tanh(self.out[0](h))


def fused(module):
    """Whether the module's own forward is rewritten and would be used."""
    program = module.__dict__.get("_tapconv_program")
    return program is not None and program.function(module) is not None


def test_chains_in_forward(device):
    original, model, report = replaced(nn.Sequential(Block(), Block(dilation=5)).to(device))
    assert what(report, "0.conv") == "pad + Conv1d(6, 6, 3, dilation=2) + GroupNorm + silu"
    assert what(report, "1.out.0") == "Conv1d(6, 6, 1) + tanh"
    assert fused(model[0])
    x = torch.randn(2, 6, 50, device=device)
    for training in (False, True, False):
        original.train(training), model.train(training)
        compare(original, model, x)
        with torch.no_grad():
            torch.manual_seed(1)
            want = original[0](x, x)
            torch.manual_seed(1)
            assert_near(model[0](x, x), want)
            torch.manual_seed(1)
            assert_near(model[0](x, skip=x), want)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu", "mish", "tanh", "sigmoid", "elu", "leaky_relu"])
def test_activation_functions(device, activation):
    function = getattr(F, activation)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, 6, 3)

        def forward(self, x):
            return function(self.conv(x))

    original, model, report = replaced(Layer().to(device))
    assert what(report, "conv") == f"Conv1d(4, 6, 3) + {activation.replace('_', '-')}"
    compare(original, model, torch.randn(2, 4, 30, device=device))


def test_columns(device):
    """nn.Conv2d of one column, as pitch trackers have it; other inputs are PyTorch's."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 6, (5, 1), stride=(2, 1))
            self.second = nn.Conv2d(6, 4, (3, 1), padding="same")
            self.norm = nn.GroupNorm(2, 4)
            self.picture = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x):
            return self.picture(self.norm(self.second(F.relu(self.conv(F.pad(x, (0, 0, 1, 2)))))))

    original, model, report = replaced(Net().to(device))
    assert what(report, "conv") == "pad + Conv2d(3, 6, (5, 1), stride=2) + relu" and len(report.replaced) == 2
    for width in (1, 3):
        compare(original, model, torch.randn(2, 3, 40, width, device=device))
    with torch.no_grad():
        x = torch.randn(2, 3, 40, 1, device=device)
        model(x)
        held = model.conv._packed._held
        assert torch.equal(model(x), model(x)) and model.conv._packed._held is held
        for edit in (lambda m: m.conv.weight.mul_(2), lambda m: setattr(m.conv.weight, "data", m.conv.weight * 3)):
            edit(model), edit(original)
            assert_near(model(x), original(x))
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model.conv))):
            part = copied if isinstance(copied, nn.Conv2d) else copied.conv
            assert torch.equal(part(x), model.conv(x))


# ---------------------------------------------------------------------------------- forwards that must not be rewritten


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.count, self.seen, self.last = 0, [], None

    def chain(self, x):
        return F.relu(self.norm(self.conv(x)))


class WithBlock(Base):
    def forward(self, x):
        with torch.no_grad():
            y = self.chain(x)
        return y + x


class Decorated(Base):
    @torch.no_grad()
    def chain(self, x):
        return super().chain(x)

    def forward(self, x):
        return self.chain(x) + x


class AsksType(Base):
    def forward(self, x):
        return self.chain(x) if isinstance(x, torch.Tensor) else self.chain(x) * 2


class AsksMode(Base):
    def forward(self, x):
        return self.chain(x) if torch.is_grad_enabled() else self.chain(x) + 1


class Counts(Base):
    def forward(self, x):
        self.count += 1
        return self.chain(x) * self.count


class Collects(Base):
    def forward(self, x):
        self.seen.append(x)
        return self.chain(x)


class Remembers(Base):
    def forward(self, x):
        self.last = x
        return self.chain(x)


class Draws(Base):
    def forward(self, x):
        return self.chain(x) + torch.rand(1).item()


class DrawsInPython(Base):
    def forward(self, x):
        return self.chain(x) if random.random() < 0.5 else x


class MakesTensor(Base):
    def forward(self, x):
        return self.chain(x) + torch.ones(4, 1)


class Branches(Base):
    def forward(self, x):
        return self.chain(x) if x.shape[-1] % 2 else self.chain(x) * 2


class Loops(Base):
    def forward(self, x):
        for _ in range(x.shape[-1] % 3):
            x = self.chain(x)
        return x


class UpdatesBuffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.chain(x) * self.calls


class PlainTensor(Base):
    def __init__(self):
        super().__init__()
        self.table = torch.ones(4, 1)

    def forward(self, x):
        return self.chain(x) * self.table


class KeywordOnly(Base):
    def forward(self, x, *, scale=2):
        return self.chain(x) * scale


REFUSED = [
    *(WithBlock, Decorated, AsksType, AsksMode, Counts, Collects, Remembers, Draws, DrawsInPython, MakesTensor),
    *(Branches, Loops, UpdatesBuffer, PlainTensor),
]


@pytest.mark.parametrize("kind", REFUSED)
def test_forward_is_left_where_tracing_would_lose_something(kind):
    state, python_state = torch.get_rng_state(), random.getstate()
    original, model, report = replaced(kind())
    replaced(kind())
    for side in (original, model):
        assert side.count == 0 and side.seen == [] and side.last is None
    assert not any(key.startswith("_tensor_constant") for key in model.__dict__)
    assert "not looked into" in reason(report, "") and what(report, "conv") == "Conv1d(4, 4, 3)"
    torch.set_rng_state(state), random.setstate(python_state)
    for length in (30, 31, 32):
        x = torch.randn(2, 4, length, requires_grad=True)
        results = []
        for side in (original, model):
            torch.manual_seed(length), random.seed(length)
            results.append(side(x))
        assert_near(results[1].detach(), results[0].detach())
        assert results[0].requires_grad == results[1].requires_grad
        gradients = [torch.autograd.grad(y.sum(), x)[0] for y in results] if results[0].grad_fn else [x, x]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            torch.manual_seed(length), random.seed(length)
            want = original(x)
            torch.manual_seed(length), random.seed(length)
            assert_near(model(x), want)
    restored = tapconv.restore(model)
    assert type(restored) is kind and type(restored.conv) is nn.Conv1d


def test_tracing_uses_no_random_numbers():
    model = nn.Sequential(Draws(), DrawsInPython())
    before, python_before = torch.get_rng_state(), random.getstate()
    tapconv.replace(model)
    assert torch.equal(torch.get_rng_state(), before) and random.getstate() == python_before


class Forked(nn.Module):
    """The convolution's result has two readers, and padding is read after a write in place."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3)
        self.second = nn.Conv1d(4, 4, 1)

    def forward(self, x):
        h = self.conv(F.pad(x, (2, 0)))
        x = x.clone()
        padded = F.pad(x, (1, 0))
        x.mul_(3)
        return F.relu(h) + h + self.second(padded)[..., 1:] + x


def test_steps_with_other_readers_or_writes_between_are_no_chain():
    original, model, report = replaced(Forked())
    assert what(report, "conv") == "pad + Conv1d(4, 4, 3)" and what(report, "second") == "Conv1d(4, 4, 1)"
    compare(original, model, torch.randn(2, 4, 20))


def test_keyword_only_options_have_their_defaults():
    original, model, _ = replaced(KeywordOnly())
    x = torch.randn(2, 4, 20)
    with torch.no_grad():
        assert fused(model)
        assert_near(model(x), original(x))
        assert_near(model(x, scale=5), original(x, scale=5))


# ----------------------------------------------------------------------------------- what happens to a model afterwards


def stack():
    torch.manual_seed(4)
    return nn.Sequential(nn.Conv1d(4, 6, 3), nn.GroupNorm(2, 6), nn.SiLU(), Block())


def exchange(model):
    model[1] = nn.Identity()


def append(model):
    model.append(nn.Conv1d(6, 2, 1))


def shorten(model):
    del model[2]


def in_a_list(model):
    model[3].out[0] = nn.Sequential(nn.Conv1d(6, 6, 3, padding=1), nn.ReLU())


def attribute(model):
    model[3].reach = 0
    model[3].conv.padding = (2,)


def setting(model):
    model[1].eps = 10.0
    model[1].num_groups = 3


def no_weight(model):
    model[1].weight = None
    model[1].bias = None


def own_forward(model):
    model[1].forward = lambda x: x * 2


def hooks(model):
    model[0].register_forward_hook(lambda module, inputs, y: y + 1)
    model[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    model[2].register_forward_hook(lambda module, inputs, y: y - 1)


def half(model):
    model[0].bfloat16()
    model.insert(0, To(torch.bfloat16))
    model.insert(2, To(torch.float32))


class To(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype)


def parametrise(model):
    parametrizations.weight_norm(model[0])
    model[0].parametrizations.weight.original0.data.mul_(2)


def parametrise_and_take_away(model):
    parametrise(model)
    parametrize.remove_parametrizations(model[0], "weight")


AFTERWARDS = [
    *(exchange, append, shorten, in_a_list, attribute, setting, no_weight, own_forward, hooks, half, parametrise),
    *(parametrise_and_take_away,),
]


@pytest.mark.parametrize("change", AFTERWARDS)
@torch.no_grad()
def test_changes_afterwards_count(change):
    original, model, _ = replaced(stack().eval())
    x = torch.randn(2, 4, 30)
    assert fused(model) and fused(model[3])
    assert_near(model(x), original(x))
    for side in (original, model):
        torch.manual_seed(9)
        change(side)
    assert_near(model(x), original(x))
    copied = copy.deepcopy(model)
    assert_near(copied(x), original(x))


@torch.no_grad()
def test_slices_and_iteration_of_a_sequential():
    original, model, _ = replaced(stack().eval())
    x = torch.randn(2, 4, 30)
    for end in range(1, 5):
        assert_near(model[:end](x), original[:end](x))
    y = x
    for layer in model:
        y = layer(y)
    assert_near(y, original(x))


@torch.no_grad()
def test_copies():
    original, model, _ = replaced(stack().eval())
    x = torch.randn(2, 4, 30)
    want = model(x)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
        assert torch.equal(made(x), want) and fused(made) and fused(made[3])
        assert not {id(m) for m in made.modules()} & {id(m) for m in model.modules()}
        made[1].weight.mul_(2)
        made[3].conv.bias.add_(1)
        original.load_state_dict(made.state_dict())
        assert_near(made(x), original(x))
        assert torch.equal(model(x), want)
        made[1] = nn.Identity()
        assert made(x).isfinite().all() and torch.equal(model(x), want)
    fresh = stack()
    fresh.load_state_dict(model.state_dict())
    model.load_state_dict(fresh.state_dict())
    assert_near(fresh.eval()(x), want)


def test_an_optimiser_made_before_goes_on():
    model, twin = stack(), stack()
    optimisers = [torch.optim.AdamW(side.parameters(), lr=0.05) for side in (model, twin)]
    tapconv.replace(model)
    x = torch.randn(2, 4, 30)
    for _ in range(3):
        for side, optimiser in zip((model, twin), optimisers, strict=True):
            torch.manual_seed(1)
            optimiser.zero_grad()
            side(x).square().mean().backward()
            optimiser.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        assert_near(model.eval()(x), twin.eval()(x))


def test_restore():
    computed = parametrizations.weight_norm(nn.Conv1d(6, 6, 3))
    original, model, _ = replaced(nn.Sequential(stack(), computed, Sub(6, 6, 1)))
    assert tapconv.restore(model) is model
    for module, old in zip(model.modules(), original.modules(), strict=True):
        same = type(module) is type(old)
        assert same or (parametrize.is_parametrized(module) and type(module).__bases__ == type(old).__bases__)
        assert not any(key.startswith("_tapconv") for key in module.__dict__) and "_packed" not in module.__dict__
    with torch.no_grad():
        x = torch.randn(2, 4, 30)
        assert torch.equal(model.eval()(x), original.eval()(x))
    _, _, report = replaced(model)
    assert len(report.replaced) == 5


def test_twice_is_once():
    _, model, report = replaced(stack())
    assert len(report.replaced) == 3
    classes = [type(module) for module in model.modules()]
    _, again = tapconv.replace(model)
    assert again.entries == [] and [type(module) for module in model.modules()] == classes


# ------------------------------------------------------------------------------------------------ kinds of convolutions


class Sub(nn.Conv1d):
    """A subclass without a forward of its own, as many models have it for their initialisation."""

    def __init__(self, *args, extra=3, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = extra
        nn.init.zeros_(self.bias)

    def __repr__(self):
        return f"Sub{self.extra}"


class Own(nn.Conv1d):
    def forward(self, x):
        return super().forward(x) + 1


class OwnInside(nn.Conv1d):
    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, weight * 2, bias)


@torch.no_grad()
def test_subclasses():
    original, model, report = replaced(nn.Sequential(Sub(4, 6, 3), nn.ReLU(), Own(6, 6, 1), OwnInside(6, 6, 1)))
    x = torch.randn(2, 4, 20)
    assert what(report, "0") == "Conv1d(4, 6, 3) + relu" and repr(model[0]) == "Sub3"
    assert "forward of its own" in reason(report, "2") and "_conv_forward of its own" in reason(report, "3")
    assert_near(model(x), original(x))
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(made(x), model(x)) and made[0].extra == 3 and isinstance(made[0], Sub)
        assert type(made[0]) is type(model[0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "norm",
    [nn.utils.weight_norm, parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal],
)
def test_weights_that_are_computed(norm):
    torch.manual_seed(3)
    model = nn.Sequential(nn.ZeroPad1d((2, 0)), norm(nn.Conv1d(4, 6, 3)), nn.GroupNorm(2, 6)).eval()
    with torch.no_grad():
        model(torch.randn(1, 4, 20))  # an old weight_norm's weight can be copied only after a call without gradients
    original, model, report = replaced(model)
    assert "computed" in report.replaced[0].reason
    for _ in range(2):
        compare(original, model, torch.randn(2, 4, 20))
        compare(original, model, torch.randn(2, 4, 1000))
        for side in (original, model):
            with torch.no_grad():
                for parameter in side.parameters():
                    parameter.mul_(1.1)
    for side in (original, model):
        if norm is nn.utils.weight_norm:
            nn.utils.remove_weight_norm(side[1])
        else:
            parametrize.remove_parametrizations(side[1], "weight")
    assert type(model[1]) is tapconv.Conv1d
    compare(original, model, torch.randn(2, 4, 20))


def test_pruned():
    model = nn.Sequential(nn.Conv1d(4, 6, 3), nn.ReLU())
    prune.l1_unstructured(model[0], "weight", 0.5)
    with torch.no_grad():
        model(torch.randn(1, 4, 20))
        original, model, _ = replaced(model)
        x = torch.randn(2, 4, 20)
        assert_near(model(x), original(x))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [3, "same"])
def test_padding_modes(mode, padding):
    original, model, report = replaced(nn.Sequential(nn.Conv1d(4, 6, 4, padding=padding, padding_mode=mode), nn.GELU()))
    assert what(report, "0") == "Conv1d(4, 6, 4) + gelu"
    compare(original, model, torch.randn(2, 4, 20))


def test_what_is_left_and_why():
    lazy, fit = nn.LazyConv1d(6, 3), nn.LazyConv1d(6, 3)
    fit(torch.randn(1, 4, 9))
    overridden = nn.Conv1d(4, 6, 3)
    overridden.forward = lambda x: x
    model = nn.ModuleDict(
        {
            "lazy": lazy,
            "fit": fit,
            "overridden": overridden,
            "complex": nn.Conv1d(4, 6, 3, dtype=torch.complex64),
            "transposed": nn.ConvTranspose1d(4, 6, 3),
            "scripted": torch.jit.script(nn.Sequential(nn.Conv1d(4, 6, 3))),
            "ours": tapconv.CausalConv1d(4, 6, 3),
        }
    )
    _, report = tapconv.replace(model)
    assert [entry.path for entry in report.replaced] == ["fit"]
    expected = {
        "lazy": "not initialised",
        "overridden": "forward of its own",
        "complex": "complex64",
        "transposed": "transposed",
        "scripted": "torch.jit",
    }
    assert {entry.path for entry in report.left} == set(expected)
    for path, words in expected.items():
        assert words in reason(report, path)
    table = str(report)
    assert "1 replaced, 5 left" in table and all(path in table for path in expected)
    with pytest.raises(TypeError, match="it must be"):
        tapconv.replace(torch.relu)
    with pytest.raises(ValueError, match="is compiled"):
        tapconv.replace(torch.compile(nn.Conv1d(4, 6, 3)))


def test_a_model_that_is_one_convolution():
    original, model, report = replaced(nn.Conv1d(4, 6, 3))
    assert report.replaced[0].path == "" and "(the model)" in str(report)
    compare(original, model, torch.randn(2, 4, 20))


class Shared(nn.Module):
    """One module in two places, and one parameter in two modules."""

    def __init__(self):
        super().__init__()
        conv = nn.Conv1d(4, 4, 3, padding=1)
        self.first = nn.Sequential(conv, nn.GroupNorm(2, 4))
        self.second = nn.Sequential(conv, nn.ReLU())
        self.tied = nn.Conv1d(4, 4, 3, padding=1)
        self.tied.weight = conv.weight

    def forward(self, x):
        return self.first(x) + self.second(x) + self.tied(x)


def test_shared_modules_and_tied_weights():
    original, model, report = replaced(Shared())
    assert model.tied.weight is model.first[0].weight is model.second[0].weight
    assert "also second.0" in report.replaced[0].reason and len(report.replaced) == 2
    compare(original, model, torch.randn(2, 4, 20))
    for side in (original, model):
        with torch.no_grad():
            side.tied.weight.mul_(2)
    compare(original, model, torch.randn(2, 4, 20))
    made = copy.deepcopy(model)
    assert made.first[0] is made.second[0] and made.tied.weight is made.first[0].weight
    compare(original, made, torch.randn(2, 4, 20))


def test_frozen_parameters_stay_frozen():
    model = stack()
    model[0].weight.requires_grad_(False)
    _, model, _ = replaced(model)
    model(torch.randn(2, 4, 30)).sum().backward()
    assert model[0].weight.grad is None and model[0].bias.grad is not None and model[1].weight.grad is not None


def test_hooks_before_and_everywhere():
    seen = []
    model = stack().eval()
    model[0].register_forward_hook(lambda module, inputs, y: seen.append("conv"))
    model.register_forward_pre_hook(lambda module, inputs: seen.append("all"))
    model[1].register_full_backward_hook(lambda module, into, out: seen.append("back"))
    original, model, _ = replaced(model)
    x = torch.randn(2, 4, 30)
    for side in (original, model):
        seen.clear()
        side(x).sum().backward()
        with torch.no_grad():
            side(x)
        assert seen == ["all", "conv", "back", "all", "conv"]
    names = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: names.append(type(module).__name__))
    try:
        counted = []
        for side in (original, model):
            names.clear()
            with torch.no_grad():
                side(x)
            counted.append(list(names))
        assert counted[0] == counted[1] and "GroupNorm" in names
    finally:
        handle.remove()


# -------------------------------------------------------------------------------------------------- PyTorch's machinery


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend):
    torch._dynamo.reset()
    original, model, _ = replaced(stack().eval())
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for length in (30, 41):
        x = torch.randn(2, 4, length, requires_grad=True)
        got, want = compiled(x), original(x)
        assert_near(got.detach(), want.detach())
        torch.testing.assert_close(torch.autograd.grad(got.sum(), x), torch.autograd.grad(want.sum(), x))
        with torch.no_grad():
            assert_near(compiled(x), want)
    torch._dynamo.reset()


def test_export_and_trace():
    original, model, _ = replaced(stack().eval())
    x = torch.randn(2, 4, 30)
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        assert set(program.state_dict) == set(original.state_dict())
        assert_near(program.module()(x), original(x))
        assert_near(torch.jit.trace(model, x)(x), original(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_narrow_types(dtype):
    original, model, _ = replaced(stack().eval())
    x = torch.randn(2, 4, 30)
    with torch.no_grad():
        with torch.autocast("cpu", dtype):
            got, want = model(x), original(x)
        assert got.dtype == want.dtype
        exact = original(x)
        assert (got.float() - exact).norm() <= 2 * (want.float() - exact).norm() + 1e-3 * exact.norm()
        want, got = (side.to(dtype)(x.to(dtype)).float() for side in (original, model))
        assert (got - exact).norm() <= 1.5 * (want - exact).norm()


def test_functional_transforms():
    """torch.func and forward-mode gradients, which PyTorch's operators compute."""
    original, model, _ = replaced(stack().eval())
    x = torch.randn(3, 2, 4, 30)
    for side in (original, model):
        side.requires_grad_(False)
    assert_near(torch.vmap(model)(x), torch.vmap(original)(x))

    def energy(side):
        return torch.func.grad(lambda v: side(v).square().sum())

    torch.testing.assert_close(energy(model)(x[0]), energy(original)(x[0]), rtol=1e-4, atol=1e-4)
    tangent = torch.randn_like(x[0])
    results = [torch.func.jvp(side, (x[0],), (tangent,)) for side in (original, model)]
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)
    swapped = {name: p * 2 for name, p in original.named_parameters()}
    with torch.no_grad():
        got, want = (torch.func.functional_call(side, swapped, (x[0],)) for side in (model, original))
    assert_near(got, want)


def test_empty_batches_and_errors_are_pytorchs():
    original, model, _ = replaced(stack().eval())
    with torch.no_grad():
        assert model[0](torch.randn(0, 4, 30)).shape == original[0](torch.randn(0, 4, 30)).shape
        for x in (torch.randn(2, 5, 30), torch.randn(2, 4, 2), torch.randn(30), torch.randn(2, 4, 30).double()):
            for side in (original, model):
                with pytest.raises((RuntimeError, ValueError, TypeError)):
                    side(x)


# ------------------------------------------------------------------------------------------------------ memory, threads


def resident():
    with open("/proc/self/statm") as file:
        return 4096 * int(file.read().split()[1])


@torch.no_grad()
def test_no_memory_is_lost_in_ten_thousand_calls():
    _, model, _ = replaced(stack().eval())
    xs = [torch.randn(2, 4, length) for length in (30, 41, 64)]

    def growth():
        memory, objects = resident(), len(gc.get_objects())
        for i in range(10000):
            model(xs[i % 3])
        gc.collect()
        return resident() - memory, len(gc.get_objects()) - objects

    # What is lost is lost in every round; allocators and threads take what they need in the first ones.
    rounds = [growth() for _ in range(3)]
    assert min(memory for memory, _ in rounds) < 1 << 18 and min(objects for _, objects in rounds) < 100


def test_models_are_freed():
    import weakref

    gone = []
    for _ in range(5):
        _, model, _ = replaced(stack().eval())
        with torch.no_grad():
            copy.deepcopy(model)(torch.randn(2, 4, 30))
        gone.append(weakref.ref(model))
        gone.append(weakref.ref(model[3].conv))
        del model
    gc.collect()
    assert all(reference() is None for reference in gone)


@torch.no_grad()
def test_threads():
    """One model from several threads, and a copy of it in each."""
    _, model, _ = replaced(stack().eval())
    xs = [torch.randn(2, 4, 30 + i) for i in range(4)]
    wants = [model(x) for x in xs]
    copies = [copy.deepcopy(model) for _ in xs]
    wrong = []

    @torch.no_grad()
    def work(i):
        for _ in range(200):
            if not torch.equal(model(xs[i]), wants[i]) or not torch.equal(copies[i](xs[i]), wants[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
