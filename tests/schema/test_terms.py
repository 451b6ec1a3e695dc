"""What stands on the left of a formula: its name, its range, its values, and what is refused."""

import contextlib
import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.formula import parse
from dpinfer.tables.arrow_files import Files
from dpinfer.tables.memory import read_labels
from dpinfer.tables.table import read, table_of
from helpers.searches import examples
from helpers.tables import SCHEMA, TEXT, table

TABLE = table(500)
SECRET = 48151623


@pytest.mark.parametrize(
    ("left", "low", "high", "unit", "columns"),
    [
        ("cost", -10, 30, "euro", "cost"),
        ("age", 18, 100, "year", "age"),
        ("visits", 0, 50, "", "visits"),
        ("k", 1, 3, "", "k"),
        ("`my column`", 0, 1, "", "my column"),
        ("log(1 + visits)", 0, np.log(51), "", "visits"),
        ("log1p(visits)", 0, np.log(51), "", "visits"),
        ("np.log(age)", np.log(18), np.log(100), "", "age"),
        ("sqrt(visits)", 0, 50**0.5, "", "visits"),
        ("scale(age)", -3.2, 5, "", "age"),
        ("I(cost ** 2)", 0, 900, "", "cost"),
        ("I(age - visits)", -32, 100, "", "age visits"),
        ("I(age - age / 2)", -32, 91, "", "age"),
        ("exp(`my column` + 1)", np.e, np.e**2, "", "my column"),
        ("I(cost / age)", -10 / 18, 30 / 18, "", "cost age"),
    ],
)
def test_name_range_unit_and_columns(left, low, high, unit, columns):
    response, _ = parse(f"{left} ~ w", SCHEMA)
    assert (response.name, response.levels) == (left if left[0] != "`" else "my column", ())
    assert (response.number.low, response.number.high) == pytest.approx((low, high))
    assert response.unit == unit
    assert " ".join(column.name for column in response.columns) == columns


def test_an_outcome_with_levels_is_what_it_was():
    response, _ = parse("ill ~ w", SCHEMA)
    assert (response.name, response.levels, response.number, response.unit) == (
        "ill",
        (False, True),
        None,
        "",
    )
    assert response.columns == (SCHEMA["ill"],)


def beforehand(name, values, low, high):
    """A table with one more column, and a schema that declares it as an outcome with these bounds."""
    text = f'{TEXT}\n[columns.{name}]\ntype = "outcome"\nlow = {float(low)!r}\nhigh = {float(high)!r}\n'
    return TABLE.assign(**{name: values}), dp.Schema.parse(text)


VISITS, AGE = TABLE["visits"].clip(0, 50), TABLE["age"].clip(18, 100)
SAME = {
    "log(1 + visits)": (np.log(1 + VISITS), 0, np.log(51)),
    "log1p(visits)": (np.log1p(VISITS), 0, np.log1p(50)),
    "sqrt(visits)": (np.sqrt(VISITS), 0, np.sqrt(50)),
    "I(age - visits)": (AGE - VISITS, -32, 100),
    "I(cost ** 2 / age)": (TABLE["cost"].clip(-10, 30) ** 2 / AGE, 0, 50),
    "scale(age)": ((AGE - 50) / 10, -3.2, 5),
    "visits": (VISITS, 0, 50),
}


@pytest.mark.parametrize("left", SAME)
@pytest.mark.parametrize("right", ["w + sex", "w*h - 1"])
def test_a_transform_is_the_column_transformed_beforehand(left, right):
    """Records to the last bits, a private fit with the same noise."""
    frame, schema = beforehand("z", *SAME[left])
    ours, theirs = (f"{side} ~ {right}" for side in (left, "z"))
    (here, mine), (there, other) = (
        read(frame, *parse(formula, schema), "residual") for formula in (ours, theirs)
    )
    assert np.array_equal(mine.rows().block.rows, other.rows().block.rows)
    assert np.allclose(mine.rows().block.labels, other.rows().block.labels, rtol=0, atol=1e-12)
    assert (here.outcome.centre, here.outcome.half) == pytest.approx(
        (there.outcome.centre, there.outcome.half)
    )
    for cls, budget in itertools.product(
        (dp.HuberRegression, dp.QuantileRegression), (dp.NoPrivacy(), dp.ZCDP(0.5))
    ):
        options = {"schema": schema, "budget": budget, "penalty": 0.05, "insecure_seed": 3}
        fits = [cls(formula, **options).fit(frame) for formula in (ours, theirs)]
        assert np.allclose(*(fit.result_.conf_int() for fit in fits), rtol=1e-7, atol=1e-9)
        assert np.allclose(*(fit.predict(frame) for fit in fits), rtol=1e-7, atol=1e-9)


