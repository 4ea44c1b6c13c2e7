"""Turns a result file of peers_cpu.py into a summary against the targets, tables and a plot."""

import json
import math
import os
import re
import statistics

import suite

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
TITLES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}

# The targets, and which layers each is for.
FMA_TARGET, COPY_TARGET, RATIO_TARGET, FUSED_TARGET = 85, 80, 2, 1.10


def is_bound_by_fma(layer):
    """Dense with enough work per output and enough outputs."""
    return not layer.is_depthwise and layer.group_channels * layer.kernel >= 64 and layer.length >= 256


def is_bound_by_copying(layer):
    return (layer.is_depthwise and layer.kernel <= 16) or layer.is_first


def is_fused_with_enough_work(layer):
    return layer.norm_groups > 0 and layer.group_channels * layer.kernel >= 256


# ------------------------------------------------------------------------------------------------------ reading results


def _timed(row, engine, slot):
    return next((t for t in row["timed"] if t["engine"] == engine and t["slot"] == slot), None)


def ours(row):
    return _timed(row, "tapconv", "ncl")


def alone(row):
    return _timed(row, "tapconv", "alone")


def is_depthwise(row):
    return bool(re.search(r"--groups \d+", row["problem"])) and _layer(row).is_depthwise


def _layer(row):
    return suite.parse(row["layer"], row["origin"], row["problem"])


def peer(row, engine, any_layout=False):
    """The engine's time that counts: in the layout (N, C, T), or in its best for depthwise layers."""
    slots = ("ncl", "nlc") if any_layout or is_depthwise(row) else ("ncl",)
    return min((t for s in slots if (t := _timed(row, engine, s))), key=lambda t: t["median_ms"], default=None)


def fastest_peer(row, any_layout=False):
    found = [t for engine in TITLES if (t := peer(row, engine, any_layout))]
    return min(found, key=lambda t: t["median_ms"], default=None)


def ratio(row, any_layout=False):
    mine, other = ours(row), fastest_peer(row, any_layout)
    return other["median_ms"] / mine["median_ms"] if mine and other else math.nan


def ceiling(measured, threads):
    """(GFLOP/s, GB/s): the highest measured with that many threads, since others can only make them look lower."""
    return tuple(max(values) for values in _ceilings(measured, threads))


def _ceilings(measured, threads):
    found = [c for c in measured["ceilings"] if c["threads"] == threads]
    return [[c[key] for c in found] for key in ("gflops", "gbytes_per_s")]


def percent(measured, row):
    """(% of FMA peak, % of copy bandwidth) of tapconv's median."""
    gflops, gbytes = ceiling(measured, row["threads"])
    seconds = 1e-3 * ours(row)["median_ms"]
    return 1e-7 * row["flops"] / seconds / gflops, 1e-7 * row["bytes"] / seconds / gbytes


def derive(measured):
    """Adds to every result what follows from it: shares of the ceilings and ratios to the fastest peer."""
    for row in measured["results"]:
        if not ours(row):
            continue
        of_fma, of_copy = percent(measured, row)
        row |= {"percent_of_fma": of_fma, "percent_of_copy": of_copy, "percent_of_ceiling": max(of_fma, of_copy)}
        row["ceiling"] = "fma" if of_fma >= of_copy else "copy"
        if fastest_peer(row):
            row |= {"fastest_peer": fastest_peer(row)["engine"], "ratio": ratio(row)}
            row["ratio_any_layout"] = ratio(row, any_layout=True)
        if alone(row):
            row["over_convolution_alone"] = ours(row)["median_ms"] / alone(row)["median_ms"]


def _rounded(value):
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def to_json(measured):
    """A line for each entry, and in the lists for each of theirs; six digits."""
    entries = []
    for key, value in _rounded(measured).items():
        text = json.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        entries.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def thread_counts(measured):
    return sorted({row["threads"] for row in measured["results"]})


def rows_of(measured, threads):
    return [row for row in measured["results"] if row["threads"] == threads and ours(row)]


