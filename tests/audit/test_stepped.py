"""Stepped fits as a whole: what they book, what they spend, and that nothing but releases decides
anything.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit import recipe
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.poisson import PoissonSteps
from dpinfer.fit.recipe import Subject, fit
from dpinfer.mechanisms.sums import Block
from dpinfer.privacy.accountant import spent
from dpinfer.privacy.gate import Gate, Released
from dpinfer.privacy.release import NoisySum
from dpinfer.rows.encoded import Changed
from dpinfer.rows.source import Rows
from dpinfer.schema.columns import Category, Number
from dpinfer.schema.design import COUNT, CountScale, Design, OutcomeScale
from dpinfer.schema.unit import Unit

TERMS = [Number("age", 0.0, 80.0), Number("hours", -1.0, 1.0), Category("kind", ("a", "b"), "a")]
PLANS = {
    "logistic": lambda budget, code: dp.GeometryPlan(budget, neighbours=code),
    "least squares": lambda budget, code: dp.LinearPlan(budget, neighbours=code),
    "robust": lambda budget, code: dp.LinearPlan(budget, "robust", code),
    "all of the tail": lambda budget, code: dp.LinearPlan(budget, neighbours=code, tail="all"),
    "counts": lambda budget, code: dp.PoissonPlan(budget, neighbours=code),
}
FITTED = (*PLANS, "rates")  # counts with an exposure
EVERY = ("logistic", "least squares", "counts", "rates")
BUDGETS = [dp.ZCDP(0.3), dp.ZCDP(1e-4), dp.ApproxDP(1.0, 1e-6), dp.ApproxDP(0.1, 1e-9)]


def steps_of(kind, plan, terms=TERMS, unit=None):
    """The recipe of a plan."""
    recipe, scale = {
        "logistic": (LogisticSteps, OutcomeScale()),
        "counts": (PoissonSteps, CountScale.up_to(20.0)),
        "rates": (PoissonSteps, CountScale.up_to(20.0)),
    }.get(kind, (LinearSteps, OutcomeScale(5.0, 20.0)))
    design = Design.of_terms(terms, scale, 1.5 if kind == "rates" else None)
    if unit is not None:
        design = replace(design, unit=unit)
    return recipe(design, plan)


def plan_of(kind, budget, code):
    return PLANS["counts" if kind == "rates" else kind](budget, code)


def exact_delta(epsilon, rho):
    """δ of Gaussian releases that cost ρ together (Balle and Wang, 2018), with 60 digits."""
    with mpmath.workdps(60):
        mu = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator)
        first = mpmath.ncdf(mu / 2 - epsilon / mu)
        return float(first - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("kind", PLANS)
def test_guarantee_stepped_composition(kind, budget, numbers):
    """Gaussian sums that spend the budget to the last digit and no more, with a release of scales
    or without.
    """
    for code, every in itertools.product(Adjacency, (False, True)):
        releases = PLANS[kind](budget, code).releases(numbers=numbers, every=every).all
        assert all(
            isinstance(release, NoisySum) and isinstance(release.share, dp.ZCDP)
            for release in releases
        )
        assert len({release.step for release in releases}) == len(releases)
        assert any(release.step.startswith("scales") for release in releases) == numbers
        together = sum(Fraction(release.share.rho) for release in releases)
        if isinstance(budget, dp.ZCDP):
            assert abs(together / Fraction(budget.rho) - 1) < Fraction(1, 10**15)
        else:
            found = exact_delta(budget.epsilon, together)
            assert found <= budget.delta * (1 + 1e-12)
            assert (
                exact_delta(budget.epsilon, together * Fraction(10001, 10000))
                > budget.delta * 1.0001
            )
            assert spent(budget, releases) == pytest.approx(budget.epsilon, rel=1e-8)


def asked_of(source, what):
    """What a query says of some rows that are always the same: it must not depend on records."""
    changes = []
    while isinstance(source, Changed):
        changes.append(source.change)
        source = source.source
    rng = np.random.default_rng(5)
    rows = rng.uniform(-1, 1, (60, source.dim)) / 3
    rows[:, 0] = 0.3
    labels = np.resize([1.0, -1.0, 0.3, 0.07, 0.02, 0.004], 60)
    block = Block(rows, labels, starts=np.arange(0, 60, 3))
    for change in reversed(changes):
        block = change(block)
    with np.errstate(all="ignore"):
        return what.of_block(block).tolist()


class Recorder(Gate):
    """A gate that remembers what it was asked for, and what it gave."""

    seen: list
    asked: list

    def release(self, booked, source, what):
        released = super().release(booked, source, what)
        self.seen.append((booked, what.bound, released))
        self.asked.append(asked_of(source, what))
        return released


def values(steps, n, seed):
    """Columns in their units, and the logarithm of an exposure where there is one."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(20, 60, n), rng.normal(0, 0.2, n), rng.random(n) < 0.3])
    if steps.design.offset is None:
        return x
    return np.column_stack([x, rng.uniform(-2, steps.design.offset, n)])


