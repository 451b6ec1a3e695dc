"""Tables of any length: what floats do to sums over more records than usual is in the bound.

A number of records at which double precision errs by as much as one record moves a sum cannot be
summed in a test.  Single precision has it at some ten thousand: the same code, with u = 2⁻²⁴.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.description.describing import describing
from dpinfer.fit.bounds import learning
from dpinfer.fit.penalised_plan import default_penalty, default_plan
from dpinfer.fit.recipe import Subject, entry
from dpinfer.fit.step_plan import CRUDE, ESTIMATE
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.summation_error import SUMMATION_ERROR
from dpinfer.mechanisms.sums import (
    BLOCK,
    DEFAULT_MAX_RECORDS,
    MAX_RECORDS,
    SLACK,
    UNIT,
    Block,
    Sum,
    in_floats,
    sum_error,
)
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.noise import GRID_LARGEST
from dpinfer.privacy.release import grid
from dpinfer.rows.source import UNIT_TOTAL, Rows
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.unit import Unit
from helpers import lengths, people, tables

LONG = [DEFAULT_MAX_RECORDS + 1, 10**9, 10**10, 2**36, MAX_RECORDS]
SINGLE = 2.0**-24
"""u of single precision."""


@pytest.mark.parametrize("records", LONG)
def test_guarantee_any_length(records):
    """A bound, the errors of two sums and of the places of their rows, and a step of the grid, are
    within the bound that noise is for; without the raise they are not.
    """
    for units in (False, True):
        error = Fraction(sum_error(private_number=True, units=units, records=records))
        places = Fraction(SUMMATION_ERROR) * records / DEFAULT_MAX_RECORDS
        for bound in (1.0, np.sqrt(2)):
            booked = Fraction(in_floats(bound, records))
            moved = Fraction(bound) * (1 + 2 * (error + places))
            step = Fraction(grid(bound, 7)) * Fraction(np.sqrt(7) * (1 + 2**-50))
            assert moved + step <= booked * (1 + Fraction(SLACK))
            if records > 2 * DEFAULT_MAX_RECORDS:
                assert moved + step > Fraction(bound) * (1 + Fraction(SLACK))


def test_tables_of_the_usual_length_have_the_noise_they_had():
    assert DEFAULT_MAX_RECORDS == 2**28
    for records in (1, 10**6, DEFAULT_MAX_RECORDS):
        for bound in (1.0, np.sqrt(2), 1e-3):
            assert in_floats(bound, records) == bound
    assert 1.006 < in_floats(1.0, 10**10) < 1.008
    assert 1.7 < in_floats(1.0, MAX_RECORDS) < 1.8


def one_by_one(block):
    """A sum of squares in the order of the rows: linear algebra may take any."""
    return np.cumsum(block.rows * block.rows, axis=-2)[..., -1, :]


def single(squares):
    """Records of one number each, in single precision, with these squares, about."""
    rows = np.sqrt(np.asarray(squares)).astype(np.float32)[:, None]
    return Rows(Block(rows, np.ones(len(rows))))


def half_steps(size):
    """Two squares just below 1, by which sums of more than half a block are rounded up, and down."""
    step = SINGLE * size
    return 1 - 13.47 * step, 1 - 13.53 * step


def test_a_sum_over_many_records_moves_by_more_than_its_real_bound(monkeypatch):
    """One record more, and the others in another order, as an engine may place them: the sum moves by
    several times what the record adds, and by no more than the raised bound.
    """
    blocks = 40
    up, down = half_steps(BLOCK)
    half = BLOCK // 2
    one = single(np.tile(np.repeat([up, down], half), blocks))
    other = single(np.append(np.tile(np.repeat([down, up], half), blocks), 1.0))
    totals = [source.total(one_by_one) for source in (one, other)]
    assert totals[0].dtype == np.float32
    moved = abs(float(totals[1][0]) - float(totals[0][0]))
    bound = 1.0
    assert moved > 2 * bound * (1 + SLACK)
    monkeypatch.setattr("dpinfer.mechanisms.sums.UNIT", SINGLE)
    lengths.usual(monkeypatch, DEFAULT_MAX_RECORDS * UNIT / SINGLE)
    records = len(other.block)
    assert moved <= in_floats(bound, records)
    # the errors of sums alone: a sixth of them would not do
    error = sum_error(private_number=True, units=True, records=records)
    assert bound + 2 * error / 6 < moved <= bound + 2 * error


def added(parts):
    """The float sum of single numbers, and the real one."""
    numbers = np.asarray(parts, dtype=np.float32)
    found = Sum.of(iter(numbers[:, None])).value
    return Fraction(float(found[0])), sum(map(Fraction, numbers.tolist()))


def test_any_number_of_sums_is_added_with_what_was_lost(monkeypatch):
    """What additions lose is itself rounded; in stretches that stays below the last rounding."""
    number = 2**16
    parts = np.full(number, 1 - 99991 * SINGLE)
    allowed = 2 * Fraction(SINGLE) * number
    long, real = added(parts)
    monkeypatch.setattr("dpinfer.mechanisms.sums.STRETCH", 2**7)
    short, _ = added(parts)
    assert abs(short - real) <= allowed
    assert abs(long - real) > 1.5 * allowed


def test_stretches_change_no_bit_of_a_table_of_the_usual_length(monkeypatch):
    """A block has 256 rows or more; with ids there are at most twice as many blocks."""
    from dpinfer.mechanisms.sums import STRETCH  # noqa: PLC0415  (it is changed below)

    assert STRETCH >= 2 * DEFAULT_MAX_RECORDS // 256
    parts = np.random.default_rng(0).uniform(-1, 1, 100).astype(np.float32)
    found = added(parts)
    monkeypatch.setattr("dpinfer.mechanisms.sums.STRETCH", 100)
    assert added(parts) == found


@pytest.mark.parametrize("run", [1, 7, 64, 1000])
def test_a_unit_of_many_runs_counts_at_most_one(monkeypatch, run):
    """Units that begin and end anywhere between runs, with weights of very different sizes."""
    rng = np.random.default_rng(run)
    ids = np.repeat(np.arange(6), [1, 300, 7, 2, 90, 600])
    weights = rng.uniform(0, 1, len(ids)) * 10.0 ** rng.integers(-8, 9, len(ids))
    source = Rows.of(rng.standard_normal((len(ids), 2)), np.ones(len(ids)))
    before = source.counted(2.0, ids, weights).block.shares
    monkeypatch.setattr("dpinfer.rows.source._RUN", run)
    shares = source.counted(2.0, ids, weights).block.shares
    assert np.allclose(shares, before, rtol=1e-12, atol=0.0)
    for unit in range(6):
        count = sum(map(Fraction, shares[ids == unit].tolist()))
        assert count <= 1
        total = weights[ids == unit].sum()
        if total > 2:
            assert count >= Fraction(UNIT_TOTAL) * (1 - Fraction(2) ** -40)


def test_the_sums_of_one_run_of_a_unit_fit_what_is_missing_to_one():
    """A run of 2²⁸ rows, and 2¹² runs: their float sum errs by less than a whole unit lacks."""
    run = 2**28
    error = (run + MAX_RECORDS // run + 4) * UNIT
    assert error < (1 - UNIT_TOTAL) / 8


# What is booked


FORMULA = "ill ~ age + sex"


def model(budget=None, **options):
    return dp.LogisticRegression(
        FORMULA, schema=tables.SCHEMA, budget=budget or dp.ApproxDP(1.0, 1e-6), **options
    )


def bounds_of(booked):
    return [release.bound for release in booked.events if hasattr(release, "bound")]


@pytest.mark.parametrize("target", ["ordinary", "penalised"])
@pytest.mark.parametrize("records", [DEFAULT_MAX_RECORDS, 10**10, MAX_RECORDS])
def test_noise_is_sized_for_a_public_number_of_records(target, records):
    """A dry run books the same: every bound of a sum is raised, the first by exactly as much."""
    usual = model(target=target).entry(10**6)
    booked = model(target=target).entry(records)
    ratios = np.array(bounds_of(booked)) / bounds_of(usual)
    assert np.allclose(ratios, in_floats(1.0, records), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(
    "asked", [dp.LogisticRegression, dp.LinearRegression, dp.PoissonRegression], ids=str
)
def test_intervals_know_the_noise_that_is_booked(asked):
    """What is computed with is the deviation of what is released, however long the table is."""
    formula = "ill ~ age + sex" if asked is dp.LogisticRegression else "visits ~ age + sex"
    schema = tables.SCHEMA
    one = asked(formula, schema=schema, budget=dp.ZCDP(0.5))
    design = Design.of_formula(*parse(formula, schema), one.kind, schema.unit)
    found = {}
    for records in (10**6, 10**10):
        recipe = one.recipe(design, records)
        scales = recipe._scales()
        assert scales.gradient == recipe.releases_by_stage.of(ESTIMATE)[0].noise_sd
        assert scales.crude == recipe.releases_by_stage.of(CRUDE)[0].noise_sd
        found[records] = scales.gradient
    assert found[10**10] / found[10**6] == pytest.approx(in_floats(1.0, 10**10), rel=1e-12)


LOSSES = [dp.Logistic(), dp.HuberHinge(), dp.Huber(0.5)]


def cheapest_penalty(monkeypatch, *asked, **options):
    """The default penalty of a fit whose minimum floats find however small a penalty is."""
    with monkeypatch.context() as patch:
        patch.setattr("dpinfer.fit.penalised_plan.MASK_SHARE", math.inf)
        return default_penalty(*asked, **options)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("n", [10**7, 10**8, DEFAULT_MAX_RECORDS, 2**30, 10**10, MAX_RECORDS])
@pytest.mark.parametrize("units", [False, True])
def test_a_minimum_of_many_records_is_not_lost_behind_its_mask(monkeypatch, loss, n, units):
    """From some million records on the penalty grows with how far floats are off."""
    plan = default_plan(dp.ZCDP(0.5))
    notion = Adjacency.of(Adjacency.REPLACE, units=units)
    size = loss.slope_bound / (loss.curvature_bound * np.sqrt(n))
    asked = {"units": units, "records": max(n, DEFAULT_MAX_RECORDS)}

    def mask(penalty):
        risk = Risk.penalised(loss, penalty, n, notion, asked["records"])
        return 2 * risk.minimum_error(11) / plan.coefficients(risk).mask

    cheapest = cheapest_penalty(monkeypatch, plan, loss, n, 11, **asked)
    chosen = default_penalty(plan, loss, n, 11, **asked)
    assert mask(cheapest) > size / 2
    assert cheapest < chosen <= 1e-3
    assert mask(chosen) <= size / 8 * (1 + 1e-9) or chosen == 1e-3
    assert mask(chosen) <= size


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("rho", [0.01, 0.5, 10.0])
@pytest.mark.parametrize("units", [False, True])
def test_the_penalty_of_up_to_a_million_records_is_the_cheapest(monkeypatch, loss, rho, units):
    """Their minimum is found closely enough."""
    plan = default_plan(dp.ZCDP(rho))
    for n in (1, 100, 10**4, 10**6):
        asked = (plan, loss, n, 11)
        cheapest = cheapest_penalty(monkeypatch, *asked, units=units)
        assert default_penalty(*asked, units=units) == cheapest


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("notion", [Adjacency.REPLACE, Adjacency.REPLACE_UNIT])
def test_every_sum_of_a_risk_is_raised_and_so_is_its_float_error(loss, notion):
    """A million units, with as many rows as may be; blocks and long units err with the rows."""
    coef = np.full(3, 0.2)

    def found(records):
        risk = Risk.penalised(loss, 1e-3, 10**6, notion, records)
        sums = (risk.curvature_sum(coef), risk.score_sum(coef), risk.stacked_sum(coef))
        return np.array([what.bound for what in sums]), risk.minimum_error(3) * risk.ridge

    usual, error = found(DEFAULT_MAX_RECORDS)
    bounds, larger = found(MAX_RECORDS)
    assert np.allclose(bounds / usual, in_floats(1.0, MAX_RECORDS), rtol=1e-12)
    roundings = 3 if notion.units else 2
    more = roundings * UNIT * (MAX_RECORDS - DEFAULT_MAX_RECORDS) * loss.slope_bound
    assert larger - error == pytest.approx(more, rel=1e-6)


def test_more_than_the_most_records_are_refused():
    with pytest.raises(dp.InputError, match="more than 1,099,511,627,776 records"):
        model().entry(MAX_RECORDS + 1)


def test_a_private_number_is_that_of_the_largest_table():
    """However many rows there are: the schema says how many at most."""
    private = model(neighbours="add-remove")
    usual = bounds_of(private.entry(0))
    assert usual == bounds_of(private.entry(10**6))
    private.schema = lengths.at_most(tables.SCHEMA, 10**10)
    raised = bounds_of(private.entry(0))
    assert raised == bounds_of(private.entry(10**6))
    assert np.allclose(np.array(raised) / usual, in_floats(1.0, 10**10), rtol=1e-12)
    # nor does it matter beyond: whether there are more is asked after booking
    assert raised == bounds_of(private.entry(10**10 + 1))
    # where the number is public, it and nothing else decides
    public = model()
    public.schema = private.schema
    assert bounds_of(public.entry(10**6)) == bounds_of(model().entry(10**6))


PRIVATE = "add-remove"


def places(frame, folder):
    """A table in memory and in a file."""
    frame.to_parquet(folder / "table.parquet")
    return frame, folder / "table.parquet"


def fitted(native, schema, ledger):
    model(neighbours=PRIVATE, ledger=ledger).set_params(schema=schema).fit(native)


def described(native, schema, ledger):
    budget = dp.ApproxDP(1.0, 1e-6)
    dp.describe(native, schema, budget, columns=["age"], neighbours=PRIVATE, ledger=ledger)


@pytest.mark.parametrize("ask", [fitted, described])
def test_whether_a_private_number_is_larger_is_told_after_booking_alone(monkeypatch, tmp_path, ask):
    """Whoever may write largest_table could else search for the number of rows, free of charge."""
    lengths.usual(monkeypatch, 100)
    for native in places(pd.DataFrame(tables.table(200)), tmp_path):
        told = {}
        for most in (199, 200):
            schema = lengths.at_most(tables.SCHEMA, most)
            poor = dp.Ledger(dp.ApproxDP(1e-3, 1e-9), unit="one person", neighbours=PRIVATE)
            with pytest.raises(dp.DpinferError) as refused:
                ask(native, schema, poor)
            told[most] = (type(refused.value), str(refused.value))
            assert not poor.entries()
        assert told[199] == told[200]
        ledger = dp.Ledger(dp.ApproxDP(4.0, 1e-5), unit="one person", neighbours=PRIVATE)
        with pytest.raises(dp.InputError, match=r"more than 199 records.*largest_table"):
            ask(native, lengths.at_most(tables.SCHEMA, 199), ledger)
        assert len(ledger.entries()) == 1


def test_a_private_number_of_rows_that_was_declared(monkeypatch):
    """What is booked for it is what a fit then spends."""
    lengths.usual(monkeypatch, 100)
    private = model(neighbours=PRIVATE)
    frame = pd.DataFrame(tables.table(200))
    private.schema = lengths.at_most(tables.SCHEMA, 200)
    result = private.fit(frame).result_
    assert bounds_of(result.privacy) == bounds_of(private.entry(0))
    bounds = model(neighbours="add-remove").entry(0)
    assert np.allclose(
        np.array(bounds_of(result.privacy)) / bounds_of(bounds),
        in_floats(1.0, 200) / in_floats(1.0, 2**28),
        rtol=1e-12,
    )


def test_a_public_number_of_rows_needs_no_word(monkeypatch):
    lengths.usual(monkeypatch, 100)
    frame = pd.DataFrame(tables.table(200))
    found = model(insecure_seed=1).fit(frame).result_
    assert bounds_of(found.privacy) == bounds_of(model().entry(200))
    x = np.random.default_rng(0).uniform(0, 1, (200, 2))
    arrays = dp.LogisticRegression(bounds=(0.0, 1.0), budget=dp.ZCDP(1.0), insecure_seed=1)
    arrays.fit(x, (x[:, 0] > 0.5).astype(int))
    assert bounds_of(arrays.result_.privacy)[-1] > 1.0


@pytest.mark.parametrize("pure", [False, True])
def test_descriptions_and_learned_bounds_are_sized_likewise(monkeypatch, pure):
    budget = dp.PureDP(1.0) if pure else dp.ZCDP(0.5)
    frame = pd.DataFrame(tables.table(200))

    def booked():
        described = describing(frame, tables.SCHEMA, budget, columns=["age", "sex"]).entry
        learnt = dp.learn_bounds(frame, columns={"age": "number"}, budget=budget, insecure_seed=1)
        return bounds_of(described), bounds_of(learnt.entry)

    usual = booked()
    lengths.usual(monkeypatch, 100)
    for before, after in zip(usual, booked(), strict=True):
        assert np.allclose(np.array(after) / before, in_floats(1.0, 200), rtol=1e-12)


def test_rows_of_units_are_held_against_what_is_declared(monkeypatch):
    """Units are counted before booking, rows are private: they are refused when they are read."""
    lengths.usual(monkeypatch, 100)
    frame = people.table(rows=300, persons=40)

    def fit(most):
        schema = lengths.at_most(people.schema(), most)
        asked = dp.LogisticRegression("y ~ a", schema=schema, budget=dp.ZCDP(1.0), insecure_seed=3)
        return asked.fit(frame).result_

    with pytest.raises(dp.InputError, match=r"more than 299 records.*largest_table"):
        fit(299)
    assert min(bounds_of(fit(300).privacy)) > 0


def test_a_recipe_that_was_made_for_fewer_records_is_refused():
    """Whoever makes one by hand: nothing is booked for more than noise was sized for."""
    response = model()
    design = dp.LogisticRegression(FORMULA, schema=tables.SCHEMA, budget=dp.ZCDP(1.0)).read(
        pd.DataFrame(tables.table(50))
    )[0]
    recipe = response.recipe(design, 50)
    with pytest.raises(dp.InputError, match="more than 268,435,456 records"):
        entry(recipe, DEFAULT_MAX_RECORDS + 1, Subject())


def test_the_integers_of_the_grid_have_room():
    """As many numbers as a fit of so many records and columns has, each as large as it can be."""
    for records, columns in ((MAX_RECORDS, 255), (2**33, 2**15 - 1)):
        numbers = (columns + 1) ** 2
        assert Fraction(records) / Fraction(grid(1.0, numbers)) <= GRID_LARGEST / 2
    design = model().read(pd.DataFrame(tables.table(50)))[0]
    wide = replace(design, names=tuple(f"x{j}" for j in range(256)), unit=Unit(largest=2**40))
    asked = replace(model().recipe(design, 50), design=wide)
    with pytest.raises(dp.InputError, match="256 columns of up to 1,099,511,627,776 records"):
        entry(asked, 50, Subject())


def wide_schema(levels, rows=MAX_RECORDS):
    """Columns of many levels, in tables of up to so many rows."""
    names = ", ".join(f'"{j}"' for j in range(levels))
    text = f'[unit]\nname = "one visit"\nlargest_table = {rows}\n'
    for column in ("a", "b"):
        text += f'[columns.{column}]\ntype = "category"\nlevels = [{names}]\n'
    return dp.Schema.parse(text)


@pytest.mark.parametrize(
    ("budget", "room"),
    [(dp.ZCDP(0.5), 2**16), (dp.ApproxDP(1, 1e-6), 2**16), (dp.PureDP(1.0), 2**8)],
)
def test_a_description_that_has_no_room_is_refused_before_booking(budget, room):
    """Two columns of levels have 2(s + 1) counts."""
    frame = pd.DataFrame({"a": ["0", "1"], "b": ["1", "0"]})
    largest = room // 2 - 1

    def asked(levels, rows=MAX_RECORDS):
        return describing(frame, wide_schema(levels, rows), budget, adjacency="add-remove")

    plan = asked(largest).plan
    assert plan.length() == room
    # Laplace noise in each count makes steps as fine as the square of so many numbers
    numbers = room**2 if plan.pure else room
    assert Fraction(MAX_RECORDS) / Fraction(grid(1.0, numbers)) <= GRID_LARGEST / 2
    with pytest.raises(
        dp.InputError, match="numbers of up to 1,099,511,627,776 records are too many"
    ):
        asked(largest + 1)
    assert asked(largest + 1, DEFAULT_MAX_RECORDS).plan.records == DEFAULT_MAX_RECORDS


@pytest.mark.parametrize(
    "head", ['unit = "one visit"\n', people.AVERAGE, people.UNIT + people.WEIGHTS]
)
@pytest.mark.parametrize("by", [None, "b"])
@pytest.mark.parametrize("budget", [dp.ZCDP(0.5), dp.PureDP(1e6)], ids=str)
def test_no_release_of_a_description_is_longer_than_it_says(monkeypatch, head, by, budget):
    """A budget without end looks at quartiles as closely as can be."""
    found = []
    real = Gate._added

    def recorded(self, exact, noise, bound):
        found.append(exact.size)
        return real(self, exact, noise, bound)

    monkeypatch.setattr(Gate, "_added", recorded)
    asked = describing(people.table(rows=600, persons=200), people.schema(head), budget, by=by)
    asked.run(insecure_seed=1)
    assert 0 < max(found) <= asked.plan.length()


def test_learned_bounds_that_have_no_room_are_refused(monkeypatch):
    """Pure noise in each of 1,603 counts has a grid that is finer."""
    frame = pd.DataFrame(tables.table(500))

    def asked(budget, rows):
        plan = learning(frame, None, budget, {"age": "number"}).plan
        replace(plan, records=rows).require_room()

    asked(dp.ZCDP(0.5), MAX_RECORDS)
    asked(dp.PureDP(1.0), 2**37)
    with pytest.raises(dp.InputError, match="do not fit whole numbers of 64 bits"):
        asked(dp.PureDP(1.0), MAX_RECORDS)
    lengths.usual(monkeypatch, 10)
    monkeypatch.setattr("dpinfer.privacy.release._ROOM", 1603 * 499)
    ledger = dp.Ledger(dp.PureDP(4.0), unit="one record")
    with pytest.raises(dp.InputError, match="do not fit whole numbers of 64 bits"):
        dp.learn_bounds(frame, columns={"age": "number"}, budget=dp.PureDP(1.0), ledger=ledger)
    assert not ledger.entries()
