"""tapconv.verify: which side is off, by how much, and TF32 named where it is why."""

import copy

import pytest
import tapconv
import torch
import torch.nn.functional as F
from tapconv._verify import round_tf32
from torch import nn


class Tf32Conv(nn.Conv1d):
    """A convolution as a tensor core in TF32 computes it: operands rounded, sums not."""

    truncate = False

    def _conv_forward(self, x, weight, bias):
        if x.dtype == torch.float32:  # in float64 the layer is exact, as on a GPU
            x, weight = round_tf32(x, self.truncate), round_tf32(weight, self.truncate)
        return super()._conv_forward(x, weight, bias)


class TruncatedConv(Tf32Conv):
    truncate = True


class Tf32Linear(nn.Linear):
    def forward(self, x):
        if x.dtype == torch.float32:
            return F.linear(round_tf32(x), round_tf32(self.weight), self.bias)
        return super().forward(x)


def network(conv=nn.Conv1d, linear=nn.Linear):
    torch.manual_seed(7)
    layers = [conv(8, 32, 5, padding=2), nn.GroupNorm(4, 32), nn.SiLU(), conv(32, 16, 3, padding=1), nn.GELU()]
    return nn.Sequential(*layers, linear(64, 16)).eval()


X = torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(3))


def test_round_tf32_is_the_library_s():
    values = torch.tensor([1.0, 1 + 2**-11, 1 + 2**-12, 3 + 2**-9, -1 - 2**-11, 0.0, float("inf"), float("nan"), 1e-39])
    rounded = round_tf32(values)
    expected = torch.tensor([1.0, 1 + 2**-10, 1.0, 3 + 2**-9, -1 - 2**-10, 0.0, float("inf"), float("nan"), 1e-39])
    torch.testing.assert_close(rounded, expected, rtol=0, atol=2e-41, equal_nan=True)
    assert round_tf32(torch.tensor([1.99999]), truncate=True).item() == 2 - 2**-10
    assert ((round_tf32(X).view(torch.int32) & 0x1FFF) == 0).all()


def test_both_are_right():
    model = network()
    original = copy.deepcopy(model)
    tapconv.replace(model)
    result = tapconv.verify(model, original, X)
    assert result.ok and result.outputs[0].verdict == "both right" and result.outputs[0].shape == (2, 16, 16)
    assert result.outputs[0].model.rel_l2 < 1e-6 and "both right" in str(result)


@pytest.mark.parametrize("conv, words", [(Tf32Conv, "rounded"), (TruncatedConv, "cut off")])
@pytest.mark.parametrize("side", ["model", "original"])
def test_tf32_in_convolutions_is_named(conv, words, side):
    """The one side in TF32, the other replaced."""
    rounded, plain = network(conv), network()
    tapconv.replace(plain)
    result = tapconv.verify(*((rounded, plain) if side == "model" else (plain, rounded)), X)
    output = result.outputs[0]
    found = getattr(output, side)
    assert found.rel_l2 > 2e-5 and words in found.tf32 and "matrix" not in found.tf32
    assert output.verdict.startswith(f"{side} is off ({side}: TF32, operands {words} in convolutions: ")
    other = output.original if side == "model" else output.model
    assert other.ok and other.tf32 is None
    assert result.ok == (side == "original")


def test_tf32_in_matrix_products_is_named():
    result = tapconv.verify(network(Tf32Conv, Tf32Linear), network(), X)
    assert "convolutions and matrix products" in result.outputs[0].model.tf32


def test_both_in_tf32():
    result = tapconv.verify(network(Tf32Conv), network(Tf32Conv), X)
    assert not result.ok and result.outputs[0].verdict.startswith("model and original are off (model: TF32")


def test_what_is_off_otherwise_is_not_called_tf32():
    model = network()
    with torch.no_grad():
        model[0].weight.mul_(1 + 1e-3 * torch.randn(model[0].weight.shape, generator=torch.Generator().manual_seed(5)))
    output = tapconv.verify(model, network(), X).outputs[0]
    assert output.verdict == "model is off" and output.model.rel_l2 > 1e-4
    model = network()
    model[0].half()
    model.insert(0, To(torch.float16))
    model.insert(2, To(torch.float32))
    assert tapconv.verify(model, network(), X).outputs[0].verdict == "both right"  # as right as float16 is
    assert tapconv.verify(model, network(), X, tolerance=1e-5).outputs[0].model.ok is False


class To(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype)


class Enlarges(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3)

    def forward(self, x):
        y = self.conv(x)
        return y + 1e5 - 1e5


def test_both_off_alike():
    model, original = Enlarges(), Enlarges()
    model.load_state_dict(original.state_dict())
    tapconv.replace(model)
    assert "off alike" in tapconv.verify(model, original, X).outputs[0].verdict


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3)

    def forward(self, x, scale):
        y = self.conv(x) * scale
        return {"y": y, "parts": (y[:, :2], y[:, 2:]), "length": y.shape[-1], "index": y.argmax()}


def test_several_inputs_and_outputs():
    model = Several()
    original = copy.deepcopy(model)
    tapconv.replace(model)
    for x in ((X, torch.tensor(2.0)), {"x": X, "scale": torch.tensor(2.0)}):
        result = tapconv.verify(model, original, x)
        names = [output.name for output in result.outputs]
        assert names == ["output['y']", "output['parts'][0]", "output['parts'][1]"] and result.ok


class Breaks(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.conv, self.value = nn.Conv1d(8, 8, 3), value

    def forward(self, x):
        y = self.conv(x).clone()
        y[0, 0, 0] = self.value
        return y


def test_nan_and_inf():
    whole = Breaks(0.0)
    for value in (float("nan"), float("inf")):
        broken = Breaks(value)
        broken.load_state_dict(whole.state_dict())
        output = tapconv.verify(broken, whole, X).outputs[0]
        assert output.model.nonfinite == 1 and output.verdict == "model is off" and output.original.ok
        assert tapconv.verify(broken, broken, X).ok


def test_models_are_left_as_they_were():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv1d(8, 8, 3), nn.BatchNorm1d(8), nn.Dropout(0.5)).train()
    model[1].eval()
    original = copy.deepcopy(model)
    tapconv.replace(model)
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    assert tapconv.verify(model, original, X).ok
    assert torch.equal(torch.get_rng_state(), state) and torch.is_grad_enabled()
    for side in (model, original):
        assert [module.training for module in side] == [True, False, True] and side.training
        assert all(torch.equal(value, before[name]) for name, value in side.state_dict().items())
        assert next(side.parameters()).dtype == torch.float32


def test_restore_of_a_copy_is_an_original():
    model, _ = tapconv.replace(network())
    assert tapconv.verify(model, tapconv.restore(copy.deepcopy(model)), X).ok


def test_refusals():
    with pytest.raises(ValueError, match="different numbers"):
        tapconv.verify(To(torch.int64), nn.Identity(), X)
    with pytest.raises(ValueError, match="has the shape"):
        tapconv.verify(nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 5), X)
    fixed = nn.Sequential(To(torch.float32), nn.Conv1d(8, 8, 3))
    with pytest.raises(RuntimeError, match="does not run in float64"):
        tapconv.verify(fixed, fixed, X)
