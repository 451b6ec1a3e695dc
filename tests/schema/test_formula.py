import contextlib
import re
import time
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from formulaic.parser import DefaultFormulaParser
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.design import Design
from dpinfer.schema.formula import names_of, parse
from dpinfer.tables.memory import read_labels, read_terms
from helpers.searches import examples
from helpers.tables import SCHEMA, TEXT, table

TABLE = table()


def columns(formula):
    _, terms = parse(formula, SCHEMA)
    return [name for block in terms.blocks for name in block.names]


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("age + sex", "age sex[m]"),
        ("age*sex", "age sex[m] age:sex[m]"),
        ("age:sex", "age:sex[f] age:sex[m]"),
        ("sex:age - 1", "sex[f]:age sex[m]:age"),
        ("h", "h[fair] h[poor]"),
        ("C(h, 'fair')", "h[good] h[poor]"),
        ('C(h, reference="poor")', "h[fair] h[good]"),
        ("C(k, 2) + k", "k[1] k[3] k"),
        ("k:C(k)", "k:k[1] k:k[2] k:k[3]"),
        ("C(smoker) + smoker:w", "smoker[True] smoker:w"),
        ("C(smoker, True)", "smoker[False]"),
        ("0 + h + sex", "h[fair] h[good] h[poor] sex[m]"),
        ("sex:h", "h[fair] h[poor] sex[m]:h[fair] sex[m]:h[good] sex[m]:h[poor]"),
        ("sex:h + sex + h", "sex[m] h[fair] h[poor] sex[m]:h[fair] sex[m]:h[poor]"),
        ("log(age) + I(age**2) + scale(age)", "log(age)|I(age ** 2)|scale(age)"),
        ("log(`my column` + 1) + `my column`:w", "log(`my column` + 1)|my column:w"),
        ("(w + age)**2", "w age w:age"),
        ("age + w + age:w - w", "age age:w"),
        ("1", ""),
    ],
)
def test_names_of_columns(formula, names):
    found = columns("ill ~ " + formula)
    assert sorted(found) == sorted(names.split("|") if "|" in names else names.split())


@pytest.mark.parametrize(
    ("factor", "low", "high"),
    [
        ("I(w**2)", 0, 16),
        ("I(w**3)", -27, 64),
        ("I(age**2)", 324, 10_000),
        ("log(age)", np.log(18), np.log(100)),
        ("log1p(age)", np.log(19), np.log(101)),
        ("sqrt(age)", 18**0.5, 10),
        ("exp(w)", np.exp(-3), np.exp(4)),
        ("abs(w)", 0, 4),
        ("scale(age)", -3.2, 5),
        ("I(1/age)", 0.01, 1 / 18),
        ("I(2 - w)", -2, 5),
        ("age:w", -300, 400),
        ("I(w*age - +3)", -303, 397),
    ],
)
def test_ranges_are_exact(factor, low, high):
    _, terms = parse("ill ~ " + factor, SCHEMA)
    number = terms.blocks[0].number
    assert (number.low, number.high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    "formula",
    [
        "age + sex + h",
        "age*sex",
        "age:sex",
        "sex:h",
        "sex + sex:h",
        "h:sex - 1",
        "h + w - 1",
        "w:h - 1",
        "w + w:h - 1",
        "age*w",
        "age*w*h",
        "np.log(age)*w",
        "I(age**2) + age",
        "C(k)*sex",
        "C(h, Treatment('poor'))*w",
        "C(k):sex:w",
        "np.sqrt(age) + np.exp(w) + visits",
    ],
)
def test_without_noise_every_formula_is_statsmodels(formula):
    """With the reference of the schema moved to the first level, which is where statsmodels has it."""
    schema = dp.Schema.parse(TEXT.replace('reference = "good"', 'reference = "fair"'))
    model = dp.LogisticRegression(
        "ill ~ " + formula, schema=schema, budget=dp.NoPrivacy(), penalty=0.0
    ).fit(TABLE)
    data = TABLE.assign(ill=TABLE["ill"].astype(int))
    theirs = smf.logit("ill ~ " + formula, data).fit(
        disp=False, method="newton", tol=1e-12, cov_type="HC0"
    )
    names = [_ours(name) for name in theirs.params.index]
    assert sorted(names) == sorted(model.result_.names)
    order = [names.index(name) for name in model.result_.names]
    assert np.allclose(
        model.result_.estimate, theirs.params.to_numpy()[order], rtol=1e-6, atol=1e-9
    )
    assert np.allclose(model.result_.std_error, theirs.bse.to_numpy()[order], rtol=1e-6)
    assert np.allclose(model.predict_proba(TABLE)[:, 1], theirs.predict(data), rtol=1e-6)
    assert model.intercept_.shape == (1,)


