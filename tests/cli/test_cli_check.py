"""`tapconv check`: what it reports about its own result and about one from elsewhere."""

import numpy as np
import pytest
from calling import call, call_json, expected, save, to_bf16, to_tf32, truncated_to_tf32

SIZES = ["--shape", "2,6,40", "--out-channels", 8, "--kernel", 3]
KEYS = ["seed", "max_abs", "mean_abs", "rel_l2", "outside", "first_outside", "nan", "inf", "pass"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--stride", 2, "--dilation", 3, "--padding", "4,1"],
        ["--causal", "--bias", "--groups", 2],
        ["--norm-groups", 2, "--affine", "--bias", "--activation", "mish"],
        ["--norm-groups", 8, "--eps", 0, "--activation", "gelu"],
        ["--layout", "nlc", "--causal", "--norm-groups", 4],
        ["--threads", 1, "--isa", "scalar", "--force-kernel", "dense-panel"],
    ],
)
@pytest.mark.parametrize("math", ["f32", "tf32", "f16", "bf16", "f64"])
def test_passes(math, words):
    answers = call_json("check", *SIZES, "--math", math, *words)
    assert [answer["seed"] for answer in answers] == [0, 1, 2]
    for answer in answers:
        assert all(key in answer for key in KEYS) and "tf32_signature" not in answer
        assert answer["pass"] is True and answer["outside"] == 0 and answer["first_outside"] is None
        assert answer["nan"] == 0 and answer["inf"] == 0 and answer["compared"] == answer["outputs"] > 0
        assert 0 <= answer["mean_abs"] <= answer["max_abs"]
        bound = {"f32": 1e-6, "tf32": 1e-6, "f16": 4e-4, "bf16": 3e-3, "f64": 1e-14}[math]
        assert answer["rel_l2"] < bound


def test_seeds_give_different_data():
    assert len({answer["rel_l2"] for answer in call_json("check", *SIZES, "--seeds", 10)}) == 10


def test_default_tolerances():
    wanted = {
        "f32": (1e-4, 1e-4),
        "tf32": (1e-4, 1e-4),
        "f16": (1e-4, 1e-3),
        "bf16": (1e-4, 4e-3),
        "f64": (1e-12, 1e-12),
    }
    for math, pair in wanted.items():
        (answer,) = call_json("check", *SIZES, "--math", math, "--seeds", 1)
        assert (answer["atol"], answer["rtol"]) == pair


def test_reference_of_each_mode_is_named():
    for math, words in {
        "f32": "as given",
        "tf32": "TF32-rounded",
        "f16": "rounded to f16",
        "bf16": "rounded to bf16",
    }.items():
        assert words in call("check", *SIZES, "--math", math, "--seeds", 1).out
        assert words in call_json("check", *SIZES, "--math", math, "--seeds", 1)[0]["reference"]


def test_seeds_are_reproducible_and_do_not_depend_on_threads():
    first = call_json("check", *SIZES, "--seed", 5, "--seeds", 2, "--threads", 1)
    again = call_json("check", *SIZES, "--seed", 5, "--seeds", 2, "--threads", 2)
    assert [answer["seed"] for answer in first] == [5, 6]
    for left, right in zip(first, again, strict=True):
        assert {key: left[key] for key in KEYS} == {key: right[key] for key in KEYS}


def test_failed_tolerance():
    failed = call("check", *SIZES, "--atol", 0, "--rtol", 0, status=1)
    assert "FAIL" in failed.out and "3 of 3 checks failed" in failed.err and "allowed" in failed.err
    (answer,) = call_json("check", *SIZES, "--atol", 0, "--rtol", 0, "--seeds", 1, status=1)
    assert answer["pass"] is False and 0 < answer["outside"] <= answer["compared"]
    first = answer["first_outside"]
    assert len(first["index"]) == 3 and first["value"] != first["reference"]


