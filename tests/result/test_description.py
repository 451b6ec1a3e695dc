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


def test_every_figure_has_its_row_in_the_full_table():
    shown = plain().summary(full=True)
    for words in (
        r"^age \(years\)$",
        r"^  usable records +19,981 \(19,950 to 20,013\)$",
        r"^  missing +209 \(177 to 240\)$",
        r"^  missing +none detected \(at most 35\)$",
        r"^  mean +46\.31 \(46\.02 to 46\.60\)$",
        r"^  lower quartile +32 \(31 to 33\)$",
        r"^  yes +19\.87% \(19\.31 to 20\.43\)$",
        r"^  good, count +14,003 \(13,972 to 14,034\)$",
        r"^  sd +at most 21,000$",
    ):
        assert re.search(words, shown, re.MULTILINE), words


def test_the_compact_table_has_one_row_per_level():
    lines = table_one.screen(plain()).splitlines()[1:-1]
    expected = (
        r"age \(years\) +n = 19,981",
        r"  mean +46\.31 \(46\.02 to 46\.60\)",
        r"  sd +17\.42 \(17\.10 to 17\.74\)",
        r"  median +45 \(44 to 46\)",
        r"  quartiles +32 and 60",
        r"  missing +209 \(177 to 240\)",
        r"income \(euro\) +n = 20,150",
        r"  mean +31,234 \(30,870 to 31,599\)",
        r"  sd +at most 21,000",
        r"  median +27,650 \(26,900 to 28,400\)",
        r"  quartiles +– and 41,000",
        r"smoker = yes +4,012; 19\.87% \(19\.31 to 20\.43\)",
        r"health",
        r"  good +14,003; 69\.36% \(68\.69 to 70\.03\)",
        r"  fair +6,120; 30\.31% \(29\.65 to 30\.97\)",
        r"  poor +at most 36; 0\.17%",
    )
    for line, words in zip(lines, expected, strict=True):
        assert re.fullmatch(words, line), (line, words)
    for view in (plain().to_latex(), plain()._repr_html_(), plain().to_markdown()):
        assert "smoker = yes" in view
        assert "14,003; 69.36" in view
        assert "good, count" not in view
    for view in (plain().to_latex(full=True), plain().to_markdown(full=True)):
        assert "good, count" in view


def test_a_summary_has_ten_lines_under_its_table():
    for described in (plain(), grouped()):
        under = described.summary().rpartition("=" * 80)[2].strip().splitlines()
        assert len(under) <= 10
        assert len(described.summary().splitlines()) < len(
            described.summary(full=True).splitlines()
        )


def test_yes_and_no_have_one_row_whatever_their_type():
    for column, levels in (
        (Category("x", ("No", "Yes"), "No"), ("No", "Yes")),
        (Outcome("x", (False, True)), (True,)),
        (Number("x", 0, 1, kind="boolean"), (True,)),
    ):
        figures = [Figure("x", level, "share", 0.5, 0.4, 0.6) for level in levels]
        (block,) = table_one.blocks(only(*figures, columns=(column,)))
        labels = [row.label for row in block.compact_rows()]
        assert labels == [f"x = {table_one.level_name(levels[-1])}"]
    two = Category("x", ("f", "m"), "f")
    figures = [Figure("x", level, "share", 0.5, 0.4, 0.6) for level in two.levels]
    (block,) = table_one.blocks(only(*figures, columns=(two,)))
    assert [row.label for row in block.compact_rows()] == ["x", "f", "m"]


def test_what_noise_took_to_a_bound_is_not_an_estimate():
    """It is the end of an interval alone: 0.0 (0.0 to 3.7) beside a median of 2 reads like a mean of 0."""
    visits = Number("visits", 0, 100)
    for one, words in (
        (Figure("visits", None, "mean", 0.0, 0.0, 3.68), "at most 3.7"),
        (Figure("visits", None, "mean", 100.0, 96.31, 100.0), "at least 96.3"),
        (Figure("visits", None, "mean", 1.0, 0.0, 3.7), "1.0 (0.0 to 3.7)"),
        (Figure("visits", None, "median", 0.0, 0.0, 3.7), "0.0 (0.0 to 3.7)"),
        (Figure("visits", None, "mean", 0.0, 0.0, 0.0), "0 (0 to 0)"),
        (Figure("visits", None, "sd", 50.0, 20.04, 50.0), "at least 20.0"),
        (Figure("visits", None, "sd", 0.0, 0.0, 8.15), "at most 8.2"),
    ):
        assert str(table_one.cell(one, visits)) == words
    described = only(Figure("visits", None, "mean", 0.0, 0.0, 3.7), columns=(visits,))
    for view in VIEWS:
        shown = " ".join(getattr(described, view)().split())
        assert "at most 3.7" in shown
        assert "where noise took it to its bound" in shown
    day = Number("day", 0, 365, kind="date", origin="2020-01-01")
    one = Figure("day", None, "mean", 0.0, 0.0, 30.2)
    assert str(table_one.cell(one, day)) == "at most 2020-02-01"
    assert str(table_one.cell(replace(one, figure="sd"), day)) == "at most 30.2 days"


