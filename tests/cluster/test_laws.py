"""The same fit wherever the rows are: to the bit in memory and in files, to what floats allow on a
cluster.
"""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.histograms import histogram
from dpinfer.mechanisms.sums import moment_and_score, second_moment, sum_error
from dpinfer.numerics.bins import inner_edges
from dpinfer.schema.formula import parse
from dpinfer.tables.table import read
from helpers import claims, people, tables

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines warn of much

FORMULA = "ill ~ age + log(visits + 1) + sex + h"


def rows(n=6000):
    """With cells that cannot be encoded, and values beyond the bounds."""
    frame = tables.table(n)
    frame.loc[::97, "age"] = np.nan
    frame.loc[::89, "w"] = np.inf
    frame.loc[::83, "h"] = None
    frame.loc[::79, "sex"] = "unknown"
    frame.loc[::73, "visits"] = 10**6
    return frame


def persons():
    """With ids that are missing, texts among them that are none."""
    frame = people.table(rows=6000, persons=1500)
    ids = ("id " + frame["person"].astype(str)).astype(object)
    ids[::101], ids[::103] = None, ""
    frame["person"] = ids
    frame.loc[::97, "a"] = np.nan
    frame.loc[::89, "w"] = np.nan
    return frame


def policies():
    """With exposures that are missing, 0 or beyond their bound."""
    frame = claims.table(6000)
    frame.loc[::97, "years"] = np.nan
    frame.loc[::89, "years"] = 0.0
    frame.loc[::83, "years"] = 10.0
    return frame


def weighted():
    return dp.Schema.parse(people.WEIGHTS + people.COLUMNS)


FITS = {
    "logistic": (rows, lambda: tables.SCHEMA, dp.LogisticRegression, FORMULA, {}),
    "linear": (
        rows,
        lambda: tables.SCHEMA,
        dp.LinearRegression,
        "cost ~ w + sex",
        {"neighbours": "add-remove"},
    ),
    "huber": (rows, lambda: tables.SCHEMA, dp.HuberRegression, "cost ~ w + sex", {}),
    "persons": (persons, people.schema, dp.LogisticRegression, "y ~ a + b", {}),
    "every row of persons": (
        persons,
        lambda: people.schema(people.EVERY),
        dp.LogisticRegression,
        "y ~ a + b",
        {},
    ),
    "weighted persons": (
        persons,
        lambda: people.schema(people.UNIT + people.WEIGHTS),
        dp.LinearRegression,
        "cost ~ a + b",
        {"neighbours": "add-remove"},
    ),
    "penalised persons": (persons, people.schema, dp.LinearSVC, "y ~ a + b", {}),
    "weights": (
        persons,
        weighted,
        dp.LogisticRegression,
        "y ~ a + b",
        {"neighbours": "add-remove"},
    ),
    "poisson": (
        policies,
        claims.schema,
        dp.PoissonRegression,
        claims.FORMULA,
        {"exposure": "years"},
    ),
    "poisson of persons": (
        policies,
        lambda: claims.schema(claims.UNIT),
        dp.PoissonRegression,
        claims.WITH_OFFSET,
        {"neighbours": "add-remove"},
    ),
}


def model(name, **more):
    _, schema, kind, formula, options = FITS[name]
    return kind(formula, schema=schema(), budget=dp.ZCDP(0.5), **options, **more)


@pytest.mark.parametrize("name", FITS)
def test_fits(engine, name):
    """Seeded; what is released is on a grid, so that results agree to far more digits than float
    sums do.
    """
    frame, fit = FITS[name][0](), model(name, insecure_seed=5)
    here, there = fit.fit(frame).result_, fit.fit(engine.spread(frame)).result_
    assert np.allclose(there.estimate, here.estimate, rtol=1e-9, atol=1e-12)
    assert np.allclose(there.conf_int(), here.conf_int(), rtol=1e-9, atol=1e-12, equal_nan=True)
    assert (there.model, there.status, there.privacy.events) == (
        here.model,
        here.status,
        here.privacy.events,
    )
    if "persons" in name:
        assert not people.tells(there.to_json() + there.summary(), len(frame))


@pytest.mark.parametrize(
    ("name", "by", "columns"),
    [
        ("logistic", "sex", ["ill", "age", "k", "smoker", "cut(age, 40, 65)"]),
        ("linear", None, ["cost", "h", "visits", "age >= 65"]),
        ("persons", "y", None),
        ("weights", None, None),
    ],
)
def test_descriptions(engine, name, by, columns):
    """Table 1 of the same rows, by groups or not, of persons and with weights, and of derived columns."""
    frame, schema, _, _, options = FITS[name]
    given = {"insecure_seed": 5, "by": by, "columns": columns, **options}
    here, there = (
        dp.describe(native, schema(), dp.ZCDP(0.5), **given)
        for native in (frame(), engine.spread(frame()))
    )
    assert len(here.figures) == len(there.figures) > 10
    for one, other in zip(here.figures, there.figures, strict=True):
        assert (one.column, one.figure, one.status) == (other.column, other.figure, other.status)
        assert np.allclose(
            [one.estimate, one.low, one.high],
            [other.estimate, other.low, other.high],
            rtol=1e-9,
            atol=1e-9,
            equal_nan=True,
        )


