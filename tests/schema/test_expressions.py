"""Expressions of columns: designs equal those of pandas, and ranges hold every value."""

import datetime

import formulaic
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.terms import Expression
from dpinfer.tables.memory import read_labels, read_terms
from dpinfer.tables.table import table_of
from helpers.derived import BASE, SCHEMA, TEXT, table
from helpers.searches import examples

FRAME = table()
REGIONS = ["north", "south", "east", "West Side"]


def design(right, frame=FRAME, schema=SCHEMA):
    """The columns of the design by name."""
    _, terms = parse("claims ~ " + right, schema)
    values = read_terms(table_of(frame).opened(terms.columns), terms)
    return pd.DataFrame(values, columns=[name for block in terms.blocks for name in block.names])


def labels(left, frame=FRAME, schema=SCHEMA):
    response, _ = parse(left + " ~ 1", schema)
    return read_labels(table_of(frame).opened(response.columns), response)


PANDAS = {
    "age >= 65": lambda f: f.age >= 65,
    "18 < age <= 40": lambda f: (f.age > 18) & (f.age <= 40),
    "age == 40": lambda f: f.age == 40,
    "age != 40": lambda f: f.age != 40,
    "grade in (1, 3)": lambda f: f.grade.isin([1, 3]),
    "region == 'north'": lambda f: f.region == "north",
    "region != 'WEST  side'": lambda f: f.region != "West Side",
    "region in ('north', 'east')": lambda f: f.region.isin(["north", "east"]),
    "region not in ['north', 'east']": lambda f: ~f.region.isin(["north", "east"]),
    "(age >= 65 & smoker)": lambda f: (f.age >= 65) & f.smoker,
    "I(age < 30 or (smoker and income > 5))": lambda f: (f.age < 30) | (f.smoker & (f.income > 5)),
    "(not smoker)": lambda f: ~f.smoker,
    "I(age / income > 10)": lambda f: f.age / f.income > 10,
    "grade < income": lambda f: f.grade < f.income,
    "admitted >= '2020-02-29'": lambda f: f.admitted >= "2020-02-29",
    "admitted": lambda f: (f.admitted - pd.Timestamp("2019-03-05")).dt.days,
    "year(admitted)": lambda f: f.admitted.dt.year,
    "I(year(admitted) - 2019)": lambda f: f.admitted.dt.year - 2019,
    "I(age * (age >= 65))": lambda f: f.age * (f.age >= 65),
    "I(age * income)": lambda f: f.age * f.income,
    "I(age / income)": lambda f: f.age / f.income,
    "clip(age, 30, 65)": lambda f: f.age.clip(30, 65),
    "clip(age / income, low=5, high=20)": lambda f: (f.age / f.income).clip(5, 20),
    "clip(income / (grade - 2), -1, 3)": lambda f: (f.income / (f.grade - 2)).clip(-1, 3),
    "log(clip(age / (grade - 1), 20, 50))": lambda f: np.log((f.age / (f.grade - 1)).clip(20, 50)),
    "clip(admitted, '2020-01-01', '2021-01-01')": lambda f: (
        (f.admitted.clip("2020-01-01", "2021-01-01") - pd.Timestamp("2019-03-05")).dt.days
    ),
    "old_smoker": lambda f: (f.age >= 65) & f.smoker,
    "month(admitted) in ('June', 'july')": lambda f: f.admitted.dt.month.isin([6, 7]),
    "grade == 2": lambda f: f.grade == 2,
}


@pytest.mark.parametrize(("right", "expected"), PANDAS.items(), ids=PANDAS)
def test_numbers_and_answers_are_those_of_pandas(right, expected):
    found = design(right)
    assert found.shape[1] == 1
    assert np.abs(found.iloc[:, 0] - expected(FRAME).astype(float)).max() <= 1e-12
    assert found.iloc[:, 0].nunique() > 1


def test_comparisons_are_those_of_formulaic():
    """With interactions, and beside other terms."""
    ours = design("smoker*(age >= 65) + income + region == 'north'")
    theirs = formulaic.model_matrix(
        "smoker*{age >= 65} + income + {region == 'north'}",
        FRAME.assign(smoker=FRAME["smoker"].astype(float)),
    )
    theirs = theirs.drop(columns="Intercept").astype(float)
    assert ours.shape == theirs.shape
    for name in theirs:
        plain = name.replace("[T.True]", "").replace("'north'", "north")
        assert np.abs(ours[plain] - theirs[name]).max() <= 1e-12


CUTS = {
    "cut(age, 30, 50, 65)": ([-np.inf, 30, 50, 65, np.inf], "age"),
    "cut(age, 18, 40)": ([-np.inf, 40, np.inf], "age"),
    "cut(income, 2.5)": ([-np.inf, 2.5, np.inf], "income"),
}


