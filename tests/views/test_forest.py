"""The forest plot in letters: what stands where, on every terminal."""

import dataclasses

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.result.statements import REPORTED, TOO_NOISY
from dpinfer.views.forest import ratio_ticks
from helpers.support import labelled
from helpers.terminal import files_in, run_here, succeeds

X, Y = labelled(2000, 3)


@pytest.fixture(scope="module")
def result():
    return dp.infer(X, Y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.5), insecure_seed=1)


def rows(shown, names):
    return {
        name: line for line in shown.splitlines() for name in names if line.startswith(name + " ")
    }


@pytest.mark.parametrize(("ascii", "point"), [(False, "●"), (True, "o")])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_bars_stand_where_the_numbers_are(result, ascii, point, width):
    """By the scale under them, to within a letter."""
    shown = dp.plot.forest_text(result, width=width, ascii=ascii, exp=False)
    assert shown.isascii() == ascii
    assert max(map(len, shown.splitlines())) <= width
    found = rows(shown, result.names)
    assert list(found) == list(result.names)
    lines = shown.splitlines()
    scale = lines[lines.index("", 3) - 1]
    low, *_, high = (float(end.replace("−", "-")) for end in scale.split())
    first, last = len(scale) - len(scale.lstrip()), len(scale) - 1
    for row in result.table():
        line = found[row["name"]]
        for value, sign in ((row["low"], "├|"), (row["estimate"], point), (row["high"], "┤|")):
            place = first + (last - first) * (value - low) / (high - low)
            assert any(letter in sign for letter in line[round(place) - 1 : round(place) + 2]), (
                line,
                value,
            )


def test_what_is_not_reported_shows_its_status(result):
    status = (REPORTED, TOO_NOISY, REPORTED)
    aside = dataclasses.replace(result, status=status, error=result.error.mapped(np.eye(3)[[0, 2]]))
    shown = dp.plot.forest_text(aside)
    line = rows(shown, result.names)[result.names[1]]
    assert line.split(maxsplit=1)[1].startswith("not reported: too noisy")
    assert "●" not in line
    assert "NOT PRIVATE" in shown  # the noise came from a seed


def test_where_nothing_is_reported_there_is_no_scale(result):
    nothing = dataclasses.replace(
        result, status=(TOO_NOISY,) * 3, error=result.error.mapped(np.eye(3)[:0])
    )
    shown = dp.plot.forest_text(nothing).splitlines()
    rows = shown[shown.index("") + 1 :]
    named = [line for line in rows[: rows.index("")] if not line.startswith(" ")]
    assert [line.split()[0] for line in named] == list(result.names)
    assert shown[-2:] == ["", "NOT PRIVATE: do not publish."]


def test_intervals_of_very_different_size_have_scales_of_their_own(result):
    scaled = np.diag([1.0, 1.0, 1e-4])
    mixed = dataclasses.replace(
        result, estimate=scaled @ result.estimate, error=result.error.mapped(scaled)
    )
    assert "a scale of its own" in " ".join(dp.plot.forest_text(mixed).split())
    assert "a scale of its own" not in dp.plot.forest_text(result)


def test_ratios_have_a_scale_around_1(result):
    shown = dp.plot.forest_text(result)
    assert "Odds ratios, on a logarithmic scale." in shown
    lines = shown.splitlines()
    low, one, high = lines[lines.index("", 3) - 1].split()
    assert float(low) < 1 < float(high)
    assert one == "1"
    assert dp.plot.forest_text(result, exp=False).count("ratio") == 0


def test_names_obey_nobody(result):
    odd = dataclasses.replace(result, names=("a\x1b[31m", "Größe", "x" * 200))
    shown = dp.plot.forest_text(odd)
    assert "\x1b" not in shown
    assert "Größe" in shown
    assert "Gr??e" in dp.plot.forest_text(odd, ascii=True)
    assert max(map(len, shown.splitlines())) <= 80


def test_too_narrow(result):
    with pytest.raises(dp.InputError, match="at least 60"):
        dp.plot.forest_text(result, width=40)


def test_report_text_on_both_kinds_of_terminal(tmp_path):
    files_in(tmp_path)
    given = [
        "fit",
        "table.csv",
        "--schema",
        "schema.toml",
        "--formula",
        "y ~ a",
        "--rho",
        "50",
        "--out",
        "o",
        "-q",
    ]
    succeeds(run_here(*given, cwd=tmp_path))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "o").iterdir()}
    fine = succeeds(run_here("report", "o/result.json", "--text", cwd=tmp_path))
    rough = succeeds(run_here("report", "o/result.json", "--text", cwd=tmp_path, encoding="ascii"))
    assert "●" in fine
    assert rough.isascii()
    assert " o" in rough or "=o" in rough or "|o" in rough
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "o").iterdir()} == before


@pytest.mark.parametrize(("low", "high"), [(-0.0008, 0.0008), (-1e-5, 2e-5), (-0.3, 0.5)])
def test_ticks_of_ratios_near_1_differ(low, high):
    """Ratios per unit of a long range are near 1: every tick is written with the digits it needs."""
    labels = [label for _, label in ratio_ticks(low, high, 6)]
    assert len(labels) > 2
    assert len(set(labels)) == len(labels)
    assert "1" in labels
