"""The demo: three kinds of layers, checked against float64, timed beside the machine's peak and the plain loops.

    make demo            or            python3 bench/demo.py [DIRECTORY OF THE BUILD]

The two layers that the library is measured by run on random data. The third, a first layer and a causal dilated one as
in WaveNet, runs on a recording of speech: the command reads and writes .npy files as a user's program would. Python's
standard library is enough.
"""

import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "examples" / "data" / "speech.wav"
MEASURED = {
    "causal-256": ("--shape", "2,256,8192", "--out-channels", 256, "--kernel", 4, "--causal"),
    "convgn-128-256": (
        *("--shape", "16,128,1024", "--out-channels", 256, "--kernel", 3),
        *("--padding", 1, "--norm-groups", 32, "--affine"),
    ),
}
AFTERWARDS = ("--shape", "1,64,1024", "--out-channels", 64, "--kernel", 3, "--min-time", 0)
FIRST_CHANNELS, FIRST_KERNEL = 64, 16
DILATED_CHANNELS, DILATED_KERNEL, DILATION = 128, 3, 64


def read_recording():
    """(samples in [-1, 1), samples per second)"""
    with wave.open(str(RECORDING)) as file:
        assert file.getnchannels() == 1 and file.getsampwidth() == 2, "one channel of 16 bits is expected"
        rate, frames = file.getframerate(), array.array("h", file.readframes(file.getnframes()))
    if sys.byteorder == "big":
        frames.byteswap()
    return [frame / 32768 for frame in frames], rate


def write_npy(path, shape, values):
    """float32, little-endian, C order, as numpy.save writes it."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    data = array.array("f", values)
    assert len(data) == math.prod(shape)
    if sys.byteorder == "big":
        data.byteswap()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data.tobytes())
    return path


def write_weights(path, out_channels, in_channels, kernel, seed):
    """Normal weights that keep the signal's size."""
    generator, spread = random.Random(seed), 1 / math.sqrt(in_channels * kernel)
    count = out_channels * in_channels * kernel
    return write_npy(path, (out_channels, in_channels, kernel), [generator.gauss(0, spread) for _ in range(count)])


class Command:
    def __init__(self, build):
        self.path = Path(build) / "tapconv"
        if not self.path.exists():
            sys.exit(f"demo: there is no {self.path}; build it first: make")

    def call(self, *words):
        done = subprocess.run([self.path, *map(str, words)], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"demo: tapconv {words[0]} failed with status {done.returncode}\n{done.stdout}")
        return done.stdout

    def rows(self, *words):
        return [json.loads(line) for line in self.call(*words, "--json").splitlines()]


def print_table(rows, peak, copy):
    print(
        f"{'layer':<16}{'kernel':<22}{'rel L2':>9}{'ms':>10}{'GFLOP/s':>10}{'% of peak':>11}{'% of copy':>11}"
        f"{'x plain':>9}"
    )
    for row in rows:
        print(
            f"{row['name']:<16}{row['kernel']:<22}{row['rel_l2']:>9.1e}{row['median_ms']:>10.3f}{row['gflops']:>10.1f}"
            f"{100 * row['gflops'] / peak:>11.1f}{100 * row['gbytes_per_s'] / copy:>11.1f}{row['times_faster']:>9.0f}"
        )


def main():
    command = Command(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BUILD", ROOT / "build"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples, rate = read_recording()
        seconds = len(samples) / rate
        audio = write_npy(folder / "audio.npy", (1, 1, len(samples)), samples)
        first = write_weights(folder / "first.npy", FIRST_CHANNELS, 1, FIRST_KERNEL, seed=1)
        dilated = write_weights(folder / "dilated.npy", DILATED_CHANNELS, FIRST_CHANNELS, DILATED_KERNEL, seed=2)
        hidden, y = folder / "hidden.npy", folder / "y.npy"
        speech = {
            "speech-first": ("-x", audio, "-w", first, "--causal", "--activation", "tanh"),
            "speech-dilated": ("-x", hidden, "-w", dilated, "--dilation", DILATION, "--causal"),
        }

        print(f"{RECORDING.relative_to(ROOT)}, {seconds:.1f} s of speech, through a first layer and a dilated one:")
        for output, (layer, options) in zip((hidden, y), speech.items(), strict=True):
            shape = command.rows("run", *options, "-o", output)[0]["out_shape"]
            command.call("check", *options, "--against", output)
            print(f"  {layer} gave {shape}; it agrees with the float64 reference")

        rows = []
        for layer, options in (MEASURED | speech).items():
            rows += [row | {"name": layer} for row in command.rows("bench", *options, "--plain")]
        rows_and_after = rows + command.rows("bench", *AFTERWARDS)

    # Every call measures the ceilings. Other programs can only make them look lower: the highest counts.
    peak, copy = (max(row[f"ceiling_{unit}"] for row in rows_and_after) for unit in ("gflops", "gbytes_per_s"))
    print(
        f"\nAccurate float32, {rows[0]['threads']} threads. Ceilings, measured before each layer and after the last:"
        f"\nFMA peak {peak:.0f} GFLOP/s, copying {copy:.1f} GB/s.\n"
    )
    print_table(rows, peak, copy)
    print(
        "\nrel L2: error against float64. % of peak, % of copy: of the ceilings above. x plain: times faster than plain"
        "\nfloat64 loops in one thread. Both speech layers: "
        f"{1e3 * seconds / sum(row['median_ms'] for row in rows[2:]):.0f} times real time."
    )
    if any(row["gflops"] > peak for row in rows):
        print("A layer came out above the peak: other programs slowed the peak's measurement. Run it again when idle.")


if __name__ == "__main__":
    main()
