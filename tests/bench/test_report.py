"""What the report says of a result file."""

import json

import pytest
import report

PROBLEM = "--shape 2,64,1024 --out-channels 64 --kernel 4 --causal"
DEPTHWISE = "--shape 2,64,1024 --out-channels 64 --kernel 4 --groups 64 --causal"
NORMED = "--shape 2,64,1024 --out-channels 64 --kernel 4 --causal --norm-groups 8 --affine"


def timed(engine, milliseconds, slot="ncl"):
    row = {"engine": engine, "slot": slot, "median_ms": milliseconds, "min_ms": milliseconds, "runs": 5}
    return row | {"formulation": "1-D", "about": "dense/avx512", "rel_l2": 1e-7}


def row(name, problem, *times):
    result = {"layer": name, "origin": "", "problem": problem, "threads": 1, "tried": {}, "timed": list(times)}
    return result | {"flops": 64e6, "bytes": 9e6}


@pytest.fixture
def measured():
    results = [
        row("dense", PROBLEM, timed("tapconv", 1), timed("torch", 4), timed("torch", 1.5, "nlc"), timed("openvino", 3)),
        row("depthwise", DEPTHWISE, timed("tapconv", 1), timed("torch", 4), timed("torch", 0.5, "nlc")),
        row("normed", NORMED, timed("tapconv", 1), timed("openvino", 2), timed("tapconv", 0.8, "alone")),
    ]
    ceilings = [{"threads": 1, "gflops": g, "gbytes_per_s": 10} for g in (60, 80, 70)]
    head = {"date": "2026-01-31T00:00:00+00:00", "commit": "0123", "cpu": "A CPU", "cores": 2, "versions": {"a": "1"}}
    return head | {"ceilings": ceilings, "results": results}


def test_a_peer_may_choose_its_layout_only_for_depthwise_layers(measured):
    dense, depthwise, _ = measured["results"]
    assert report.ratio(dense) == 3
    assert report.ratio(dense, any_layout=True) == 1.5
    assert report.ratio(depthwise) == 0.5


def test_shares_are_of_the_highest_ceilings(measured):
    assert report.percent(measured, measured["results"][0]) == pytest.approx((80, 90))


def test_the_summary_names_what_misses_a_target(measured):
    summary = report.summary(measured)
    assert "geometric mean 1.44 over 3 layers; slower than the fastest peer: depthwise 0.50" in summary
    assert "(target 85): 0 of 2 layers" in summary
    assert "(target 80): 1 of 1 layers" in summary
    assert "(target 1.10): 0 of 1 layers are within it; median 1.25; highest normed 1.25" in summary


def test_derived_figures_stand_in_the_results(measured):
    report.derive(measured)
    normed = measured["results"][2]
    assert normed["ratio"] == 2 and normed["fastest_peer"] == "openvino"
    assert normed["over_convolution_alone"] == pytest.approx(1.25)
    assert normed["percent_of_ceiling"] == pytest.approx(90) and normed["ceiling"] == "copy"


def test_the_file_holds_the_results(measured):
    assert json.loads(report.to_json(measured)) == measured


def test_rendering_replaces_only_what_stands_between_the_marks(measured, tmp_path):
    (tmp_path / "docs").mkdir()
    result, readme, page = tmp_path / "cpu.json", tmp_path / "README.md", tmp_path / "docs" / "benchmarks.md"
    result.write_text(report.to_json(measured))
    for document in (readme, page):
        document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.render(result, [readme, page])
    once = [document.read_text() for document in (readme, page)]
    report.render(result, [readme, page])
    assert once == [document.read_text() for document in (readme, page)]
    for text in once:
        assert text.startswith(f"before\n{report.BEGIN}\nA CPU, 2 cores") and text.endswith(f"{report.END}\nafter\n")
        assert "old" not in text
    assert "(cpu.png)" in once[0] and "| dense |" not in once[0]
    assert "(../cpu.png)" in once[1] and "| dense |" in once[1]
