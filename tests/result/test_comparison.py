"""Models side by side: what stands where, what is said to differ, and what is refused."""

import dataclasses
import math
import re

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.result import coefficient_table, differences, text
from dpinfer.result.estimates import AT_ZERO
from helpers.partial_results import partly_reported
from helpers.support import labelled

X, Y = labelled(2000, 3)


def fit(names=("(Intercept)", "age", "income"), **options):
    """A penalised fit on bare rows; the noise is said to be real."""
    given = {"penalty": 0.01, "budget": dp.ZCDP(0.5), "loss": dp.Logistic(), "insecure_seed": 1}
    found = dp.infer(X, Y, **(given | options))
    privacy = dataclasses.replace(found.privacy, private=True)
    return dataclasses.replace(found, names=names, privacy=privacy)


LOGIT = partly_reported()
SHORT = partly_reported(income=False)
SQUARES = partly_reported(squares=True)
MODELS = {"all columns": LOGIT, "without income": SHORT, "amounts": SQUARES}
PLAIN = fit()


def cells(comparison):
    """The cells of each line, as they are printed."""
    return {row.name: [str(cell) for cell in row.cells] for row in comparison.rows()}


def test_rows_are_the_terms_of_all_models_in_their_order():
    other = fit(("(Intercept)", "income", "sex"))
    found = cells(dp.compare([PLAIN, other]))
    assert list(found) == ["(Intercept)", "age", "income", "sex"]
    assert found["age"][1] == found["sex"][0] == ""
    for row in PLAIN.table():
        number = text.number(row["estimate"], text.decimals_for(row["std_error"]))
        assert found[row["name"]][0] == f"{number} ({coefficient_table.interval(row)})"
    assert found["income"] != [found["income"][0]] * 2  # the first of the others is its second


def test_coefficients_not_reported_keep_their_reason_and_what_is_known_instead():
    comparison = dp.compare(MODELS)
    found = cells(comparison)
    names = list(found)
    assert names[-1] == AT_ZERO
    assert names[names.index("income") + 1] == "income, within 5 to 80"
    assert found["income"][1] == ""
    (mark,) = re.findall(r"^not reported \[(\d)\]$", found["health[poor]"][0])
    assert found["health[poor]"] == [f"not reported [{mark}]"] * 3
    assert f"[{mark}] {LOGIT.status[5]}." in comparison.notes()
    assert coefficient_table.INSTEAD in comparison.notes()
    assert any(note.startswith(coefficient_table.MEANING) for note in comparison.notes())
    indented = [row.name for row in comparison.rows() if row.indented]
    assert indented == list(LOGIT.instead.names)


def test_where_all_is_reported_nothing_is_said_of_others():
    notes = " ".join(dp.compare([PLAIN, PLAIN]).notes())
    assert "not reported" not in notes
    assert "indented" not in notes


def test_every_format_has_every_number_and_every_note():
    comparison = dp.compare(MODELS, level=0.9)
    markdown = comparison.to_markdown().replace("\\", "")
    latex = comparison.to_latex()
    html = comparison.to_html()
    for row in comparison.rows():
        for cell in filter(None, map(str, row.cells)):
            assert f"| {cell} " in markdown
            assert f"<td>{cell}</td>" in html
            assert cell.replace("−", "$-$").replace("[", "{[}").replace("]", "{]}") in latex
            for part in cell.partition(" (")[::2]:
                assert part.rstrip(")") in str(comparison)
    words = " ".join(str(comparison.to_text(200)).split())
    for note in comparison.notes():
        assert note in words
        assert note in markdown
        assert re.search(r"[*★☆†]", note) is None
    assert "90% confidence intervals" in words
    for shown in (words, markdown, latex, html):
        assert "*" not in shown  # stars never


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_its_width(width):
    long = {f"{name}, at some length": result for name, result in MODELS.items()}
    odd = fit(("a" * 200, "b\x1b[31m", "c"))
    for models in (MODELS, long, {"odd": odd, "plain": PLAIN}):
        lines = dp.compare(models).to_text(width).splitlines()
        assert [line for line in lines if len(line) > width] == ["a" * 200] * ("odd" in models)
        assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_models_that_do_not_fit_stand_below():
    shown = dp.compare([PLAIN] * 8).to_text(80)
    assert dp.compare([PLAIN] * 8).summary(full=True) == shown
    assert shown.count("(Intercept)") > 1
    assert re.findall(r"Model \d", shown.partition("The same")[0]) == [
        f"Model {k}" for k in range(1, 9)
    ]