def _ours(name):
    name = name.replace("Intercept", "(Intercept)").replace("[T.", "[")
    return re.sub(r"C\((\w+)(,[^)]*\)?)?\)", r"\1", name)


BAD = {
    "no column": ("ill ~ age + z", "no column 'z'"),
    "near column": ("ill ~ agee", "did you mean 'age'?"),
    "no outcome": ("age + w", "no outcome: write"),
    "empty": ("", "no outcome"),
    "nothing after ~": (
        "ill ~ ",
        "nothing stands on the right of ~: name columns, or write 'ill ~ 1'",
    ),
    "two outcomes": ("ill + cost ~ w", "exactly one outcome"),
    "left is a number": (
        "age ~ w",
        "'age' is a number: a classifier needs two levels; compare it, as in age > 0",
    ),
    "left transform": ("log(age) ~ w", "'log\\(age\\)' is a number: a classifier needs two levels"),
    "outcome on the right": ("ill ~ cost", "leave it out"),
    "broken": ("ill ~ age +", "cannot be read"),
    "twice ~": ("ill ~ ~", "cannot be read"),
    "bar": ("ill ~ age | w | id", "behind | stand names"),
    "not text": (3, "must be text such as"),
    "too long": ("ill ~ " + "age + " * 1000, "at most 5000 characters"),
    "left compared beyond its bounds": (
        "visits > 99 ~ w",
        "visits goes from 0 to 50 in the schema",
    ),
    "left of 0": ("visits - 0 ~ w", r"here I\(visits - 0\)"),
    "offset": (
        "ill ~ age + offset(w)",
        "an offset is for counts and rates.*with two levels take x as a term",
    ),
    "two offsets": ("visits ~ sex + offset(w) + offset(age)", "once in a formula"),
    "offset in an interaction": ("visits ~ sex*offset(w)", "a term of its own"),
    "offset in a product": ("visits ~ sex:offset(w)", "a term of its own"),
    "offset in a power": ("visits ~ (sex + offset(w))**2", "a term of its own"),
    "offset inside": ("visits ~ sex + I(offset(w))", "a term of its own"),
    "offset of a logarithm inside": ("visits ~ sex + log(offset(age))", "a term of its own"),
    "offset on the left": ("offset(visits) ~ sex", "a term of its own"),
    "offset of a category": ("visits ~ age + offset(h)", "only a number can be transformed"),
    "offset of nothing": ("visits ~ age + offset()", "offset takes one argument"),
    "offset of two": ("visits ~ age + offset(w, age)", "offset takes one argument"),
    "offset of the outcome": ("visits ~ age + offset(log1p(visits))", "stands on both sides"),
    "offset of what is not there": ("visits ~ age + offset(log(z))", "no column 'z'"),
    "offset of a negative logarithm": (
        "visits ~ sex + offset(log(w - 5))",
        r"log\(w - 5\) needs values above 0",
    ),
    "power of a power": ("ill ~ (age + w)**2**3", r"after \*\* stands a whole number from 1 to 9"),
    "power in brackets": ("ill ~ (age + w)**(2 + 3)", "whole number from 1 to 9"),
    "power 0": ("ill ~ (age + w)**0", "whole number from 1 to 9|cannot be read"),
    "high power": ("ill ~ (age + w)**99", "goes up to 9"),
    "log of 0": (
        "ill ~ log(visits)",
        "visits goes from 0 to 50 in the schema: raise low.*write log1p.visits",
    ),
    "log of log": ("ill ~ log(log(`my column` + 1))", "needs values above 0"),
    "log1p": ("ill ~ log1p(w)", "raise low in the schema above -1"),
    "sqrt": ("ill ~ sqrt(w)", "raise low in the schema to 0 or more"),
    "division": ("ill ~ I(age / w)", "leave 0 out"),
    "too large": ("ill ~ exp(exp(age))", "tighten low and high"),
    "constant": ("ill ~ I(2)", "the same in every row: drop it"),
    "wide": ("ill ~ exp(I(age * 5))", "double precision"),
    "center": ("ill ~ center(age)", "learns from the values, which is not private"),
    "standardize": ("ill ~ standardize(age)", "learns from the values"),
    "cr": ("ill ~ cr(age, df=4)", "learns from the values"),
    "scale": ("ill ~ scale(w)", "public centre and scale in the schema"),
    "scale of a transform": ("ill ~ scale(log(age))", "public centre and scale in the schema"),
    "Q": ("ill ~ Q('my column')", "in backticks"),
    "code": ("ill ~ __import__('os')", "there is no function __import__"),
    "attribute": ("ill ~ age.__class__()", "called by its name"),
    "np": ("ill ~ np.load(age)", "there is no function load"),
    "lambda": ("ill ~ I((lambda x: x)(age))", "cannot be read: invalid syntax"),
    "comparison": (
        "ill ~ I(age > 3)",
        "age > 3 is true in every row, since age goes from 18 to 100",
    ),
    "comparison outside of I": ("ill ~ age > 3", "compare with a value in between, or change its"),
    "and": ("ill ~ I(age > 30 and w > 9)", "w > 9 is false in every row"),
    "everything": ("ill ~ .", r"name them, as in ill ~ age \+ w"),
    "everything else": ("ill ~ . - age", r"name them, as in ill ~ age \+ w"),
    "square": ("ill ~ age^2 + w", r"age\*\*2 stands for age alone, as in R: write I\(age \*\* 2\)"),
    "square of a transform": ("ill ~ log(age)**2", r"write I\(log\(age\) \*\* 2\)"),
    "scaled": ("ill ~ age/100", r"write I\(age / 100\)"),
    "multiple": ("ill ~ 2*age", r"write I\(2 \* age\)"),
    "left scaled": ("age/100 ~ w", r"exactly one outcome.*here I\(age/100\)"),
    "left squared": ("age^2 ~ w", r"exactly one outcome.*here I\(age\*\*2\)"),
    "equals": ("ill = age", "write ~ between"),
    "factor of R": ("ill ~ factor(sex)", r"write C\(x\)"),
    "log below 0": ("ill ~ log(age - 25)", r"write log\(age - 25 \+ 8\)"),
    "subscript": ("ill ~ I(age[0])", "abs, exp, log"),
    "walrus": ("ill ~ I((age := 3))", "abs, exp, log"),
    "two arguments": ("ill ~ log(age, 2)", "log takes one argument"),
    "fractional power": ("ill ~ I(age**0.5)", "whole number from 1 to 9"),
    "negative power": ("ill ~ I(age**-1)", "whole number from 1 to 9"),
    "huge number": ("ill ~ I(age * 1e999)", "too large"),
    "factor in a transform": ("ill ~ log(sex)", "only a number can be transformed"),
    "C of a number": ("ill ~ C(age)", "as a category or integer with levels"),
    "C of a transform": ("ill ~ C(log(age))", "has no levels.*cut it, as in cut"),
    "C of nothing": ("ill ~ C()", "C\\(column\\)"),
    "C level": ("ill ~ C(h, 'god')", "did you mean 'good'?"),
    "C level type": ("ill ~ C(k, '1')", "is not a level"),
    "C level name": ("ill ~ C(h, good)", "text in quotes"),
    "C contrast": ("ill ~ C(h, Sum)", "text in quotes"),
    "C two references": ("ill ~ C(h, 'fair') + C(h, 'poor')", "two reference levels"),
    "number": ("ill ~ 2:age", "write I\\(2 \\* x\\)"),
    "deep": ("ill ~ I(" + "-" * 3000 + "age)", "cannot be read|nested"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_formulas(case):
    formula, message = BAD[case]
    with pytest.raises(dp.InputError, match=message) as caught:
        dp.LogisticRegression(formula, schema=SCHEMA, budget=dp.NoPrivacy()).read(TABLE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("offset", "text", "low", "high"),
    [
        ("offset(w)", "w", -3, 4),
        ("offset(log(age))", "log(age)", np.log(18), np.log(100)),
        ("offset(np.log(age))", "np.log(age)", np.log(18), np.log(100)),
        ("offset(log(`my column`))", "log(my column)", -30, 0),
        ("offset(log(visits + 1))", "log(visits + 1)", 0, np.log(51)),
        ("offset(log(visits))", "log(visits)", np.log(50) - 30, np.log(50)),
        ("offset(log(w))", "log(w)", np.log(4) - 30, np.log(4)),  # an exposure below 0 is none
        ("offset(log(10 * visits))", "log(10 * visits)", np.log(500) - 30, np.log(500)),
    ],
)
def test_an_offset_has_no_column_and_a_public_bound(offset, text, low, high):
    """Wherever it stands; the logarithm of an exposure that may be 0 ends thirty below its bound."""
    for right in (f"sex + {offset}", f"{offset} + sex", f"sex + {offset} + {offset}"):
        _, terms = parse(f"cost ~ {right}", SCHEMA)
        assert [name for block in terms.blocks for name in block.names] == ["sex[m]"]
        assert terms.offset.text.replace("`", "") == text
        assert (terms.offset.low, terms.offset.high) == pytest.approx((low, high))
        assert {column.name for column in terms.offset.columns} <= {
            column.name for column in terms.columns
        }
        design = Design.of_terms(terms)
        assert design.names == ("(Intercept)", "sex[m]")
        assert design.offset == pytest.approx(high)
        assert design.width == 3
        assert design.norm2 == 3


def test_an_offset_may_stand_alone_or_be_taken_back():
    assert parse("visits ~ offset(w)", SCHEMA)[1].blocks == ()
    assert parse("visits ~ sex + offset(w) - offset(w)", SCHEMA)[1].offset is None


@pytest.mark.parametrize("model", [dp.LogisticRegression, dp.LinearRegression, dp.HuberRegression])
def test_an_offset_is_for_counts_alone(model):
    outcome = "ill" if model is dp.LogisticRegression else "cost"
    ledger = dp.Ledger(dp.ZCDP(1.0))
    asked = model(f"{outcome} ~ age + offset(w)", schema=SCHEMA, budget=dp.ZCDP(0.5), ledger=ledger)
    with pytest.raises(dp.InputError, match="an offset is for counts and rates"):
        asked.fit(TABLE)
    assert not ledger.entries()


@pytest.mark.parametrize("formula", ["age + h", "age*sex", "1", "np.log(age)*h + C(k)"])
@pytest.mark.parametrize("offset", ["", " + offset(np.log(years))", " + offset(w)"])
def test_without_noise_every_formula_of_counts_is_statsmodels(formula, offset):
    text = TEXT.replace('reference = "good"', 'reference = "fair"')
    years = '[columns.years]\ntype = "number"\nlow = 0\nhigh = 8\n'
    schema = dp.Schema.parse(text + years)
    data = TABLE.assign(years=np.random.default_rng(4).uniform(0.2, 8, len(TABLE)))
    asked = dp.PoissonRegression(
        f"visits ~ {formula}{offset}", schema=schema, budget=dp.NoPrivacy()
    )
    theirs = smf.glm(
        "visits ~ " + formula,
        data,
        family=sm.families.Poisson(),
        offset={"": None, " + offset(w)": data.w}.get(offset, np.log(data.years)),
    ).fit(tol=1e-13, cov_type="HC0")
    result = asked.fit(data).result_
    names = [_ours(name) for name in theirs.params.index]
    order = [names.index(name) for name in result.names]
    np.testing.assert_allclose(result.estimate, theirs.params.to_numpy()[order], atol=1e-7)
    np.testing.assert_allclose(result.std_error, theirs.bse.to_numpy()[order], rtol=1e-6)


def wide_schema():
    """Sixty numbers, twenty factors of forty levels."""
    numbers = [f"[columns.x{k}]\ntype = 'number'\nlow = 0\nhigh = 1\n" for k in range(60)]
    levels = [str(k) for k in range(40)]
    factors = [f"[columns.f{k}]\ntype = 'category'\nlevels = {levels}\n" for k in range(20)]
    outcome = "[columns.y]\ntype = 'outcome'\nlevels = ['no', 'yes']\n"
    return dp.Schema.parse("".join([outcome, *numbers, *factors]))


NUMBERS = [f"x{k}" for k in range(60)]
FACTORS = [f"f{k}" for k in range(20)]
SUM = "(" + " + ".join(NUMBERS[:30]) + ")"
HOSTILE = {
    "power of a sum": f"{SUM}**6",
    "squares of sums": " + ".join([f"{SUM}**2"] * 9),
    "powers of powers": f"((({SUM}**2)**2)**2)**2",
    "stars": "*".join(NUMBERS[:30]),
    "products of sums": f"{SUM}:{SUM}:{SUM}",
    "sums times sums": f"{SUM}*{SUM}*{SUM}",
    "brackets": "(" * 2000 + "x0" + ")" * 2000,
    "square brackets": "[" * 2000 + "x0" + "]" * 2000,
    "calls": "I(" * 900 + "x0" + ")" * 900,
    "signs": "I(" + "-" * 4000 + "x0)",
    "a long sum": "I(" + "+".join(["x0"] * 1200) + ")",
    "names": "+".join(["x0"] * 1600),
    "long text": "x0 + " * 200_000 + "x0",
    "huge power": "(x0 + x1)**999999999",
    "power of a power": "(x0 + x1)**9**9**9",
    "huge number": "I(" + "9" * 4500 + " * x0)",
    "stars of factors": "*".join(FACTORS[:4]),
    "colons of factors": ":".join(FACTORS[:3]),
    "colons of many factors": ":".join(FACTORS),
    "pairs of factors": "(" + " + ".join(FACTORS) + ")**2",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_guarantee_bounded_formulas(case):
    schema = wide_schema()
    start = time.process_time()
    with pytest.raises(
        dp.InputError, match=r": (write|name|take|lower)|whole number|at most|up to"
    ):
        Design.of_terms(parse(f"y ~ {HOSTILE[case]}", schema)[1])
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("formula", "width"),
    [
        ("(x0 + x1 + x2 + x3 + x4 + x5)**8", 63),
        ("(((x0 + x1 + x2 + x3)**9)**9)**9", 15),
        ("/".join(NUMBERS[:40]), 40),
        ("x0 + I((((((x0**3)**3)**3)**3)**3)**3)", 2),
        (f"{SUM}**2", 465),
        ("f0*f1", 1599),
    ],
)
def test_what_is_small_once_made_is_made_at_once(formula, width):
    """Products of products are made once, and nothing walks through all parts of a product."""
    schema = wide_schema()
    start = time.process_time()
    _, terms = parse(f"y ~ {formula}", schema)
    assert len(Design.of_terms(terms).names) == width + 1
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "base", ["a + b + c", "b + a:c + d", "a*b + c", "d + c + b + a", "a:b + b:a"]
)
@pytest.mark.parametrize("power", [2, 3, 4])
def test_powers_are_those_of_the_parser(base, power):
    """Step by step, the terms and their order are those of the whole product; those of fewer factors
    come first.
    """
    number = 'type = "number"\nlow = 0\nhigh = 1\n'
    schema = dp.Schema.parse("".join(f"[columns.{name}]\n{number}" for name in "yabcd"))
    _, terms = parse(f"y ~ ({base})**{power}", schema)
    products = DefaultFormulaParser().get_terms(f"({base})**{power} - 1", context={})
    theirs = sorted((list(map(str, product.factors)) for product in products), key=len)
    ours = [name.split(":") for block in terms.blocks for name in block.names]
    assert ours == theirs


def test_two_columns_of_one_name_are_refused():
    schema = dp.Schema.parse(TEXT.replace('[columns."my column"]', '[columns."sex[m]"]'))
    with pytest.raises(dp.InputError, match="'sex\\[m\\]' twice: drop one"):
        parse("ill ~ sex + `sex[m]`", schema)


SYMBOLS = [*"~+-*/:^()[]{}`,.|=01\"'%#\n_é", "**", "==", "1e9", "%in%", "np."]
tokens = st.sampled_from(
    [*SYMBOLS, "ill", "age", "w", "sex", "h", "k", "C", "I", "log", "scale", "Q", "'f'"]
)


@examples(100)
@given(st.lists(tokens, max_size=12).map("".join), st.booleans())
def test_no_formula_raises_anything_else(text, prefixed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(dp.InputError):
            parse(("ill ~ " if prefixed else "") + text, SCHEMA)


def test_values_beyond_the_bounds_are_clipped_before_a_transform():
    far = TABLE.assign(age=TABLE["age"].where(TABLE.index >= 50, -7.0))
    near = TABLE.assign(age=TABLE["age"].where(TABLE.index >= 50, 18.0))
    formula = "ill ~ log(age):sex + I(age**2)"
    model = dp.LogisticRegression(formula, schema=SCHEMA, budget=dp.NoPrivacy(), penalty=0.01)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        estimates = [model.fit(frame).result_.estimate for frame in (far, near)]
        assert np.isfinite(model.predict_proba(far)).all()
    assert np.array_equal(*estimates)


def test_what_cannot_be_encoded_counts_as_the_zero_row():
    """A missing number under a transform, a fraction in a column of integers, a boolean that is
    neither 0 nor 1.
    """
    spoilt = TABLE.astype({"visits": float, "smoker": float, "k": float})
    spoilt.loc[:9, "age"], spoilt.loc[10:19, "k"] = np.nan, 4.0
    spoilt.loc[20:29, "visits"], spoilt.loc[30:39, "smoker"] = 1.5, 0.5
    formula = "ill ~ log(age) + C(k):w + visits + smoker"
    model = dp.LogisticRegression(formula, schema=SCHEMA, budget=dp.NoPrivacy(), penalty=0.01)
    kept = model.fit(spoilt).result_.estimate
    fewer = model.set_params(penalty=0.01 * 2000 / 1960).fit(spoilt.iloc[40:]).result_.estimate
    assert np.allclose(kept, fewer, rtol=1e-9)


def test_a_substitute_stands_for_what_is_missing():
    text = TEXT.replace("high = 100", "high = 100\nmissing = 40").replace(
        'levels = ["f", "m"]', 'levels = ["f", "m"]\nmissing = "m"'
    )
    text = text.replace('type = "boolean"', 'type = "boolean"\nmissing = true')
    text = text.replace("levels = [1, 2, 3]", "levels = [1, 2, 3]\nmissing = 2")
    spoilt, filled = TABLE.astype({"smoker": object}), TABLE.copy()
    spoilt.loc[30:39, "k"], filled.loc[30:39, "k"] = 7, 2
    spoilt.loc[:9, "age"], filled.loc[:9, "age"] = np.nan, 40.0
    spoilt.loc[10:19, "sex"], filled.loc[10:19, "sex"] = "unknown", "m"
    spoilt.loc[20:29, "smoker"], filled.loc[20:29, "smoker"] = None, True
    model = dp.LogisticRegression(
        "ill ~ age*sex + smoker + C(k)", schema=dp.Schema.parse(text), budget=dp.NoPrivacy()
    )
    model.set_params(penalty=0.0)
    assert np.array_equal(model.fit(spoilt).result_.estimate, model.fit(filled).result_.estimate)


@pytest.mark.parametrize(
    "formula", ["y ~ (a + b)**(99)", "y ~ a^99999999", "y ~ (a+b)^ +12", "y ~ I(a**100000)"]
)
def test_large_powers_are_refused_at_once(formula):
    with pytest.raises(dp.InputError, match="up to 9"):
        parse(formula, SCHEMA)


@pytest.mark.parametrize(
    ("as_in_r", "as_in_python"),
    [
        ("I(age^2)", "I(age**2)"),
        ("I((age - 50)^2)", "I((age - 50)**2)"),
        ("(age + w)^2", "(age + w)**2"),
        ("I(`my column`^2)", "I(`my column`**2)"),
    ],
)
def test_a_power_as_in_r(as_in_r, as_in_python):
    ours, theirs = (parse(f"ill ~ {term}", SCHEMA)[1] for term in (as_in_r, as_in_python))
    assert ours == theirs


def test_a_hat_in_quotes_is_no_power():
    schema = dp.Schema.parse(TEXT.replace('["f", "m"]', '["f", "m^2"]'))
    assert [block.names for block in parse("ill ~ C(sex, 'm^2')", schema)[1].blocks] == [
        ("sex[f]",)
    ]


# Names of columns: any that a file may have


PLAIN = {
    "category": "kind",
    "number": "size",
    "integer": "times",
    "boolean": "flag",
    "outcome": "ill",
    "derived": "big",
    "cut": "often",
}
AWKWARD = [
    ["class", "lambda", "from", "is", "import", "def", "try"],
    ["not", "in", "None", "or", "True", "if", "and"],
    ["a class", "x~y", "2nd", "it's", "y + z", "a[b]", "__name0"],
]
COLUMNS = """
[columns."{category}"]
type = "category"
levels = ["a", "b", "c"]
[columns."{number}"]
type = "number"
low = 0
high = 10
[columns."{integer}"]
type = "integer"
low = 0
high = 10
[columns."{boolean}"]
type = "boolean"
[columns."{outcome}"]
type = "outcome"
levels = ["no", "yes"]
[columns."{derived}"]
from = "`{number}` > 5"
[columns."{cut}"]
from = "cut(`{integer}`, 3, 6)"
"""
ASKED = [
    "`{outcome}` ~ `{category}` + `{number}` + `{boolean}`",
    "`{outcome}` ~ `{category}`*`{number}` + `{category}`:`{boolean}`",
    "`{outcome}` ~ I(`{number}` ** 2) + log(1 + `{integer}`) + clip(`{integer}`, 2, 4)",
    "`{outcome}` ~ {{`{number}` > 5}} + `{integer}` >= 3 + `{category}` == 'a'",
    "`{outcome}` ~ (`{number}` > 5 & !`{boolean}`) + (`{integer}` < 4 or not `{boolean}`)",
    "`{outcome}` ~ {{`{category}` in ('a', 'b')}} + `{category}` not in ('c',)",
    "`{outcome}` ~ C(`{category}`, 'b') + merge(`{category}`, x=('a', 'b'))",
    "`{outcome}` ~ ns(`{number}`, 3, 5) + poly(`{integer}`, 2):`{boolean}`",
    "`{outcome}` ~ `{derived}` + `{cut}` + cut(`{number}`, 2, 4)",
    "`{number}` > 5 ~ `{integer}`",
    "I(`{number}` - `{integer}`) ~ `{category}`",
    "`{outcome}` == 'yes' ~ `{number}`",
]


def designed(asked, names):
    """The columns of a formula and of its left side, of made-up rows, with plain names of columns."""
    renamed = dict(zip(PLAIN.values(), names.values(), strict=True))
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "kind": rng.choice(["a", "b", "c"], 60),
            "size": rng.uniform(0, 10, 60),
            "times": rng.integers(0, 11, 60),
            "flag": rng.random(60) < 0.5,
            "ill": rng.choice(["no", "yes"], 60),
        }
    ).rename(columns=renamed)
    formula = asked.format(**names)
    response, terms = parse(formula, dp.Schema.parse(COLUMNS.format(**names)))
    opened = nw.from_native(frame, eager_only=True)
    assert set(names_of(formula)) <= set(names.values())
    return read_labels(opened, response), read_terms(opened, terms), terms


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("awkward", AWKWARD, ids=["words", "values", "signs"])
def test_a_column_may_have_any_name_in_backticks(asked, awkward):
    names = dict(zip(PLAIN, awkward, strict=True))
    labels, values, terms = designed(asked, names)
    expected_labels, expected, plain = designed(asked, PLAIN)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_array_equal(values, expected)
    assert [block.width for block in terms.blocks] == [block.width for block in plain.blocks]


