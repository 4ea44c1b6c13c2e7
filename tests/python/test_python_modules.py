"""The modules beside what they stand for, and what their packed weights must notice."""

import gc

import pytest
import tapconv
import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {None: nn.Identity(), "silu": nn.SiLU(), "relu": nn.ReLU()}


class ReferenceCausal(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, dilation=1, bias=False):
        super().__init__()
        self.reach = (kernel_size - 1) * dilation
        self.conv1d = nn.Conv1d(in_channels, out_channels, kernel_size, dilation=dilation, bias=bias)

    def forward(self, x):
        return self.conv1d(F.pad(x, (self.reach, 0)))


class ReferenceNorm(nn.Module):
    def __init__(
        self,
        in_channels,
        out_channels,
        num_groups,
        kernel_size=3,
        stride=1,
        padding=1,
        dilation=1,
        eps=1e-5,
        affine=True,
        activation=None,
    ):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride, padding, dilation, bias=False)
        self.norm = nn.GroupNorm(num_groups, out_channels, eps, affine)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x):
        return self.activation(self.norm(self.conv(x)))


CASES = [
    (tapconv.CausalConv1d, ReferenceCausal, (8, 12, 4), {}),
    (tapconv.CausalConv1d, ReferenceCausal, (8, 12, 3, 2, True), {}),
    (tapconv.Conv1dGroupNorm, ReferenceNorm, (8, 12, 3), {}),
    (tapconv.Conv1dGroupNorm, ReferenceNorm, (8, 12, 4, 5, 2, 3, 2, 1e-3), {"activation": "silu"}),
    (tapconv.Conv1dGroupNorm, ReferenceNorm, (8, 12, 4), {"affine": False, "activation": "relu"}),
    (tapconv.Conv1d, nn.Conv1d, (8, 12, 3), {"padding": "same", "groups": 4, "bias": False}),
]


@pytest.mark.parametrize("ours, reference, arguments, keywords", CASES)
def test_stands_for_its_reference(device, ours, reference, arguments, keywords):
    torch.manual_seed(5)
    ours = ours(*arguments, **keywords).to(device)
    state = torch.get_rng_state()
    torch.manual_seed(5)
    reference = reference(*arguments, **keywords).to(device)
    assert torch.equal(torch.get_rng_state(), state), "the random generator was used otherwise"
    assert list(ours.state_dict()) == list(reference.state_dict())
    for got, want in zip(ours.state_dict().values(), reference.state_dict().values(), strict=True):
        assert torch.equal(got, want)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    ours.load_state_dict(reference.state_dict())
    reference.load_state_dict(ours.state_dict())
    for shape in ((2, 8, 50), (8, 50), (0, 8, 50)):
        x = torch.randn(shape, device=device)
        if len(shape) == 2 and not isinstance(reference, (nn.Conv1d, ReferenceCausal)):
            want = reference(x[None])[0]  # nn.GroupNorm takes the first dimension for the batch
        else:
            want = reference(x)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), want, rtol=1e-4, atol=1e-4)
    x = torch.randn(2, 8, 50, device=device)
    for got, want in zip(
        torch.autograd.grad(ours(x).square().sum(), ours.parameters()),
        torch.autograd.grad(reference(x).square().sum(), reference.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


def assigned_data(module):
    module.conv1d.weight.data = torch.randn_like(module.conv1d.weight)


def assigned_twice(module):
    """So that the second storage may well lie where the first one lay."""
    for _ in range(2):
        module.conv1d.weight.data = torch.randn_like(module.conv1d.weight)
        gc.collect()


def new_parameter(module):
    shape, device = module.conv1d.weight.shape, module.conv1d.weight.device
    module.conv1d.weight = None
    gc.collect()
    module.conv1d.weight = nn.Parameter(torch.randn(shape, device=device))


def optimiser_step(module):
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.1)
    with torch.enable_grad():
        module(torch.randn(1, 4, 20, device=module.conv1d.weight.device)).square().sum().backward()
    optimiser.step()


EDITS = {
    "in place": lambda m: m.conv1d.weight.mul_(2),
    "a view in place": lambda m: m.conv1d.weight[0].mul_(2),
    "load_state_dict": lambda m: m.load_state_dict({"conv1d.weight": torch.randn(4, 4, 3)}),
    "data assigned": assigned_data,
    "data assigned twice": assigned_twice,
    "another parameter": new_parameter,
    "an optimiser's step": optimiser_step,
    "set_": lambda m: m.conv1d.weight.set_(torch.randn_like(m.conv1d.weight)),
    "data in place, then repack": lambda m: (m.conv1d.weight.data.mul_(2), m.repack()),
    "double": lambda m: m.double(),
    "weight_norm": lambda m: nn.utils.parametrizations.weight_norm(m.conv1d).parametrizations.weight.original0.mul_(2),
}


@pytest.mark.parametrize("edit", EDITS)
@torch.no_grad()
def test_changed_weights_are_seen(device, edit):
    module = tapconv.CausalConv1d(4, 4, 3).to(device)
    x = torch.randn(2, 4, 30, device=device)
    for _ in range(5):
        before = module(x)
        assert torch.equal(module(x), before)
        EDITS[edit](module)
        if edit == "double":
            x = x.double()
        got, want = module(x), F.conv1d(F.pad(x, (2, 0)), module.conv1d.weight)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        if edit in ("double", "weight_norm"):
            return


@torch.no_grad()
def test_an_edit_in_place_through_data_leaves_no_trace():
    module = tapconv.CausalConv1d(4, 4, 3)
    x = torch.randn(2, 4, 30)
    before = module(x)
    module.conv1d.weight.data.mul_(2)
    assert torch.equal(module(x), before), "such an edit is seen now: the documents say that it is not"
    module.repack()
    torch.testing.assert_close(module(x), 2 * before)


@torch.no_grad()
def test_weights_are_packed_once(device):
    module = tapconv.CausalConv1d(4, 4, 3).to(device)
    module(torch.randn(2, 4, 30, device=device))
    held = module.conv1d._packed._held
    module(torch.randn(5, 4, 77, device=device))
    assert held is not None and module.conv1d._packed._held is held


@pytest.mark.filterwarnings("ignore")
def test_hooks_run(device):
    """weight_norm by a hook, and forward hooks on the parts."""
    module = tapconv.Conv1dGroupNorm(4, 6, 2, activation="silu").to(device)
    nn.utils.weight_norm(module.conv)
    seen = []
    module.norm.register_forward_hook(lambda *arguments: seen.append(arguments[2]))
    x = torch.randn(2, 4, 20, device=device)
    y = module(x)
    want = F.group_norm(F.conv1d(x, module.conv.weight, padding=1), 2, module.norm.weight, module.norm.bias)
    torch.testing.assert_close(seen[0], want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(y, F.silu(want), rtol=1e-4, atol=1e-4)
    y.sum().backward()
    assert module.conv.weight_g.grad is not None
