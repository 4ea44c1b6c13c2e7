"""Suites, and the canonical text of a problem."""

import random as plain_random
import shlex

import pytest
from calling import call, call_json

LINE = "--shape 2,6,40 --out-channels 8 --kernel 3"


def suite(tmp_path, text):
    path = tmp_path / "layers.suite"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def explain(*words):
    return [answer["problem"] for answer in call_json("explain", *words)]


# ------------------------------------------------------------------ suites


def test_lines_comments_and_blanks(tmp_path):
    lines = [
        "# layers",
        "",
        f"first: {LINE} --causal # the first\r",
        f"   second layer :\t{LINE}\t--stride 2",
        "  ",
        f"#{LINE}",
        f"last:{LINE}",
    ]
    path = suite(tmp_path, "\n".join(lines))
    answers = call_json("explain", "--suite", path)
    assert [answer["name"] for answer in answers] == ["first", "second layer", "last"]
    assert [answer["problem"] for answer in answers] == [f"{LINE} --causal", f"{LINE} --stride 2", LINE]


def test_byte_order_mark(tmp_path):
    path = suite(tmp_path, f"\ufeffa: {LINE}\nb: {LINE}\n")
    assert [answer["name"] for answer in call_json("explain", "--suite", path)] == ["a", "b"]


@pytest.mark.parametrize("call_name", ["check", "bench", "explain"])
def test_every_call_takes_a_suite(tmp_path, call_name):
    path = suite(tmp_path, f"a: {LINE}\nlonger name: {LINE} --math bf16 --norm-groups 2\n")
    more = {"check": ["--seeds", 1], "bench": ["--runs", 3], "explain": []}[call_name]
    answers = call_json(call_name, "--suite", path, *more)
    assert [answer["name"] for answer in answers] == ["a", "longer name"]
    out = call(call_name, "--suite", path, *more).out
    assert "longer name" in out


def test_options_beside_a_suite_are_defaults_of_its_lines(tmp_path):
    path = suite(tmp_path, f"a: {LINE}\nb: {LINE} --math bf16\n")
    assert explain("--suite", path, "--math", "tf32", "--threads", 1) == [
        f"{LINE} --math tf32 --threads 1",
        f"{LINE} --math bf16 --threads 1",
    ]


def test_quoted_words(tmp_path, layer):
    odd = tmp_path / 'it\'s #1 "x" file.npy'
    odd.write_bytes(layer["x_file"].read_bytes())
    text = explain("-x", odd, "-w", layer["w_file"])[0]
    assert shlex.split(text) == ["-x", str(odd), "-w", str(layer["w_file"])]
    assert explain("--suite", suite(tmp_path, f"odd: {text}\n")) == [text]
    double = str(odd).replace("\\", "\\\\").replace('"', '\\"')
    assert explain("--suite", suite(tmp_path, f'odd: -x "{double}" -w {layer["w_file"]}')) == [text]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "no problem"),
        ("\n# nothing\n", "no problem"),
        ("a\n", "line 1: 'a' has no colon"),
        (f"a {LINE}", "line 1"),
        (f"\n\n: {LINE}", "line 3: the name"),
        ("a: --shape 1,2", "line 1: a: --shape is '1,2'"),
        (f"a: {LINE}\nb: {LINE} --stride 0", "line 2: b: --stride is '0'"),
        (f"a: {LINE} --stride", "without its value"),
        (f"a: {LINE} --nothing", "'--nothing' is no option"),
        (f"a: {LINE} --json", "--json is given in a suite's line"),
        (f"a: {LINE} --suite b", "--suite b is given in a suite's line"),
        (f"a: {LINE} -o y.npy", "-o is no option of check"),
        (f"a: {LINE} 'open", "quotation mark ' is not closed"),
        (f'a: {LINE} "open', 'quotation mark " is not closed'),
        ("a: --kernel 3", "-x FILE or --shape"),
        (f"a: {LINE} --groups 5", "line 1: a: --groups is 5"),
        (f"a: {LINE}\nb: {LINE} --dilation 30", "line 2: b: --shape: T_out"),
        (f"a: {LINE}\nb: -x missing.npy -w w.npy", "line 2: b: -x missing.npy"),
        (f"a: {LINE} --causal --padding 1", "--padding and --causal"),
        (f"a: {LINE} --eps 1", "--eps 1 is given without --norm-groups"),
        (f"a: {LINE}\rb: {LINE} --stride 2\r", "line 1: a carriage return is within it"),
        (f"a: {LINE} # one\rb: {LINE}\n", "line 1: a carriage return is within it"),
        (f"a: {LINE}\nb\x1b[7m: {LINE}\n", "line 2: the name 'b?[7m' has a control character"),
        (f"a\tb: {LINE}\n", "line 1: the name 'a?b' has a control character"),
        (b"a: \0", "zero bytes"),
        (b"a: --math \xff\xfe", "--math is '??'"),
        (b"\xef\xbb\xbf\xc0\xafname", "has no colon"),
        ("a: " + "x " * 200, "words"),
        ("a: " + "x" * 5000, "is no option"),
        ("a" * 5000, "has no colon"),
    ],
)
def test_broken_suite(tmp_path, text, sentence):
    failed = call("check", "--suite", suite(tmp_path, text), status=2)
    assert "--suite" in failed.err and "layers.suite" in failed.err and sentence in failed.err
    assert failed.out == "", "every line is looked at before the first is run"


@pytest.mark.parametrize("path", ["missing.suite", ".", "/dev/zero", "/dev/null"])
def test_unreadable_suite(tmp_path, path):
    assert f"--suite {path}" in call("check", "--suite", path, status=2, cwd=tmp_path).err


