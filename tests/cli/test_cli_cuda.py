"""--device cuda without a card: refusals, and, where the build has the engine, cards that a table describes."""

from pathlib import Path

import pytest
from calling import COMMAND, call, call_json

SIZES = ["--shape", "2,64,1000", "--out-channels", 64, "--kernel", 3]
needs_engine = pytest.mark.skipif(
    not (Path(COMMAND).parent / "libtapconv_cuda.so").exists(), reason="this build has no CUDA engine"
)


@needs_engine
@pytest.mark.parametrize("math", ["f32", "tf32", "f16", "bf16"])
def test_explain_on_a_described_card(math):
    words = [*SIZES, "--device", "cuda:h200", "--math", math]
    text = call("explain", *words).out
    for label in ("problem", "output", "kernel", "device", "tile", "occupancy", "work", "floor", "workspace"):
        assert f"\n{label}" in "\n" + text
    assert "NVIDIA H200" in text and "as known of the card" in text and "--device cuda:h200" in text
    (answer,) = call_json("explain", *words)
    assert answer["device"] == "NVIDIA H200" and answer["tile"] and answer["blocks"] >= 1
    assert answer["kernel"].endswith("/sm_90") and answer["threads"] == 0
    assert answer["floor_ms"] >= 2e-3 and answer["ceiling"] in ("launch", "tensor", "fma", "copy")
    assert call_json("explain", *answer["problem"].split())[0] == answer


@needs_engine
def test_floors_of_a_described_card():
    def floor(*words):
        (answer,) = call_json("explain", *words, "--device", "cuda:h200")
        return answer["ceiling"], answer["floor_ms"]

    causal = ["--shape", "32,256,8192", "--out-channels", 256, "--kernel", 4, "--causal"]
    assert floor(*causal) == ("tensor", pytest.approx(137.438953472 / (643 / 3), rel=1e-9))
    depthwise = ["--shape", "8,2048,4096", "--out-channels", 2048, "--groups", 2048, "--kernel", 4, "--causal"]
    assert floor(*depthwise)[0] == "copy"
    assert floor("--shape", "1,8,16", "--out-channels", 8, "--kernel", 1) == ("launch", pytest.approx(2e-3))
    assert floor(*depthwise[:-2], 128, "--causal")[0] == "fma"


@needs_engine
def test_suite_on_a_described_card(tmp_path):
    suite = tmp_path / "layers.suite"
    lines = ["one: --shape 1,8,16 --out-channels 8 --kernel 1", "two: --shape 4,3,99 --out-channels 6 --kernel 5"]
    suite.write_text("\n".join(lines))
    answers = call_json("explain", "--suite", suite, "--device", "cuda:a100")
    assert [answer["name"] for answer in answers] == ["one", "two"]
    assert all(answer["kernel"].endswith("/sm_80") for answer in answers)


@needs_engine
def test_unknown_card():
    failed = call("explain", *SIZES, "--device", "cuda:h999", status=2)
    assert "h999" in failed.err and "h200" in failed.err


@needs_engine
def test_forced_family():
    assert "general/sm_90" in call("explain", *SIZES, "--device", "cuda:h200", "--force-kernel", "general").out
    of_the_cpu = call("explain", *SIZES, "--device", "cuda:h200", "--force-kernel", "dense-panel", status=2)
    assert "dense-panel" in of_the_cpu.err
    assert "general" in call("explain", *SIZES, "--force-kernel", "general", status=2).err
    assert "general" in call_json("info")[0]["cuda_kernels"]


@needs_engine
def test_f64_is_for_the_cpu():
    assert "f64 runs on the cpu" in call("explain", *SIZES, "--device", "cuda:h200", "--math", "f64", status=2).err


@pytest.mark.parametrize("call_name", ["check", "bench"])
def test_described_card_is_for_explain(call_name):
    failed = call(call_name, *SIZES, "--device", "cuda:h200", status=2)
    assert "--device is 'cuda:h200'; allowed: cpu, cuda, or cuda:N" in failed.err


def test_instruction_set_of_a_gpu():
    call("explain", *SIZES, "--device", "cuda:h200", "--isa", "scalar", status=2)


def test_info_says_which_gpus_there_are():
    answer = call_json("info")[0]
    text = call("info").out
    assert ("GPUs          none: " in text) == (answer["gpus"] == [])
    assert all(gpu in text for gpu in answer["gpus"])
