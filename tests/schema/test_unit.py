"""[unit] and [weights] of a schema: read, written, refused with the line."""

import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.schema.columns import Number
from dpinfer.schema.unit import Unit
from helpers.people import AVERAGE, COLUMNS, EVERY, UNIT, WEIGHTS, schema

PERSON = Unit("one person", "person", 1.0)
GOOD = {
    AVERAGE: PERSON,
    EVERY: Unit("one person", "person", rows="every"),
    UNIT + "units = 5908\n": Unit("one person", "person", number=5908, rows="every"),
    UNIT + "units = 10\n" + WEIGHTS: Unit("one person", "person", 1.0, 10, "w", 6.0),
    WEIGHTS: Unit(weights="w", max_weight=6.0),
    'unit = "one visit"\n' + WEIGHTS: Unit("one visit", weights="w", max_weight=6.0),
    'unit = "one visit"\n': Unit("one visit"),
    '[unit]\nname = "one visit"\n': Unit("one visit"),
    '[unit]\nname = "one visit"\nlargest_table = 10_000_000_000\n': Unit(
        "one visit", largest=10**10
    ),
    AVERAGE + "largest_table = 1_099_511_627_776\n": Unit("one person", "person", largest=2**40),
    "": Unit(),
}


@pytest.mark.parametrize("head", GOOD)
def test_what_is_declared_is_read_and_written(head, tmp_path):
    read = schema('title = "t"\n' + head)
    assert read.unit == GOOD[head]
    read.write(tmp_path / "schema.toml")
    again = dp.Schema.read(tmp_path / "schema.toml")
    assert again == read
    assert again.digest() == read.digest()


def test_a_schema_takes_a_unit_or_its_name():
    columns = {"a": Number("a", 0.0, 1.0)}
    assert dp.Schema(columns).unit == Unit()
    assert dp.Schema(columns, unit="one visit").unit == Unit("one visit")
    assert dp.Schema(columns, PERSON).unit == PERSON


def test_digests_tell_targets_apart_and_old_ones_stay():
    digests = {schema(head).digest() for head in GOOD}
    assert len(digests) == len(GOOD) - 1  # the text and the table without a column are one
    old = "f5b3ca7ca512e8a70ee30b51d2a22b0b763180e836fc05fc4a97542ec2eb0489"
    assert schema('unit = "one visit"\n').digest() == old


BAD = {
    "rows": (UNIT + 'rows = "all"\n', 4, 'rows must be "every" .* or "average" .*not \'all\''),
    "a number of rows": (UNIT + "rows = 5\n", 4, 'must be "every" .* or "average" .*; not 5'),
    "a flag": (UNIT + "rows = true\n", 4, 'must be "every" .* or "average" .*not True'),
    "rows not filled in": (UNIT + 'rows = "?"\n', 4, "rows is not filled in"),
    "no ids": ('[unit]\nname = "n"\nrows = "average"\n', 3, "rows goes with ids: add column"),
    "no ids for a number": ('[unit]\nname = "n"\nunits = 3\n', 3, "units goes with ids: add column"),
    "units": (AVERAGE + "units = 0\n", 5, "a whole number, not 0"),
    "a small table": (AVERAGE + "largest_table = 1000\n", 5, "from 268,435,456 to .*leave it out"),
    "too large": (AVERAGE + "largest_table = 1_099_511_627_777\n", 5, "from 268,435,456 to 1,099,511"),
    "half a row": (AVERAGE + "largest_table = 1e9\n", 5, "a whole number of rows"),
    "half a unit": (AVERAGE + "units = 2.0\n", 5, "a whole number, not 2.0"),
    "no name": ('[unit]\ncolumn = "person"\nrows = 1\n', 1, "name is missing: say what is protected"),
    "name": ('[unit]\nname = 3\n', 2, "name must be text in quotes"),
    "empty column": ('[unit]\nname = "n"\ncolumn = ""\nrows = 1\n', 3, "column must be text in quotes"),
    "key": (AVERAGE + "row = 1\n", 5, "has no key 'row': did you mean 'rows'"),
    "title below": (AVERAGE + 'title = "t"\n', 5, r"write it above \[unit\]"),
    "a number": ("unit = 3\n", 1, r"unit must be text in quotes, or a table \[unit\]"),
    "weights": ('weights = "w"\n', 1, r"weights must be a table: write \[weights\]"),
    "no most": ('[weights]\ncolumn = "w"\n', 1, "most is missing: add a public bound"),
    "no weights": ("[weights]\nmost = 1\n", 1, "column is missing: name the column of the sampling weights"),
    "most": ('[weights]\ncolumn = "w"\nmost = 0\n', 3, "a positive number, not 0"),
    "both": (AVERAGE + WEIGHTS, 4, r"rows and \[weights\] exclude each other"),
    "one column": (UNIT + '[weights]\ncolumn = "person"\nmost = 1\n', 5, "holds the ids"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_fault_names_its_line(case):
    head, line, message = BAD[case]
    with pytest.raises(dp.InputError, match=message) as caught:
        schema(head)
    assert str(caught.value).startswith(f"line {line}: ")


@pytest.mark.parametrize("extra", ["", '[columns.person]\ntype = "integer"\nlow = 0\nhigh = 9\n'])
def test_ids_and_weights_stand_in_no_formula(extra):
    """Whether or not they are declared as columns, too."""
    declared = dp.Schema.parse(UNIT + WEIGHTS + COLUMNS + extra + extra.replace("person", "w"))
    for formula, what in {
        "y ~ a + person": "ids",
        "y ~ a + I(person**2)": "ids",
        "person ~ a": "ids",
        "y ~ w": "weights",
        "log(1 + w) ~ a": "weights",
    }.items():
        model = (
            dp.HuberRegression if formula.startswith(("person", "log")) else dp.LogisticRegression
        )
        with pytest.raises(
            dp.InputError, match=f"holds the {what} of .* cannot stand in a formula"
        ):
            model(formula, schema=declared, budget=dp.ZCDP(1.0)).entry(10)


def test_a_draft_says_how_persons_with_several_rows_are_declared():
    draft = dp.Schema.draft(pd.DataFrame({"person": [1], "on": [True]}))
    told = draft.split("together:\n#\n")[1].split("\n#\n")[0].replace("#   ", "")
    filled = draft.replace('unit = "?"', "#").replace(
        '[columns.person]\ntype = "integer"', told + "\n[columns.person]"
    )
    start, end = filled.index("[columns.person]"), filled.index("[columns.on]")
    assert dp.Schema.parse(filled[:start] + filled[end:]).unit == Unit(
        "one person", "person_id", rows="every"
    )