def source_of(steps, x, y, ids=None, weights=None):
    kind = {LogisticSteps: "margin", PoissonSteps: COUNT}.get(type(steps), "residual")
    source = Rows.encoded(steps.design.rows(x), y, kind)
    if ids is None and weights is None:
        return source
    return source.counted(steps.design.unit.max_total, ids, weights)


def usual(steps, n, seed, rows=1, weighted=False):
    """Records with an effect, of ``rows`` rows a unit."""
    rng = np.random.default_rng(seed)
    x = values(steps, n * rows, seed)
    effect = (x[:, 0] - 40) / 20 + x[:, 2]
    if isinstance(steps, PoissonSteps):
        exposed = np.exp(x[:, 3]) if x.shape[1] == 4 else 1.0
        y = rng.poisson(exposed * np.exp(0.5 * effect)) / 20.0
    elif isinstance(steps, LogisticSteps):
        y = np.where(rng.random(len(x)) < 1 / (1 + np.exp(-effect)), 1.0, -1.0)
    else:
        y = np.clip(0.2 * effect + 0.1 * rng.standard_normal(len(x)), -1, 1)
    ids = np.repeat(np.arange(n), rows) if steps.neighbours.units else None
    return source_of(steps, x, y, ids, rng.uniform(0, 2, len(x)) if weighted else None)


def hopeless(steps, n, weighted=False):
    """Other records: all alike, half of them missing, all at one end."""
    x = np.tile([80.0, 1.0, 1.0, -99.0][: steps.design.width - 1], (n, 1))
    x[::2] = np.nan
    ids = np.arange(n) if steps.neighbours.units else None
    return source_of(steps, x, np.ones(n), ids, np.full(n, 0.1) if weighted else None)


# bounds ten times too wide: of most fits of these, age is winsorised
WIDE = [Number("age", -360.0, 440.0), Number("hours", -10.0, 10.0), TERMS[2]]
CASES = [(kind, code, False) for kind in FITTED for code in Adjacency]
CASES += [
    ("logistic", Adjacency.REPLACE, True),
    ("least squares", Adjacency.ADD_REMOVE_UNIT, True),
    ("rates", Adjacency.REPLACE_UNIT, True),
    ("counts", Adjacency.ADD_REMOVE, True),
]


@pytest.mark.parametrize(("kind", "code", "weighted"), CASES)
def test_guarantee_released_values_only(kind, code, weighted, monkeypatch):
    """The releases of one fit played to another, of quite other records: every query and the result
    are the same to the last bit.

    Where the number of records is private it is another one, too; with units the number of rows
    always is.
    """
    played(kind, code, weighted, TERMS, monkeypatch)


@pytest.mark.parametrize("code", [Adjacency.REPLACE, Adjacency.ADD_REMOVE])
@pytest.mark.parametrize("kind", FITTED)
def test_limits_of_winsorised_numbers_are_released_values_too(kind, code, monkeypatch):
    """With bounds ten times too wide: limits, clips and radii follow from the releases."""
    result = played(kind, code, False, WIDE, monkeypatch)
    assert result.geometry.clipped


@pytest.mark.parametrize("code", [Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT])
@pytest.mark.parametrize("kind", EVERY)
def test_where_every_row_counts_nothing_but_releases_decides_either(kind, code, monkeypatch):
    """Also the mean number of rows of a unit is a release: the other records have one row each."""
    result = played(kind, code, False, TERMS, monkeypatch, every=True)
    assert result.model.unit.every


