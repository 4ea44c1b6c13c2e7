"""A causal convolution, x (32, 256, 8192) -> y (32, 256, 8192), 256 channels to 256 with 4 taps, in PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, CHANNELS, LENGTH, KERNEL_SIZE = 32, 256, 8192, 4


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.reach = kernel_size - 1
        self.conv1d = nn.Conv1d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv1d(F.pad(x, (self.reach, 0)))


def get_init_inputs() -> list:
    return [CHANNELS, CHANNELS, KERNEL_SIZE]


def get_inputs() -> list:
    return [torch.randn(BATCH, CHANNELS, LENGTH)]
