"""tapconv beside PyTorch, ONNX Runtime and OpenVINO on the layers of layers.suite: one CPU, one run, turn by turn.

    make bench                                          all layers, 1 and 2 threads; 15 to 30 minutes
    .venv/bin/python bench/peers_cpu.py --layers causal-256,mamba2-dw --threads 1
    .venv/bin/python bench/peers_cpu.py --render bench/results/cpu-....json

Writes a JSON file, a table and a plot into bench/results. --render puts the results of such a file between the marks
of docs/benchmarks.md and README.md. docs/benchmarks.md says how it is timed.
"""

import argparse
import datetime
import multiprocessing
import os
import pathlib
import platform
import re
import signal
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]

import data as layer_data  # noqa: E402
import provenance  # noqa: E402
import report  # noqa: E402
import suite  # noqa: E402
import worker  # noqa: E402

ENGINES = ("tapconv", "torch", "onnxruntime", "openvino")
ROUNDS = 5
SLOW_SECONDS, ROUNDS_SLOW = 0.3, 3  # a layer with a run longer than this gets fewer
TIMED_SHARE = 0.35  # of the budget; the rest goes to choosing formulations and to runs longer than their turn
CEILINGS_EVERY = 5  # layers
LATENCY_LAYER, LATENCY_RUNS = "nam-wavenet", 10_000
# The same for every engine. Large arrays stay with the allocator and in huge pages: an engine that returns a new array
# each time would otherwise be timed on the kernel's page faults.
ENVIRONMENT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 35),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


class EngineProcess:
    """An engine's worker, which runs only while it is asked something: some thread pools spin on after their work."""

    def __init__(self, name):
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=worker.serve, args=(theirs, name), daemon=True)
        self.process.start()
        theirs.close()
        self.versions = self._answer()

    def _answer(self):
        try:
            good, answer = self.pipe.recv()
        except EOFError:
            self.process.join()
            good, answer = False, f"its process ended with status {self.process.exitcode}"
        if not good:
            raise RuntimeError(f"{self.name}: {answer}")
        os.kill(self.process.pid, signal.SIGSTOP)
        return answer

    def call(self, method, *arguments):
        os.kill(self.process.pid, signal.SIGCONT)
        self.pipe.send((method, arguments))
        return self._answer()

    def close(self):
        self.process.kill()
        self.process.join()


def cpu_model():
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = {key: re.search(rf"^{key}\s*: (.*)$", text, re.M) for key in ("model name", "cpu family", "model")}
    found = {key: match.group(1).strip() for key, match in found.items() if match}
    return found.get("model name", platform.processor() or platform.machine()), found


def summarise(times):
    return {"median_ms": 1e3 * statistics.median(times), "min_ms": 1e3 * min(times), "runs": len(times)}


def time_layer(engines, layer, truth, threads, turn_seconds):
    """One layer with one thread count: every engine's formulations tried, then turns in rotation."""
    tried = {name: engine.call("prepare", layer, threads, truth) for name, engine in engines.items()}
    slots = []  # (engine, slot), in the order of a rotation
    for name in engines:
        quick = {}
        for t in tried[name]:
            if "quick_ms" in t:
                quick[t["layout"]] = min(t["quick_ms"], quick.get(t["layout"], float("inf")))
        slots += [(name, "ncl")] if "ncl" in quick else []
        if "nlc" in quick and quick["nlc"] < quick.get("ncl", float("inf")):
            slots.append((name, "nlc"))
    if layer.norm_groups:
        engines["tapconv"].call("prepare_alone", threads)
        slots.append(("tapconv", "alone"))
    times = {slot: [] for slot in slots}
    slow = max(t["quick_ms"] for some in tried.values() for t in some if "quick_ms" in t) > 1e3 * SLOW_SECONDS
    for _ in range(ROUNDS_SLOW if slow else ROUNDS):
        for name, slot in slots:
            times[name, slot] += engines[name].call("turn", slot, turn_seconds)
    result = {"layer": layer.name, "problem": layer.options, "origin": layer.origin, "threads": threads}
    result |= {"flops": layer.flops, "bytes": layer_bytes(layer), "tried": tried, "timed": []}
    for (name, slot), seconds in times.items():
        row = {"engine": name, "slot": slot} | summarise(seconds)
        if slot != "alone":
            candidates = (t for t in tried[name] if t["layout"] == slot and "quick_ms" in t)
            chosen = min(candidates, key=lambda t: t["quick_ms"])
            row |= {"formulation": chosen["name"], "rel_l2": chosen["rel_l2"], "about": chosen["about"]}
        result["timed"].append(row)
    if layer.name == LATENCY_LAYER and ("tapconv", "ncl") in times:
        result["latency"] = latency(engines["tapconv"], threads)
    for engine in engines.values():
        engine.call("release")
    return result


