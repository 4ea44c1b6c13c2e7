"""Wrong usage: one line that names option, value and what is allowed; status 2, or 3 where the machine cannot."""

import resource

import pytest
from calling import SANITIZED, call

SIZES = ["--shape", "2,6,40", "--out-channels", "8", "--kernel", "3"]
INT64_OVERFLOW = "9223372036854775808"
MOST_SIZE = (2**63 - 1) // 64


def without(option):
    at = SIZES.index(option)
    return SIZES[:at] + SIZES[at + 2 :]


def replaced(option, value):
    at = SIZES.index(option)
    return [*SIZES[: at + 1], value, *SIZES[at + 2 :]]


def test_no_arguments():
    assert "tapconv --help" in call(status=2).err


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["run", "--help"], ["check", *SIZES, "--help"]])
def test_help(words):
    out = call(*words).out
    for option in (
        "-x",
        "--shape",
        "--norm-groups",
        "--activation",
        "--suite",
        "--against",
        "--layout",
        "--force-kernel",
    ):
        assert f"  {option} " in out
    for word in ("gelu-tanh", "leaky-relu", "bf16", "avx512", "dense-panel", "Exit status"):
        assert word in out


@pytest.mark.parametrize("word", ["walk", "", "RUN", "--shape", "--version", "run\nrun"])
def test_unknown_call(word):
    assert "run check bench explain info" in call(word, status=2).err


