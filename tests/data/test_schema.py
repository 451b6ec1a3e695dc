import pytest

import dpinfer as dp
from dpinfer.data.formula import parse
from dpinfer.data.schema import Category, Number

GOOD = """
title = "t"
unit = "one person"
[columns.y]
type = "outcome"
levels = [false, true]
[columns.a]
type = "number"
low = 0
high = 2.5
description = "length"
source = "a ruler"
[columns.f]
type = "category"
levels = ["p", "q"]
[columns.b]
type = "boolean"
"""


def test_a_schema_is_read(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(GOOD)
    schema = dp.Schema.read(path)
    assert schema.unit == "one person"
    assert schema["a"] == Number("a", 0.0, 2.5, "length", "a ruler")
    assert schema["f"] == Category("f", ("p", "q"), "p")
    assert schema["b"] == Number("b", 0.0, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("high = 2.5", "high = 0", "low < high"),
        ("high = 2.5", "high = inf", "low and high must be finite"),
        ("high = 2.5", "", "'high' is missing"),
        ("high = 2.5", 'high = "tall"', "wrong type"),
        ("high = 2.5", "high = true", "wrong type"),
        ("high = 2.5", "high = 2\nheigh = 3", "unknown keys"),
        ('type = "number"', 'type = "float"', "needs a type"),
        ('levels = ["p", "q"]', 'levels = ["p", "p"]', "different levels"),
        ('levels = ["p", "q"]', 'levels = ["p", 1]', "different levels"),
        ('levels = ["p", "q"]', "levels = [0.5, 1.5]", "different levels"),
        ('levels = ["p", "q"]', "levels = []", "different levels"),
        ('levels = ["p", "q"]', 'levels = ["p", "q"]\nreference = "r"', "not one of its levels"),
        ("levels = [false, true]", "levels = [1, 2, 3]", "exactly two"),
        ('title = "t"', "title = 3", "wrong type"),
        ('title = "t"', 'titel = "t"', "unknown keys in the schema"),
        ('title = "t"', "title = ", "not valid TOML"),
    ],
)
def test_bad_schemas(old, new, message):
    assert old in GOOD
    with pytest.raises(dp.InputError, match=message):
        dp.Schema.parse(GOOD.replace(old, new))


def test_missing_schema(tmp_path):
    with pytest.raises(dp.InputError, match="cannot be read"):
        dp.Schema.read(tmp_path / "none.toml")
    with pytest.raises(dp.InputError, match="no columns"):
        dp.Schema.parse("")


def test_a_formula_is_read():
    outcome, terms = parse("y ~ a + f + b", dp.Schema.parse(GOOD))
    assert outcome.name == "y"
    assert [term.name for term in terms] == ["a", "f", "b"]
    assert parse("y ~ 1", dp.Schema.parse(GOOD))[1] == []


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ a + z", "no column 'z'"),
        ("a ~ f", "does not declare it as an outcome"),
        ("y ~ y", "cannot stand on the right"),
        ("y ~ a - 1", "intercept cannot be left out"),
        ("y ~ 0 + a", "intercept cannot be left out"),
        ("y ~ a:f", "plain columns"),
        ("y ~ a*f", "plain columns"),
        ("y ~ log(a)", "plain columns"),
        ("y ~ C(f)", "plain columns"),
        ("log(y) ~ a", "plain columns"),
        ("y ~ a | f", "plain columns"),
        ("y + a ~ f", "exactly one outcome"),
        ("a + f", "no outcome"),
        ("y ~ a +", "cannot be read"),
        ("y ~ ~", "cannot be read"),
        ("", "no outcome"),
        (None, "must be text"),
    ],
)
def test_bad_formulas(formula, message):
    with pytest.raises(dp.InputError, match=message):
        parse(formula, dp.Schema.parse(GOOD))