def layer_bytes(layer):
    """x, w and parameters read once, y written once, in float32."""
    x = layer.batch * layer.in_channels * layer.length
    y = layer.batch * layer.out_channels * layer.out_length
    w = layer.out_channels * layer.group_channels * layer.kernel
    parameters = layer.out_channels * (int(layer.bias) + 2 * int(layer.affine))
    return 4 * (x + y + w + parameters)


def latency(engine, threads):
    seconds = sorted(engine.call("repeat", "ncl", LATENCY_RUNS))
    median, high = statistics.median(seconds), seconds[int(0.999 * len(seconds))]
    return {
        "threads": threads,
        "runs": len(seconds),
        "median_us": 1e6 * median,
        "p999_us": 1e6 * high,
        "p999_over_median": high / median,
    }


def progress(row, began):
    print(f"[{time.monotonic() - began:.0f} s] {row['layer']}, {row['threads']} thread{'s' * (row['threads'] > 1)}")
    for timed in row["timed"]:
        if timed["slot"] != "alone":
            name = f"{timed['about']} {timed['formulation']}" if timed["about"] else timed["formulation"]
            print(f"    {timed['engine']:<13}{name:<44}{timed['median_ms']:>10.3f} ms   rel L2 {timed['rel_l2']:.1e}")
    for name, tried in row["tried"].items():
        for failed in (t for t in tried if "failure" in t):
            print(f"    {name:<13}{failed['name']:<44}{failed['failure']}")
    print(f"    {report.ratio(row):.2f} times as fast as the fastest peer", flush=True)


def measure_layers(engines, layers, thread_counts, budget):
    """(ceilings, results), the ceilings measured before, between and after the layers."""
    began = time.monotonic()
    turn_seconds = TIMED_SHARE * budget / (len(layers) * len(thread_counts) * ROUNDS * (len(ENGINES) + 1))
    ceilings, results = [], []

    def measure_ceilings(done):
        for threads in thread_counts:
            ceilings.append(engines["tapconv"].call("ceilings", threads) | {"after_layers": done})

    for index, layer in enumerate(layers):
        if index % CEILINGS_EVERY == 0:
            measure_ceilings(index)
        truth = layer_data.samples(layer, layer_data.make(layer))
        for threads in thread_counts:
            results.append(time_layer(engines, layer, truth, threads, turn_seconds))
            progress(results[-1], began)
    measure_ceilings(len(layers))
    return ceilings, results


def measure(layers, thread_counts, budget):
    began = time.monotonic()
    engines, versions = {}, {"python": platform.python_version()}
    try:
        for name in ENGINES:
            engines[name] = EngineProcess(name)
            versions |= engines[name].versions
        ceilings, results = measure_layers(engines, layers, thread_counts, budget)
    finally:
        for engine in engines.values():
            engine.close()
    model, details = cpu_model()
    measured = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": provenance.commit(),
        "cpu": model,
        "cpu_details": details,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": versions,
        "environment": ENVIRONMENT,
        "rounds": [ROUNDS, ROUNDS_SLOW],
        "seconds": time.monotonic() - began,
        "ceilings": ceilings,
        "results": results,
    }
    report.derive(measured)
    return measured


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", metavar="NAMES", help="comma-separated; default: all of layers.suite")
    parser.add_argument("--threads", default="1,2", help="comma-separated thread counts; default: 1,2")
    parser.add_argument("--budget-seconds", type=float, default=900, help="roughly how long to take; default: 900")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench" / "results", help="folder of the results")
    parser.add_argument("--render", type=pathlib.Path, metavar="FILE", help="only put a result file into the documents")
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.render:
        report.render(arguments.render, [ROOT / "docs" / "benchmarks.md", ROOT / "README.md"])
        return 0
    layers = suite.chosen(arguments.layers)
    os.environ.update(ENVIRONMENT)
    measured = measure(layers, [int(count) for count in arguments.threads.split(",")], arguments.budget_seconds)
    slug = re.sub(r"[^a-z0-9]+", "-", measured["cpu"].lower()).strip("-")
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"cpu-{slug}-{measured['date'][:10]}.json"
    path.write_text(report.to_json(measured))
    path.with_suffix(".md").write_text(report.page(measured, path.with_suffix(".png").name))
    report.plot(measured, path.with_suffix(".png"))
    print(f"\n{report.summary(measured)}\nwritten: {path}, .md and .png")
    return int(any(report.ours(row) is None for row in measured["results"]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as failure:
        sys.exit(f"peers_cpu: {failure}")