def test_missing_values_that_may_be_none_are_no_finding():
    none = Figure("health", None, "missing", 141.0, 0.0, 283.0)
    assert str(table_one.cell(none, HEALTH)) == "none detected (at most 283)"
    some = replace(none, low=20.0)
    assert str(table_one.cell(some, HEALTH)) == "141 (20 to 283)"
    assert "  missing" not in table_one.screen(only(none))
    assert "  missing" in table_one.screen(only(some))
    said = only(none).summary()
    assert "Missing values elsewhere: none detected, at most 283 per column." in said
    assert "Missing values: none" in only(none, columns=(HEALTH,)).summary()
    assert "none detected" not in only(some).summary()
    assert "anybody" not in only(none).summary()
    unknown = replace(none, estimate=math.nan, low=math.nan, high=math.nan, status=FIGURE_TOO_NOISY)
    assert "  missing" in table_one.screen(only(unknown))


def test_what_may_be_nobody_does_not_look_certain():
    for view in VIEWS:
        shown = getattr(plain(), view)().replace(r"\%", "%")
        assert "at most 36; 0.17%" in shown
        assert "the interval includes 0, so there may be nobody" in " ".join(shown.split())
    certain = Figure("health", "poor", "count", 4.0, 1.0, 35.1)
    assert str(table_one.cell(certain, HEALTH)) == "4 (1 to 36)"
    assert str(table_one.cell(replace(certain, low=0.0), HEALTH)) == "at most 36"
    # a lower end that is no record is printed as 0, and says no more than that
    assert str(table_one.cell(replace(certain, low=0.4), HEALTH)) == "at most 36"
    assert "nobody" not in only(certain).summary()
    usable = Figure("age", None, "records", 3.0, 0.0, 40.0)
    assert re.search(r"age \(years\) +n at most 40", only(usable).summary())


def test_rounding_never_shortens_an_interval_of_a_count():
    one = Figure("health", "poor", "count", 12.4, 9.9, 14.1)
    assert str(table_one.cell(one, HEALTH)) == "12 (9 to 15)"


def test_digits_are_those_of_the_interval_and_of_the_range():
    one = Figure("age", None, "mean", 46.3123, 46.02, 46.6)
    assert str(table_one.cell(one, AGE)) == "46.31 (46.02 to 46.60)"
    sure = Figure("age", None, "median", 45.00123, 45.00119, 45.00127)
    assert str(table_one.cell(sure, Number("age", 0, 1e-3))) == "45.001230 (45.001190 to 45.001270)"
    assert str(table_one.cell(sure, AGE)) == "45.00 (45.00 to 45.01)"
    rough = Figure("age", None, "mean", 46.3, 40.0, 52.0)
    assert str(table_one.cell(rough, AGE)) == "46.3 (40.0 to 52.0)"


def test_figures_not_reported_have_no_number_and_a_reason():
    for view in VIEWS:
        shown = getattr(plain(), view)()
        assert not re.search(r"\b(nan|inf)\b", shown)
        assert f"income, lower quartile: {FIGURE_TOO_NOISY}" in " ".join(shown.split())
    assert FIGURE_TOO_NOISY not in only(*(one for one in plain().figures if one.reported)).summary()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_a_screen_is_80_letters_wide_whatever_the_groups(count, full):
    described = grouped(tuple(f"group {k}" for k in range(count)))
    shown = described.summary(full=full)
    assert max(map(len, shown.splitlines())) <= 80
    assert re.findall(r"= (group \d)", shown)[:count] == [f"group {k}" for k in range(count)]
    for row in described.rows():
        if row["figure"] == "mean" and row["column"] == "age":
            assert f"{row['estimate']:.2f}" in shown


