"""A description: its views, what they let a reader conclude, what is saved, what is typical."""

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.result import table_one
from dpinfer.result.description import FIGURE_TOO_NOISY, Description, Figure
from dpinfer.schema.columns import Category, Number, Outcome
from dpinfer.schema.unit import Unit
from helpers.described import AGE, COLUMNS, HEALTH, SCHEMA, SMOKER, grouped, plain, privacy

VIEWS = ("summary", "to_markdown", "to_latex", "_repr_html_")


def only(*figures, **options):
    return plain(figures=figures, **options)


def test_every_figure_has_its_line():
    shown = plain().summary()
    for words in (
        r"^age, years$",
        r"^  usable records +19,981 \(19,950 to 20,013\)$",
        r"^  missing +209 \(177 to 240\)$",
        r"^  mean +46\.31 \(46\.02 to 46\.60\)$",
        r"^  lower quartile +32 \(31 to 33\)$",
        r"^  yes +19\.87% \(19\.31 to 20\.43\)$",
        r"^  good, count +14,003 \(13,972 to 14,034\)$",
        r"^  sd +≤ 21,000$",
    ):
        assert re.search(words, shown, re.MULTILINE), words


def test_what_may_be_nobody_does_not_look_certain():
    for view in VIEWS:
        shown = getattr(plain(), view)().replace(r"$\leq$", "≤").replace(r"\%", "%")
        assert "≤ 36" in shown
        assert "≤ 0.17%" in shown
        assert "it is not known whether there is anybody" in " ".join(shown.split())
    certain = Figure("health", "poor", "count", 4.0, 1.0, 35.1)
    assert str(table_one.cell(certain)) == "4 (1 to 36)"
    assert str(table_one.cell(replace(certain, low=0.0))) == "≤ 36"
    # a lower end that is no record is printed as 0, and says no more than that
    assert str(table_one.cell(replace(certain, low=0.4))) == "≤ 36"
    assert str(table_one.cell(replace(certain, low=1.0))) != "≤ 36"
    assert "anybody" not in only(certain).summary()


def test_rounding_never_shortens_an_interval_of_a_count():
    one = Figure("health", "poor", "count", 12.4, 9.9, 14.1)
    assert str(table_one.cell(one)) == "12 (9 to 15)"


def test_digits_are_those_of_the_interval_and_of_the_range():
    one = Figure("age", None, "mean", 46.3123, 46.02, 46.6)
    assert str(table_one.cell(one, table_one.max_decimals(AGE))) == "46.31 (46.02 to 46.60)"
    sure = Figure("age", None, "median", 45.00123, 45.00119, 45.00127)
    assert str(table_one.cell(sure)) == "45.001230 (45.001190 to 45.001270)"
    assert str(table_one.cell(sure, table_one.max_decimals(AGE))) == "45.00 (45.00 to 45.01)"
    rough = Figure("age", None, "mean", 46.3, 40.0, 52.0)
    assert str(table_one.cell(rough, table_one.max_decimals(AGE))) == "46.3 (40.0 to 52.0)"


def test_figures_not_reported_have_no_number_and_a_reason():
    for view in VIEWS:
        shown = getattr(plain(), view)()
        assert not re.search(r"\b(nan|inf)\b", shown)
        assert f"income, lower quartile: {FIGURE_TOO_NOISY}" in " ".join(shown.split())
    assert FIGURE_TOO_NOISY not in only(*(one for one in plain().figures if one.reported)).summary()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_a_screen_is_80_letters_wide_whatever_the_groups(count):
    described = grouped(tuple(f"group {k}" for k in range(count)))
    lines = described.summary().splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line for line in lines if line.startswith("sex ")]
    assert " ".join(heads).split("sex")[1:]
    assert re.findall(r"group \d", " ".join(heads)) == [f"group {k}" for k in range(count)]
    assert (len(heads) == 1) == (count <= 3)
    for row in described.rows():
        if row["figure"] == "mean" and row["column"] == "age":
            assert f"{row['estimate']:.2f}" in described.summary()


