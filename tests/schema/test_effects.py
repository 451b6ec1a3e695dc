"""Effects of persons in a formula: y ~ x | id + year."""

import pytest

import dpinfer as dp
from dpinfer.schema.design import Design
from dpinfer.schema.formula import names_of, parse, split_effects

SCHEMA = dp.Schema.parse("""
unit = {name = "one person", column = "person id", rows = "average", constant = ["sex"]}
columns.y = {type = "number", low = 0, high = 10}
columns.x = {type = "number", low = 0, high = 1}
columns.sex = {type = "category", levels = ["f", "m"]}
columns.year = {type = "integer", low = 2001, high = 2003, levels = [2001, 2002, 2003]}
columns.day = {type = "integer", low = 1, high = 365}
""")
PLAIN = dp.Schema.parse("""
columns.y = {type = "number", low = 0, high = 10}
columns.x = {type = "number", low = 0, high = 1}
""")


def test_the_part_behind_the_bar():
    assert split_effects("y ~ x | `person id` + year") == ("y ~ x", ("person id", "year"))
    assert split_effects("y ~ x") == ("y ~ x", ())
    assert split_effects("y ~ (a | b) + {c | d}") == ("y ~ (a | b) + {c | d}", ())
    assert split_effects("`a|b` ~ x | id") == ("`a|b` ~ x", ("id",))
    assert names_of("y ~ x | id + year") == ["y", "x", "year"]


def test_effects_of_periods_are_columns():
    response, terms = parse("y ~ x | `person id` + year", SCHEMA)
    assert terms.effects
    assert [name for block in terms.blocks for name in block.names] == [
        "x",
        "year[2002]",
        "year[2003]",
    ]
    design = Design.of_formula(response, terms, "residual", SCHEMA.unit)
    assert design.within
    assert design.of_values.high[1] == 1
    assert design.half[1] == 1  # a deviation of x is from -1 to 1


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ x | year + `person id`", "first name behind"),
        ("y ~ x | `person id` + log(x)", "behind | stand names"),
        ("y ~ x | `person id` +", "behind | stand names"),
        ("y ~ x | `person id` | year", "behind | stand names"),
        ("y ~ x | `person id` + day", "has no levels"),
        ("y ~ x | `person id` + nobody", "no column 'nobody'"),
        ("y ~ x - 1 | `person id`", "take the place of the intercept"),
        ("y ~ 1 | `person id`", "add a term"),
        ("y ~ x + sex | `person id`", "'sex' is the same in all rows"),
    ],
)
def test_faults_have_a_remedy(formula, message):
    model = dp.LinearRegression(formula, schema=SCHEMA, budget=dp.ZCDP(0.1))
    with pytest.raises(dp.InputError) as raised:
        model.entry(100)
    assert message in str(raised.value)


def test_an_interaction_with_what_varies_is_no_constant():
    response, terms = parse("y ~ x + sex:x | `person id`", SCHEMA)
    assert Design.of_formula(response, terms, "residual", SCHEMA.unit).within


def test_effects_need_ids_and_least_squares():
    with pytest.raises(dp.InputError, match="need ids"):
        dp.LinearRegression("y ~ x | id", schema=PLAIN, budget=dp.ZCDP(0.1)).entry(100)
    with pytest.raises(dp.InputError, match="least squares"):
        dp.PoissonRegression("y ~ x | `person id`", schema=SCHEMA, budget=dp.ZCDP(0.1)).entry(100)
    with pytest.raises(dp.InputError, match="least squares"):
        dp.HuberRegression("y ~ x | `person id`", schema=SCHEMA, budget=dp.ZCDP(0.1)).entry(100)


def test_the_argument_says_the_same():
    model = dp.LinearRegression("y ~ x", effects="person", schema=SCHEMA, budget=dp.ZCDP(0.1))
    assert model.asked_formula == "y ~ x | `person id`"
    assert model.entry(100).cost.rho == pytest.approx(0.1)
    with pytest.raises(dp.InputError, match="'person' or left out"):
        dp.LinearRegression("y ~ x", effects="firm", schema=SCHEMA).entry(100)
