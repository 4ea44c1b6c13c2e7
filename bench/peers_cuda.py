"""tapconv beside PyTorch on the layers of layers.suite: one GPU, one process, turn by turn.

    python3 bench/peers_cuda.py --modes f32,tf32,bf16
    python3 bench/peers_cuda.py --layers causal-256,mamba-dw-2048 --compile-processes 0

Needs PyTorch with CUDA and, at $TAPCONV_LIBRARY (default build/libtapconv.so), the library with its CUDA engine. Writes
bench/results/cuda-CARD.jsonl: first a line about the run, then an object for each layer and mode. All times are medians
of launches of captured graphs, in microseconds; PyTorch's is the best of its uncompiled forms, eager ones among them.
"""

import argparse
import ctypes
import datetime
import json
import math
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]

import data as layer_data  # noqa: E402
import provenance  # noqa: E402
import suite  # noqa: E402
import tapconv_ctypes as tapconv  # noqa: E402
import torch  # noqa: E402
from engines import torch_cuda  # noqa: E402

CUDA = 1  # tapconv_device
TENSOR_CHANNELS = 16  # fewer input channels of a group do not fill a tensor core's step
ROUNDS = 7
SAMPLE_SECONDS, MOST_EXECUTES = 2e-3, 50
WRONG = {"f32": 1e-4, "tf32": 2e-3, "f16": 1e-2, "bf16": 3e-2}  # relative L2 error that counts as wrong


# -------------------------------------------------------------------------------------------------------------- tapconv


def _address(tensor):
    return None if tensor is None else tensor.data_ptr()


def tapconv_run(layer, module, mode):
    """(run, info of the plan) on PyTorch's own tensors and its current stream."""
    storage = "f32" if mode == "tf32" else mode
    described = tapconv.problem(
        layer.batch, layer.in_channels, layer.out_channels, layer.length, layer.kernel, stride=layer.stride,
        dilation=layer.dilation, groups=layer.groups, padding_left=layer.padding[0], padding_right=layer.padding[1],
        norm_groups=layer.norm_groups, norm_affine=int(layer.affine), has_bias=int(layer.bias),
        activation=layer.activation, type=storage, param_type=storage, math=mode, norm_eps=layer_data.EPS,
    )  # fmt: skip
    plan = tapconv.Plan(described, device=CUDA)

    def bytes_of(count):
        return torch.empty(count, dtype=torch.uint8, device="cuda")

    packed, workspace = bytes_of(plan.info.packed_weights_bytes), bytes_of(plan.info.workspace_bytes)
    shape = (layer.batch, layer.out_channels, layer.out_length)
    y = torch.full(shape, math.nan, dtype=module.x.dtype, device="cuda")
    plan.pack(_address(module.w), _address(packed), packed.numel())
    torch.cuda.synchronize()
    norm = (module.gamma, module.beta) if layer.affine else (None, None)
    tensors = (module.x, packed, module.bias, *norm, y, workspace)
    arrays = tapconv.Arrays(*map(_address, tensors), workspace_bytes=workspace.numel())
    kept = (plan, tensors)

    def run():
        arrays.stream = torch.cuda.current_stream().cuda_stream
        kept[0].execute(arrays)
        return y

    return run, plan.info


def ceilings(mode):
    measured, options = tapconv.Ceilings(), tapconv.PlanOptions(device=CUDA)
    library = tapconv.library()
    tapconv.require(
        library.tapconv_measure_ceilings(ctypes.byref(options), tapconv.MATHS.index(mode), ctypes.byref(measured))
    )
    return measured


def floor_us(layer, info, limit):
    """The least time that the card's measured rates leave, as `tapconv explain`: arithmetic, memory, or a launch."""
    on_tensor = limit.gflops > limit.fma_gflops and layer.group_channels >= TENSOR_CHANNELS
    arithmetic = info.flops / (1e9 * (limit.gflops if on_tensor else limit.fma_gflops))
    return 1e6 * max(arithmetic, info.bytes / (1e9 * limit.gbytes_per_s), limit.least_seconds)


