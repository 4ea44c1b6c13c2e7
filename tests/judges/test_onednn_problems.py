"""Every 1-D problem of oneDNN's benchmark inputs (tests/data/README.md): awkward sizes, paddings and dilations."""

import json
import pathlib
import re

import judging
import pytest
import tapconv_ctypes as tapconv

DATA = json.loads((pathlib.Path(__file__).resolve().parent.parent / "data" / "onednn_conv1d_problems.json").read_text())
ROWS = [dict(zip(DATA["columns"], row, strict=True)) for row in DATA["rows"]]
SLICES = 19


def problem(row, **fields):
    return tapconv.problem(
        min(row["batch"], 2),
        row["in_channels"],
        row["out_channels"],
        row["length"],
        row["kernel"],
        **{name: row[name] for name in ("groups", "stride", "dilation", "padding_left", "padding_right")},
        **fields,
    )


def test_the_list_is_whole():
    """3,800 problems, with the traits for which they are here."""
    assert len(ROWS) == 3800

    def reach(row):
        return (row["kernel"] - 1) * row["dilation"] + 1

    assert any(max(row["padding_left"], row["padding_right"]) > row["kernel"] for row in ROWS)
    assert any(reach(row) > row["length"] for row in ROWS)
    assert any(
        (row["length"] + row["padding_left"] + row["padding_right"] - reach(row)) % row["stride"] for row in ROWS
    )
    assert any(row["groups"] == row["in_channels"] > 1 for row in ROWS)


@pytest.mark.parametrize("part", range(SLICES))
def test_values(part):
    """All of them, in batches of two at most; layouts, instruction sets and thread counts take turns."""
    isas, layouts = list(tapconv.isas()), tapconv.LAYOUTS
    for i in range(part, len(ROWS), SLICES):
        p = problem(ROWS[i], has_bias=i // 2 % 2, layout=layouts[i // 4 % 2])
        assert tapconv.out_length(p) == ROWS[i]["out_length"], judging.text(p)
        judging.check(p, judging.make_arrays(p, i), judging.Call(threads=1 + i // 8 % 2, isa=isas[i % len(isas)]))


def test_negative_right_padding_is_refused():
    """oneDNN allows it, to cut an unused tail; here the sentence names the field, its value and what is allowed."""
    for i, row in enumerate(ROWS):
        p = problem(row)
        p.padding_right = -1 - i % 7
        with pytest.raises(tapconv.Error) as refusal:
            tapconv.out_length(p)
        assert refusal.value.status == tapconv.INVALID_ARGUMENT
        assert re.search(rf"padding_right.*{p.padding_right}\b.*(?<![-\d.])0\b", str(refusal.value)), str(refusal.value)


def test_no_output_is_refused():
    """Padding that is one sample short of the receptive field: T_out would be less than 1."""
    count = 0
    for row in ROWS:
        p = problem(row)
        short = p.dilation * (p.kernel_size - 1) - p.length - p.padding_left
        if short >= 0:
            p.padding_right = short
            with pytest.raises(tapconv.Error) as refusal:
                tapconv.out_length(p)
            assert refusal.value.status == tapconv.INVALID_ARGUMENT, judging.text(p)
            needed = p.dilation * (p.kernel_size - 1) + 1
            assert re.search(rf"length.* {p.length}\b.* {needed}\b", str(refusal.value)), (
                f"{refusal.value}: {judging.text(p)}"
            )
            count += 1
    assert count >= 100