@pytest.mark.parametrize(("right", "cut"), CUTS.items(), ids=CUTS)
def test_cuts_are_those_of_pandas(right, cut):
    """The lower end belongs to a level, the upper one to the next."""
    breaks, column = cut
    expected = pd.get_dummies(pd.cut(FRAME[column], breaks, right=False), drop_first=True)
    assert np.abs(design(right).to_numpy() - expected.to_numpy().astype(float)).max() <= 1e-12
    both = design(f"0 + {right}")
    assert both.shape[1] == len(breaks) - 1
    assert (both.sum(axis=1) == 1).all()


def test_merged_levels_are_those_of_pandas():
    merged = FRAME["region"].replace({"north": "coast", "east": "coast"})
    for right in (
        "merge(region, coast=('north', 'east'))",
        "merge(region, {'coast': ['North', 'EAST']})",
    ):
        found = design(right)
        assert list(found) == [f"merge(region, coast=(north, east))[{x}]" for x in REGIONS[1::2]]
        for name in ("south", "West Side"):
            ours = found[f"merge(region, coast=(north, east))[{name}]"]
            assert (ours == (merged == name)).all()
    assert list(design("coast")) == ["coast[south]", "coast[West Side]"]
    assert list(design("C(coast, 'South')")) == ["coast[the coast]", "coast[West Side]"]
    grades = design("merge(grade, low=(1, 2))")
    assert (grades.iloc[:, 0] == (FRAME["grade"] == 3)).all()


def test_parts_of_the_year_are_those_of_pandas():
    months = design("0 + month(admitted)")
    assert next(iter(months)) == "month(admitted)[January]"
    names = FRAME["admitted"].dt.month_name()
    for name in names.unique():
        assert (months[f"month(admitted)[{name}]"] == (names == name)).all()
    days = design("0 + weekday(admitted)")
    names = FRAME["admitted"].dt.day_name()
    for name in names.unique():
        assert (days[f"weekday(admitted)[{name}]"] == (names == name)).all()
    assert "month(admitted)[June]" not in list(design("C(month(admitted), 'june')"))


def test_levels_that_cannot_occur_are_not_made():
    short = dp.Schema.parse(BASE.replace('high = "2022-12-31"', "high = 2019-05-02"))
    assert list(design("month(admitted)", FRAME.head(3), short)) == [
        "month(admitted)[April]",
        "month(admitted)[May]",
    ]
    with pytest.raises(dp.InputError, match="the same in every row"):
        Design.of_terms(parse("claims ~ year(admitted)", short)[1])


def test_answers_are_read_as_yes_and_no():
    """As columns of type boolean are: in a design, and in products with factors."""
    _, terms = parse("claims ~ age >= 65 + smoker + region:(income > 3)", SCHEMA)
    found = Design.of_terms(terms)
    by_name = dict(zip(found.names, found.columns.yes_no, strict=True))
    assert by_name["age >= 65"]
    assert by_name["smoker"]
    assert found.columns.dummy[3:].all()


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("claims > 0", lambda f: f.claims > 0),
        ("any_claim", lambda f: f.claims > 0),
        ("region in ('north', 'east')", lambda f: f.region.isin(["north", "east"])),
        ("smoker", lambda f: f.smoker),
        ("claims + age > 40 or smoker", lambda f: (f.claims + f.age > 40) | f.smoker),
    ],
)
def test_answers_on_the_left_are_minus_and_plus_one(left, expected):
    assert (labels(left) == np.where(expected(FRAME), 1.0, -1.0)).all()


def test_missing_cells():
    """A row cannot be encoded where what is compared is missing, unless there is a substitute; on
    the left there is none.
    """
    frame = FRAME.head(4).copy()
    frame.loc[0, "age"] = np.nan
    frame.loc[1, "region"] = "elsewhere"
    frame.loc[2, "admitted"] = pd.NaT
    for right, missing in (
        ("age >= 65", [True, False, False, False]),
        ("cut(age, 30)", [True, False, False, False]),
        ("region == 'north'", [False, True, False, False]),
        ("merge(region, coast=('north', 'east'))", [False, True, False, False]),
        ("year(admitted)", [False, False, True, False]),
        ("month(admitted)", [False, False, True, False]),
        ("I(age >= 65 or region == 'north')", [True, True, False, False]),
    ):
        assert list(design(right, frame).isna().any(axis=1)) == missing
    assert list(np.isnan(labels("age >= 65", frame))) == [True, False, False, False]
    filled = TEXT.replace("high = 100", "high = 100\nmissing = 70").replace(
        'levels = ["north", "south", "east", "West Side"]',
        'levels = ["north", "south", "east", "West Side"]\nmissing = "north"',
    )
    filled = dp.Schema.parse(
        filled.replace('high = "2022-12-31"', 'high = "2022-12-31"\nmissing = 2020-06-01')
    )
    assert design("age >= 65", frame, filled).iloc[0, 0] == 1
    assert design("region == 'north'", frame, filled).iloc[1, 0] == 1
    assert design("year(admitted)", frame, filled).iloc[2, 0] == 2020
    assert list(np.isnan(labels("age >= 65", frame, filled))) == [True, False, False, False]