@pytest.mark.parametrize(
    ("name", "columns"),
    [("linear", "cost + h + visits"), ("persons", None), ("weights", None)],
)
def test_moment_releases(engine, name, columns):
    """The same rows give the same releases, of persons and with weights, too."""
    frame, schema, _, _, options = FITS[name]
    columns = columns or " + ".join(schema().columns)
    here, there = (
        dp.release_moments(native, schema(), columns, dp.ZCDP(2.0), insecure_seed=5, **options)
        for native in (frame(), engine.spread(frame()))
    )
    assert here.names == there.names
    assert np.allclose(here.sums.second, there.sums.second, rtol=1e-9, atol=1e-6)
    assert np.allclose(here.sums.fourth, there.sums.fourth, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "linear", "persons", "weighted persons", "weights"])
def test_sums(engine, name):
    """Within twice the error of a float sum; a row counted twice, or not at all, would show."""
    frame, fit = FITS[name][0](), model(name)
    response, terms = parse(fit.formula, fit.schema)
    unit, notion = (
        fit.schema.unit,
        Adjacency.of(fit.neighbours or "replace", units=fit.schema.unit.many),
    )
    pair = [
        read(native, response, terms, fit.kind, unit)[1]
        for native in (frame, engine.spread(frame, parts=20))
    ]
    assert pair[0].n == pair[1].n
    error = 2 * sum_error(private_number=True, units=notion.units)
    with pair[0].opened() as here, pair[1].opened() as there:
        assert (here.n, here.dim) == (there.n, there.dim)
        for what in (
            second_moment(notion),
            moment_and_score(notion),
            histogram(inner_edges(-1.0, 1.0), notion),
        ):
            assert np.abs(there.total(what.of_block) - here.total(what.of_block)).max() <= error


def test_all_places(engine, tmp_path):
    """One table in pandas, polars, Arrow, Parquet and CSV: the same bits; on a cluster the same
    numbers.
    """
    pl = pytest.importorskip("polars")
    frame = tables.table(3000)
    paths = [tmp_path / f"table.{end}" for end in ("parquet", "csv")]
    frame.to_parquet(paths[0])
    frame.to_csv(paths[1], index=False)
    fit = model("logistic", insecure_seed=7)
    here = fit.fit(frame).result_
    for native in (pl.from_pandas(frame), pl.from_pandas(frame).to_arrow(), *paths):
        assert np.array_equal(fit.fit(native).result_.estimate, here.estimate)
    assert np.allclose(
        fit.fit(engine.spread(frame)).result_.estimate, here.estimate, rtol=1e-9, atol=1e-12
    )


def test_no_row(engine):
    """Where their number is private nobody is told that there is none."""
    fit = model("linear", insecure_seed=3)
    here, there = (
        fit.fit(native).result_ for native in (rows()[:0], engine.spread(rows()[:0], parts=1))
    )
    assert np.array_equal(here.estimate, there.estimate)


@pytest.mark.parametrize("kind", ["zero", "numbers", "dates", "objects"])
def test_ids(engine, kind):
    """-0 is 0, and a date is an id; all rows of a unit meet, whatever names it."""
    frame = people.table(rows=900, persons=300)
    number = frame["person"] - 1
    if kind == "zero":
        frame["person"] = np.where(number % 2, 1.0, np.where(np.arange(900) % 2, 0.0, -0.0))
    elif kind == "numbers":
        frame["person"] = number.astype("Int64").mask(number % 50 == 7)
    elif kind == "dates":
        frame["person"] = np.datetime64("2020-01-01", "us") + number.to_numpy() * np.timedelta64(
            1, "D"
        )
    else:
        frame["person"] = (
            number.map(lambda cell: f"{cell:x}\u00e9").astype("category").astype(object)
        )
    fit = model("persons")
    response, terms = parse(fit.formula, fit.schema)
    pair = [
        read(native, response, terms, fit.kind, fit.schema.unit)[1]
        for native in (frame, engine.spread(frame))
    ]
    assert pair[0].n == pair[1].n == {"zero": 2, "numbers": 294}.get(kind, 300)
    with pair[0].opened() as here, pair[1].opened() as there:
        sums = [
            source.total(lambda block: np.array([np.sum(block.shares)])) for source in (here, there)
        ]
    assert sums[0] == pytest.approx(sums[1], rel=1e-12)
    assert sums[0] <= pair[0].n