# --------------------------------------------------------------------------------------------------------------- timing


class Timed:
    """A contestant: so many runs that a sample is long enough, eagerly or as one graph."""

    def __init__(self, run, graph):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            for _ in range(3):
                run()
            ended.record()
        torch.cuda.synchronize()
        once = max(began.elapsed_time(ended) / 3e3, 1e-6)
        self.executes = max(1, min(MOST_EXECUTES, round(SAMPLE_SECONDS / once)))
        self.times = []
        if graph:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                for _ in range(self.executes):
                    run()
            self.launch = self.graph.replay
        else:
            self.launch = lambda: [run() for _ in range(self.executes)]
        self.sample()
        self.times.clear()

    def sample(self):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        self.launch()
        ended.record()
        ended.synchronize()
        self.times.append(1e3 * began.elapsed_time(ended) / self.executes)

    @property
    def median(self):
        return statistics.median(self.times)


def error_of(run, layer, truth):
    y = run().float().reshape(layer.batch, layer.out_channels, layer.out_length).cpu().numpy()
    return layer_data.relative_error(y, truth)


def measure(layer, mode, limit, compiles):
    torch_cuda.set_mode(mode)
    data = layer_data.make(layer)
    if mode in ("f16", "bf16"):  # the truth is of what is stored
        kind = torch_cuda.STORAGE[mode]
        for name in ("x", "w", "bias", "gamma", "beta"):
            array = getattr(data, name)
            if array is not None:
                array[...] = torch.from_numpy(array).to(kind).float().numpy()
    truth = layer_data.samples(layer, data)
    forms = torch_cuda.forms(layer, data, mode, layer_data.EPS)
    ours, info = tapconv_run(layer, next(iter(forms.values()))[0], mode)
    runs = {("tapconv", "graph"): ours}
    for name, (module, searched) in forms.items():
        runs["torch", f"{name}, eager"] = runs["torch", f"{name}, graph"] = torch_cuda.run_of(module, searched)
    if compiles:
        runs["compiled", "graph"] = torch_cuda.compiled_run(layer, data, mode, layer_data.EPS)
    errors, timed, failures = {}, {}, {}
    for key, run in runs.items():
        try:
            errors[key] = error_of(run, layer, truth)
            if not errors[key] <= WRONG[mode]:
                raise RuntimeError(f"wrong result, relative L2 error {errors[key]:.1e}")
            timed[key] = Timed(run, graph=key[1].endswith("graph"))
        except Exception as failure:  # a form that cannot do a layer is a result, too
            failures[" ".join(key)] = str(failure).strip().splitlines()[0][:200]
    for _ in range(ROUNDS):
        for contestant in timed.values():
            contestant.sample()

    def best(who):
        found = [(contestant.median, key) for key, contestant in timed.items() if key[0] == who]
        return min(found, default=(None, (who, None)))

    (tapconv_us, _), (pytorch_us, form), (compiled_us, _) = best("tapconv"), best("torch"), best("compiled")
    row = {
        "name": layer.name,
        "mode": mode,
        "tapconv_us": tapconv_us,
        "pytorch_us": pytorch_us,
        "compiled_us": compiled_us,
        "floor_us": floor_us(layer, info, limit),
        "rel_l2": errors.get(("tapconv", "graph")),
        "pytorch_rel_l2": errors.get(form),
        "kernel": info.kernel.decode(),
        "pytorch_form": form[1],
        "pytorch_all_us": {key[1]: contestant.median for key, contestant in timed.items() if key[0] == "torch"},
    }
    return row | ({"failures": failures} if failures else {})


# ------------------------------------------------------------------------------------------------------------ compiling


def compile_some(work):
    """In a process of its own: compiles layers, so that the timing process finds them in the compiler's cache."""
    for layer, mode in work:
        try:
            with torch.no_grad():
                torch_cuda.compiled_run(layer, layer_data.make(layer), mode, layer_data.EPS)()
        except Exception as failure:
            why = str(failure).strip().splitlines()[:1]
            print(f"peers_cuda: {layer.name} in {mode} is not compiled: {why}", file=sys.stderr)


