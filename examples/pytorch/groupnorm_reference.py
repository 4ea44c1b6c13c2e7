"""Conv1d(128, 256, 3, padding=1) and GroupNorm(32), x (16, 128, 1024) -> y (16, 256, 1024), in PyTorch."""

import torch
from torch import nn

BATCH, IN_CHANNELS, OUT_CHANNELS, LENGTH, GROUPS = 16, 128, 256, 1024, 32


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, num_groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


def get_init_inputs() -> list:
    return [IN_CHANNELS, OUT_CHANNELS, GROUPS]


def get_inputs() -> list:
    return [torch.randn(BATCH, IN_CHANNELS, LENGTH)]