def test_groups_are_headed_by_column_and_level():
    assert table_one.heads(grouped()) == [
        "Characteristic",
        "sex = women",
        "sex = men",
        "men less women",
    ]
    assert table_one.heads(grouped(by_label="Sex at birth"))[1] == "Sex at birth = women"
    assert table_one.heads(grouped((False, True)), full=True)[1:] == ["sex = no", "sex = yes"]
    assert "sex = men" in grouped().summary()
    long = grouped(by_label="Individual deductible plan of the family")
    heads = long.summary().partition("-" * 80)[0]
    assert "women" in heads
    assert "men" in heads.replace("women", "")


def test_differences_stand_in_a_column_or_under_the_other_groups():
    (block,) = (b for b in table_one.blocks(grouped()) if b.column == AGE)
    full = [row.label for row in block.full_rows()]
    assert full[3:5] == ["mean", "difference from women"]
    first, second = block.full_rows()[4].cells
    assert (str(first), str(second)) == ("", "1.00 (0.60 to 1.40)")
    by_label = {row.label: row.cells for row in block.compact_rows()}
    assert [str(cell) for cell in by_label["mean"]][2] == "1.00 (0.60 to 1.40)"
    assert [str(cell) for cell in by_label["median"]][2] == ""
    assert "1.30 pp" in grouped().summary()
    assert "pp: percentage points." in grouped().summary()


def test_figures_of_all_stand_before_those_of_groups():
    both = grouped(figures=(*plain().figures, *grouped().figures))
    assert both.shown_groups == (None, "women", "men")
    assert table_one.heads(both)[1:4] == ["all", "sex = women", "sex = men"]
    assert grouped().shown_groups == ("women", "men")


def test_a_table_of_groups_in_latex_has_intervals_under_the_estimates():
    lines = grouped().to_latex().splitlines()
    (place,) = [j for j, line in enumerate(lines) if line.startswith("smoker = yes &")]
    assert lines[place] == r"smoker = yes & 4,012; 19.87\% & 4,012; 19.87\% & 1.30 pp \\"
    assert lines[place + 1] == r" & (19.31 to 20.43) & (19.31 to 20.43) & (0.20 to 2.40) \\"
    assert "19.87\\% (19.31 to 20.43)" in plain().to_latex()
    assert "``At most''" in plain().to_latex()


def test_labels_and_units_name_columns():
    columns = (replace(AGE, label="Age at entry"), *COLUMNS[1:3], replace(HEALTH, label="Health"))
    described = plain(columns=columns)
    for view in VIEWS:
        assert "Age at entry (years)" in getattr(described, view)()
    again = Description.from_json(described.to_json())
    assert again.summary() == described.summary()
    by = grouped(by_label="Sex at birth")
    assert Description.from_json(by.to_json()).by_label == "Sex at birth"
    assert "by_label" not in json.loads(grouped().to_json())  # earlier versions read it, too


def test_reasons_name_columns_where_figures_are_many():
    unknown = [replace(one, status=FIGURE_TOO_NOISY) for one in grouped().figures]
    said = " ".join(grouped(figures=tuple(unknown)).summary().split())
    assert (
        f"age, income, smoker, health (women); age, income, smoker, health (men): {FIGURE_TOO_NOISY}."
        in said
    )


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
    shown = " ".join(plain().summary(full=True).split())
    for words in (
        "count as the bound",
        "age: from 18 to 95 years",
        "health: good, fair, poor",
        "ρ = 0.1",
        "Protects one person (neighbours: one record replaced, number of records public)",
        "figures of age: ρ = 0.025",
        "both the sampling error and the privacy noise",
        *plain().caveats(),
    ):
        assert words in shown
    assert "Groups are by" not in shown
    assert "Groups are by the declared levels of sex" in " ".join(
        grouped().summary(full=True).split()
    )
    units = plain(unit=Unit("one person", column="id"), n=500)
    assert "Every unit counts once" in units.summary(full=True)
    assert "usable units" in units.summary(full=True)
    assert "500 units" in units.summary()
    weighted = plain(unit=Unit("one person", weights="w", max_weight=5.0))
    assert "sampling weights" in weighted.summary(full=True)
    assert "usable weight" in weighted.summary(full=True)
    assert "usable rows" in plain(unit=Unit("one person", column="id", rows=5)).summary(full=True)
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
        "<Description of age, income, smoker, health by sex: 20,190 records, ρ = 0.1>"
    )


def test_html_is_a_table_that_can_be_read_aloud():
    shown = grouped()._repr_html_()
    assert shown.count("<tr>") == shown.count("</tr>") == 1 + 16
    assert shown.count('scope="row"') == 16
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
