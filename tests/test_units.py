"""Persons with several rows, from a table to a page: the same fit whatever the ids, and no number
of rows anywhere.
"""

import csv
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import second_moment
from dpinfer.tables import memory as tables
from helpers.people import (
    AVERAGE,
    COLUMNS,
    EVERY,
    PERSONS,
    ROWS,
    UNIT,
    WEIGHTS,
    schema,
    table,
    tells,
)

TABLE, SMALL = table(), table(700, 150)
ZCDP = dp.ZCDP(0.5)
MODELS = {
    "logistic": lambda **options: dp.LogisticRegression("y ~ a + b", budget=ZCDP, **options),
    "least squares": lambda **options: dp.LinearRegression("cost ~ a + b", budget=ZCDP, **options),
    "svm": lambda **options: dp.LinearSVC("y ~ a + b", budget=ZCDP, **options),
    "pure": lambda **options: dp.LogisticRegression("y ~ a + b", budget=dp.PureDP(2.0), **options),
    "huber": lambda **options: dp.HuberRegression(
        "cost ~ a + b", budget=dp.ApproxDP(2.0, 1e-6), **options
    ),
}
HEADS = {
    "average": AVERAGE,
    "every": EVERY,
    "declared": AVERAGE + f"units = {PERSONS}\n",
    "weights": UNIT + WEIGHTS,
}


def block(native, head=AVERAGE, formula="y ~ a + b", **options):
    """The rows that a fit would use, and the number that it would book."""
    model = dp.LogisticRegression(formula, schema=schema(head), budget=ZCDP, **options)
    source = model.read(native)[1]
    return source.n, source.rows().block


def same(first, second):
    return all(
        np.array_equal(getattr(first, key), getattr(second, key))
        for key in ("rows", "labels", "shares", "starts")
    )


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("model", MODELS)
def test_nothing_tells_the_number_of_rows(model, head):
    """Mutations that it catches: n of rows in the model, in the pending source, or in a sentence."""
    result = MODELS[model](schema=schema(HEADS[head]), insecure_seed=1).fit(TABLE).result_
    private = dp.FitResult.from_json(
        result.to_json().replace('"private": false', '"private": true')
    )
    pages = [dp.report.html(private), dp.report.markdown(private), dp.report.csv(private)]
    told = [result.summary(), result.to_json(), repr(result.model), repr(result.privacy), *pages]
    assert not any(tells(text, ROWS) for text in told)
    assert result.model.n == PERSONS
    assert "Units:        3,001, one person each" in result.summary()
    assert "Units: 3,001, one person each" in pages[1]
    assert all("records" not in row for row in csv.reader(io.StringIO(pages[2])))


@pytest.mark.parametrize("head", [AVERAGE, EVERY, UNIT + WEIGHTS])
def test_a_private_number_of_units_is_not_told_either(head):
    model = dp.LogisticRegression(
        "y ~ a + b", schema=schema(head), budget=ZCDP, neighbours="add-remove", insecure_seed=3
    )
    design, source = model.read(TABLE)
    assert source.n == 0  # not even counted
    result = model.fit(TABLE).result_
    assert result.model.n is None
    assert result.privacy.neighbours is Adjacency.ADD_REMOVE_UNIT
    assert design.unit.many
    full = ", counted as full ones" if head != AVERAGE else ""
    assert f"(noisy{full}), one person each" in result.summary()
    told = result.summary() + result.to_json() + dp.report.html(result)
    assert not tells(told, ROWS)
    assert not tells(told, PERSONS)


def test_advice_counts_units():
    model = dp.LogisticRegression("y ~ a*b", schema=schema(), budget=dp.ZCDP(0.001))
    design, source = model.read(TABLE)
    advice = model.recipe(design, source.n).advice(source.n)
    assert "at 3,001 units: a level with one unit in twenty" in advice


def ids_of(kind, who):
    return {
        "integer": who,
        "text": who.map("person {}".format),
        "number": who.astype(float),
        "category": who.map("person {}".format).astype("category"),
        "date": pd.Timestamp("1900-01-01") + pd.to_timedelta(who, unit="D"),
        "objects": who.astype(object),
    }[kind]