def test_the_frame_is_long():
    frame = dp.compare(MODELS, level=0.9).to_frame()
    assert list(frame.columns[:4]) == ["model", "term", "estimate", "std_error"]
    assert len(frame) == sum(len(result.names) for result in MODELS.values())
    for name, result in MODELS.items():
        own = frame[frame["model"] == name]
        assert list(own["term"]) == list(result.names)
        assert np.array_equal(own[["low", "high"]].to_numpy(), result.conf_int(0.9))
        assert list(own["status"]) == list(result.statuses)


def test_ratios_are_those_of_the_single_results():
    comparison = dp.compare([LOGIT, SHORT], ratios=True)
    assert comparison.caption.startswith("Odds ratios with")
    frame = comparison.to_frame()
    single = LOGIT.odds_ratios()
    own = frame[frame["model"] == "Model 1"].set_index("term")
    assert list(own.index) == list(single.index)
    for ours, theirs in (("ratio", "odds_ratio"), ("ratio_low", "low"), ("ratio_high", "high")):
        assert np.allclose(own[ours], single[theirs], equal_nan=True)
    assert math.isnan(own.loc["income", "ratio"])
    found = cells(comparison)
    assert "(Intercept)" not in found
    assert AT_ZERO not in found
    (row,) = [row for row in LOGIT.table() if row["name"] == "age"]
    assert found["age"][0] == str(coefficient_table.ratio_cell(row))
    assert differences.CENTRES not in comparison.notes()
    with pytest.raises(dp.InputError, match="leave out amounts, or ratios"):
        dp.compare(MODELS, ratios=True)


def said(*results):
    """The notes on differences, by what they are about."""
    notes = dp.compare(results).differences()
    return {note.partition(". ")[0]: note for note in notes}


def test_what_is_the_same_is_said_once():
    notes = said(LOGIT, LOGIT)
    same = notes["The same in all models"]
    for words in (
        "Question: visit ~ age",
        "Outcome: visit is yes (against no)",
        "Compared with: health[good]",
        "Model: logistic regression",
        "Target: ordinary",
        "Records: 5,000",
        "Privacy: zero-concentrated differential privacy (zCDP) with ρ = 0.1",
        "Protects: one person",
        "Adjacency: one record replaced",
        "Release: not booked",
    ):
        assert words in same
    assert [*notes.values()] == [same, differences.CENTRES, differences.SHARED]


def changed(result, **fields):
    return dataclasses.replace(result, **fields)


def with_privacy(result, **fields):
    return changed(result, privacy=dataclasses.replace(result.privacy, **fields))


def with_question(result, **fields):
    return changed(result, question=dataclasses.replace(result.question, **fields))


WIDER = tuple(
    dataclasses.replace(column, high=120.0) if column.name == "age" else column
    for column in LOGIT.question.columns
)
DIFFER = {
    "Privacy": (with_privacy(LOGIT, budget=dp.PureDP(0.7)), "ε = 0.7"),
    "Protects": (with_privacy(LOGIT, unit="one visit"), "one visit"),
    "Adjacency": (
        with_privacy(LOGIT, neighbours=Adjacency.ADD_REMOVE),
        "one record added or removed",
    ),
    "Release": (with_privacy(LOGIT, in_ledger=True, release="abc"), "abc"),
    "Records": (changed(LOGIT, model=dataclasses.replace(LOGIT.model, n=6000)), "6,000"),
    "Target": (changed(LOGIT, model=dataclasses.replace(LOGIT.model, target="robust")), "robust"),
    "Penalty": (changed(LOGIT, model=dataclasses.replace(LOGIT.model, penalty=0.5)), "c = 0.5"),
    "Outcome": (SQUARES, "spent, a number from 0 to 500"),
    "Model": (SQUARES, "least squares"),
    "Coefficients": (SQUARES, "changes of the outcome, in its units"),
    "Columns that are not in all models": (SHORT, "Model 1: income"),
    "Compared with": (with_question(LOGIT, references=(("health", "fair"),)), "health[fair]"),
    "Declared about age": (with_question(LOGIT, columns=WIDER), "from 0 to 120"),
    "Terms with age": (
        with_question(LOGIT, formula=LOGIT.question.formula.replace("age", "I(age**2)")),
        "Model 2: I(age",
    ),
}


