"""docs/command-line.md says what there is, and there is what it says."""

import re

import pytest
from calling import ROOT, call, call_json

PAGE = (ROOT / "docs" / "command-line.md").read_text()
SIZES = ["--shape", "2,6,40", "--out-channels", 8, "--kernel", 3]


def documented_keys(name):
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, re.MULTILINE)
    return [re.findall(r"[a-z0-9_]+", re.sub(r"\(.*?\)", "", part)) for part in row.split(";")]


@pytest.mark.parametrize(
    "name, words", [("bench", [*SIZES, "--runs", 3]), ("explain", SIZES), ("info", []), ("check", SIZES)]
)
def test_keys(name, words):
    assert list(call_json(name, *words)[0]) == documented_keys(name)[0]


def test_keys_of_run(tmp_path, layer):
    answer = call_json("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", tmp_path / "y.npy")[0]
    assert list(answer) == documented_keys("run")[0]


def test_further_keys(tmp_path, layer):
    plain = call_json("bench", *SIZES, "--runs", 3, "--plain")[0]
    assert set(plain) - set(documented_keys("bench")[0]) == set(documented_keys("bench")[1]) - {"with", "plain", "also"}
    files = ["-x", layer["x_file"], "-w", layer["w_file"]]
    call("run", *files, "-o", tmp_path / "y.npy")
    more = set(call_json("check", *files, "--against", tmp_path / "y.npy")[0]) - set(documented_keys("check")[0])
    assert {key for key in more if not key.startswith("against_")} == {"tf32_signature"}
    assert {"against_max_abs", "against_rel_l2_tf32", "against_rel_l2_tf32_truncated"} <= more


def test_every_option_is_documented():
    options = {line.split()[0] for line in call("--help").out.splitlines() if line.startswith("  -")}
    assert len(options) > 30
    assert {option for option in options if not re.search(rf"`[^`]*{option}\b", PAGE)} == set()


def test_tolerances():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\S+) \| (\S+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for math, atol, rtol in rows:
        (answer,) = call_json("check", *SIZES, "--math", math, "--seeds", 1)
        assert (answer["atol"], answer["rtol"]) == (float(atol), float(rtol))