# -------------------------------------------------------------------------------------------------------------- summary


def _share(values, target, what):
    """One line: how many of {layer: percentage} reach the target, and which fall shortest."""
    if not values:
        return f"- {what}: no such layer was timed"
    reached = sum(value >= target for value in values.values())
    low = sorted(values, key=values.get)[:3]
    shortest = ", ".join(f"{name} {values[name]:.0f}" for name in low)
    return (
        f"- {what} (target {target}): {reached} of {len(values)} layers reach it; "
        f"median {statistics.median(values.values()):.0f}; lowest {shortest}"
    )


def _targets(measured, threads):
    rows = rows_of(measured, threads)
    gflops, gbytes = _ceilings(measured, threads)
    fma, copy, fused = {}, {}, {}
    for row in rows:
        layer, (of_fma, of_copy) = _layer(row), percent(measured, row)
        if is_bound_by_fma(layer):
            fma[layer.name] = of_fma
        if is_bound_by_copying(layer):
            copy[layer.name] = of_copy
        if is_fused_with_enough_work(layer):
            fused[layer.name] = ours(row)["median_ms"] / alone(row)["median_ms"]
    compared = [row for row in rows if fastest_peer(row)]
    ratios = {row["layer"]: ratio(row) for row in compared}
    slower = [f"{name} {value:.2f}" for name, value in ratios.items() if not value >= 1]
    lines = [
        f"{threads} thread{'s' * (threads > 1)}: FMA peak {max(gflops):.0f} GFLOP/s, copying {max(gbytes):.1f} GB/s "
        f"(the highest of {len(gflops)} measurements; lowest {min(gflops):.0f} and {min(gbytes):.1f})",
        "",
        f"- the fastest peer's time over tapconv's (target {RATIO_TARGET}): geometric mean "
        f"{_geometric_mean(list(ratios.values())):.2f} over {len(ratios)} layers; "
        + (f"slower than the fastest peer: {', '.join(slower)}" if slower else "no layer is slower")
        + f"; with peers free to take channels-last arrays everywhere "
        f"{_geometric_mean([ratio(row, True) for row in compared]):.2f}",
        _share(fma, FMA_TARGET, "% of FMA peak, dense layers with C_in/groups*K >= 64 and T >= 256"),
        _share(copy, COPY_TARGET, "% of copy bandwidth, depthwise layers with K <= 16 and first layers"),
    ]
    if fused:
        high = sorted(fused, key=fused.get, reverse=True)
        within = sum(value <= FUSED_TARGET for value in fused.values())
        lines.append(
            f"- convolution + GroupNorm + activation over the convolution alone, C_in/groups*K >= 256 (target "
            f"{FUSED_TARGET:.2f}): {within} of {len(fused)} layers are within it; median "
            f"{statistics.median(fused.values()):.2f}; highest {', '.join(f'{n} {fused[n]:.2f}' for n in high[:3])}"
        )
    for row in rows:
        if "latency" in row:
            found = row["latency"]
            lines.append(
                f"- one 64-sample block of {row['layer']} (target 5 us, 99.9th percentile within 2 medians): median "
                f"{found['median_us']:.1f} us, 99.9th percentile {found['p999_over_median']:.2f} medians, "
                f"{found['runs']} executes, call from Python included"
            )
    return "\n".join(lines)


def summary(measured):
    return "\n\n".join(_targets(measured, threads) for threads in thread_counts(measured))


# --------------------------------------------------------------------------------------------------------------- tables


def _ms(value):
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _peer_cell(row, engine):
    found = peer(row, engine)
    return f"{_ms(found['median_ms'])}{' †' * (found['slot'] == 'nlc')}" if found else "failed"