def test_values_are_clipped_before_the_transform():
    """Where the transform turns round, clipping its values afterwards would be another number."""
    values = pd.DataFrame({"cost": [-99.0, 99.0, -3.0], "visits": [-7, 60, 8]})
    found = read_labels(table_of(values).opened(()), parse("I(cost ** 2) ~ w", SCHEMA)[0])
    assert np.array_equal(found, [100.0, 900.0, 9.0])
    found = read_labels(table_of(values).opened(()), parse("log1p(visits) ~ w", SCHEMA)[0])
    assert np.allclose(found, np.log1p([0, 50, 8]), rtol=1e-15)


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, lambda cells: pl.DataFrame(cells).to_arrow()]
)
def test_what_cannot_be_encoded_is_a_zero_row(make):
    """A missing value of either column, a fraction in a column of integers; also where a substitute
    is declared.
    """
    text = TEXT.replace("high = 50", "high = 50\nmissing = 3").replace(
        "high = 4", "high = 4\nmissing = 1"
    )
    cells = {
        "visits": [1.0, None, 1.5, np.inf, 5.0, 2.0],
        "w": [0.0, 1.0, 1.0, 1.0, None, 2.0],
        "age": [30.0] * 6,
    }
    for schema in (SCHEMA, dp.Schema.parse(text)):
        source = read(make(cells), *parse("log1p(visits) ~ age", schema), "residual")[1].rows()
        assert (source.block.rows != 0).any(axis=1).tolist() == [
            True,
            False,
            False,
            False,
            True,
            True,
        ]
        source = read(make(cells), *parse("I(visits + w) ~ age", schema), "residual")[1].rows()
        assert (source.block.rows != 0).any(axis=1).tolist() == [
            True,
            False,
            False,
            False,
            False,
            True,
        ]
        assert source.n == 6
    right = read(make(cells), *parse("age ~ visits", dp.Schema.parse(text)), "residual")[1].rows()
    assert (right.block.rows != 0).any(axis=1).all()


WRITERS = {
    "t.csv": lambda path: TABLE.to_csv(path, index=False),
    "t.csv.gz": lambda path: TABLE.to_csv(path, index=False),
    "t.parquet": TABLE.to_parquet,
    "t.feather": TABLE.to_feather,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    "formula", ["log(1 + visits) ~ w + sex", "I(age + 2*visits - age/2) ~ w*h", "visits ~ k"]
)
def test_files_give_the_records_of_the_table(name, formula, tmp_path):
    WRITERS[name](tmp_path / name)
    response, terms = parse(formula, SCHEMA)
    columns = [*response.columns, *terms.columns]
    assert Files(tmp_path / name).read(columns).column_names == [column.name for column in columns]
    (_, ours), (_, theirs) = (
        read(data, response, terms, "residual") for data in (tmp_path / name, TABLE)
    )
    assert ours.n == theirs.n == 500
    assert np.array_equal(ours.rows().block.rows, theirs.rows().block.rows)
    assert np.array_equal(ours.rows().block.labels, theirs.rows().block.labels)


def test_only_the_columns_of_the_formula_are_needed(tmp_path):
    TABLE[["visits", "w"]].to_csv(tmp_path / "t.csv", index=False)
    model = dp.HuberRegression(
        "log1p(visits) ~ w", schema=SCHEMA, budget=dp.NoPrivacy(), penalty=0.0
    )
    fits = [model.fit(data).result_.estimate for data in (tmp_path / "t.csv", TABLE)]
    assert np.array_equal(*fits)
    assert np.isfinite(model.predict(TABLE[["w"]])).all()
    for data in (tmp_path / "t.csv", TABLE[["visits", "w"]]):
        with pytest.raises(dp.InputError, match="has no column 'age'"):
            dp.HuberRegression("I(age - visits) ~ w", schema=SCHEMA, budget=dp.NoPrivacy()).fit(
                data
            )


