"""The examples for PyTorch, at reduced sizes."""

import pathlib
import re
import subprocess
import sys

import tapconv
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_both_layers_are_right(device):
    command = [sys.executable, ROOT / "examples/pytorch/evaluate.py", "--device", device]
    command += ["--batch", "1", "--length", "512", "--runs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("right") == 2


def test_the_page_s_code_runs(capsys):
    """docs/pytorch.md from its beginning, as somebody would follow it."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "pytorch.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    names = {}
    for block in blocks:
        exec(compile(block, "docs/pytorch.md", "exec"), names)
    assert names["tapconv"] is tapconv and names["y"].shape == torch.Size([2, 256, 1000])
    printed = capsys.readouterr().out
    assert "1 replaced, 0 left" in printed and "both right" in printed