BAD_VALUES = [
    *[
        (option, value, f"1 to {MOST_SIZE}")
        for option in ("--out-channels", "--kernel")
        for value in ("0", "-1", "", "x", "1.5", MOST_SIZE + 1)
    ],
    *[
        (option, value, f"1 to {MOST_SIZE}")
        for option in ("--stride", "--dilation", "--groups")
        for value in (
            "0",
            "-1",
            "",
            "1 ",
            " 1",
            "+1",
            "1x",
            "0x1",
            "1e3",
            "1,1",
            MOST_SIZE + 1,
            INT64_OVERFLOW,
            "-" + INT64_OVERFLOW + "0",
        )
    ],
    *[
        ("--padding", value, "P or two L,R")
        for value in ("-1", "1,-1", "", ",", "1,", ",1", "1,2,3", "1 2", "x", INT64_OVERFLOW)
    ],
    *[
        ("--padding", value, f"each 0 to {MOST_SIZE}")
        for value in (MOST_SIZE + 1, f"0,{MOST_SIZE + 1}", f"{MOST_SIZE + 1},0")
    ],
    *[
        ("--shape", value, f"each at most {MOST_SIZE}")
        for value in (f"{MOST_SIZE + 1},1,1", f"1,{MOST_SIZE + 1},1", f"1,1,{MOST_SIZE + 1}")
    ],
    *[
        ("--shape", value, "N,C_in,T")
        for value in (
            "",
            "1",
            "1,1",
            "1,1,1,1",
            "1,0,1",
            "-1,1,1",
            "1,1,-1",
            "1,,1",
            "a,b,c",
            "1,1,1 ",
            "1, 1,1",
            f"1,1,{INT64_OVERFLOW}",
        )
    ],
    *[("--norm-groups", value, f"1 to {MOST_SIZE}") for value in ("0", "-1", "x", "", MOST_SIZE + 1)],
    *[("--activation", value, "leaky-relu") for value in ("", "swish", "ReLU", "gelu_tanh")],
    *[("--math", value, "f32 tf32 f16 bf16 f64") for value in ("", "fp32", "F32", "float32")],
    *[("--layout", value, "ncl nlc") for value in ("", "NCL", "nhwc")],
    *[
        ("--device", value, "cpu, cuda, or cuda:N")
        for value in ("", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda1", "cpu:0", "cuda:4294967296")
    ],
    *[("--threads", value, "1 to 65536") for value in ("0", "-1", "x", "", "65537")],
    *[("--isa", value, "scalar") for value in ("", "sse", "AVX2")],
    *[("--force-kernel", value, "dense-panel") for value in ("", "fast")],
    *[("--seed", value, "0 to") for value in ("-1", "x", "")],
    *[("--seeds", value, "1 to") for value in ("0", "x", "")],
    *[
        (option, value, "0 or more")
        for option in ("--atol", "--rtol")
        for value in ("-1e-9", "nan", "inf", "", "1e999", "x", "0x1p3", "1e-400", "0.000001e-320")
    ],
]


@pytest.mark.parametrize("option, value, allowed", BAD_VALUES)
def test_bad_value(option, value, allowed):
    words = replaced(option, value) if option in SIZES else [*SIZES, option, value]
    failed = call("check", *words, status=2)
    assert f"{option} is '{value}'" in failed.err and allowed in failed.err.split("allowed")[1]


@pytest.mark.parametrize(
    "value",
    [
        *["-1e-5", "nan", "-nan", "inf", "-inf", "", "1e-5x", "1e999", "0x1p-3", " 1", "1e", "--", "1e-5 "],
        *["1e-400", "-1e-400", "2e-324"],
    ],
)
def test_bad_eps(value):
    failed = call("check", *SIZES, "--norm-groups", 2, "--eps", value, status=2)
    assert f"--eps is '{value}'" in failed.err and "0 or more, that float64 can hold" in failed.err


@pytest.mark.parametrize("value", ["0", "-0.0", "0e5", "0.000e-999", "5e-324", "1e-310", "1.7e308"])
def test_eps_that_float64_can_hold(value):
    call("check", *SIZES, "--norm-groups", 2, "--eps", value, "--seeds", 1)


@pytest.mark.parametrize(
    "option, value",
    [
        ("--runs", "0"),
        ("--runs", "1000001"),
        ("--min-time", "-1"),
        ("--min-time", "nan"),
        ("--min-time", "1e-999"),
    ],
)
def test_bad_value_of_bench(option, value):
    assert f"{option} is '{value}'" in call("bench", *SIZES, option, value, status=2).err


@pytest.mark.parametrize("option", ["-x", "-w", "-b", "--gamma", "--beta", "--against", "--suite", "-o"])
def test_empty_file_name(option):
    assert f"{option} is ''" in call("run" if option == "-o" else "check", option, "", status=2).err


@pytest.mark.parametrize("option", ["-x", "--shape", "--stride", "--eps", "--device", "--suite", "--against"])
def test_value_missing(option):
    failed = call("check", option, status=2)
    assert f"{option} is given without its value" in failed.err and "allowed" in failed.err


@pytest.mark.parametrize("word", ["stride", "--strides", "--stride=2", "-", "--", "-s", "", "x.npy", "--Stride"])
def test_unknown_option(word):
    assert f"'{word}' is no option" in call("check", *SIZES, word, status=2).err


@pytest.mark.parametrize("first, second", [("1", "2"), ("2", "02")])
def test_given_twice(first, second):
    failed = call("check", *SIZES, "--stride", first, "--stride", second, status=2)
    assert "--stride is given twice" in failed.err and f"'{first}'" in failed.err and f"'{second}'" in failed.err


def test_given_twice_alike():
    call("check", *SIZES, *SIZES, "--causal", "--causal", "--seeds", 1)


@pytest.mark.parametrize(
    "call_name, words, names",
    [
        ("check", without("--shape"), ["-x FILE or --shape"]),
        ("check", without("--kernel"), ["--kernel"]),
        ("check", without("--out-channels"), ["--out-channels"]),
        ("check", ["--shape", "1,1,1"], ["-w FILE"]),
        ("check", [], ["-x FILE or --shape"]),
        ("bench", [], ["-x FILE or --shape"]),
        ("explain", [], ["-x FILE or --shape"]),
        ("run", [], ["-x"]),
        ("check", [*SIZES, "-x", "x.npy"], ["-x", "--shape"]),
        ("check", [*SIZES, "-w", "w.npy"], ["-w", "--out-channels"]),
        ("check", [*without("--out-channels"), "-w", "w.npy"], ["-w", "--kernel"]),
        ("check", [*SIZES, "--bias", "-b", "b.npy"], ["-b", "--bias"]),
        ("check", [*SIZES, "--causal", "--padding", "0"], ["--padding", "--causal"]),
        ("check", [*SIZES, "--gamma", "g.npy", "--beta", "b.npy"], ["--gamma g.npy", "--norm-groups"]),
        ("check", [*SIZES, "--gamma", "g.npy"], ["--gamma g.npy", "--norm-groups"]),
        ("check", [*SIZES, "--beta", "b.npy"], ["--beta b.npy", "--norm-groups"]),
        ("check", [*SIZES, "--eps", "1e-3"], ["--eps 1e-3", "--norm-groups"]),
        ("check", [*SIZES, "--affine"], ["--affine", "--norm-groups"]),
        ("check", [*SIZES, "--norm-groups", "2", "--gamma", "g.npy"], ["--gamma", "g.npy", "--beta"]),
        ("check", [*SIZES, "--norm-groups", "2", "--beta", "b.npy"], ["--beta", "b.npy", "--gamma"]),
        (
            "check",
            [*SIZES, "--norm-groups", "2", "--affine", "--gamma", "g.npy", "--beta", "b.npy"],
            ["--gamma", "--affine"],
        ),
        ("check", [*SIZES, "--against", "y.npy"], ["--against", "y.npy", "files"]),
        ("check", [*SIZES, "--suite", "s.txt"], ["--shape", "--suite"]),
        ("check", ["--suite", "s.txt", "-x", "x.npy"], ["-x x.npy", "--suite"]),
        ("check", [*SIZES, "--groups", "4"], ["--groups is 4", "C_in, 6", "C_out, 8"]),
        ("check", [*SIZES, "--groups", "3"], ["--groups is 3", "C_in, 6", "C_out, 8"]),
        ("check", [*SIZES, "--norm-groups", "3"], ["--norm-groups is 3", "C_out, 8"]),
        ("check", [*SIZES, "--dilation", "20"], ["T_out", "--shape", "41"]),
        ("check", ["--shape", "1,1,0", "--out-channels", "1", "--kernel", "1"], ["T_out", "--shape"]),
        ("check", [*SIZES, "--dilation", MOST_SIZE], [f"--dilation is {MOST_SIZE}", "3 taps: 1 to 72057594037927935"]),
        ("explain", ["--shape", f"{MOST_SIZE},2,3", "--out-channels", "1", "--kernel", "1"], ["too large", MOST_SIZE]),
        ("explain", [*SIZES, "--padding", MOST_SIZE], ["too large", f"samples {2 * MOST_SIZE + 38}", MOST_SIZE]),
        (
            "explain",
            ["--shape", f"1,{MOST_SIZE},1", "--out-channels", MOST_SIZE, "--kernel", "1"],
            ["too large", MOST_SIZE],
        ),
    ],
)
def test_wrong_combination(call_name, words, names):
    failed = call(call_name, *words, status=2)
    for name in names:
        assert str(name) in failed.err


@pytest.mark.parametrize(
    "words",
    [
        [*SIZES, "--stride", MOST_SIZE],
        [*SIZES, "--padding", f"{MOST_SIZE},0", "--stride", 2],
        [*SIZES, "--dilation", MOST_SIZE // 2, "--causal"],
        [*without("--kernel"), "--kernel", 1, "--dilation", MOST_SIZE],
    ],
)
def test_largest_sizes(words):
    """What the sentences allow is allowed, as far as the output can be counted."""
    words = ["--shape", "1,1,40", "--out-channels", 1, *words[4:]]
    call("explain", *words)


@pytest.mark.parametrize(
    "option",
    [
        ["--shape", "1,1,1"],
        ["--out-channels", "1"],
        ["--kernel", "1"],
        ["--bias"],
        ["--affine"],
        ["--suite", "s"],
        ["--seed", "1"],
        ["--seeds", "2"],
        ["--against", "y"],
        ["--runs", "3"],
        ["--plain"],
        ["--atol", "1"],
    ],
)
def test_run_takes_files_only(layer, option):
    failed = call("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", "y.npy", *option, status=2)
    assert f"{option[0]} is no option of run" in failed.err


@pytest.mark.parametrize("missing", ["-x", "-w", "-o"])
def test_run_without_a_file(tmp_path, layer, missing):
    files = {"-x": layer["x_file"], "-w": layer["w_file"], "-o": tmp_path / "y.npy"}
    del files[missing]
    failed = call("run", *(word for pair in files.items() for word in pair), status=2)
    assert failed.err.startswith(f"tapconv run: {missing} is missing") and not (tmp_path / "y.npy").exists()


@pytest.mark.parametrize(
    "call_name, option",
    [
        ("check", ["-o", "y.npy"]),
        ("bench", ["-o", "y.npy"]),
        ("explain", ["-o", "y.npy"]),
        ("explain", ["--seed", "1"]),
        ("bench", ["--against", "y.npy"]),
        ("check", ["--plain"]),
        ("check", ["--runs", "3"]),
        ("info", ["--shape", "1,1,1"]),
    ],
)
def test_option_of_another_call(call_name, option):
    assert f"{option[0]} is no option of {call_name}" in call(call_name, *option, status=2).err


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
@pytest.mark.parametrize("call_name", ["check", "bench", "explain"])
def test_no_such_device(call_name, device):
    failed = call(call_name, *SIZES, "--device", device, status=3)
    assert f"--device {device if ':' in device else 'cuda:0'}" in failed.err


def test_run_on_no_such_device_leaves_no_output(tmp_path, layer):
    failed = call(
        "run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", tmp_path / "y.npy", "--device", "cuda", status=3
    )
    assert "--device cuda:0" in failed.err and not (tmp_path / "y.npy").exists()


def test_instruction_set_of_another_machine():
    machine = call("info").out
    isa = "neon" if "avx2" in machine else "avx512"
    assert f"--isa is {isa}" in call("check", *SIZES, "--isa", isa, status=3).err


def test_kernel_that_does_not_take_the_problem():
    failed = call("check", *SIZES, "--force-kernel", "depthwise", status=2)
    assert "--force-kernel depthwise" in failed.err and "takes in_channels/groups 1" in failed.err


@pytest.mark.parametrize("call_name", ["check", "bench"])
@pytest.mark.parametrize("shape", ["1,1,1000000000000000", "1000000,1000,1000000", "100000000,1000,100"])
def test_more_memory_than_there_is(call_name, shape):
    failed = call(call_name, "--shape", shape, "--out-channels", 1, "--kernel", 1, status=3)
    assert "out of memory" in failed.err


def test_explain_needs_no_memory():
    assert (
        "(1,1,1000000000000000)"
        in call("explain", "--shape", "1,1,1000000000000000", "--out-channels", 1, "--kernel", 1).out
    )


@pytest.mark.skipif(SANITIZED, reason="the address sanitizer needs more address space than any limit leaves")
@pytest.mark.parametrize("megabytes", [64, 128, 256, 512])
def test_every_allocation_may_fail(megabytes):
    """At some limit the input fails, at another the output, the workspace, the reference: each must be a sentence."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))  # noqa: E731
    words = [
        "check",
        "--shape",
        "8,64,100000",
        "--out-channels",
        64,
        "--kernel",
        1,
        "--math",
        "bf16",
        "--seeds",
        1,
        "--threads",
        1,
    ]
    assert "out of memory" in call(*words, status=3, preexec_fn=limit).err
