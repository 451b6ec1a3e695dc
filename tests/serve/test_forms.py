"""A formula as ticks and ticks as a formula, and the form that holds both; no browser."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk, Spend
from dpinfer_desk.web.drawings import NARROW, WIDE, used_over_time, widths
from dpinfer_desk.web.forms import (
    FormError,
    QuestionForm,
    Ticks,
    choices_of,
    fields_of,
    offered_presets,
    ticks_of,
)
from dpinfer_desk.web.requests import FormFields, address
from helpers.hostile import HOSTILE
from helpers.visits import SCHEMA, made, question

CHOICES = choices_of(SCHEMA)


def test_what_a_schema_offers():
    assert CHOICES.outcomes[0] == "visit"
    assert {"log(age)", "log(1 + income)", "sqrt(income)"} <= set(CHOICES.outcomes)
    assert "health" not in CHOICES.outcomes
    shapes = {choice.name: choice.shapes for choice in CHOICES.columns}
    assert shapes["age"] == ("", "log", "sqrt", "square")
    assert shapes["income"] == ("", "log1", "sqrt", "square")
    assert shapes["health"] == shapes["visit"] == ("",)


@pytest.mark.parametrize(
    "ticks",
    [
        Ticks("visit"),
        Ticks("visit", (("age", ""), ("health", ""))),
        Ticks("visit", (("age", "square"), ("income", "log1")), (("age", "health"),)),
        Ticks("log(1 + income)", (("age", "log"),), (("age", "visit"), ("visit", "health"))),
    ],
)
def test_one_is_the_other(ticks):
    formula = ticks.formula()
    assert ticks_of(formula, CHOICES) == ticks
    assert ticks_of("  ".join(formula.split()), CHOICES) == ticks
    dp.LogisticRegression(formula, schema=dp.Schema.parse(SCHEMA), budget=dp.ZCDP(1.0))


def test_columns_named_like_words_of_python():
    schema = (
        '[columns.class]\ntype = "category"\nlevels = ["a", "b"]\n'
        '[columns.from]\ntype = "number"\nlow = 0\nhigh = 9\n'
        '[columns.import]\ntype = "outcome"\nlevels = ["no", "yes"]\n'
    )
    offered = choices_of(schema)
    assert {"`import`", "log(1 + `from`)"} <= set(offered.outcomes)
    ticks = Ticks("`import`", (("class", ""), ("from", "square")), (("class", "from"),))
    formula = ticks.formula()
    assert formula == "`import` ~ `class` + `from` + I(`from`**2) + `class`:`from`"
    assert ticks_of(formula, offered) == ticks
    dp.LogisticRegression(formula, schema=dp.Schema.parse(schema), budget=dp.ZCDP(1.0)).entry(900)


@pytest.mark.parametrize(
    ("formula", "same"),
    [
        ("visit ~ age*health", "visit ~ age + health + age:health"),
        ("visit~age+I(age**2)", "visit ~ age + I(age**2)"),
        ("visit ~ 1", "visit ~ 1"),
    ],
)
def test_other_ways_to_write_it(formula, same):
    assert ticks_of(formula, CHOICES).formula() == same


@pytest.mark.parametrize(
    "formula",
    [
        *("visit ~ ns(age, 40)", "visit ~ 0 + age", "visit ~ age - 1", "visit ~ (age + income)**2", "visit"),
        *("visit ~ age + log(age)", "visit ~ age + age", "visit ~ nobody", "visit ~ 1 + age", "age > 3 ~ income"),
        *("visit ~ I(age**2)", "visit ~ age:age", "visit ~ age:income:health", "", "~", "visit ~ `age", *HOSTILE),
    ],
)  # fmt: skip
def test_what_is_no_form_stays_as_it_is_written(formula):
    assert ticks_of(formula, CHOICES) is None


def test_names_that_are_no_words():
    text = SCHEMA + "[columns.'a  + b~c']\ntype = 'boolean'\n[columns.'d`e']\ntype = 'boolean'\n"
    choices = choices_of(text)
    ticks = Ticks("visit", (("a  + b~c", ""),))
    assert ticks.formula() == "visit ~ `a  + b~c`"
    assert ticks_of(ticks.formula(), choices) == ticks
    assert "d`e" not in {choice.name for choice in choices.columns}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return Desk.open(made(tmp_path_factory.mktemp("form")))


def form(desk, **fields):
    texts = {
        key.replace("_", "-"): value if isinstance(value, list) else [value]
        for key, value in fields.items()
    }
    return QuestionForm.of(desk.table("visits"), FormFields(texts))


def test_the_one_that_was_changed_counts(desk):
    was = {"formula_was": "visit ~ age", "ticks_were": "visit ~ age", "outcome": "0"}
    same = form(desk, formula="visit ~ age", column="1", **was)
    assert (same.formula, same.remark) == ("visit ~ age", "")
    ticked = form(desk, formula="visit ~ age", column=["1", "3"], **was)
    assert ticked.formula == "visit ~ age + health"
    typed = form(desk, formula="visit ~ log(age)", column="1", **was)
    assert (typed.formula, typed.ticks.columns) == ("visit ~ log(age)", (("age", "log"),))
    both = form(desk, formula="visit ~ income", column=["1", "3"], **was)
    assert both.formula == "visit ~ income"
    assert "the formula counts" in both.remark
    for place in ("9", "-1", "x", "99999999999999999999", "²"):
        assert form(desk, outcome="0", column=place).formula == "visit ~ 1"


def test_a_question_comes_back_from_its_fields(desk):
    asked = question("visit ~ age", 0.25, title="Why?", level=0.9)
    found = form(desk, **fields_of(asked, "a.meier"))
    assert found.question(desk.table("visits")) == asked
    assert found.value("by") == "a.meier"
    usual = form(desk, formula="income ~ age", rho="0.1")
    assert usual.question(desk.table("visits")).loss == "linear"


@pytest.mark.parametrize("rho", ["x", "nan", "inf", "1e999", "-1", "0", "0,5,1", "1,250", "0.1,5"])
def test_numbers_that_are_none(desk, rho):
    with pytest.raises(FormError, match="ρ m") as fault:
        form(desk, formula="visit ~ age", rho=rho).question(desk.table("visits"))
    assert set(fault.value.faults) == {"rho"}


@pytest.mark.parametrize(
    ("typed", "number"),
    [("0,5", 0.5), (",5", 0.5), ("0,125", 0.125), ("1,25e-1", 0.125), ("12,5", 12.5)],
)
def test_decimal_commas(desk, typed, number):
    found = form(desk, formula="visit ~ age", rho=typed)
    assert found.question(desk.table("visits")).rho == number
    assert found.value("rho") == typed


def test_all_faults_are_told_at_their_fields(desk):
    """Whatever was typed stays as it was, and each fault has the words of its own field."""
    typed = {
        "formula": "visit ~ agee",
        "epsilon": "one",
        "delta": "2",
        "level": "0,2",
        "title": "x" * 201,
    }
    found = form(desk, **typed)
    with pytest.raises(FormError) as fault:
        found.question(desk.table("visits"))
    assert set(fault.value.faults) == set(typed)
    assert "did you mean 'age'?" in fault.value.faults["formula"]
    assert fault.value.faults["delta"] == "δ must be a number strictly between 0 and 1"
    assert not any("--" in words for words in fault.value.faults.values())
    marked = found.with_faults(fault.value)
    assert {key: marked.value(key) for key in typed if key != "formula"} == {
        key: words for key, words in typed.items() if key != "formula"
    }
    for budget, key in (
        ({"epsilon": "1", "rho": "1"}, "epsilon"),
        ({"rho": "1", "delta": "0.1"}, "delta"),
    ):
        with pytest.raises(FormError) as fault:
            form(desk, formula="visit ~ age", **budget).question(desk.table("visits"))
        assert set(fault.value.faults) == {key}


def test_presets_are_what_the_total_could_pay_for(desk):
    """Each is a budget of the kind of the total; one that is dearer than the total is not offered."""
    for total, names in (
        (dp.ZCDP(2.0), ["Strong", "Moderate", "Weak"]),
        (dp.ApproxDP(1.5, 1e-7), ["Strong", "Moderate"]),
        (dp.PureDP(0.7), ["Strong"]),
    ):
        offered = offered_presets(total)
        assert [name for name, _ in offered.values()] == names
        for budget in (budget for _, budget in offered.values()):
            assert isinstance(budget, dp.PureDP) == isinstance(total, dp.PureDP)
    assert offered_presets(dp.ApproxDP(1.5, 1e-7))["1"][1] == dp.ApproxDP(1.0, 1e-7)
    chosen = form(desk, formula="visit ~ age", rho="0.2", preset="0.5")
    assert chosen.budget() == dp.ApproxDP(0.5, 1e-6)
    assert form(desk, rho="x").budget() is None


def test_addresses_keep_their_parts():
    assert address("/desk-1", ("t", "../x y/é?#")) == "/desk-1/t/..%2Fx%20y%2F%C3%A9%3F%23"
    assert address("/d", ("q",), {"by": "a&b=c"}) == "/d/q?by=a%26b%3Dc"


def test_the_chart_rises_to_the_share_that_is_used():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    spends = [
        Spend(
            (start + timedelta(days=day)).isoformat(),
            "a",
            "",
            "ε = 1",
            0.5,
            total,
            total / 2,
            "r",
            "q",
        )
        for day, total in ((10, 0.5), (20, 1.0))
    ]
    for size in (WIDE, NARROW):
        drawn = used_over_time(spends, (start, start + timedelta(days=30)), size)
        top, half, bottom = drawn.levels[2][0], drawn.levels[1][0], drawn.levels[0][0]
        assert [words for _, words in drawn.levels] == ["0 %", "50 %", "100 %"]
        assert drawn.outline.startswith(f"M{drawn.left} {bottom}H")
        assert drawn.outline.endswith(f"V{half}H{size.width - 8}")
        assert top < half < bottom == drawn.base
        beyond = used_over_time([replace(spends[0], used=1.2)], (start, start), size)
        assert f"V{top}H" in beyond.outline


def test_widths_are_multiples_of_those_without_noise(desk):
    found = desk.forecast("visits", question("visit ~ age + health"), [dp.ZCDP(0.05), dp.ZCDP(0.5)])
    for size in (WIDE, NARROW):
        drawn = widths(found, size)
        assert [row.name for row in drawn.rows] == list(found.names)
        for j, row in enumerate(drawn.rows):
            ratios = found.half_width[:, j] / found.nonprivate[:, j]
            places = [mark.x for mark in row.marks]
            assert np.argsort(places).tolist() == np.argsort(ratios).tolist()
            assert all(drawn.left <= place <= drawn.right for place in places)
