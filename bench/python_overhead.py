"""What a call of the Python package costs beyond the computation: tiny layers beside PyTorch's own, without gradients.

    python bench/python_overhead.py [--most RATIO]

Prints microseconds a call (the least of many alternating rounds) and the ratios; with --most, exits with status 1 if
tapconv.conv1d takes more than RATIO times what torch.nn.functional.conv1d takes.
"""

import argparse
import sys
import timeit

import tapconv
import torch
import torch.nn.functional as F

ROUNDS, CALLS = 15, 2000


def least_us(functions):
    """{name: microseconds a call}, the functions taking turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            best[name] = min(best[name], timeit.timeit(function, number=CALLS) / CALLS * 1e6)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, default=float("inf"), help="the largest ratio that is allowed")
    most = parser.parse_args().most
    torch.set_num_threads(1)
    x, w, b = torch.randn(1, 4, 16), torch.randn(4, 4, 3), torch.randn(4)
    theirs, ours = torch.nn.Conv1d(4, 4, 3, padding=1), tapconv.Conv1d(4, 4, 3, padding=1)
    with torch.no_grad():
        us = least_us(
            {
                "F.conv1d": lambda: F.conv1d(x, w, b, padding=1),
                "tapconv.conv1d": lambda: tapconv.conv1d(x, w, b, padding=1),
                "nn.Conv1d": lambda: theirs(x),
                "tapconv.Conv1d": lambda: ours(x),
            }
        )
    for name, time in us.items():
        print(f"{name:16} {time:7.2f} us")
    ratio = us["tapconv.conv1d"] / us["F.conv1d"]
    print(f"functions {ratio:.2f}, modules {us['tapconv.Conv1d'] / us['nn.Conv1d']:.2f} times PyTorch's time")
    sys.exit(0 if ratio <= most else 1)


if __name__ == "__main__":
    main()
