"""The examples for PyTorch, at reduced sizes."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_both_layers_are_right(device):
    command = [sys.executable, ROOT / "examples/pytorch/evaluate.py", "--device", device]
    command += ["--batch", "1", "--length", "512", "--runs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("right") == 2