@pytest.mark.parametrize("asked", ASKED)
def test_words_of_python_that_no_expression_has_need_no_backticks(asked):
    names = dict(
        zip(PLAIN, ["class", "lambda", "from", "with", "import", "def", "try"], strict=True)
    )
    bare = asked.replace("`", "")
    np.testing.assert_array_equal(designed(bare, names)[1], designed(asked, names)[1])


def test_a_level_of_a_merge_may_have_any_name():
    schema = dp.Schema.parse(COLUMNS.format(**PLAIN))
    for group, name in (("class", "class"), ("`the rest`", "the rest")):
        _, terms = parse(f"ill ~ merge(kind, {group}=('b', 'c'))", schema)
        (factor,) = terms.blocks[0].factors
        assert factor.levels == ("a", name)


def test_errors_name_the_column_and_no_stand_in():
    schema = dp.Schema.parse(COLUMNS.format(**dict(zip(PLAIN, AWKWARD[0], strict=True))))
    for formula, message in {
        "`import` ~ `clas`": "no column 'clas'",
        "`import` ~ while": "no column 'while'",
        "`import` ~ `class` > 3": "class has levels without an order",
        "`import` ~ `lambda`*2": r"I\(lambda \* 2\)",
        "`import` ~ `lambda` > 3 * `from` > 4": "the comparison",
        "`import` ~ .": "`class` \\+ `lambda` \\+ `from` \\+ `is`",
    }.items():
        with pytest.raises(dp.InputError, match=message) as caught:
            parse(formula, schema)
        assert "__name" not in str(caught.value)
