"""Compares and times a ModelNew beside its reference, as evaluators of kernels do.

    python examples/pytorch/evaluate.py [causal groupnorm] [--device cuda] [--batch N] [--length T]

Each pair of files is loaded, both models are made with one seed, five random inputs must agree within
atol = rtol = 1e-4, and both are timed without gradients. TF32 is off: with it PyTorch's own result misses the
tolerance. --batch and --length make the inputs smaller.
"""

import argparse
import importlib.util
import pathlib
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
SEED, INPUTS, TOLERANCE = 42, 5, 1e-4


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(model, arguments, device):
    torch.manual_seed(SEED)
    return model(*arguments).to(device).eval()


def seconds(function, device, runs):
    """The median time of a call, after a warm-up."""
    times = []
    for _ in range(runs + 2):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


@torch.no_grad()
def evaluate(name, options):
    device = torch.device(options.device)
    reference, new = load(f"{name}_reference"), load(f"{name}_new")
    theirs = make(reference.Model, reference.get_init_inputs(), device)
    ours = make(new.ModelNew, reference.get_init_inputs(), device)
    error, right = 0.0, True
    for seed in range(INPUTS):
        torch.manual_seed(seed)
        x = reference.get_inputs()[0][: options.batch, :, : options.length].contiguous().to(device)
        got, want = ours(x), theirs(x)
        right &= torch.allclose(got, want, atol=TOLERANCE, rtol=TOLERANCE)
        error = max(error, (got - want).abs().max().item())
    times = [seconds(lambda model=model: model(x), device, options.runs) for model in (theirs, ours)]
    print(
        f"{name} {tuple(x.shape)} on {device}: largest difference {error:.2e}, {'right' if right else 'WRONG'}; "
        f"PyTorch {times[0] * 1e3:.3f} ms, tapconv {times[1] * 1e3:.3f} ms, {times[0] / times[1]:.2f} times as fast"
    )
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["causal", "groupnorm"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, help="at most this many items")
    parser.add_argument("--length", type=int, help="at most this many samples")
    parser.add_argument("--runs", type=int, default=10, help="timed calls of each model")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    results = [evaluate(name, options) for name in options.names]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
