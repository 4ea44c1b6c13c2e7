"""`tapconv bench`, `explain` and `info`."""

import time

import pytest
from calling import call, call_json

SIZES = ["--shape", "2,6,40", "--out-channels", 8, "--kernel", 3]
FAST = ["--runs", 3]
KEYS = [
    "name",
    "problem",
    "kernel",
    "device",
    "math",
    "threads",
    "median_ms",
    "min_ms",
    "runs",
    "gflops",
    "gbytes_per_s",
    "percent_of_ceiling",
    "ceiling",
    "rel_l2",
]


def test_bench_json():
    (answer,) = call_json("bench", *SIZES, "--causal", *FAST)
    assert list(answer)[: len(KEYS)] == KEYS
    assert answer["problem"] == answer["name"] == "--shape 2,6,40 --out-channels 8 --kernel 3 --causal"
    assert answer["device"] == "cpu" and answer["math"] == "f32" and answer["runs"] == 3 and answer["threads"] >= 1
    assert 0 < answer["min_ms"] <= answer["median_ms"] and answer["ceiling"] in ("fma", "copy")
    assert answer["gflops"] == pytest.approx(2 * 2 * 8 * 40 * 6 * 3 / answer["median_ms"] / 1e6)
    assert answer["gbytes_per_s"] == pytest.approx(
        4 * (2 * 6 * 40 + 8 * 6 * 3 + 2 * 8 * 40) / answer["median_ms"] / 1e6
    )
    floor = {
        "fma": answer["gflops"] / answer["ceiling_gflops"],
        "copy": answer["gbytes_per_s"] / answer["ceiling_gbytes_per_s"],
    }
    assert answer["percent_of_ceiling"] == pytest.approx(100 * max(floor.values()))
    assert floor[answer["ceiling"]] == max(floor.values())
    assert answer["rel_l2"] < 1e-6


@pytest.mark.parametrize("math, bound", [("tf32", 1e-6), ("f16", 4e-4), ("bf16", 3e-3), ("f64", 1e-14)])
def test_bench_modes(math, bound):
    (answer,) = call_json("bench", *SIZES, *FAST, "--math", math)
    assert answer["math"] == math and 0 <= answer["rel_l2"] < bound and answer["problem"].endswith(f"--math {math}")


def test_bench_f16_stores_in_that_type():
    rates = {math: call_json("bench", *SIZES, *FAST, "--math", math)[0] for math in ("f32", "f16")}
    bytes_read = {math: answer["gbytes_per_s"] * answer["median_ms"] for math, answer in rates.items()}
    assert bytes_read["f16"] == pytest.approx(bytes_read["f32"] / 2)


def test_bench_table():
    out = call("bench", *SIZES, *FAST).out
    for word in ("ceilings measured now", "median ms", "min ms", "GFLOP/s", "GB/s", "% ceiling", "rel L2"):
        assert word in out
    header, row = out.splitlines()[-2:]
    assert len(header) == len(row), "columns are aligned"


def test_bench_plain():
    (answer,) = call_json("bench", *SIZES, *FAST, "--plain")
    assert answer["plain_ms"] > 0 and answer["times_faster"] == pytest.approx(answer["plain_ms"] / answer["median_ms"])
    assert "x plain" in call("bench", *SIZES, *FAST, "--plain").out


def test_bench_files(layer):
    (answer,) = call_json("bench", "-x", layer["x_file"], "-w", layer["w_file"], *FAST)
    assert answer["problem"] == f"-x {layer['x_file']} -w {layer['w_file']}" and answer["rel_l2"] < 1e-6


def test_bench_of_nothing():
    (answer,) = call_json("bench", "--shape", "0,6,40", "--out-channels", 8, "--kernel", 3, *FAST)
    assert answer["gflops"] == 0 and answer["rel_l2"] == 0


def test_bench_with_defaults_takes_about_three_seconds():
    started = time.monotonic()
    (answer,) = call_json("bench", "--shape", "1,64,8192", "--out-channels", 64, "--kernel", 3)
    assert answer["runs"] >= 3 and time.monotonic() - started < 6


def test_bench_min_time():
    (short,) = call_json("bench", *SIZES, "--min-time", 0)
    assert short["runs"] == 5


def test_explain_json():
    (answer,) = call_json("explain", *SIZES, "--stride", 2)
    assert answer["out_shape"] == [2, 8, 19] and answer["kernel"] and answer["reason"]
    assert answer["gflop"] == pytest.approx(2e-9 * 2 * 8 * 19 * 6 * 3)
    assert answer["mbytes"] == pytest.approx(4e-6 * (2 * 6 * 40 + 8 * 6 * 3 + 2 * 8 * 19))
    assert answer["floor_ms"] > 0 and answer["workspace_bytes"] >= 0


def test_explain_table():
    out = call("explain", *SIZES, "--layout", "nlc").out
    for word in ("(2,38,8)", "kernel", "GFLOP", "MB", "floor", "workspace"):
        assert word in out


def test_explain_reads_sizes_from_files(layer):
    (answer,) = call_json("explain", "-x", layer["x_file"], "-w", layer["w_file"], "-b", layer["b_file"], "--causal")
    assert answer["out_shape"] == [2, 8, 40]


def test_explain_names_the_forced_kernel():
    (answer,) = call_json("explain", *SIZES, "--force-kernel", "dense-panel", "--isa", "scalar")
    assert answer["kernel"] == "dense-panel/scalar"


def test_info():
    (answer,) = call_json("info")
    assert (
        answer["version"].count(".") == 2 and "scalar" in answer["cpu_features"] and "dense-panel" in answer["kernels"]
    )
    assert (
        isinstance(answer["openmp"], bool)
        and isinstance(answer["libsndfile"], bool)
        and isinstance(answer["gpus"], list)
    )
    out = call("info").out
    for word in (
        answer["version"],
        "compiler",
        "OpenMP",
        "libsndfile",
        "CPU features",
        "GPUs",
        "kernels",
        *answer["kernels"],
    ):
        assert word in out