@pytest.mark.parametrize("kind", ["integer", "text", "number", "category", "date", "objects"])
def test_ids_of_all_types_and_libraries_give_the_same_rows(kind, tmp_path):
    frame = SMALL.assign(person=ids_of(kind, SMALL["person"]))
    n, found = block(SMALL)
    arrow = pa.Table.from_pandas(frame)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    pyarrow.feather.write_feather(arrow, tmp_path / "t.feather")
    places = [tmp_path / f"t.{end}" for end in ("csv", "parquet", "feather")]
    for native in (frame, arrow, pl.from_pandas(frame), frame.convert_dtypes(), *places):
        assert n == 150
        number, other = block(native)
        assert number == n
        assert same(other, found)


def test_ids_of_two_values_may_be_booleans():
    frame = SMALL.assign(person=SMALL["person"] > 75)
    n, found = block(frame)
    assert n == 2
    assert same(found, block(frame.assign(person=frame["person"].map({True: "x", False: "y"})))[1])


def test_equal_fits_to_the_bit():
    model = dp.LogisticRegression("y ~ a + b", schema=schema(), budget=ZCDP, insecure_seed=5)
    first = model.fit(TABLE).result_.to_json()
    other = pl.from_pandas(TABLE.assign(person=TABLE["person"].map("p{}".format)))
    assert model.fit(other).result_.to_json() == first


@pytest.mark.parametrize("head", [AVERAGE, EVERY, UNIT + WEIGHTS])
def test_the_order_of_rows_does_not_matter(head):
    """A person's rows stand anywhere; together, sorted or shuffled, the totals are the same."""
    totals = []
    for frame in (SMALL, SMALL.sample(frac=1, random_state=1), SMALL.sort_values("person")):
        model = dp.LogisticRegression("y ~ a + b", schema=schema(head), budget=ZCDP)
        source = model.read(frame)[1].rows()
        outer = source.total(lambda some: some.outer(some.shares * some.labels).ravel())
        totals.append(
            np.concatenate([source.total(second_moment(Adjacency.REPLACE_UNIT).of_block), outer])
        )
    assert np.allclose(totals, totals[0], rtol=1e-12, atol=1e-12)


def test_a_row_without_an_id_counts_for_nothing_and_is_no_unit(tmp_path):
    """Mutations that it catches: all missing ids as one unit, each as one of its own."""
    lost = SMALL.assign(person=SMALL["person"].where(SMALL.index % 7 > 0))
    kept = lost.dropna(subset="person")
    n, found = block(kept)
    text = lost.assign(person=lost["person"].map("p{}".format, na_action="ignore"))
    text.to_csv(tmp_path / "t.csv", index=False)
    nan = lost.assign(person=lost["person"].astype(object).where(lost["person"].notna(), None))
    for native in (
        lost,
        pa.Table.from_pandas(lost),
        pl.from_pandas(lost),
        tmp_path / "t.csv",
        text.fillna({"person": ""}),
        nan,
    ):
        assert block(native)[0] == n
        assert same(block(native)[1], found)


def test_nobody_has_an_id():
    nobody = SMALL.assign(person=None)
    model = dp.LogisticRegression("y ~ a + b", schema=schema(), budget=ZCDP)
    with pytest.raises(dp.InputError, match="at least one record"):
        model.fit(nobody)
    private = dp.LogisticRegression(
        "y ~ a + b", schema=schema(), budget=ZCDP, neighbours="add-remove"
    )
    assert private.fit(nobody).result_.model.n is None
    declared = dp.LogisticRegression(
        "y ~ a + b", schema=schema(AVERAGE + "units = 150\n"), budget=ZCDP
    )
    assert declared.fit(nobody).result_.model.n == 150


@pytest.mark.parametrize("model", MODELS)
def test_one_person_with_many_rows_can_be_fitted(model):
    result = MODELS[model](schema=schema(), penalty=None).fit(SMALL.assign(person=1)).result_
    assert result.model.n == 1
    assert np.isfinite(result.estimate).all()


def test_a_declared_number_is_believed_and_nothing_is_counted():
    """Also by the fit: its risk, its penalty and its result go by it."""
    head = AVERAGE + "units = 170\n"
    n, found = block(SMALL, head)
    assert (n, len(found.starts)) == (170, 150)
    for model in MODELS.values():
        assert model(schema=schema(head)).fit(SMALL).result_.model.n == 170