def test_values_are_clipped_first():
    """As under every transform: what lies beyond the bounds counts as the bound."""
    frame = pd.DataFrame({"age": [-5.0, 1e9, 18.0, 100.0]})
    assert list(design("age <= 18", frame).iloc[:, 0]) == [1, 0, 1, 0]
    assert list(design("age == 100", frame).iloc[:, 0]) == [0, 1, 0, 1]
    dates = pd.DataFrame({"admitted": [datetime.date(1900, 1, 1), datetime.date(2100, 5, 5)]})
    assert list(design("year(admitted)", dates).iloc[:, 0]) == [2019, 2022]
    assert list(design("admitted", dates).iloc[:, 0]) == [0, 1397]


BAD = {
    "break below": ("cut(age, 10, 40)", "age goes from 18 to 100; leave it out"),
    "break above": ("cut(age, 40, 101)", "a break lies beyond the bounds"),
    "breaks fall": ("cut(age, 40, 30)", "breaks must grow"),
    "no break": ("cut(age)", r"as in cut\(age, 18, 40, 65\)"),
    "break is a column": ("cut(age, income)", "breaks are numbers"),
    "cut levels": ("cut(region, 3)", "only a number can be transformed"),
    "cut at its end": ("cut(age, 18)", "all values lie in one level"),
    "cut in a transform": ("log(cut(age, 30))", "cut makes a factor"),
    "merge nothing": ("merge(region)", r"write merge\(region, coast="),
    "merge all": ("merge(region, a=('north', 'south', 'east', 'west side'))", "would be one"),
    "merge twice": ("merge(region, a=('north',), b=('north',))", "named twice"),
    "merge into another": ("merge(region, south=('north',))", "two levels would have one name"),
    "merge no level": ("merge(region, a=('nort',))", "did you mean 'north'?"),
    "merge a number": ("merge(age, a=(1, 2))", "has no levels.*or cut it"),
    "month of a number": ("month(age)", 'type = "date"'),
    "year of a level": ("year(region)", "only a number"),
    "splines": ("center(age)", "learns from the values"),
    "clip without ends": ("clip(age)", r"as in clip\(weight / height\*\*2, 10, 60\)"),
    "clip with one end": ("clip(age, 20)", "an expression and two numbers"),
    "clip with a third end": ("clip(age, 20, 30, middle=25)", "an expression and two numbers"),
    "clip turned around": ("clip(age, 40, 30)", "the second number must be above the first"),
    "clip by a column": ("clip(age, income, 40)", "the two ends are public numbers"),
    "clip beyond the bounds": ("clip(age, 200, 300)", "age goes from 18 to 100 by the schema"),
    "clip levels": ("clip(region, 1, 2)", "only a number can be transformed"),
    "clip what has no logarithm": ("clip(log(age - 18), 0, 3)", "needs values above 0"),
    "divided by 0": ("clip(age / 0, 1, 2)", "divides by 0"),
    "a quotient without bounds": (
        "I(age / (grade - 2))",
        r"divides by values that may be 0, .* or write clip\(age / \(grade - 2\), LOW, HIGH\)",
    ),
    "pmin": ("pmin(age, 30)", r"write clip\(x, low, high\)"),
    "ifelse": ("ifelse(age > 3, 1, 0)", r"the comparison itself, as in I\(age >= 65\)"),
}


@pytest.mark.parametrize(("right", "message"), BAD.values(), ids=BAD)
def test_what_is_refused(right, message):
    with pytest.raises(dp.InputError, match=message):
        parse("claims ~ " + right, SCHEMA)


numbers = st.floats(allow_nan=True, allow_infinity=True)
cells = st.fixed_dictionaries(
    {
        "age": numbers,
        "income": numbers,
        "grade": st.one_of(st.integers(-5, 9).map(float), numbers),
        "region": st.sampled_from([*REGIONS, "", "x", None]),
        "smoker": st.sampled_from([0.0, 1.0, 2.0, np.nan]),
        "admitted": st.one_of(st.none(), st.dates(), st.datetimes(), st.text(max_size=12)),
    }
)
FORMULAS = [
    "age >= 65 + 20 < age < 30 + region == 'north' + grade in (1, 2)",
    "cut(age, 30, 50):merge(region, coast=('north', 'east'))",
    "I(age * income) + I(age / income) + I(income / age) + I(age * (age >= 65))",
    "admitted + year(admitted) + month(admitted) + weekday(admitted) + cut(admitted, '2020-01-01')",
    "clip(age / (income - 3), 0.1, 7) + clip(exp(age) * grade / income - age / (grade - 2), -1, 2)",
    "log(clip(1 / (grade - 1), 0.2, 3)) + clip(log(income) / 3, 0.1, 0.2)",
    "senior + group + coast + old_smoker + I(group == 'under 30' or smoker)",
]