BAD = {
    "boolean": (
        "smoker ~ w",
        "'smoker' is true or false, which a classifier explains: for a regression of 0 and 1",
    ),
    "category": ("h ~ w", "'h' stands on the left.*compare it, as in h == 'poor', give it type"),
    "category in a transform": ("log(sex) ~ w", "'sex' has levels, and only a number.*compare it"),
    "levels": ("ill ~ w", "'ill' is an outcome with levels: a regression needs low and high"),
    "levels in a transform": (
        "I(2 * ill) ~ w",
        "only a number can be transformed: compare it, as in ill == True",
    ),
    "factor": ("C(k) ~ w", "'k' stands on the left of ~, but it is a factor: compare it"),
    "factor in a transform": ("log(C(k)) ~ w", "C makes a factor"),
    "both sides": ("age ~ age + w", "'age' stands on both sides of ~: leave it out on one"),
    "both sides, transformed": ("log(age) ~ w + I(age**2)", "'age' stands on both sides"),
    "both sides, of two": ("I(visits - w) ~ age + w:sex", "'w' stands on both sides"),
    "both sides, as a factor": ("I(k + age) ~ C(k)", "'k' stands on both sides"),
    "both sides, an outcome": (
        "log(cost + 11) ~ cost",
        "'cost' is an outcome.*cannot stand on the right of ~",
    ),
    "another outcome on the right": (
        "age ~ cost",
        "'cost' is an outcome.*cannot stand on the right of ~",
    ),
    "log of 0": (
        "log(visits) ~ w",
        "visits goes from 0 to 50 in the schema: raise low.*write log1p.visits",
    ),
    "log of a negative": ("log(cost) ~ w", "cost goes from -10 to 30 in the schema: raise low"),
    "sqrt": ("sqrt(cost) ~ w", "raise low in the schema to 0 or more"),
    "division": ("I(age / visits) ~ w", "leave 0 out"),
    "too large": ("exp(exp(age)) ~ w", "tighten low and high"),
    "too wide": ("exp(I(age * 5)) ~ w", "double precision: explain something else"),
    "constant": ("I(2) ~ w", "the same in every row: explain something else"),
    "nothing of a column": ("I(0 * age) ~ w", "the same in every row"),
    "scale": ("scale(cost) ~ w", "public centre and scale in the schema"),
    "learned": ("standardize(age) ~ w", "learns from the values"),
    "code": ("open(age) ~ w", "there is no function open"),
    "no column": ("log(visit) ~ w", "no column 'visit': did you mean 'visits'"),
    "number": ("1 ~ w", "exactly one outcome"),
    "two": ("age + cost ~ w", "exactly one outcome on the left of ~: .* a transform such as"),
    "difference": ("age - visits ~ w", "exactly one outcome.*I\\(a - b\\)"),
    "shift": ("age - 1 ~ w", "exactly one outcome"),
    "power": ("age**2 ~ w", "exactly one outcome"),
    "product": ("age:age ~ w", "exactly one outcome"),
    "sign": ("-age ~ w", "exactly one outcome"),
    "deep": ("I(" + "-" * 3000 + "age) ~ w", "cannot be read|nested"),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals(case):
    formula, message = BAD[case]
    with pytest.raises(dp.InputError, match=message) as caught:
        dp.HuberRegression(formula, schema=SCHEMA, budget=dp.NoPrivacy()).fit(TABLE)
    assert "\n" not in str(caught.value)
    with pytest.raises(dp.InputError, match=message):
        dp.HuberRegression(formula, schema=SCHEMA, budget=dp.ZCDP(1.0)).entry(100)


@pytest.mark.parametrize("left", ["visits", "cost", "log1p(visits)", "I(age - w)"])
def test_a_classifier_wants_two_levels(left):
    for cls in (dp.LogisticRegression, dp.LinearSVC):
        with pytest.raises(
            dp.InputError, match="is a number: a classifier needs two levels; compare it, as in"
        ):
            cls(f"{left} ~ k", schema=SCHEMA, budget=dp.NoPrivacy()).fit(TABLE)
    with pytest.raises(dp.InputError, match="a classifier needs two levels"):
        dp.simulate.coverage(TABLE, schema=SCHEMA, formula=f"{left} ~ k", budget=dp.NoPrivacy())


def test_columns_of_another_type_are_refused_by_their_type():
    for values in ([str(SECRET)] * 500, pd.Categorical([str(SECRET)] * 500)):
        frame = pl.DataFrame(TABLE.assign(visits=values))
        with pytest.raises(
            dp.InputError, match="column 'visits' must hold numbers, as the schema says"
        ) as caught:
            dp.HuberRegression("log1p(visits) ~ w", schema=SCHEMA, budget=dp.NoPrivacy()).fit(frame)
        assert str(SECRET) not in str(caught.value)


odd = st.one_of(st.floats(), st.integers(), st.sampled_from([0.0, 50.0, -1e308, None, "x", True]))
LEFTS = [
    "visits",
    "cost",
    "log(1 + visits)",
    "I(cost / age)",
    "exp(cost)",
    "I(visits**3 - age)",
    "abs(cost)",
]


PARSED = [parse(f"{left} ~ {right}", SCHEMA) for left in LEFTS for right in ("w", "w - 1")]


@examples(20)
@given(
    st.lists(
        st.fixed_dictionaries(dict.fromkeys(("visits", "cost", "age"), odd)), min_size=1, max_size=5
    )
)
def test_no_value_raises_and_every_outcome_is_bounded(records):
    frame = pd.DataFrame(records, dtype=object).assign(w=0.5)
    for response, terms in PARSED:
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            block = read(frame, response, terms, "residual")[1].rows().block
            labels = read_labels(table_of(frame).opened(()), response)
        known = np.isfinite(labels)
        assert (np.abs(block.labels) <= 1).all()
        assert (block.rows[~known] == 0).all()
        assert (block.rows[known] != 0).any(axis=1).all()
        assert (
            (response.number.low <= labels[known]) & (labels[known] <= response.number.high)
        ).all()


tokens = st.sampled_from(
    [*"~+-*/:^()[]{}`,.1", "**", "ill", "age", "w", "k", "cost", "C", "I", "log", "scale", "np."]
)


@examples(100)
@given(st.lists(tokens, max_size=10).map("".join))
def test_no_left_side_raises_anything_else(text):
    with warnings.catch_warnings(), contextlib.suppress(dp.InputError):
        warnings.simplefilter("error")
        response, _ = parse(f"{text} ~ visits", SCHEMA)
        assert response.columns