def test_ids_are_looked_at_before_booking_only_to_count_them(monkeypatch):
    """The number of units is public under "replace"; else no value is read before the ledger has
    said yes.
    """
    looked = []
    real = tables.to_ids
    monkeypatch.setattr(tables, "to_ids", lambda cells: (looked.append(len(cells)), real(cells))[1])
    for head, options, expected in (
        (AVERAGE, {}, [len(SMALL)]),
        (AVERAGE + "units = 150\n", {}, []),
        (AVERAGE, {"neighbours": "add-remove"}, []),
    ):
        looked.clear()
        code = "add-remove-unit" if options else "replace-unit"
        ledger = dp.Ledger(dp.ZCDP(0.1), unit="one person", neighbours=code)
        model = dp.LogisticRegression(
            "y ~ a + b", schema=schema(head), budget=ZCDP, ledger=ledger, **options
        )
        with pytest.raises(dp.LedgerError, match=r"this costs ρ = 0\.5"):
            model.fit(SMALL)
        assert [n for n in looked if n] == expected


@pytest.mark.parametrize("cells", [[1 + 2j] * 700, [pd.Timedelta(1)] * 700])
def test_a_column_of_ids_is_refused_by_its_type(cells):
    with pytest.raises(dp.InputError, match="column 'person' must hold ids"):
        block(SMALL.assign(person=cells))
    with pytest.raises(dp.InputError, match="no column 'person'"):
        block(SMALL.drop(columns="person"))
    with pytest.raises(dp.InputError, match="column 'w' must hold numbers"):
        block(SMALL.assign(w="heavy"), UNIT + WEIGHTS)


def test_weights_that_cannot_count_make_a_zero_row():
    odd = SMALL["w"].astype(object)
    odd.iloc[:8] = [None, -1.0, 0.0, np.nan, np.inf, "3", 1e-310, -np.inf]
    for head in (WEIGHTS, UNIT + WEIGHTS):
        _, found = block(SMALL.assign(w=odd), head)
        assert (np.abs(found.rows).sum(axis=1) == 0).sum() == 8
        assert np.isfinite(found.shares).all()
        assert (found.shares > 0).all()
        assert found.shares.max() <= 1
    huge = SMALL.assign(w=1e308)
    assert np.array_equal(
        block(huge, UNIT + WEIGHTS)[1].shares, block(huge.assign(w=1e9), UNIT + WEIGHTS)[1].shares
    )
    for model in (MODELS["logistic"], MODELS["least squares"]):
        result = model(schema=schema(UNIT + WEIGHTS)).fit(huge).result_
        assert result.model.n == 150


def test_a_unit_never_counts_more_than_one():
    for head in HEADS.values():
        _, found = block(SMALL, head)
        together = np.add.reduceat(found.shares, found.starts)
        assert together.max() <= 1
        if head != HEADS["weights"]:
            assert together.min() > 1 - 1e-5


@pytest.mark.parametrize("model", MODELS)
def test_weights_of_one_are_no_weights(model):
    """Each row weighs 1 and may weigh 1: the fit without weights, but for a rounding guard of a
    millionth.
    """
    plain = MODELS[model](schema=schema(""), insecure_seed=7).fit(SMALL).result_
    even = (
        MODELS[model](schema=schema(WEIGHTS.replace("6.0", "1")), insecure_seed=7)
        .fit(SMALL.assign(w=1.0))
        .result_
    )
    if model in (
        "svm",
        "pure",
        "huber",
    ):  # in a geometry the number of records is then read off a release
        assert np.allclose(even.estimate, plain.estimate, rtol=1e-5, atol=1e-5)
    _, rows = block(SMALL.assign(w=1.0), WEIGHTS.replace("6.0", "1"))
    assert np.array_equal(rows.rows, block(SMALL, "")[1].rows)
    assert np.allclose(rows.weights, 1.0, rtol=1e-5)
    assert even.privacy.neighbours is Adjacency.REPLACE
    assert even.model.n == plain.model.n == 700