def compile_all(work, processes):
    shares = [work[i::processes] for i in range(processes)]
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=compile_some, args=(share,)) for share in shares if share]
    for process in running:
        process.start()
    for process in running:
        process.join()


# --------------------------------------------------------------------------------------------------------------- report


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def about():
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    return {
        "card": torch.cuda.get_device_name(),
        "driver": driver,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "tapconv": tapconv.library().tapconv_version().decode(),
        "commit": provenance.commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "rounds": ROUNDS,
    }


def kind_of(layer):
    if layer.norm_groups:
        return "GroupNorm"
    return "depthwise" if layer.is_depthwise else "dense"


def line(row):
    times = (row[key] for key in ("tapconv_us", "pytorch_us", "compiled_us", "floor_us"))
    shown = "".join(f"{us:9.1f}" if us else f"{'-':>9}" for us in times)
    return f"{row['name']:<26}{row['mode']:<5}{shown}  {row['kernel']}"


def summary(layers, rows):
    """Geometric means of PyTorch's time over ours, by kind of layer and mode."""
    kinds = {layer.name: kind_of(layer) for layer in layers}
    for kind in sorted(set(kinds.values())):
        for mode in dict.fromkeys(row["mode"] for row in rows):
            some = [r for r in rows if kinds[r["name"]] == kind and r["mode"] == mode and r["tapconv_us"]]
            for peer in ("pytorch_us", "compiled_us"):
                ratios = [r[peer] / r["tapconv_us"] for r in some if r[peer]]
                if ratios:
                    ahead = f"{geometric_mean(ratios):6.2f} times as fast, least {min(ratios):.2f}"
                    print(f"{kind:<10}{mode:<5}{peer:<12}{ahead}, {len(ratios)} layers")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", metavar="NAMES", help="comma-separated; default: all of layers.suite")
    parser.add_argument("--modes", default="f32,tf32,bf16", help="comma-separated; default: f32,tf32,bf16")
    parser.add_argument(
        "--compile-processes", type=int, default=max(1, (os.cpu_count() or 2) // 2),
        help="that compile for PyTorch beforehand; 0: nothing is compiled",
    )  # fmt: skip
    parser.add_argument("--output", type=pathlib.Path, help="default: bench/results/cuda-CARD.jsonl")
    return parser.parse_args()


def main():
    arguments = parse()
    if not torch.cuda.is_available():
        sys.exit("peers_cuda: PyTorch finds no GPU")
    layers, modes = suite.chosen(arguments.layers), arguments.modes.split(",")
    if unknown := [mode for mode in modes if mode not in torch_cuda.STORAGE]:
        sys.exit(f"peers_cuda: no mode {unknown[0]!r}; there are {', '.join(torch_cuda.STORAGE)}")
    began = time.monotonic()
    if arguments.compile_processes:
        compile_all([(layer, mode) for layer in layers for mode in modes], arguments.compile_processes)
        print(f"[{time.monotonic() - began:.0f} s] compiled", flush=True)
    first, rows = about(), []
    slug = re.sub(r"[^a-z0-9]+", "-", first["card"].lower().removeprefix("nvidia")).strip("-")
    output = arguments.output or ROOT / "bench" / "results" / f"cuda-{slug}.jsonl"
    output.parent.mkdir(parents=True, exist_ok=True)
    limits = {mode: ceilings(mode) for mode in modes}
    with output.open("w") as file, torch.no_grad():
        file.write(json.dumps(first) + "\n")
        for layer in layers:
            for mode in modes:
                row = measure(layer, mode, limits[mode], arguments.compile_processes > 0)
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(f"[{time.monotonic() - began:4.0f} s] {line(row)}", flush=True)
                torch.cuda.empty_cache()
    summary(layers, rows)
    print(f"written: {output}")
    return int(any(row["tapconv_us"] is None for row in rows))


if __name__ == "__main__":
    sys.exit(main())