def test_differences_stand_under_the_other_groups():
    (block,) = (b for b in table_one.blocks(grouped()) if b.column == AGE)
    labels = [row.label for row in block.rows]
    assert labels[2:4] == ["mean", "difference from women"]
    first, second = block.rows[3].cells
    assert (str(first), str(second)) == ("", "1.00 (0.60 to 1.40)")
    assert "1.30 pp (0.20 to 2.40)" in grouped().summary()
    assert "pp: percentage points." in grouped().summary()


def test_figures_of_all_stand_before_those_of_groups():
    both = grouped(figures=(*plain().figures, *grouped().figures))
    assert both.shown_groups == (None, "women", "men")
    assert table_one.heads(both) == ["sex", "all", "women", "men"]
    assert grouped().shown_groups == ("women", "men")


def test_long_and_hostile_names_are_shown_and_not_obeyed():
    odd = Category("<b>x|y</b>", ("p\x1b[31m" + "long " * 30, "q & r"), "q & r")
    figures = [Figure(odd.name, level, "share", 0.5, 0.4, 0.6) for level in odd.levels]
    described = only(*figures, columns=(odd,))
    assert "\x1b" not in described.summary()
    assert max(map(len, described.summary().splitlines())) <= 80
    assert "<b>" not in described._repr_html_()
    assert r"q \& r" in described.to_latex()
    assert r"\<b\>x\|y" in described.to_markdown()


def test_statements():
    shown = " ".join(plain().summary().split())
    for words in (
        "count as the bound",
        "age: from 18 to 95 years",
        "health: good, fair, poor",
        "rho = 0.1",
        "Protects one person (neighbours: one record replaced, number of records public)",
        "figures of age: rho = 0.025",
        "both the sampling error and the privacy noise",
        *plain().caveats(),
    ):
        assert words in shown
    assert "Groups are by" not in shown
    assert "Groups are by the declared levels of sex" in " ".join(grouped().summary().split())
    units = plain(unit=Unit("one person", column="id"), n=500)
    assert "Every unit counts alike" in units.summary()
    assert "usable units" in units.summary()
    assert "500 units" in units.summary()
    weighted = plain(unit=Unit("one person", weights="w", max_weight=5.0))
    assert "sampling weights" in weighted.summary()
    assert "usable weight" in weighted.summary()
    assert "usable rows" in plain(unit=Unit("one person", column="id", rows=5)).summary()
    assert "number of records private" in plain(n=None).summary().lower()


def test_what_is_not_private_says_so():
    described = plain(privacy=privacy(private=False))
    for view in (
        described.summary(),
        described.to_markdown(),
        described.to_latex(),
        repr(described),
    ):
        assert "NOT PRIVATE" in view
    for view in (plain().summary(), plain().to_markdown(), repr(plain())):
        assert "NOT PRIVATE" not in view


def test_one_line():
    assert repr(grouped()) == (
        "<Description of age, income, smoker, health by sex: 20,190 records, rho = 0.1>"
    )


def test_html_is_a_table_that_can_be_read_aloud():
    shown = grouped()._repr_html_()
    assert shown.count("<tr>") == shown.count("</tr>") == 1 + 4 + 24
    assert shown.count('scope="row"') == 4 + 24
    assert "<script" not in shown


@pytest.mark.parametrize("described", [plain(), grouped(), plain(n=None), grouped((False, True))])
def test_saved_descriptions_are_exact(described, tmp_path):
    path = tmp_path / "d.json"
    described.save(path)
    again = Description.load(path)
    assert again.to_json() == described.to_json()
    assert [repr(one) for one in again.figures] == [repr(one) for one in described.figures]
    assert replace(again, figures=()) == replace(described, figures=())
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert (raw["format"], raw["version"]) == ("dpinfer.Description", 1)


def test_limits_without_an_end_are_kept():
    one = Figure("age", None, "mean", math.nan, -math.inf, math.inf, FIGURE_TOO_NOISY)
    (again,) = Description.from_json(only(one).to_json()).figures
    assert (again.low, again.high) == (-math.inf, math.inf)
    assert math.isnan(again.estimate)