@pytest.mark.parametrize("right", FORMULAS)
@examples(20)
@given(records=st.lists(cells, min_size=1, max_size=6))
def test_ranges_hold_every_value_and_no_cell_raises(right, records):
    _, terms = parse("claims ~ " + right, SCHEMA)
    frame = pd.DataFrame(records).astype({"region": object, "admitted": object})
    values = read_terms(table_of(frame).opened(terms.columns), terms)
    first = 0
    for block in terms.blocks:
        found = values[:, first : first + block.width]
        first += block.width
        assert not np.isinf(found).any()
        if block.number is None:
            assert np.isin(found[~np.isnan(found)], (0, 1)).all()
        else:
            inside = (found >= block.number.low) & (found <= block.number.high)
            assert (inside | np.isnan(found)).all()
        for part in block.parts:
            if isinstance(part, Expression) and part.answers:
                assert np.isin(found[~np.isnan(found)], (0, 1)).all()
    encoded = Design.of_terms(terms)
    assert (np.linalg.norm(encoded.rows(values), axis=1) <= 1).all()


def test_a_clip_has_the_bounds_of_its_ends_and_of_what_is_clipped():
    """So a ratio has useful bounds, whatever the divisor may be; exactly, as rows are scaled by them."""

    def ends(right):
        _, terms = parse("claims ~ " + right, SCHEMA)
        number = terms.blocks[0].number
        return number.low, number.high

    assert ends("clip(age / (grade - 2), 10, 60)") == (10, 60)
    assert ends("clip(age, 0, 60)") == (18, 60)
    assert ends("clip(age / (grade - 1), 0, 60)") == (9, 60)
    assert ends("clip(age / (1 - grade), -500, 500)") == (-500, -9)
    assert ends("clip(age / (grade - 2), 10, 60)") == (10, 60)
    assert ends("clip((grade - 1) / age, -9, 9)") == ends("I((grade - 1) / age)")
    assert ends("clip(age * (1 / (grade - 2)) * (grade - 1), -3, 4)") == (-3, 4)
    assert ends("log(clip(age / (grade - 2), 1, 10))") == (0, np.log(10))


def test_a_quotient_by_0_is_missing_and_not_the_end_of_a_clip():
    frame = pd.DataFrame({"age": [30.0, 30.0, 30.0], "grade": [2, 3, 1]})
    found = design("clip(age / (grade - 2), 10, 60)", frame).iloc[:, 0]
    assert np.isnan(found[0])
    assert found[1:].tolist() == [30, 10]
    missing = pd.DataFrame({"age": [np.nan], "grade": [3]})
    assert np.isnan(design("clip(age / (grade - 2), 10, 60)", missing).iloc[0, 0])


def test_derived_columns_have_their_own_names():
    assert list(design("senior + group + old_smoker + senior:income")) == [
        "senior",
        "group[30 to under 50]",
        "group[50 to under 65]",
        "group[65 or more]",
        "old_smoker",
        "senior:income",
    ]
    assert [one.name for one in SCHEMA.derived_from(["old_smoker"])] == ["senior", "old_smoker"]
    assert SCHEMA.derived_from(["age"]) == ()
    _, terms = parse("claims ~ group + old_smoker", SCHEMA)
    assert [column.name for column in terms.columns] == ["age", "smoker"]


def test_derived_columns_may_be_derived_many_times_but_not_without_end():
    """Each twice the one before it: the last would be made of 2 ** 40 columns."""
    steps = "".join(f'[columns.s{j + 1}]\nfrom = "s{j} + s{j}"\n' for j in range(40))
    with pytest.raises(dp.InputError, match="more than 200 times: derive it from fewer"):
        dp.Schema.parse(BASE + '[columns.s0]\nfrom = "income"\n' + steps)

    def chain(length):
        steps = "".join(f'[columns.s{j + 1}]\nfrom = "s{j} + 1"\n' for j in range(length))
        return dp.Schema.parse(BASE + '[columns.s0]\nfrom = "income"\n' + steps)

    assert np.allclose(design("s40", FRAME, chain(40)).iloc[:, 0], FRAME["income"] + 40)
    with pytest.raises(dp.InputError, match="nested too deeply"):
        chain(400)
