"""Random small models, replaced and not: Hypothesis looks for one whose results or gradients differ."""

import copy
import pickle

import tapconv
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

ACTIVATIONS = [nn.ReLU, nn.SiLU, nn.GELU, nn.Mish, nn.Tanh, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Softsign]
FUNCTIONS = [F.relu, F.silu, F.gelu, torch.tanh, torch.sigmoid, F.softsign]


class Residual(nn.Module):
    def __init__(self, conv, norm, function, pad, inner):
        super().__init__()
        self.conv, self.norm, self.pad, self.function = conv, norm, pad, function
        self.inner = nn.ModuleList(inner)

    def forward(self, x):
        h = self.conv(F.pad(x, self.pad))
        if self.norm is not None:
            h = self.norm(h)
        h = self.function(h)
        for layer in self.inner:
            h = layer(h)
        return x + F.dropout(h, 0.2, self.training)


@st.composite
def convolutions(draw, channels, out, same_length):
    groups = draw(st.sampled_from([g for g in (1, 2, channels) if channels % g == 0 and out % g == 0]))
    kernel, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    options = {"dilation": dilation, "groups": groups, "bias": draw(st.booleans())}
    if same_length:
        return nn.Conv1d(channels, out, kernel, **options), (kernel - 1) * dilation
    options |= {"stride": draw(st.integers(1, 3)), "padding": draw(st.integers(0, 2))}
    if options["padding"] and draw(st.booleans()):
        options["padding_mode"] = draw(st.sampled_from(["reflect", "replicate", "circular"]))
    return nn.Conv1d(channels, out, kernel, **options), 0


@st.composite
def norms(draw, channels):
    groups = draw(st.sampled_from([g for g in (1, 2, channels) if channels % g == 0]))
    norm = nn.GroupNorm(groups, channels, eps=draw(st.sampled_from([1e-5, 1e-2])), affine=draw(st.booleans()))
    if norm.affine:
        nn.init.normal_(norm.weight, 1.0, 0.2), nn.init.normal_(norm.bias, 0.0, 0.2)
    return norm


@st.composite
def residuals(draw, channels, depth=0):
    conv, reach = draw(convolutions(channels, channels, True))
    left = draw(st.integers(0, reach))
    norm = draw(st.none() | norms(channels))
    inner = [draw(residuals(channels, depth + 1))] if depth < 1 and draw(st.booleans()) else []
    return Residual(conv, norm, draw(st.sampled_from(FUNCTIONS)), (left, reach - left), inner)


@st.composite
def models(draw):
    torch.manual_seed(draw(st.integers(0, 1 << 16)))
    channels, layers = 4, []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["chain", "chain", "residual", "nested"]))
        if kind == "residual":
            layers.append(draw(residuals(channels)))
            continue
        out = draw(st.sampled_from([2, 4, 6]))
        part = []
        if draw(st.booleans()):
            pad = draw(st.sampled_from([nn.ZeroPad1d, nn.ReflectionPad1d, lambda p: nn.ConstantPad1d(p, 0.5)]))
            part.append(pad((draw(st.integers(0, 3)), draw(st.integers(0, 3)))))
        part.append(draw(convolutions(channels, out, False))[0])
        if draw(st.booleans()):
            part.append(draw(norms(out)))
        if draw(st.booleans()):
            part.append(draw(st.sampled_from(ACTIVATIONS))())
        layers += [nn.Sequential(*part)] if kind == "nested" else part
        channels = out
    return nn.Sequential(*layers)


def assert_near(got, want, tolerance):
    error, scale = (got - want).norm().item(), want.norm().item()
    # A norm over few, nearly equal values enlarges what it gets: an absolute term for what is all but zero.
    assert not error > tolerance * (scale + 1e-3 * want.numel() ** 0.5), f"{error:.2e} of {scale:.2e}"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from([1, 3]), st.booleans(), st.sampled_from([torch.float64, torch.float32]))
def test_random_models(model, batch, training, dtype):
    model = model.to(dtype).train(training)
    original = copy.deepcopy(model)
    keys = list(model.state_dict())
    model, report = tapconv.replace(model)
    assert list(model.state_dict()) == keys and report.replaced
    x = torch.randn(batch, 4, 200, dtype=dtype)
    results = []
    copied = pickle.loads(pickle.dumps(model))
    restored = tapconv.restore(copy.deepcopy(model))
    for side in (original, model, copied, restored):
        torch.manual_seed(1)
        leaf = x.clone().requires_grad_()
        y = side(leaf)
        # Random factors: the sum of a normalised output's squares is a constant, whose gradient would be all rounding.
        factors = torch.randn(y.shape, generator=torch.Generator().manual_seed(2), dtype=dtype)
        gradient = torch.autograd.grad((y * factors).sum(), leaf)[0]
        torch.manual_seed(1)
        with torch.no_grad():
            results.append((y.detach(), side(x), gradient))
    want, tolerance = results[0], 1e-10 if dtype == torch.float64 else 1e-4
    for side in results[1:]:
        for got, expected in zip(side, want, strict=True):
            assert_near(got, expected, tolerance)