def test_a_weight_is_as_good_as_copies():
    """Without noise, rows that weigh 2 are rows that stand there twice."""
    twice = SMALL.assign(w=np.where(SMALL.index % 2, 2.0, 1.0))
    copies = pd.concat([SMALL, SMALL[SMALL.index % 2 == 1]])
    fits = [
        dp.LogisticRegression(
            "y ~ a + b", schema=schema(head), budget=dp.NoPrivacy(), target="unpenalised"
        ).fit(frame)
        for head, frame in ((WEIGHTS.replace("6.0", "2"), twice), ("", copies))
    ]
    assert np.allclose(*(fit.result_.estimate for fit in fits), rtol=1e-5, atol=1e-6)


def test_the_average_person_is_not_the_average_row():
    """One row each or twenty: with "average" a person's rows count as one."""
    many = pd.concat([SMALL, *[SMALL[SMALL["person"] == 1]] * 20])
    heads = {"average": AVERAGE, "rows": EVERY}
    fits = {
        key: dp.LogisticRegression("y ~ a", schema=schema(head), budget=dp.NoPrivacy())
        for key, head in heads.items()
    }
    before = {key: fit.fit(SMALL).result_.estimate for key, fit in fits.items()}
    after = {key: fit.fit(many).result_.estimate for key, fit in fits.items()}
    assert np.allclose(before["average"], after["average"], atol=1e-6)
    assert not np.allclose(before["rows"], after["rows"], atol=1e-2)


def test_what_a_result_says_of_units():
    result = MODELS["logistic"](schema=schema(), insecure_seed=1).fit(SMALL).result_
    said = result.model.estimand()
    for words in (
        "All rows with one id are one person",
        "Every unit counts once",
        "the average unit, not the average row",
        "not specific to a unit",
        "the ordinary logistic regression, with all columns",
    ):
        assert words in said
    summary, page = " ".join(result.summary(full=True).split()), dp.report.markdown(result)
    assert "robust to correlation among the rows of a unit (CR1)" in summary
    assert "A person with two ids is two units" in summary
    assert "robust to correlation among the rows of a unit (CR1)" in page
    private = dp.FitResult.from_json(
        result.to_json().replace('"private": false', '"private": true')
    )
    for words in (
        "All rows with one id are protected together",
        "all rows of all the others",
        "on 150 units.",
    ):
        assert words in dp.report.markdown(private)
    assert "Someone behind several" not in dp.report.markdown(private)
    capped = (
        MODELS["logistic"](schema=schema(EVERY), insecure_seed=1)
        .fit(SMALL)
        .result_.model.estimand()
    )
    assert "Every row counts once, so this is about the average row" in capped
    assert "what all rows of a unit add to the score is clipped" in capped
    other = MODELS["svm"](schema=schema(EVERY), insecure_seed=1).fit(SMALL).result_
    assert "Every unit counts once" in other.model.estimand()
    heavy = MODELS["svm"](schema=schema(UNIT + WEIGHTS), insecure_seed=1).fit(SMALL).result_
    assert "Units whose weights add up to more than 6 are trimmed" in heavy.model.estimand()
    assert "raked or calibrated to the margins" in " ".join(heavy.summary(full=True).split())
    assert "raked or calibrated to the margins" in dp.report.markdown(heavy)
    rows = MODELS["logistic"](schema=schema(WEIGHTS), insecure_seed=1).fit(SMALL).result_
    assert "Records that weigh more than 6" in rows.model.estimand()
    assert "unit here" not in rows.model.estimand()


def test_a_result_is_kept():
    for head in HEADS.values():
        result = MODELS["least squares"](schema=schema(head)).fit(SMALL).result_
        again = dp.FitResult.from_json(result.to_json())
        assert again.to_json() == result.to_json()
        assert again.model.unit == schema(head).unit


def test_what_a_fit_books():
    model = MODELS["logistic"](schema=schema())
    entry = model.entry(PERSONS)
    assert (entry.unit, entry.neighbours) == ("one person", Adjacency.REPLACE_UNIT)
    ledger = dp.Ledger(dp.ZCDP(2.0), unit="one person", neighbours="replace-unit")
    model.set_params(ledger=ledger).fit(SMALL)
    (booked,) = ledger.entries()
    assert (booked.unit, booked.neighbours, booked.events) == (
        entry.unit,
        entry.neighbours,
        entry.events,
    )


