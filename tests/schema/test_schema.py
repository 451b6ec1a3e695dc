"""Schemas: read with the line of every fault, written, drafted, and drafts with gaps."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.columns import Category, Number, Outcome, tidy
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Draft, named
from dpinfer.tables.memory import read_labels
from dpinfer.tables.table import read, table_of
from helpers import derived
from helpers.searches import examples
from helpers.tables import SCHEMA, TEXT, table

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
[columns.i]
type = "integer"
low = 0
high = 9
"""


def test_a_schema_is_read(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    schema = dp.Schema.read(path)
    assert schema.unit.name == "one person"
    assert schema["a"] == Number("a", 0.0, 2.5, "length", "a ruler")
    assert schema["f"] == Category("f", ("p", "q"), "p")
    assert schema["b"] == Number("b", 0.0, 1.0, kind="boolean")
    assert schema["i"] == Number("i", 0.0, 9.0, kind="integer")
    assert SCHEMA["cost"] == Outcome("cost", low=-10.0, high=30.0, unit="euro")
    assert SCHEMA["cost"].levels == ()


BAD = {  # what is replaced, by what, the line of the fault, words of the message
    "order": ("high = 2.5", "high = 0", 10, "column 'a': low and high must be finite, with low < high: correct"),
    "infinite": ("high = 2.5", "high = inf", 10, "low and high must be finite"),
    "nan": ("high = 2.5", "high = nan", 10, "low and high must be finite"),
    "huge": ("high = 2.5", "high = 1" + "0" * 400, 10, "finite"),
    "no high": ("high = 2.5", "", 7, "column 'a': high is missing: add a public upper bound"),
    "text": ("high = 2.5", 'high = "tall"', 10, "high must be a number, not 'tall'"),
    "flag": ("high = 2.5", "high = true", 10, "high must be a number"),
    "not filled in": ("high = 2.5", 'high = "?"', 10, "high is not filled in: add a public upper bound"),
    "key": ("high = 2.5", "high = 2\nheigh = 3", 11, "has no key 'heigh': did you mean 'high'?"),
    "foreign key": ("high = 2.5", "high = 2\nlevels = [1, 2]", 11, "has no key 'levels'"),
    "centre": ("high = 2.5", "high = 2\ncentre = inf", 11, "centre must be a finite number"),
    "scale": ("high = 2.5", "high = 2\nscale = 0", 11, "scale must be a positive"),
    "missing": ("high = 2.5", "high = 2\nmissing = 7", 11, "missing must lie between low and high"),
    "missing text": ("high = 2.5", 'high = 2\nmissing = "no"', 11, "missing must be a number"),
    "unit": ("high = 2.5", "high = 2\nunit = 3", 11, "unit must be text in quotes"),
    "type": ('type = "number"', 'type = "float"', 8, "there is no type 'float': write one of number, integer"),
    "no type": ('type = "number"', "", 7, "type is missing: write one of"),
    "type list": ('type = "number"', "type = [1]", 8, "there is no type"),
    "column": ("[columns.a]", "[columns]\na = 3\n[columns.c]", 8, "write \\[columns.NAME\\]"),
    "no name": ("[columns.a]", '[columns.""]', 7, "write \\[columns.NAME\\]"),
    "same levels": ('["p", "q"]', '["p", "p"]', 15, "two or more different levels"),
    "mixed levels": ('["p", "q"]', '["p", 1]', 15, "different levels, all text, all integers"),
    "real levels": ('["p", "q"]', "[0.5, 1.5]", 15, "different levels"),
    "list levels": ('["p", "q"]', "[[1], [2]]", 15, "different levels"),
    "no levels": ('["p", "q"]', "[]", 15, "different levels"),
    "one level": ('["p", "q"]', '"p"', 15, "levels must be a list"),
    "reference": ('["p", "q"]', '["p", "q"]\nreference = "r"', 16, "not one of its levels: it has 'p', 'q'"),
    "reference type": ('["p", "q"]', "[false, true]\nreference = 0", 16, "not one of its levels"),
    "missing level": ('["p", "q"]', '["p", "q"]\nmissing = "r"', 16, "not one of its levels"),
    "drop": ('["p", "q"]', '["p", "drop"]\nmissing = "drop"', 16, "rename the level"),
    "boolean missing": ('type = "boolean"', 'type = "boolean"\nmissing = 1', 18, "true, false or left out"),
    "whole": ("high = 9", "high = 9.5", 21, "high must be a whole number"),
    "whole missing": ("high = 9", "high = 9\nmissing = 0.5", 22, "missing must be a whole number"),
    "lone reference": ("high = 9", "high = 9\nreference = 1", 22, "reference goes with levels"),
    "three": ("[false, true]", "[1, 2, 3]", 6, "exactly two levels, not 3"),
    "both": ("levels = [false, true]", "levels = [false, true]\nlow = 0\nhigh = 1", 6, "not both: drop one"),
    "half": ("levels = [false, true]", "low = 0", 4, "high is missing: add a public upper bound"),
    "no outcome": ("levels = [false, true]", "", 4, "list two public levels, or add low and high"),
    "outcome missing": ("levels = [false, true]", "levels = [false, true]\nmissing = true", 7, "no substitute"),
    "title": ('title = "t"', "title = 3", 2, "title must be text in quotes"),
    "fact": ('title = "t"', 'titel = "t"', 2, "has no key 'titel': did you mean 'title'?"),
    "unit not filled in": ('"one person"', '"?"', 3, "unit is not filled in: say what one row stands for"),
    "columns": ("[columns.y]", "[columns2.y]", 4, "has no key 'columns2': did you mean 'columns'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_fault_names_its_line(case, tmp_path):
    old, new, line, message = BAD[case]
    assert GOOD.count(old) == 1
    (tmp_path / "schema.toml").write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(dp.InputError, match=message) as caught:
        dp.Schema.read(tmp_path / "schema.toml")
    assert str(caught.value).startswith(f"schema.toml, line {line}: ")
    assert "\n" not in str(caught.value)
    with pytest.raises(dp.InputError, match=f"^line {line}: "):
        dp.Schema.parse(GOOD.replace(old, new).replace("\n", "\r\n"))


def test_missing_schema(tmp_path):
    with pytest.raises(dp.InputError, match=r"cannot be read .*: check the path"):
        dp.Schema.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(dp.InputError, match="cannot be read"):
        dp.Schema.read(tmp_path / "bytes.toml")
    for text in ("", 'title = "t"', "columns = 3"):
        with pytest.raises(dp.InputError, match="columns"):
            dp.Schema.parse(text)
    with pytest.raises(dp.InputError, match=r"not valid TOML.*line 2"):
        dp.Schema.parse("a = 1\nb =\n")
    with pytest.raises(dp.InputError, match="takes TOML text"):
        dp.Schema.parse(None)
    with pytest.raises(dp.InputError, match="use one name"):
        dp.Schema({"a": Number("b", 0, 1)})


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = words.filter(bool)
levels = st.lists(words, min_size=2, unique_by=tidy)
reals = st.floats(-1e9, 1e9)
columns = st.one_of(
    st.builds(
        lambda n, x, s: Number(n, x, x + 1, s, unit=s, centre=x, scale=2.0, missing=x),
        names,
        reals,
        words,
    ),
    st.builds(
        lambda n, k: Number(n, k, k + 3, kind="integer", levels=(k, k + 1), reference=k),
        names,
        st.integers(0, 9),
    ),
    st.builds(
        lambda n, m: Number(n, 0.0, 1.0, kind="boolean", missing=m),
        names,
        st.sampled_from([None, 0.0, 1.0]),
    ),
    st.builds(lambda n, u: Category(n, tuple(u), u[0], missing=u[-1]), names, levels),
    st.builds(lambda n, s: Category(n, (True, False), False, s, s), names, words),
    st.builds(lambda n, x: Outcome(n, low=x, high=x + 2), names, reals),
    st.builds(lambda n: Outcome(n, (0, 1)), names),
)


@examples(20)
@given(
    st.lists(columns, min_size=1, max_size=4, unique_by=lambda column: column.name), words, words
)
def test_what_is_written_is_read_back(tmp_path_factory, given_columns, unit, title):
    unit = unit.replace("?", "!")
    try:
        schema = dp.Schema(
            {column.name: column for column in given_columns},
            unit=unit,
            title=title.replace("?", "!"),
        )
    except dp.InputError:
        return
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    if any("drop" in getattr(column, "levels", ()) for column in given_columns):
        return
    schema.write(path)
    again = dp.Schema.read(path)
    assert again == schema
    assert again.digest() == schema.digest()
    assert [file.name for file in path.parent.iterdir()] == ["schema.toml"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "schema.toml"
    SCHEMA.write(path)
    broken = dp.Schema({"a": Number("a", 0, 1, description="\ud800")})
    with pytest.raises(dp.InputError, match="cannot be written"):
        broken.write(path)
    assert dp.Schema.read(path) == SCHEMA
    with pytest.raises(dp.InputError, match="check the folder"):
        SCHEMA.write(tmp_path / "none" / "schema.toml")


def test_the_digest_tells_schemas_apart():
    assert len(SCHEMA.digest()) == 64
    assert SCHEMA.digest() == dp.Schema.parse("# a comment\n" + TEXT).digest()
    head, first, second, *rest = TEXT.split("\n[")
    assert SCHEMA.digest() == dp.Schema.parse("\n[".join([head, second, first, *rest])).digest()
    assert SCHEMA.digest() != dp.Schema.parse(TEXT.replace("high = 100", "high = 101")).digest()
    assert (
        dp.Schema({"a": Number("a", 0, 1)}).digest()
        == dp.Schema({"a": Number("a", -0.0, 1.0)}).digest()
    )


def test_guarantee_drafts_read_no_values(tmp_path):
    """Tables with the same names and types have the same draft, which is no schema until all of it
    is filled in.
    """
    frame = table(20)
    other = table(20, seed=1).assign(age=1234.5)
    paths = []
    for j, each in enumerate((frame, other)):
        each.to_csv(tmp_path / f"{j}.csv", index=False)
        each.to_parquet(tmp_path / f"{j}.parquet")
        paths.append(tmp_path / f"{j}")
    for first, second in [
        (frame, other),
        (
            frame.astype({"sex": object}),
            other.astype({"sex": object}).assign(sex=pd.Series([3, None] * 10, dtype=object)),
        ),
        (pl.from_pandas(frame), pl.from_pandas(other)),
        (pa.Table.from_pandas(frame), pa.Table.from_pandas(other)),
        (f"{paths[0]}.csv", f"{paths[1]}.csv"),
        (f"{paths[0]}.parquet", f"{paths[1]}.parquet"),
    ]:
        draft = dp.Schema.draft(first)
        assert draft == dp.Schema.draft(second)
        assert "1234" not in draft
        with pytest.raises(dp.InputError, match=r"^line 6: unit is not filled in"):
            dp.Schema.parse(draft)
        with pytest.raises(
            dp.InputError, match=r"^line (18|19): column 'age': (low|type) is not filled in"
        ):
            dp.Schema.parse(draft.replace('unit = "?"', 'unit = "one person"'))


def test_a_draft_that_is_filled_in_is_a_schema():
    draft = dp.Schema.draft(pd.DataFrame({"a b": [0.5], "i": [1], "b": [True], "s": ["x"]}))
    filled = (
        draft.replace('low = "?"', "low = 0")
        .replace('high = "?"', "high = 1")
        .replace('levels = "?"', "levels = [1, 2]")
    )
    schema = dp.Schema.parse(filled.replace('unit = "?"', 'unit = "one person"'))
    assert [type(column).__name__ for column in schema.columns.values()] == ["Number"] * 3 + [
        "Category"
    ]
    assert [schema[name].kind for name in ("a b", "i", "b")] == ["number", "integer", "boolean"]


def test_a_formula_is_read():
    outcome, terms = parse("y ~ a + f + b", dp.Schema.parse(GOOD))
    assert outcome.name == "y"
    assert [column.name for column in terms.columns] == ["a", "f", "b"]
    assert len(parse("y ~ 1", dp.Schema.parse(GOOD))[1]) == 0


SYMBOLS = [
    *"[].={},\"'\n\r1-# \x00é",
    '"""',
    "columns",
    "a",
    "e9",
    "type",
    '"number"',
    "low",
    "high",
    "levels",
    '"?"',
    "inf",
]
pieces = st.sampled_from([*SYMBOLS, "true", "1979-05-27", "[columns.a]", "\n"])


@examples(50)
@given(st.lists(pieces, max_size=25).map("".join))
def test_any_text_gives_a_schema_or_an_input_error(text):
    with warnings.catch_warnings(), contextlib.suppress(dp.InputError):
        warnings.simplefilter("error")
        dp.Schema.parse(text)


@examples(50)
@given(st.integers(0, len(TEXT)), st.integers(0, 12), st.lists(pieces, max_size=4).map("".join))
def test_a_damaged_schema_gives_a_schema_or_an_input_error(start, length, patch):
    with warnings.catch_warnings(), contextlib.suppress(dp.InputError):
        warnings.simplefilter("error")
        dp.Schema.parse(TEXT[:start] + patch + TEXT[start + length :]).digest()


def test_numeric_outcomes_are_scaled():
    values = pd.DataFrame({"cost": [-10.0, 10.0, 30.0, 99.0, -np.inf, np.nan]})
    raw = read_labels(table_of(values).opened(()), parse("cost ~ w", SCHEMA)[0])
    assert np.array_equal(raw, [-10.0, 10.0, 30.0, 30.0, np.nan, np.nan], equal_nan=True)
    for formula, known in (
        ("cost ~ w", [-1.0, 0.0, 1.0, 1.0]),
        ("cost ~ w - 1", [-1 / 3, 1 / 3, 1.0, 1.0]),
    ):
        design, pending = read(values.assign(w=0.5), *parse(formula, SCHEMA), "residual")
        source = pending.rows()
        assert np.allclose(source.block.labels, [*known, 0.0, 0.0])
        assert (source.block.rows[4:] == 0).all()
        assert (source.block.rows[:4] != 0).any(axis=1).all()
        assert np.allclose(
            design.outcome.centre + design.outcome.half * np.array(known), [-10.0, 10.0, 30.0, 30.0]
        )
    with pytest.raises(dp.InputError, match="a classifier needs two levels"):
        dp.LogisticRegression("cost ~ w", schema=SCHEMA, budget=dp.NoPrivacy()).fit(table(50))


GAPPED = """
unit = "one person"
[columns.age]
type = "integer"
low = 0
high = "?"
[columns.pay]
type = "number"
[columns.sex]
type = "category"
levels = ["f", "m"]
[columns.job]
type = "category"
levels = "?"
[columns.ill]
type = "outcome"
levels = "?"
[columns.cost]
type = "outcome"
low = "?"
[columns.smoker]
type = "boolean"
[columns.odd]
type = "?"
"""
KINDS = dict.fromkeys(("age", "pay", "job", "odd", "new"), "integer")


def draft_of(text=GAPPED):
    return Draft.of(text, KINDS, "")


def test_gaps():
    found = draft_of()
    assert {name: gap.keys for name, gap in found.gaps.items()} == {
        "age": ("high",),
        "pay": ("low", "high"),
        "job": ("levels",),
        "ill": ("levels",),
        "cost": ("low", "high"),
    }
    assert [name for name, gap in found.gaps.items() if gap.levels] == ["job", "ill"]
    assert [name for name, gap in found.gaps.items() if gap.is_integer] == ["age"]
    assert found.unit.name == "one person"


def test_what_is_asked_for():
    found = draft_of().asked({"sex": "", "odd": "number", "new": ""}, KINDS, alone=False)
    assert {name: gap.keys for name, gap in found.gaps.items()} == {
        "sex": ("levels",),  # it is complete, so it is learnt anew
        "odd": ("low", "high"),
        "new": ("low", "high"),
    }
    assert set(found.document["columns"]) == {
        "age",
        "pay",
        "sex",
        "job",
        "ill",
        "cost",
        "smoker",
        "odd",
        "new",
    }
    alone = draft_of().asked({"age": ""}, KINDS, alone=True)
    assert set(alone.document["columns"]) == {"age", "smoker"}
    assert draft_of().asked({"new": "outcome"}, {"new": ""}, alone=False).gaps["new"].levels
    ids = draft_of(
        GAPPED.replace(
            'unit = "one person"', '[unit]\nname = "p"\ncolumn = "age"\nrows = "average"'
        )
    )
    for columns, words in (
        ({"odd": ""}, "has no type yet: write odd:TYPE"),
        ({"sex": "number"}, "has a type already"),
        ({"smoker": ""}, "is a boolean"),
        ({"nothing": ""}, "the table has no column 'nothing'"),
    ):
        with pytest.raises(dp.InputError, match=words):
            draft_of().asked(columns, KINDS, alone=False)
    with pytest.raises(dp.InputError, match="holds the ids"):
        ids.asked({"age": ""}, KINDS, alone=False)


def test_names_and_types():
    assert named(["a", "b:integer", "c:d", "e:f:category"]) == {
        "a": "",
        "b": "integer",
        "c:d": "",
        "e:f": "category",
    }
    assert named({"a": "number"}) == {"a": "number"}
    assert named(None) == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "low = 0",
            "lwo = 0",
            "line 5: column 'age': type 'integer' has no key 'lwo': did you mean 'low'",
        ),
        ("low = 0", "low = 0.5", "line 5: column 'age': low must be a whole number"),
        (
            'levels = ["f", "m"]',
            'levels = ["f"]',
            "line 11: column 'sex': levels must be two or more",
        ),
        (
            'type = "?"',
            'type = "?"\nlow = 1979-05-27',
            "line 24: column 'odd': type is not filled in",
        ),
        ('unit = "one person"', "unit = 3", "line 2: unit must be text"),
        ("[columns.odd]", "[columns.odd", "not valid TOML"),
    ],
)
def test_errors_name_the_line(old, new, message):
    with pytest.raises(dp.InputError, match=message):
        draft_of(GAPPED.replace(old, new))


def test_what_was_found_is_written_and_reads_back():
    text = draft_of().filled(
        {"age": {"high": 99}, "pay": {"low": 0.5, "high": 1e6}, "job": {"levels": ["a", 'b"\nc', "[x]"]},
         "ill": {"levels": ["no", "yes"]}, "cost": {"low": -1.0, "high": 2.0}},
        "abc", {"age": "about"},
    )  # fmt: skip
    assert "# about\n[columns.age]" in text
    schema = dp.Schema.parse(text.replace('[columns.odd]\ntype = "?"\n', ""))
    assert (schema["age"].low, schema["age"].high) == (0, 99)
    assert schema["job"].levels == ("a", 'b"\nc', "[x]")
    assert [schema[name].learned for name in ("age", "pay", "sex", "job", "ill", "cost")] == [
        "abc"
    ] * 2 + [""] + ["abc"] * 3
    again = Draft.of(text, KINDS, "")
    assert again.gaps == {}
    opened = again.asked({"age": ""}, KINDS, alone=False).filled({}, "", {})
    assert opened.count("learned") == 4  # what is learnt anew is not the old release's


def test_learned_is_kept_and_public(tmp_path):
    text = '[columns.a]\ntype = "number"\nlow = 0\nhigh = 1\nlearned = "0123"\n'
    schema = dp.Schema.parse(text)
    schema.write(tmp_path / "schema.toml")
    assert dp.Schema.read(tmp_path / "schema.toml") == schema
    assert 'learned = "0123"' in (tmp_path / "schema.toml").read_text(encoding="utf-8")
    plain = dp.Schema.parse(text.replace('learned = "0123"\n', ""))
    assert schema.digest() != plain.digest()
    with pytest.raises(dp.InputError, match="line 5: column 'a': learned must be text"):
        dp.Schema.parse(text.replace('"0123"', "123"))
    with pytest.raises(
        dp.InputError, match="line 3: column 'b': type 'boolean' has no key 'learned'"
    ):
        dp.Schema.parse('[columns.b]\ntype = "boolean"\nlearned = "1"\n')


DERIVED = {
    "itself": (
        'from = "senior and a > 3"',
        "line 6: column 'senior': it names 'senior', which does not stand above",
    ),
    "below": ('from = "late"', "line 6.*it names 'late', which does not stand above it"),
    "unknown": ('from = "b > 3"', "line 6: column 'senior': the schema has no column 'b'"),
    "constant": ('from = "a > 99"', "line 6.*a > 99 is false in every row"),
    "no column": ('from = "3"', "line 6.*it names no column"),
    "no text": ("from = 3", "line 6.*from must be text in quotes"),
    "empty": ('from = " "', "line 6.*from is an expression"),
    "no expression": ('from = "a >"', "line 6.*it cannot be read"),
    "code": ('from = "open(a)"', "line 6.*there is no function open"),
    "power": ('from = "a ** 99"', "line 6.*a power goes up to 9"),
    "another key": ('from = "a > 3"\nlow = 3', "line 7.*a column with from has no key 'low'"),
    "type": ('type = "boolean"\nfrom = "a > 3"', "line 6.*a column with from has no key 'type'"),
}


@pytest.mark.parametrize(("entry", "message"), DERIVED.values(), ids=DERIVED)
def test_bad_derived_columns(entry, message):
    text = (
        '[columns.a]\ntype = "number"\nlow = 0\nhigh = 9\n[columns.senior]\n'
        f'{entry}\n[columns.late]\nfrom = "a > 5"\n'
    )
    with pytest.raises(dp.InputError, match=message):
        dp.Schema.parse(text)


def test_derived_columns_are_a_part_of_the_schema(tmp_path):
    """They are kept, count in the digest, and stand beside the columns of the table."""
    schema = derived.SCHEMA
    schema.write(tmp_path / "schema.toml")
    again = dp.Schema.read(tmp_path / "schema.toml")
    assert again == schema
    assert list(again.derived) == ["senior", "group", "coast", "old_smoker", "any_claim"]
    assert again.derived["senior"].description == "of the age of a pension"
    assert "senior" not in again.columns
    plain = dp.Schema.parse(derived.BASE)
    assert plain.digest() != schema.digest()
    other = dp.Schema.parse(derived.TEXT.replace("age >= 65", "age >= 66"))
    assert other.digest() != schema.digest()
    with pytest.raises(dp.InputError, match="no column 'senoir': did you mean 'senior'"):
        parse("any_claim ~ senoir", schema)


def test_bounds_are_learned_beside_derived_columns():
    text = '[columns.a]\ntype = "number"\nlow = "?"\nhigh = "?"\n[columns.b]\nfrom = "a > 3"\n'
    frame = pd.DataFrame({"a": np.linspace(0, 9, 4000)})
    found = dp.learn_bounds(frame, text, budget=dp.ZCDP(50.0))
    assert found.schema.derived["b"].text == "a > 3"
    with pytest.raises(dp.InputError, match="derived from others and has no bounds to learn"):
        dp.learn_bounds(frame, text, columns=["b"], budget=dp.ZCDP(50.0))
