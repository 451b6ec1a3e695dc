"""Comparisons in a formula: what stands for what, and what could mean two things."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.comparisons import braced
from dpinfer.schema.formula import names_of, parse
from helpers.derived import SCHEMA
from helpers.searches import examples


def told(read, formula):
    """The words of an error, empty without one."""
    try:
        read(formula)
    except dp.InputError as error:
        return str(error)
    return ""


def columns(formula):
    _, terms = parse(formula, SCHEMA)
    return [name for block in terms.blocks for name in block.names]


@pytest.mark.parametrize(
    ("right", "names"),
    [
        ("age >= 65", ["age >= 65"]),
        ("age>=65+income", ["age >= 65", "income"]),
        ("income + 18 < age <= 65", ["income", "18 < age <= 65"]),
        ("grade == 2", ["grade == 2"]),
        ("region == 'north'", ["region == north"]),
        ('region != "north"', ["region != north"]),
        ("region in ('north', 'east') + age", ["region in (north, east)", "age"]),
        ("region not in ('north', 'east')", ["region not in (north, east)"]),
        ("region in 'north'", None),
        ("grade in (1, 2)", ["grade in (1, 2)"]),
        ("'north' == region", ["region == north"]),
        ("65 <= age", ["65 <= age"]),
        ("income > -1 + age", None),
        ("grade < income", ["grade < income"]),
        ("I(age >= 65)", ["age >= 65"]),
        ("(age >= 65 & smoker)", ["age >= 65 and smoker"]),
        ("(age >= 65) : smoker", ["age >= 65:smoker"]),
        ("smoker*(age >= 65)", ["smoker", "age >= 65", "smoker:age >= 65"]),
        ("I(age / 2 > 20 | !smoker)", ["age / 2 > 20 or (not smoker)"]),
        ("(not smoker)", ["not smoker"]),
        ("smoker == False", ["not smoker"]),
        ("smoker == True", ["smoker"]),
        ("admitted >= '2020-02-01'", ["admitted >= 2020-02-01"]),
        ("'2020-02-01' <= admitted < '2021-01-01'", ["2020-02-01 <= admitted < 2021-01-01"]),
        ("log(age) > 4 + `income` > 3", ["log(age) > 4", "income > 3"]),
        ("age >= 65 + I(age >= 65)", ["age >= 65"]),
        ("age > 3e1", ["age > 30.0"]),
        ("I(age * (age > 30))", ["I(age * (age > 30))"]),
        ("{age >= 65}", ["age >= 65"]),
        (
            "income*{age >= 65 && !smoker}",
            ["income", "age >= 65 and (not smoker)", "income:age >= 65 and (not smoker)"],
        ),
        ("income > 15e-1 + age", ["income > 1.5", "age"]),
        ("I(!(smoker & age > 30) | age > 60)", ["(not (smoker and age > 30)) or age > 60"]),
    ],
)
def test_names(right, names):
    """Each is one column, under the name that the formula gives it; or an error with a remedy."""
    if names is None:
        with pytest.raises(dp.InputError):
            columns("claims ~ " + right)
    else:
        assert columns("claims ~ " + right) == names


BAD = {
    "a ratio": ("age / income > 2", r"stands beside /.*write I\(|I\(a / b > 2\)"),
    "a difference": ("age - income > 2", "stands beside -, which could mean two things"),
    "a product": ("smoker * age > 30", r"write \(age > 30\) for the comparison alone"),
    "an interaction": ("smoker:age > 30", "stands beside :"),
    "and outside of brackets": ("age > 30 & smoker", "put it in brackets"),
    "or outside of brackets": ("age > 30 or smoker", "put it in brackets"),
    "always": ("age >= 18", "age >= 18 is true in every row, since age goes from 18 to 100"),
    "never": ("age > 200", "is false in every row.*compare with a value in between"),
    "never equal": ("grade == 7", "grade == 7 is false in every row"),
    "one end of a chain": ("0 <= age < 65", "0 <= age is true in every row"),
    "all levels": ("grade in ()", "a list of values"),
    "no level": ("region == 'nroth'", "did you mean 'north'?"),
    "every level": (
        "region in ('north', 'south', 'east', 'west side')",
        "the same in every row: name some of its levels",
    ),
    "order of levels": ("region > 'north'", "levels without an order"),
    "two factors": ("region == coast", "text in quotes"),
    "no column": ("3 > 2", "compares no column"),
    "text for a number": ("age == '3'", "write a number without quotes"),
    "no date": ("admitted > 'May'", "is no date: write it as '2024-05-31'"),
    "nothing": ("age >", "a side of it is missing"),
    "neither true nor false": ("I(age and smoker)", "age is neither true nor false"),
    "is": ("I(age is smoker)", "a comparison is one of"),
    "a number with levels": ("log(region) > 3", "only a number can be transformed: compare it"),
}


@pytest.mark.parametrize(("right", "message"), BAD.values(), ids=BAD)
def test_bad_comparisons(right, message):
    with pytest.raises(dp.InputError, match=message) as caught:
        parse("claims ~ " + right, SCHEMA)
    assert "\n" not in str(caught.value)


def test_the_left_is_one_expression():
    """Arithmetic and logic need no I(...) there; levels are false and true."""
    for left in (
        "claims > 0",
        "claims + age > 30",
        "region == 'north'",
        "region in ('north', 'EAST')",
        "claims > 0 and region == 'north'",
        "not smoker",
        "smoker",
        "any_claim",
        "coast == 'the coast'",
    ):
        response, _ = parse(f"{left} ~ income", SCHEMA)
        assert response.levels == (False, True)
        assert response.number is None
    assert parse("claims > 0 ~ age", SCHEMA)[0].name == "claims > 0"
    with pytest.raises(dp.InputError, match="'claims' stands on both sides"):
        parse("claims > 0 ~ claims", SCHEMA)


def test_one_name_stands_for_one_thing():
    """A level may be called anything, a derived column too."""
    schema = dp.Schema.parse(
        '[columns.y]\ntype = "boolean"\n[columns.s]\ntype = "boolean"\n[columns.r]\ntype = "category"\n'
        'levels = ["a", "a or s", "b"]\n[columns."r == b"]\nfrom = "r == \'a\'"\n'
    )
    for right in ("(r == 'a' or s) + r == 'a or s'", "`r == b` + r == 'b'"):
        with pytest.raises(dp.InputError, match="two terms of the formula have the name"):
            parse("y ~ " + right, schema)
    parse("y ~ r == 'b' + r == 'B'", schema)


def test_what_has_no_comparison_stays_as_it_is():
    for formula in ("y ~ a*b + C(h, 'x > 2') + `a > 2`", "y ~ merge(r, c=('a', 'b'))", "y", ""):
        assert braced(formula) == formula


def test_comparisons_are_put_in_braces():
    """In braces formulaic counts the brackets of texts, too."""
    for plain, in_braces in {
        "y ~ a + b>=3": "y ~ a + {b>=3}",
        "y ~ a:(b >= 3)": "y ~ a:({b >= 3})",
        "a - b > 2 ~ c": "{a - b > 2} ~ c",
        "y ~ a == ':(' + b": r"y ~ {a == ':\x28'} + b",
        "y ~ a >= 1e-3 + b in(1, 2)": "y ~ {a >= 1e-3} + {b in(1, 2)}",
    }.items():
        assert braced(plain) == in_braces


def test_columns_are_found_without_a_schema():
    formula = "a > 0 ~ b in (1, 2) + cut(c, 3) + merge(d, e=('f', 'g')) + `h i` >= 3 + I(!j)"
    assert names_of(formula) == ["a", "b", "c", "d", "h i", "j"]


WORDS = (
    "age",
    "region",
    "smoker",
    "3",
    "'north'",
    "I(",
    "cut(",
    "in",
    "not",
    "and",
    "or",
    ">=",
    "==",
)
pieces = st.sampled_from([*WORDS, *"<>&!()[\"',+-*/:~`{}"])


@examples(133)
@given(st.lists(pieces, max_size=14).map(" ".join), st.booleans())
def test_no_formula_ends_in_another_error(right, left):
    formula = f"{right} ~ income" if left else f"claims ~ {right}"
    for read in (names_of, lambda formula: parse(formula, SCHEMA)):
        told(read, formula)


def test_no_comparison_takes_long():
    """Neither deep brackets nor many comparisons, nor columns that are derived from each other."""
    start = time.perf_counter()
    for formula in (
        "claims ~ " + "(" * 2000 + "age > 30" + ")" * 2000,
        "claims ~ " + "I(" * 1500 + "age > 30" + ")" * 1500,
        "claims ~ " + " + ".join(["age > 30"] * 400),
        "claims ~ I(" + " and ".join(["age > 30"] * 400) + ")",
        "claims ~ I(" + "not " * 1200 + "smoker)",
    ):
        assert len(told(lambda formula: parse(formula, SCHEMA), formula)) < 500
    assert time.perf_counter() - start < 10