@pytest.mark.parametrize("about", DIFFER)
def test_what_differs_is_said(about):
    other, words = DIFFER[about]
    notes = said(LOGIT, other)
    assert words in notes[about]
    assert about not in said(LOGIT, LOGIT)
    same = notes["The same in all models"]
    assert f" {about}:" not in same


def test_models_with_one_fact_stand_together():
    third = with_privacy(LOGIT, unit="one visit")
    assert said(LOGIT, third, LOGIT)["Protects"] == (
        "Protects. Model 1, Model 3: one person; Model 2: one visit."
    )


@pytest.mark.parametrize(
    ("other", "note", "there"),
    [
        (SQUARES, differences.KINDS, True),
        (SHORT, differences.KINDS, False),
        (SHORT, differences.COLUMNS_MATTER, True),
        (LOGIT, differences.COLUMNS_MATTER, False),
        (SHORT, differences.CENTRES, True),
        (SHORT, differences.SHARED, True),
    ],
)
def test_what_may_not_be_concluded(other, note, there):
    assert (note in dp.compare([LOGIT, other]).notes()) == there


def test_fits_on_bare_rows_have_no_centre_and_no_question():
    notes = dp.compare([PLAIN, PLAIN]).notes()
    assert differences.CENTRES not in notes
    assert "Question: not known" in " ".join(notes)


def test_what_is_not_private_says_so_first():
    other = partly_reported(private=False)
    notes = dp.compare({"a": LOGIT, "b": other}).notes()
    assert notes[0] == "NOT PRIVATE, do not publish: b."
    assert not any("NOT PRIVATE" in note for note in dp.compare([LOGIT, LOGIT]).notes())


def test_warnings_of_single_models_are_there():
    few = changed(LOGIT, model=dataclasses.replace(LOGIT.model, n=50_000))
    assert few.too_few
    assert f"b: {few.too_few}" in dp.compare({"a": LOGIT, "b": few}).notes()


def test_saved_results_are_called_after_their_folder(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        LOGIT.save(tmp_path / name / "result.json")
    LOGIT.save(tmp_path / "third.json")
    paths = [tmp_path / "first/result.json", str(tmp_path / "second/result.json")]
    assert dp.compare([*paths, tmp_path / "third.json"]).names == ("first", "second", "third")
    assert dp.compare([*paths, LOGIT]).names == ("Model 1", "Model 2", "Model 3")
    assert dp.compare([paths[0]] * 2).names == ("Model 1", "Model 2")
    assert dp.compare(paths, ["a", "b"]).names == ("a", "b")
    assert cells(dp.compare(paths)) == cells(dp.compare([LOGIT, LOGIT]))


def test_the_short_form_names_the_models():
    comparison = dp.compare({"a": PLAIN, "b\x1b": PLAIN})
    assert repr(comparison) == r"<Comparison of a, b\x1b>"
    assert str(comparison) == comparison.to_text()
    assert comparison._repr_html_() == comparison.to_html()


def test_names_are_escaped():
    comparison = dp.compare({"<b>&": PLAIN, "a|b_c": PLAIN})
    assert '<th scope="col">&lt;b&gt;&amp;</th>' in comparison.to_html()
    assert "<b>" not in comparison.to_html()
    assert r"a\|b\_c" in comparison.to_markdown()
    assert r"a|b\_c" in comparison.to_latex()


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ([PLAIN], {}, "2 to 12 results"),
        ([], {}, "2 to 12 results"),
        ([PLAIN] * 13, {}, "2 to 12 results"),
        (PLAIN, {}, "give a list"),
        ("result.json", {}, "give a list"),
        ([PLAIN, PLAIN], {"names": ["a"]}, "one name per result"),
        ([PLAIN, PLAIN], {"names": ["a", "a"]}, "a name of its own"),
        ([PLAIN, PLAIN], {"names": ["a", " "]}, "a name of its own"),
        ({"a": PLAIN, "b": PLAIN}, {"names": ["a", "b"]}, "not both"),
        ([PLAIN, 3], {}, "not int: give"),
        ([PLAIN, "nowhere.json"], {}, "cannot be read"),
        ([PLAIN, PLAIN], {"level": 0.05}, "below one half"),
    ],
)
def test_what_is_refused(given, options, words):
    with pytest.raises(dp.InputError, match=words):
        dp.compare(given, **options)


def test_too_narrow_a_text_is_refused():
    with pytest.raises(dp.InputError, match="at least 60"):
        dp.compare([PLAIN, PLAIN]).to_text(40)