def test_what_is_no_description_is_refused(tmp_path):
    document = json.loads(plain().to_json())
    for fault in (
        {},
        [],
        document | {"format": "dpinfer.FitResult"},
        document | {"more": 1},
        document | {"unit": "one person"},
        document | {"figures": [{"column": "age"}]},
        document | {"columns": {"age": {"type": "integer"}}},
    ):
        with pytest.raises(dp.InputError, match="not a saved Description"):
            Description.from_json(json.dumps(fault))
    with pytest.raises(dp.InputError, match="version 2"):
        Description.from_json(json.dumps(document | {"version": 2}))
    with pytest.raises(dp.InputError, match=r"description\.json"):
        Description.load(tmp_path / "nothing.json")
    with pytest.raises(dp.InputError, match="check the folder"):
        plain().save(tmp_path / "nowhere/d.json")


def test_what_is_typical():
    assert plain().typical() == {
        "age": {"mean": 46.31, "sd": 17.42},
        "income": {"mean": 31230.0, "sd": 2100.0},
        "smoker": {"true": 0.1987},
        "health": {"good": 0.695896, "fair": 0.304104, "poor": 0.0},
    }
    guessed = SCHEMA.guess(plain().typical())
    assert dp.Schema.parse(dp_text(guessed)).typical == guessed.typical
    assert grouped().typical() == {}


def dp_text(schema):
    from dpinfer.schema import toml  # noqa: PLC0415

    return toml.dump(schema.document())


NUMBERS = st.floats(-1e6, 1e6)


@given(st.lists(NUMBERS, min_size=2, max_size=2, unique=True), NUMBERS, NUMBERS)
def test_what_is_typical_parses_back_of_numbers(ends, mean, sd):
    low, high = sorted(ends)
    if high - low < 1e-100:
        return
    column = Number("x", low, high)
    figures = [
        Figure("x", None, "mean", mean, mean - 1, mean + 1),
        Figure("x", None, "sd", sd, 0.0, 1e6),
    ]
    typical = only(*figures, columns=(column,)).typical()
    if not typical:  # only where floats have no room between the bounds
        assert high - low < 1e-9 * max(abs(low), abs(high))
        return
    guessed = dp.Schema({"x": column}).guess(typical).typical["x"]
    assert low < guessed.mean < high
    assert guessed.sd > 0


@given(st.lists(st.one_of(st.none(), st.floats(-1.5, 2.5)), min_size=3, max_size=3))
def test_what_is_typical_parses_back_of_levels(shares):
    figures = [
        Figure("health", level, "share", share, share, share)
        for level, share in zip(HEALTH.levels, shares, strict=True)
        if share is not None
    ]
    typical = only(*figures, columns=(HEALTH,)).typical()
    guessed = dp.Schema({"health": HEALTH}).guess(typical).typical
    if guessed:
        assert math.fsum(guessed["health"].of) == pytest.approx(1)
    else:
        assert all(share is None or share <= 0 for share in shares)


def test_what_is_not_reported_is_not_typical():
    mean = Figure("age", None, "mean", 40.0, 39.0, 41.0)
    sd = Figure("age", None, "sd", 10.0, 9.0, 11.0)
    assert only(mean, sd).typical() == {"age": {"mean": 40.0, "sd": 10.0}}
    assert only(mean, replace(sd, status=FIGURE_TOO_NOISY)).typical() == {}
    assert only(mean, replace(sd, estimate=math.nan)).typical() == {}
    share = Figure("smoker", True, "share", 1.2, 1.1, 1.3)
    assert only(share).typical() == {"smoker": {"true": 1.0}}
    assert only(replace(share, status=FIGURE_TOO_NOISY)).typical() == {}
    outcome = Outcome("y", ("no", "yes"))
    both = [Figure("y", level, "share", 0.6, 0.5, 0.7) for level in outcome.levels]
    assert only(*both, columns=(outcome,)).typical() == {"y": {"no": 0.5, "yes": 0.5}}
    assert {column.name for column in COLUMNS} >= {SMOKER.name}