def test_rows_and_units_are_not_booked_together():
    """Both ways, by the neighbours where the names agree, and nothing is booked."""
    by_unit, by_row = schema(), schema('unit = "one person"\n')
    for unit, code, wrong, words in (
        ("one person", "replace-unit", by_row, "protects all rows of a unit and the fit one row"),
        ("one person", "replace", by_unit, "protects one row and the fit all rows of a unit"),
        (
            "one household",
            "replace-unit",
            by_unit,
            "unit is 'one household' and the fit's is 'one person'",
        ),
        ("one person", "add-remove-unit", by_unit, "neighbours is 'add-remove-unit'"),
    ):
        ledger = dp.Ledger(ZCDP, unit=unit, neighbours=code)
        with pytest.raises(dp.LedgerError, match=words):
            MODELS["logistic"](schema=wrong, ledger=ledger).fit(SMALL)
        assert ledger.entries() == ()


def test_arrays_say_the_same_as_a_table():
    """And their unit has a name in the ledger."""
    X, y = SMALL[["a"]].to_numpy(), SMALL["y"].to_numpy()
    arrays = dp.LogisticRegression(
        bounds=(0, 10), classes=(False, True), budget=ZCDP, insecure_seed=2
    )
    frame = (
        dp.LogisticRegression("y ~ a", schema=schema(EVERY), budget=ZCDP, insecure_seed=2)
        .fit(SMALL)
        .result_
    )
    assert np.array_equal(arrays.fit(X, y, units=SMALL["person"]).result_.estimate, frame.estimate)
    ledger = dp.Ledger(ZCDP, unit="one unit", neighbours="replace-unit")
    arrays.set_params(insecure_seed=None, ledger=ledger).fit(X, y, units=SMALL["person"])
    assert arrays.result_.privacy.unit == ledger.entries()[0].unit == "one unit"
    with pytest.raises(dp.InputError, match="rows= is for units="):
        dp.LogisticRegression(bounds=(0, 10), rows="average", budget=ZCDP).fit(X, y)
    with pytest.raises(dp.InputError, match=r'"every" .* or "average" '):
        dp.LogisticRegression(bounds=(0, 10), rows=3, budget=ZCDP).fit(X, y, units=SMALL["person"])
    with pytest.raises(dp.InputError, match="declared in the schema"):
        dp.LogisticRegression("y ~ a", schema=schema(), rows="every", budget=ZCDP).fit(SMALL)


def test_predictions_need_no_ids():
    model = MODELS["logistic"](schema=schema(UNIT + WEIGHTS)).fit(SMALL)
    assert len(model.predict(SMALL[["a", "b"]])) == 700


def test_an_id_may_be_a_declared_column_of_another_formula():
    declared = dp.Schema.parse(
        AVERAGE + COLUMNS + '[columns.person]\ntype = "integer"\nlow = 0\nhigh = 9\n'
    )
    assert (
        dp.LogisticRegression("y ~ a", schema=declared, budget=ZCDP).fit(SMALL).result_.model.n
        == 150
    )


def test_a_row_that_cannot_be_used_takes_nothing_from_the_others_of_its_unit():
    """Waves that are missing: a person counts as much as without these rows."""
    broken = TABLE.copy()
    lost = np.random.default_rng(4).random(len(broken)) < 0.4
    broken.loc[lost, "a"] = np.nan
    shares = [block(data)[1] for data in (broken, broken[~lost])]
    found = [
        np.add.reduceat(np.where(one.rows.any(axis=1), one.shares, 0.0), one.starts)
        for one in shares
    ]
    assert sorted(found[0][found[0] > 0.5]) == pytest.approx(sorted(found[1]))
    assert found[0].max() <= 1
    assert len(found[0]) == PERSONS


def test_few_usable_units_are_told():
    """A unit is lost where none of its rows can be used."""
    broken = TABLE.copy()
    broken.loc[broken["person"] % 3 == 0, "b"] = "P"
    model = dp.LogisticRegression(
        "y ~ a + b", schema=schema(), budget=dp.ZCDP(5.0), insecure_seed=1
    )
    (said,) = model.fit(broken).result_.warnings()
    assert said.startswith("WARNING: only about ")
    assert "of 3,001 units (67 %) could be used" in said
    assert model.fit(TABLE).result_.warnings() == []
