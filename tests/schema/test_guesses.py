"""What is typical in a schema: read with the line of every fault, written, and outside the digest."""

import math

import pytest

import dpinfer as dp
from dpinfer.schema.columns import Number
from dpinfer.schema.guesses import Shares, Spread, default_guess

TEXT = """unit = "one person"
[columns.age]
type = "number"
low = 0
high = 100
[columns.sex]
type = "category"
levels = ["f", "m"]
[columns.ill]
type = "outcome"
levels = ["no", "yes"]
"""
DIGEST = (
    "eb6c3010a5437e5ba9542c3b92a27a1541a9ecf3b6a0a82ff540074243594ecd"  # before schemas had guesses
)


def with_line(after, line):
    return TEXT.replace(f"{after}\n", f"{after}\n{line}\n")


AGE, SEX, ILL = "high = 100", 'levels = ["f", "m"]', 'levels = ["no", "yes"]'


def test_guesses_are_read():
    text = with_line(AGE, "typical = { mean = 40, sd = 15.5 }").replace(
        SEX, SEX + "\ntypical = { m = 0.25 }"
    )
    schema = dp.Schema.parse(text)
    assert schema.typical == {"age": Spread(40.0, 15.5), "sex": Shares((0.75, 0.25))}
    assert dp.Schema.parse(TEXT).typical == {}


def test_levels_that_are_left_out_share_the_rest():
    levels = '[columns.h]\ntype = "category"\nlevels = ["a", "b", "c"]\n'
    assert dp.Schema.parse(levels + "typical = { b = 0.5 }").typical["h"] == Shares(
        (0.25, 0.5, 0.25)
    )
    thirds = dp.Schema.parse(levels + "typical = { a = 0.333, b = 0.333, c = 0.333 }").typical["h"]
    assert math.fsum(thirds.of) == pytest.approx(1, abs=1e-15)


def test_booleans_and_integers():
    flag = '[columns.b]\ntype = "boolean"\ntypical = { true = 0.3 }\n'
    count = '[columns.k]\ntype = "integer"\nlow = 0\nhigh = 3\nlevels = [0, 1, 2, 3]\n'
    assert dp.Schema.parse(flag).typical["b"].of == pytest.approx((0.7, 0.3))
    assert dp.Schema.parse(count + "typical = { 0 = 0.5, 1 = 0.3 }").typical[
        "k"
    ].of == pytest.approx((0.5, 0.3, 0.1, 0.1))
    assert dp.Schema.parse(count + "typical = { mean = 1, sd = 1 }").typical["k"] == Spread(
        1.0, 1.0
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (with_line(AGE, "typical = 3"), 6, "typical must be {mean = ..., sd = ...}"),
        (with_line(AGE, "typical = { mean = 40 }"), 6, "lacks sd"),
        (with_line(AGE, "typical = { mean = 40, sd = 5, median = 3 }"), 6, "no key 'median'"),
        (
            with_line(AGE, "[columns.age.typical]\nmean = 140\nsd = 5"),
            7,
            "mean must lie between low and high",
        ),
        (with_line(AGE, "[columns.age.typical]\nmean = 40\nsd = 50"), 8, "at most 48.99"),
        (with_line(AGE, "[columns.age.typical]\nmean = 40\nsd = 0"), 8, "sd must be above 0"),
        (with_line(AGE, "typical = { mean = true, sd = 5 }"), 6, "mean must be a finite number"),
        (with_line(AGE, "typical = { mean = nan, sd = 5 }"), 6, "mean must be a finite number"),
        (with_line(SEX, "typical = { fm = 0.5 }"), 9, "which is no level"),
        (with_line(SEX, "typical = { f = 0.9, m = 0.9 }"), 9, "add up to 1.8"),
        (with_line(SEX, "typical = { f = 0.3, m = 0.3 }"), 9, "add up to 0.6"),
        (with_line(SEX, "typical = { f = 1.3 }"), 9, "a share must be a number from 0 to 1"),
        (with_line(ILL, "typical = { mean = 0.3, sd = 0.4 }"), 12, "which is no level"),
        (with_line(ILL, "typcal = { yes = 0.3 }"), 12, "did you mean 'typical'?"),
    ],
)
def test_a_fault_names_its_line(text, line, words):
    with pytest.raises(dp.InputError) as fault:
        dp.Schema.parse(text)
    assert str(fault.value).startswith(f"line {line}: column ")
    assert words in str(fault.value)


def test_guesses_are_written_and_read_back(tmp_path):
    guesses = {"age": {"mean": 40, "sd": 15}, "sex": {"f": 1 / 3}, "ill": {"yes": 0.1}}
    schema = dp.Schema.parse(TEXT).guess(guesses)
    schema.write(tmp_path / "schema.toml")
    again = dp.Schema.read(tmp_path / "schema.toml")
    assert again == schema
    again.write(tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_bytes() == (tmp_path / "schema.toml").read_bytes()


def test_names_that_toml_quotes(tmp_path):
    text = '[columns."my column"]\ntype = "category"\nlevels = ["a b", "c.d"]\ntypical = { "a b" = 0.2 }\n'
    schema = dp.Schema.parse(text)
    schema.write(tmp_path / "schema.toml")
    assert dp.Schema.read(tmp_path / "schema.toml") == schema


def test_a_guess_is_no_part_of_the_digest():
    """A release is what it was before; and so are the digests in ledgers."""
    plain = dp.Schema.parse(TEXT)
    assert plain.digest() == DIGEST
    assert plain.guess({"age": {"mean": 40, "sd": 15}}).digest() == DIGEST
    assert plain != plain.guess({"age": {"mean": 40, "sd": 15}})


def test_guess_adds_to_what_is_there():
    schema = dp.Schema.parse(with_line(AGE, "typical = { mean = 40, sd = 15 }"))
    more = schema.guess({"ill": {"yes": 0.2}})
    assert set(more.typical) == {"age", "ill"}
    assert set(schema.typical) == {"age"}
    assert more.guess({"age": {"mean": 50, "sd": 10}}).typical["age"] == Spread(50.0, 10.0)
    with pytest.raises(dp.InputError, match="no column 'agee'"):
        schema.guess({"agee": {"mean": 1, "sd": 1}})
    flag = dp.Schema.parse('[columns.b]\ntype = "boolean"\n')
    assert flag.guess({"b": {True: 0.25}}).typical["b"] == Shares((0.75, 0.25))


def test_what_is_usual():
    columns = dp.Schema.parse(TEXT).columns
    assert default_guess(columns["age"]) == Spread(50.0, 100 / 6)
    assert default_guess(columns["ill"]) == default_guess(columns["sex"]) == Shares((0.5, 0.5))
    assert default_guess(Number("b", 0.0, 1.0, kind="boolean")) == Shares((0.5, 0.5))