def test_failed_check_of_a_suite(tmp_path):
    path = suite(tmp_path, f"good: {LINE}\nbad: {LINE} --atol 0 --rtol 0\nalso good: {LINE}\n")
    failed = call("check", "--suite", path, "--seeds", 1, status=1)
    assert "1 of 3 checks failed; the first: bad, seed 0" in failed.err
    assert "also good" in failed.out


def test_machine_failure_names_the_line(tmp_path):
    path = suite(tmp_path, f"good: {LINE}\nhuge: --shape 1,1,1000000000000000 --out-channels 1 --kernel 1\n")
    assert "line 2: huge: out of memory" in call("check", "--suite", path, "--seeds", 1, status=3).err


# ------------------------------------------------------------------ the canonical text


@pytest.mark.parametrize(
    "given, canonical",
    [
        ("--kernel 3 --out-channels 8 --shape 2,6,40", LINE),
        (
            f"{LINE} --stride 1 --dilation 1 --groups 1 --padding 0 --activation none --math f32 --device cpu",
            LINE,
        ),
        ("--shape 02,006,40 --out-channels 08 --kernel 3", LINE),
        (f"{LINE} --padding 0,0", LINE),
        (f"{LINE} --padding 3,3", f"{LINE} --padding 3"),
        (f"{LINE} --padding 1,2", f"{LINE} --padding 1,2"),
        (f"{LINE} --padding 2,0", f"{LINE} --causal"),
        (f"{LINE} --dilation 4 --padding 8,0", f"{LINE} --dilation 4 --causal"),
        (f"{LINE} --causal", f"{LINE} --causal"),
        ("--causal --shape 2,6,40 --out-channels 8 --kernel 1", "--shape 2,6,40 --out-channels 8 --kernel 1"),
        (f"{LINE} --norm-groups 2 --eps 1e-5", f"{LINE} --norm-groups 2"),
        (f"{LINE} --norm-groups 2 --eps 0.00001000", f"{LINE} --norm-groups 2"),
        (f"{LINE} --norm-groups 2 --eps 0.001", f"{LINE} --norm-groups 2 --eps 0.001"),
        (f"{LINE} --norm-groups 2 --eps 1e-7", f"{LINE} --norm-groups 2 --eps 1e-07"),
        (f"{LINE} --norm-groups 2 --eps 0.1", f"{LINE} --norm-groups 2 --eps 0.1"),
        (f"{LINE} --norm-groups 2 --eps -0", f"{LINE} --norm-groups 2 --eps 0"),
        (
            f"{LINE} --threads 1 --math tf32 --layout nlc --activation elu --affine --norm-groups 2 --bias --stride 3",
            f"{LINE} --bias --stride 3 --norm-groups 2 --affine --activation elu --math tf32 --layout nlc --threads 1",
        ),
        (f"{LINE} --force-kernel dense-panel --isa scalar", f"{LINE} --isa scalar --force-kernel dense-panel"),
    ],
)
def test_canonical_text(given, canonical):
    assert explain(*given.split()) == [canonical]


def random_problem(generator):
    pick = generator.choice
    groups = pick([1, 2, 4])
    words = [
        ("--shape", f"{pick([0, 1, 3])},{4 * pick([1, 2])},{pick([30, 50])}"),
        ("--out-channels", 8),
        ("--kernel", pick([1, 2, 5])),
    ]
    optional = [
        [("--bias",)],
        [("--stride", pick([1, 2, 7]))],
        [("--dilation", pick([1, 3]))],
        [("--groups", groups)],
        [pick([("--causal",), ("--padding", pick(["0", "4", "3,3", "4,0", "0,2", "12,0"]))])],
        [
            ("--norm-groups", pick([1, 2, 8])),
            *pick([[], [("--eps", pick(["0", "1e-5", "1e-3", "0.1", "123456.789"]))]]),
            *pick([[], [("--affine",)]]),
        ],
        [("--activation", pick(["none", "relu", "gelu-tanh", "leaky-relu"]))],
        [("--math", pick(["f32", "tf32", "f16", "bf16", "f64"]))],
        [("--layout", pick(["ncl", "nlc"]))],
        [("--threads", pick([1, 2]))],
        [("--isa", "scalar")],
        [("--force-kernel", "dense-panel")],
    ]
    words += [option for some in optional if generator.random() < 0.5 for option in some]
    generator.shuffle(words)
    return " ".join(str(word) for option in words for word in option)


def test_canonical_text_reads_back_as_itself(tmp_path):
    """Over random problems: the text of the text is the text, and what it describes is the same problem."""
    generator = plain_random.Random(2026)
    given = [random_problem(generator) for _ in range(150)]
    path = suite(tmp_path, "".join(f"{i}: {text}\n" for i, text in enumerate(given)))
    first = call_json("explain", "--suite", path)
    path = suite(tmp_path, "".join(f"{answer['name']}: {answer['problem']}\n" for answer in first))
    second = call_json("explain", "--suite", path)
    same = ["name", "problem", "out_shape", "kernel", "gflop", "mbytes", "workspace_bytes", "math"]
    assert [[a[key] for key in same] for a in first] == [[a[key] for key in same] for a in second]
    order = [name.split()[0] for name in call("--help").out.splitlines() if name.startswith("  -")]
    for answer in first:
        options = [word for word in answer["problem"].split() if word.startswith("--")]
        assert options == sorted(options, key=order.index), "in the table's order"


def test_canonical_text_pastes_behind_every_call():
    text = explain(*f"{LINE} --norm-groups 2 --eps 0.1 --affine --causal --math bf16 --threads 1".split())[0]
    for call_name, more in [("check", ["--seeds", 1]), ("bench", ["--runs", 3]), ("explain", [])]:
        assert call_json(call_name, *text.split(), *more)[0]["problem"] == text