def _table(measured, threads):
    columns = ["layer", "kernel", "ms", "GFLOP/s", "% FMA", "% copy", *[f"{t}, ms" for t in TITLES.values()]]
    columns += ["ratio", "any layout", "rel L2", "over conv. alone"]
    lines = ["| " + " | ".join(columns) + " |", "|---|---|" + "---:|" * (len(columns) - 2)]
    for row in rows_of(measured, threads):
        mine, (of_fma, of_copy) = ours(row), percent(measured, row)
        cells = [row["layer"], mine["about"], _ms(mine["median_ms"])]
        cells += [f"{1e-6 * row['flops'] / mine['median_ms']:.1f}", f"{of_fma:.0f}", f"{of_copy:.0f}"]
        cells += [_peer_cell(row, engine) for engine in TITLES]
        cells += [f"**{ratio(row):.2f}**", f"{ratio(row, True):.2f}", f"{mine['rel_l2']:.1e}"]
        cells.append(f"{mine['median_ms'] / alone(row)['median_ms']:.2f}" if alone(row) else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


NOTES = (
    "Medians. ratio: the fastest peer's time over tapconv's; any layout: the same if peers may take and give "
    "channels-last arrays. % FMA and % copy: of the peak and the bandwidth measured in "
    "the same run. rel L2: tapconv's error against float64, on samples. over conv. alone: the layer with GroupNorm "
    "and activation over its convolution alone. †: the peer ran on channels-last arrays, its fastest way (depthwise "
    "layers only)."
)


def machine(measured):
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    where = f"{measured['cpu']}, {measured['cores']} cores"
    return f"{where}; commit {measured['commit']}, {measured['date'][:10]}; {versions}."


def tables(measured):
    parts = [f"### {n} thread{'s' * (n > 1)}\n\n{_table(measured, n)}" for n in thread_counts(measured)]
    return "\n\n".join([*parts, NOTES])


def page(measured, image):
    return f"# Layers on one CPU\n\n{head(measured, image)}\n\n{tables(measured)}\n"


def head(measured, image):
    return f"{machine(measured)}\n\n{summary(measured)}\n\n![The peers' times over tapconv's]({image})"


# ----------------------------------------------------------------------------------------------------------------- plot


def plot(measured, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = thread_counts(measured)
    figure, axes = plt.subplots(1, len(counts), figsize=(6.2 * len(counts), 10), sharey=True, squeeze=False)
    for axis, threads in zip(axes[0], counts, strict=True):
        rows = rows_of(measured, threads)[::-1]
        for (engine, title), marker in zip(TITLES.items(), "os^", strict=True):
            found = [(peer(row, engine), ours(row), i) for i, row in enumerate(rows)]
            found = [(theirs["median_ms"] / mine["median_ms"], i) for theirs, mine, i in found if theirs]
            if found:
                axis.plot(*zip(*found, strict=True), marker, label=title, markersize=5, alpha=0.8)
        axis.axvline(1, color="black", linewidth=1)
        axis.axvline(RATIO_TARGET, color="gray", linewidth=1, linestyle=":")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_yticks(range(len(rows)), [row["layer"] for row in rows], fontsize=8)
        axis.set_ylim(-0.7, len(rows) - 0.3)
        axis.grid(alpha=0.3)
        axis.set_xlabel("peer's time / tapconv's time")
        axis.set_title(f"{threads} thread{'s' * (threads > 1)}: tapconv is faster to the right of 1", fontsize=10)
    axes[0][0].legend(loc="lower right")
    figure.suptitle(measured["cpu"], fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


# --------------------------------------------------------------------------------------------------------------- render


def render(result, documents):
    """Replaces what stands between the marks: the whole in docs, the summary elsewhere."""
    measured = json.loads(result.read_text())
    for document in documents:
        text = document.read_text() if document.exists() else ""
        if BEGIN not in text or END not in text:
            print(f"{document}: no {BEGIN} ... {END} to fill")
            continue
        image = os.path.relpath(result.with_suffix(".png"), document.parent)
        block = head(measured, image)
        if document.parent.name == "docs":
            block += f"\n\n{tables(measured)}"
        before, after = text.split(BEGIN, 1)[0], text.split(END, 1)[1]
        document.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}")
        print(f"{document}: filled")
