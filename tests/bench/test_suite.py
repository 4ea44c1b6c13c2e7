"""bench/layers.suite: every line is what the command would write itself, and both readers see the same layer."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import suite
import tapconv_ctypes as tapconv

ROOT = Path(__file__).resolve().parents[2]
LAYERS = suite.read()
COMMAND = os.environ.get("TAPCONV_COMMAND", str(ROOT / "build" / "tapconv"))


@pytest.fixture(scope="module")
def explained():
    words = [COMMAND, "explain", "--suite", str(suite.LAYERS), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_suite_is_the_whole_list():
    names = [layer.name for layer in LAYERS]
    assert len(names) == len(set(names)) == 38
    assert {"causal-256", "convgn-128-256"} < set(names)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_layer_says_where_it_comes_from(layer):
    assert layer.origin and not layer.origin.startswith("--")


def test_the_command_reads_the_same_layers_in_their_canonical_text(explained):
    assert [row["name"] for row in explained] == [layer.name for layer in LAYERS]
    for row, layer in zip(explained, LAYERS, strict=True):
        assert row["problem"] == layer.options
        assert row["out_shape"] == [layer.batch, layer.out_channels, layer.out_length]
        assert row["gflop"] == pytest.approx(1e-9 * layer.flops, rel=1e-12)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_layer_is_legal_and_as_long_as_the_library_says(layer):
    left, right = layer.padding
    described = tapconv.problem(
        layer.batch, layer.in_channels, layer.out_channels, layer.length, layer.kernel, stride=layer.stride,
        dilation=layer.dilation, groups=layer.groups, padding_left=left, padding_right=right,
        norm_groups=layer.norm_groups, norm_affine=int(layer.affine), has_bias=int(layer.bias),
        activation=layer.activation,
    )  # fmt: skip
    assert tapconv.out_length(described) == layer.out_length
