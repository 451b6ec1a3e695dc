"""ns, bs and poly in a formula: columns, names, ranges, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from formulaic.transforms import basis_spline
from formulaic.transforms.cubic_spline import natural_cubic_spline

import dpinfer as dp
from dpinfer.schema.design import Design
from dpinfer.schema.formula import names_of, parse
from dpinfer.tables.memory import read_terms
from dpinfer.tables.table import table_of
from helpers.tables import SCHEMA, TEXT, table

TABLE = table()


def design_of(right):
    _, terms = parse("ill ~ " + right, SCHEMA)
    values = read_terms(table_of(TABLE).opened(terms.columns), terms)
    return pd.DataFrame(values, columns=[name for block in terms.blocks for name in block.names])


NAMES = {
    "ns(age, 30, 50, 70)": "ns(age)[18] ns(age)[50] ns(age)[70] ns(age)[100]",
    "ns(age, 30, low=20, high=80)": "ns(age)[20] ns(age)[80]",
    "ns(log(age), 3.5, log(50))": "ns(log(age))[2.89037] ns(log(age))[3.91202] ns(log(age))[4.60517]",
    "bs(age, 30, 50)": "bs(age)[1] bs(age)[2] bs(age)[3] bs(age)[4] bs(age)[5]",
    "bs(age, 30, degree=1)": "bs(age)[1] bs(age)[2]",
    "ns(age, 30):sex": (
        "ns(age)[18]:sex[f] ns(age)[18]:sex[m] ns(age)[100]:sex[f] ns(age)[100]:sex[m]"
    ),
    "sex*ns(w, 0)": "sex[m] ns(w)[-3] ns(w)[4] sex[m]:ns(w)[-3] sex[m]:ns(w)[4]",
    "ns(age, 30) + ns(age,30)": "ns(age)[18] ns(age)[100]",
}


@pytest.mark.parametrize("right", NAMES)
def test_names_of_columns(right):
    assert sorted(design_of(right)) == sorted(NAMES[right].split())


def test_poly_says_its_centre():
    assert list(design_of("poly(age, 3)")) == [f"poly(age, centre 59)[{k}]" for k in (1, 2, 3)]
    found = design_of("poly(age, 2, centre=50)")
    x = TABLE["age"].clip(18, 100).to_numpy()
    assert found["poly(age, centre 50)[2]"].to_numpy() == pytest.approx((x - 50) ** 2)
    assert list(design_of("poly(age, degree=1, centre=0)")) == ["poly(age, centre 0)[1]"]
    by_hand = design_of("I((age - 50)**2)")
    assert by_hand.to_numpy().ravel() == pytest.approx((x - 50) ** 2)


def test_columns_are_those_of_formulaic():
    x = TABLE["age"].clip(18, 100).to_numpy()
    found = natural_cubic_spline(x, knots=[30, 50, 70], lower_bound=18, upper_bound=100)
    theirs = np.column_stack([found[key] for key in sorted(found)])
    assert (
        np.abs(design_of("ns(age, 30, 50, 70)") - theirs[:, [0, 2, 3, 4]]).to_numpy().max() < 1e-12
    )
    found = basis_spline(x, knots=[30, 50, 70], lower_bound=18, upper_bound=100)
    theirs = np.column_stack([found[key] for key in sorted(found)])
    assert np.abs(design_of("bs(age, 30, 50, 70)") - theirs).to_numpy().max() < 1e-12


def test_a_coefficient_is_a_difference_of_the_curve_from_its_first_knot():
    """Without noise: predictions at the knots differ by the coefficients."""
    model = dp.LinearRegression(
        "w ~ ns(age, 30, 50, 70) + sex", schema=SCHEMA, budget=dp.NoPrivacy()
    ).fit(TABLE)
    result = model.result_
    at = np.array([18.0, 50.0, 70.0, 100.0])
    curve = model.predict(pd.DataFrame({"age": at, "sex": "f"}))
    base = model.predict(pd.DataFrame({"age": [30.0], "sex": "f"}))
    slopes = dict(zip(result.names, result.estimate, strict=True))
    assert [slopes[f"ns(age)[{knot:g}]"] for knot in at] == pytest.approx(curve - base, abs=1e-9)
    assert "Compared with: sex[f], ns(age)[30]." in result.question.sentences()
    assert result.question.about()["ns(age)[50]"][0] == "30"


@pytest.mark.parametrize(
    "right", ["ns(age, 30, 50, 70)*sex", "bs(age, 40, 60, degree=2) + w", "poly(age, 3)*w"]
)
def test_every_value_is_in_the_range_of_its_column(right):
    _, terms = parse("ill ~ " + right, SCHEMA)
    design = Design.of_terms(terms)
    wild = TABLE.assign(age=np.random.default_rng(1).uniform(-50, 200, len(TABLE)))
    values = read_terms(table_of(wild).opened(terms.columns), terms)
    assert (values >= design.low[1:]).all()
    assert (values <= design.high[1:]).all()
    assert (np.linalg.norm(design.rows(values), axis=1) <= 1).all()


def test_what_is_no_number_is_a_zero_row():
    _, terms = parse("ill ~ ns(age, 30, 50) + sex", SCHEMA)
    odd = pd.DataFrame({"age": [np.nan, np.inf, -1e300, 40.0], "sex": ["f", "f", "f", "m"]})
    rows = Design.of_terms(terms).rows(read_terms(table_of(odd).opened(terms.columns), terms))
    assert rows.any(axis=1).tolist() == [False, False, True, True]


BAD = {
    "ns(age)": "needs knots that are public: age goes from 18 to 100",
    "ns()": r"it needs a column, as in ns\(x, 30",
    "ns(age, 5)": "not between 18 and 100, .* move or drop it",
    "ns(age, 18)": "not between 18 and 100",
    "ns(age, 30, 100)": "not between 18 and 100",
    "ns(age, 50, 30)": "knots must increase.*smallest first",
    "ns(age, 50, 50)": "knots must increase",
    "ns(age, 50, 50 + 1e-13)": "knots must increase",
    "ns(age, w)": "w depends on the values.*write a number",
    "ns(age, 1e999)": "too large",
    "ns(age, log(0))": "needs values above 0",
    "ns(age, knots=[30])": r"without knots=, as in ns\(age, 30, 50, 70\)",
    "bs(age, df=4)": r"df= takes knots from the values.* as in bs\(age, 30",
    "ns(age, [30, 50])": "one by one",
    "ns(age, *w)": "one by one",
    "ns(age, 'x')": "an expression is made of",
    "ns(age, 30, low=10)": "move them inside",
    "ns(age, 30, low=80, high=20)": "in order",
    "ns(age, 30, low=40)": "not between 40 and 100",
    "ns(age, 30, degree=2)": "ns has no degree=: it has low=, high=",
    "ns(age, " + ", ".join(str(20 + k) for k in range(51)) + ")": "51 knots: give at most 50",
    "ns(sex, 3)": "only a number can be transformed",
    "ns(age >= 65, 0.5)": "true or false, which has no curve",
    "poly(smoker, 2)": "true or false, which has no curve",
    "ns(agee, 30)": "did you mean 'age'",
    "bs(age, 30, degree=4)": "whole number from 1 to 3",
    "poly(age)": "poly needs one degree",
    "poly(age, 2, 3)": "poly needs one degree",
    "poly(age, 2.5)": "whole number from 1 to 9",
    "poly(age, 12)": "whole number from 1 to 9",
    "poly(age, 2, raw=1)": "poly has no raw=: it has degree=, centre=",
    "poly(exp(age), 9)": "too large for double precision",
    "log(ns(age, 30))": "stands by itself on the right of ~",
    "offset(ns(age, 30))": "stands by itself on the right of ~",
    "cr(age, df=4)": r"learns from the values.* write ns\(x, 30, 50, 70\)",
    "s(age)": r"write ns\(x, 30, 50, 70\)",
    "ns(age, 30) + bs(age, 40)": "age has two curves in the formula",
    "ns(age, 30) + ns(age, 40)": "age has two curves in the formula",
    "ns(age, 30):ns(age, 40)": "age has two curves in the formula",
    "age + ns(age, 30)": "leave age out",
    "age:sex + ns(age, 30)": "leave age out",
    "ns(age, 30)**2": "stands for",
}


@pytest.mark.parametrize("right", BAD)
def test_bad_curves(right):
    with pytest.raises(dp.InputError, match=BAD[right]):
        parse("ill ~ " + right, SCHEMA)


@pytest.mark.parametrize("left", ["ns(age, 30)", "bs(age, 30)", "poly(age, 2)", "I(ns(age, 30))"])
def test_no_curve_on_the_left(left):
    with pytest.raises(dp.InputError, match="on the right of ~"):
        parse(left + " ~ w", SCHEMA)


def test_columns_of_curves_are_counted_before_they_are_made():
    """A product of two curves with 51 columns each is refused; so are 500 columns beside others."""
    many = ", ".join(f"{19 + 1.5 * k:g}" for k in range(50))
    wide = ", ".join(f"{-2.9 + 0.1 * k:g}" for k in range(50))
    with pytest.raises(dp.InputError, match="more than 500 terms"):
        parse(f"ill ~ ns(age, {many})*ns(w, {wide})", SCHEMA)
    _, terms = parse(f"ill ~ ns(age, {many}) + ns(w, {wide})", SCHEMA)
    assert terms.width == 102


def test_a_curve_names_its_column_alone():
    assert names_of("ill ~ ns(log(age), 3, log(50), low=2.9) + bs(w, 0)") == ["ill", "age", "w"]


def test_columns_of_curves_have_their_places():
    """Powers of poly are products of the first; a spline is measured as a whole, by itself and in a
    level, and a product with a number is one of its columns.
    """
    design = Design.of_terms(parse("ill ~ poly(age, 3)*w", SCHEMA)[1])
    names = design.names
    assert {names[j]: len(of) for j, of in design.products} == {
        "poly(age, centre 59)[2]": 2,
        "poly(age, centre 59)[3]": 3,
        "poly(age, centre 59)[1]:w": 2,
        "poly(age, centre 59)[2]:w": 3,
        "poly(age, centre 59)[3]:w": 4,
    }
    assert not design.splines
    design = Design.of_terms(parse("ill ~ ns(age, 30)*sex + ns(age, 30):w + w", SCHEMA)[1])
    found = {
        design.names[spline.base]: [design.names[j] for j in spline.columns]
        for spline in design.splines
    }
    assert found == {
        "(Intercept)": ["ns(age)[18]", "ns(age)[100]"],
        "sex[m]": ["ns(age)[18]:sex[m]", "ns(age)[100]:sex[m]"],
    }
    assert len(design.products) == 2
    assert not Design.of_terms(parse("ill ~ ns(age, 30) - 1", SCHEMA)[1]).splines


def test_a_column_with_the_name_of_a_spline_does_not_stand_beside_it():
    text = TEXT.replace('[columns."my column"]', '[columns."ns(age)[18]"]')
    with pytest.raises(dp.InputError, match=r"two terms of the formula have the name 'ns\(age\)"):
        parse("ill ~ ns(age, 30) + w + `ns(age)[18]`:w", dp.Schema.parse(text))