def played(kind, code, weighted, terms, monkeypatch, *, every=False):
    """The result of a fit, after its releases were played to other records."""
    column = "id" if code.units else ""
    weights = "w" if weighted else ""
    rows = "every" if every else 1.0
    unit = Unit("one record", column, rows, weights=weights, max_weight=2.0)
    steps = steps_of(kind, plan_of(kind, dp.ZCDP(0.5), code), terms, unit)
    n = 1500
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "seen", [], raising=False)
    monkeypatch.setattr(Recorder, "asked", [], raising=False)
    first = fit(steps, usual(steps, n, 0, 3 if code.units else 1, weighted), Subject(), None, 4)
    booked = [entry[0] for entry in Recorder.seen]
    assert booked == list(steps.releases(n))  # each once, in order
    replay = iter(zip(Recorder.seen, Recorder.asked, strict=True))

    class Replay(Gate):
        def release(self, booked, source, what) -> Released:
            (asked, bound, released), query = next(replay)
            assert (booked, what.bound) == (asked, bound)
            assert asked_of(source, what) == query
            source.total(what.of_block)  # as in a fit: whatever the records hold, it raises nothing
            return released

    monkeypatch.setattr(recipe, "Gate", Replay)
    other = fit(steps, hopeless(steps, n if code.counted else 701, weighted), Subject(), None, 4)
    assert first.to_json() == other.to_json()
    return first


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("code", ["replace", "add-remove"])
def test_every_sum_is_finite_whatever_the_records_hold(kind, code, monkeypatch):
    """A sum that is not finite would be released as 0 and tell of a record; no warning tells of one
    either.
    """
    steps = steps_of(kind, plan_of(kind, dp.ZCDP(0.5), code))
    exact = []

    class Watched(Gate):
        def release(self, booked, source, what) -> Released:
            exact.append(source.total(what.of_block))
            return super().release(booked, source, what)

    monkeypatch.setattr(recipe, "Gate", Watched)
    x = values(steps, 900, 1)
    x[::3] = [1e300, -1e300, 1.0, 1e300][: x.shape[1]]
    x[1::7] = np.nan
    x[2::11] = -np.inf
    y = np.resize([1.0, 0.0 if isinstance(steps, PoissonSteps) else -1.0], 900)
    fit(steps, source_of(steps, x, y), Subject(), None, 1)
    fit(steps, hopeless(steps, 900), Subject(), None, 1)
    assert all(np.isfinite(sums).all() for sums in exact)


@pytest.mark.parametrize("kind", EVERY)
def test_sums_over_units_are_finite_whatever_their_rows_hold(kind, monkeypatch):
    """One unit of most of the rows, units of rows that cannot be encoded, and values of every size."""
    unit = Unit("one record", "id", "every")
    steps = steps_of(kind, plan_of(kind, dp.ZCDP(0.5), "replace-unit"), unit=unit)
    exact = []

    class Watched(Gate):
        def release(self, booked, source, what) -> Released:
            exact.append(source.total(what.of_block))
            return super().release(booked, source, what)

    monkeypatch.setattr(recipe, "Gate", Watched)
    x = values(steps, 6000, 1)
    x[::3] = [1e300, -1e300, 1.0, 1e300][: x.shape[1]]
    x[1::7] = np.nan
    ids = np.maximum(np.arange(6000) - 4000, 0)
    x[ids > 1900] = np.nan
    y = np.resize([1.0, 0.0 if isinstance(steps, PoissonSteps) else -1.0], 6000)
    fit(steps, source_of(steps, x, y, ids), Subject(), None, 1)
    assert all(np.isfinite(sums).all() for sums in exact)


def test_no_record_at_all_is_a_fit_where_their_number_is_private():
    for kind in ("logistic", "least squares", "counts", "rates"):
        steps = steps_of(kind, plan_of(kind, dp.ZCDP(0.5), "add-remove"))
        nobody = source_of(steps, np.zeros((0, steps.design.width - 1)), np.zeros(0))
        result = fit(steps, nobody, Subject(), None, 1)
        assert not np.isfinite(result.conf_int()).any()


@pytest.mark.parametrize("code", Adjacency)
@pytest.mark.parametrize("kind", ["counts", "rates"])
def test_every_release_of_counts_is_carried_out_as_it_is_booked(kind, code, monkeypatch):
    """Each once and in order, with the bound and the noise that the ledger has."""
    unit = Unit("one record", "id" if code.units else "")
    steps = steps_of(kind, plan_of(kind, dp.ApproxDP(1.0, 1e-6), code), unit=unit)
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "seen", [], raising=False)
    monkeypatch.setattr(Recorder, "asked", [], raising=False)
    ledger = dp.Ledger(dp.ApproxDP(1.0, 1e-6), neighbours=code.value)
    result = fit(steps, usual(steps, 900, 0), Subject(), ledger)
    (entry,) = ledger.entries()
    booked = tuple(one for one, _, _ in Recorder.seen)
    assert booked == entry.events == result.privacy.events == steps.releases(900)
    for one, bound, released in Recorder.seen:
        assert one.bound == bound
        assert released.noise.scale >= bound / np.sqrt(2 * one.share.rho)
        assert released.noise.scale == pytest.approx(bound / np.sqrt(2 * one.share.rho), rel=1e-3)
        assert one.noise_sd == pytest.approx(released.noise.scale, rel=1e-3)
    assert spent(dp.ApproxDP(1.0, 1e-6), booked) == pytest.approx(1.0, rel=1e-8)
    with pytest.raises(dp.LedgerError, match="up to ε = 0 of the total"):
        ledger.book(entry)