def test_table():
    out = call("check", *SIZES, "--causal").out
    for words in (
        "--shape 2,6,40 --out-channels 8 --kernel 3 --causal",
        "max abs",
        "mean abs",
        "rel L2",
        "outside",
        "NaN",
        "pass",
    ):
        assert words in out
    rows = [line for line in out.splitlines() if line.endswith("-") and "pass" in line]
    assert len(rows) == 3 and len({row.index("pass") for row in rows}) == 1, "columns are aligned"


def test_files(layer):
    answers = call_json("check", "-x", layer["x_file"], "-w", layer["w_file"], "-b", layer["b_file"])
    assert len(answers) == 1 and answers[0]["data"] == "files" and answers[0]["pass"] is True


def test_a_file_and_sizes_may_be_mixed(layer):
    answers = call_json("check", "-x", layer["x_file"], "--out-channels", 4, "--kernel", 2, "--bias")
    assert len(answers) == 3 and all(answer["pass"] for answer in answers)


def test_empty_batch():
    answers = call_json("check", "--shape", "0,6,40", "--out-channels", 8, "--kernel", 3)
    assert all(answer["pass"] and answer["compared"] == 0 and answer["rel_l2"] == 0 for answer in answers)


@pytest.mark.parametrize("value, key", [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf")])
def test_values_that_are_no_numbers_fail(tmp_path, layer, value, key):
    layer["x"][1, 2, 20] = value
    words = ["-x", save(tmp_path / "x.npy", layer["x"]), "-w", layer["w_file"]]
    (answer,) = call_json("check", *words, status=1)
    assert answer[key] == 8 * 3 and answer["outside"] == 8 * 3 and answer["pass"] is False
    assert answer["first_outside"]["index"] == [1, 0, 18]
    assert answer["max_abs"] is None and answer["rel_l2"] is None


def test_large_problems_are_sampled():
    words = ["--shape", "1,64,100000", "--out-channels", 64, "--kernel", 13, "--seeds", 1]
    (answer,) = call_json("check", *words)
    assert 100_000 <= answer["compared"] < answer["outputs"] and answer["pass"]
    assert "drawn at random" in call("check", *words).out


# ------------------------------------------------------------------ --against


@pytest.fixture
def wide(tmp_path, random):
    """A layer with enough terms for roundings to average out, and its files."""
    x = random.standard_normal((2, 64, 300)).astype(np.float32)
    w = (random.uniform(-1, 1, (32, 64, 3)) / np.sqrt(192)).astype(np.float32)
    return x, w, ["-x", save(tmp_path / "wx.npy", x), "-w", save(tmp_path / "ww.npy", w)]


def against(tmp_path, wide, y, *words, dtype=np.float32, status=0):
    path = save(tmp_path / "against.npy", y.astype(dtype))
    (answer,) = call_json("check", *wide[2], "--against", path, *words, status=status)
    return answer


def test_good_result(tmp_path, wide):
    answer = against(tmp_path, wide, expected(*wide[:2]))
    assert answer["tf32_signature"] is False and answer["against_pass"] is True and answer["against_rel_l2"] < 1e-7
    assert answer["pass"] is True


@pytest.mark.parametrize("rounded", [to_tf32, truncated_to_tf32])
@pytest.mark.parametrize(
    "words, keywords",
    [
        ([], {}),
        (["--norm-groups", 4], {"norm_groups": 4}),
        (["--causal", "--activation", "silu"], {"padding": (2, 0), "activation": "silu"}),
    ],
)
def test_tf32_is_recognised(tmp_path, wide, rounded, words, keywords):
    answer = against(tmp_path, wide, expected(rounded(wide[0]), rounded(wide[1]), **keywords), *words)
    assert answer["tf32_signature"] is True
    assert answer["pass"] is True, "the kernel is not the one that is off"
    assert answer["against_rel_l2"] > 5 * min(answer["against_rel_l2_tf32"], answer["against_rel_l2_tf32_truncated"])


def test_tf32_with_float32_sums_is_recognised(tmp_path, wide):
    """As a GPU computes it: products of TF32 operands, summed in float32."""
    x, w = to_tf32(wide[0]), to_tf32(wide[1])
    y = np.zeros((2, 32, 298), np.float32)
    for c in range(64):
        for k in range(3):
            y += w[:, c, k][None, :, None] * x[:, c, None, k : k + 298]
    assert against(tmp_path, wide, y)["tf32_signature"] is True


def test_tf32_is_explained_in_words(tmp_path, wide):
    path = save(tmp_path / "against.npy", expected(to_tf32(wide[0]), to_tf32(wide[1])).astype(np.float32))
    out = call("check", *wide[2], "--against", path).out
    assert "signature of TF32" in out and "not the\nkernel" in out


def test_tf32_seen_from_every_math_mode(tmp_path, wide):
    y = expected(to_tf32(wide[0]), to_tf32(wide[1]))
    for math in ("f32", "tf32", "f64"):
        answer = against(tmp_path, wide, y, "--math", math)
        assert answer["tf32_signature"] is True and answer["pass"] is True, math


@pytest.mark.parametrize("name", ["bf16", "f16 stored", "garbage", "zeros", "scaled", "nan", "shifted"])
def test_other_faults_are_no_tf32(tmp_path, wide, random, name):
    good = expected(*wide[:2])
    y = {
        "bf16": lambda: expected(to_bf16(wide[0]), to_bf16(wide[1])),
        "f16 stored": lambda: good.astype(np.float16),
        "garbage": lambda: random.standard_normal(good.shape),
        "zeros": lambda: np.zeros_like(good),
        "scaled": lambda: good * 1.0003,
        "nan": lambda: np.where(good > 1, np.nan, good),
        "shifted": lambda: np.roll(good, 1, axis=-1),
    }[name]()
    answer = against(tmp_path, wide, y)
    assert answer["tf32_signature"] is False and answer["pass"] is True and answer["against_pass"] is False


def test_operands_that_tf32_holds_show_no_signature(tmp_path, random):
    x, w = (to_tf32(random.standard_normal(shape).astype(np.float32)) for shape in [(1, 16, 50), (8, 16, 3)])
    wide = (x, w, ["-x", save(tmp_path / "x.npy", x), "-w", save(tmp_path / "w.npy", w)])
    answer = against(tmp_path, wide, expected(to_tf32(x), to_tf32(w)))
    assert answer["tf32_signature"] is False and answer["against_pass"] is True


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_other_types(tmp_path, wide, dtype):
    assert against(tmp_path, wide, expected(*wide[:2]), dtype=dtype)["against_rel_l2"] < (
        5e-4 if dtype == "<f2" else 1e-7
    )


def test_unbatched_and_nlc(tmp_path, wide):
    x = save(tmp_path / "nlc.npy", np.ascontiguousarray(wide[0][0].T))
    y = save(tmp_path / "y.npy", expected(to_tf32(wide[0][:1]), to_tf32(wide[1]))[0].T.copy())
    (answer,) = call_json("check", "-x", x, "-w", wide[2][3], "--layout", "nlc", "--against", y)
    assert answer["tf32_signature"] is True and len(answer["against_first_outside"]["index"]) == 2


def test_the_result_of_run_agrees(tmp_path, wide):
    call("run", *wide[2], "-o", tmp_path / "y.npy", "--causal")
    (answer,) = call_json("check", *wide[2], "--causal", "--against", tmp_path / "y.npy")
    assert answer["against_max_abs"] == answer["max_abs"] and answer["tf32_signature"] is False


def test_the_tf32_mode_is_recognised(tmp_path, wide):
    call("run", *wide[2], "-o", tmp_path / "y.npy", "--math", "tf32")
    (answer,) = call_json("check", *wide[2], "--against", tmp_path / "y.npy")
    assert answer["tf32_signature"] is True and answer["pass"] is True
