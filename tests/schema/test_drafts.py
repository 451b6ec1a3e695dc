"""Schemas with gaps, and the key that says where bounds come from."""

import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.schema.schema import Draft, named

TEXT = """
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
TABLE = pd.DataFrame({name: [1] for name in ("age", "pay", "job", "odd", "new")})
KINDS = dict.fromkeys(TABLE.columns, "integer")


def draft(text=TEXT):
    return Draft.of(text, KINDS, "")


def test_gaps():
    found = draft()
    assert {name: gap.keys for name, gap in found.gaps.items()} == {
        "age": ("high",),
        "pay": ("low", "high"),
        "job": ("levels",),
        "ill": ("levels",),
        "cost": ("low", "high"),
    }
    assert [name for name, gap in found.gaps.items() if gap.levels] == ["job", "ill"]
    assert [name for name, gap in found.gaps.items() if gap.whole] == ["age"]
    assert found.whom.name == "one person"


def test_what_is_asked_for():
    found = draft().asked({"sex": "", "odd": "number", "new": ""}, KINDS, alone=False)
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
    alone = draft().asked({"age": ""}, KINDS, alone=True)
    assert set(alone.document["columns"]) == {"age", "smoker"}
    assert draft().asked({"new": "outcome"}, {"new": ""}, alone=False).gaps["new"].levels
    ids = draft(TEXT.replace('unit = "one person"', '[unit]\nname = "p"\ncolumn = "age"\nrows = 3'))
    for columns, words in (
        ({"odd": ""}, "has no type yet: write odd:TYPE"),
        ({"sex": "number"}, "has a type already"),
        ({"smoker": ""}, "is a boolean"),
        ({"nothing": ""}, "the table has no column 'nothing'"),
    ):
        with pytest.raises(dp.InputError, match=words):
            draft().asked(columns, KINDS, alone=False)
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
        draft(TEXT.replace(old, new))


def test_what_was_found_is_written_and_reads_back():
    text = draft().filled(
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
