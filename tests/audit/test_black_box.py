"""End-to-end audit: the best test between two neighbouring data sets, from everything that is
released.

The log-likelihood ratio of a whole transcript, each release given those before it, is the most
powerful statistic there is.  Over fresh runs its rate of true alarms at a given rate of false ones
must stay below what the promise allows, TPR <= e^ε FPR + δ(ε) at every ε, by Clopper-Pearson limits
of one in a thousand; with too little noise it does not.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import beta

import dpinfer as dp
import dpinfer.privacy.gate
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.penalised import private_matrices
from dpinfer.fit.penalised_plan import default_plan
from dpinfer.fit.poisson import PoissonSteps
from dpinfer.mechanisms.privacy_cost import gaussian_delta
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.noise_laws import Gaussian
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum, PerturbedMinimum
from dpinfer.rows.encoded import Changed
from dpinfer.rows.source import Rows
from dpinfer.schema.design import COUNT, CountScale, Design
from dpinfer.schema.unit import Unit

ALARM, COMMON = 0.1, 150
DESIGN = Design.of_bounds((-1.0, 1.0), ("a",))


def in_box(side):
    """Records all over the box, so that no limit pulls them in, all +1, and a -1 at one end of it."""
    values = np.append(np.linspace(-1, 1, COMMON), side)[:, None]
    return Rows.of(DESIGN.rows(values), np.append(np.ones(COMMON), -1.0))


def in_ball(side):
    """Records in one direction, all +1, and a -1 that is nearly opposite to its replacement."""
    angle = 0.35
    last = [side * np.cos(angle), np.sin(angle)]
    return Rows.of(
        np.vstack([np.tile([0.0, 1.0], (COMMON, 1)), last]), np.append(np.ones(COMMON), -1.0)
    )


@dataclass(frozen=True)
class Twin:
    """A data set that knows its neighbour."""

    own: Rows
    other: Rows

    @property
    def n(self):
        return self.own.n

    @property
    def dim(self):
        return self.own.dim

    def total(self, of_block):
        return self.own.total(of_block)


def neighbour(source):
    if isinstance(source, Changed):
        return replace(source, source=neighbour(source.source))
    return source.other


class OverError(Exception):
    """Everything that was booked is released."""


class Suspicious(Gate):
    """A gate that adds up the log-likelihood ratio of what it lets out, as the promise describes
    its noise; it ends the fit with its last release, as nothing comes out later.
    """

    ratio = 0.0

    def release(self, booked, source, what):
        out = super().release(booked, source, what)
        if isinstance(what, Risk):
            self._compare(source, what, out)
        else:
            far = [
                ((out.value - s.total(what.of_block)) ** 2).sum()
                for s in (source, neighbour(source))
            ]
            self.ratio += (far[1] - far[0]) / (2 * out.noise.scale**2)
        if not self._left:
            raise OverError
        return out

    def _compare(self, source, risk, out):
        d, step, logs = source.dim, out.value, []
        for data in (source, neighbour(source)):
            sums = data.total(risk.totals(step))
            b = sums[1 : d + 1] + risk.ridge * step
            bend = np.linalg.slogdet(sums[d + 1 :].reshape(d, d) + risk.ridge * np.eye(d))[1]
            logs.append(bend - b @ b / (2 * out.noise.scale**2))
        self.ratio += logs[0] - logs[1]


def ratio(gate, run):
    """Of the whole transcript: a fit that ends by itself has left something out."""
    with pytest.raises(OverError):
        run()
    return gate.ratio


def of_labels(source, plan, seed):
    releases = plan.releases().all
    gate = Suspicious(Entry("audit", "", releases), None, seed)
    return ratio(gate, lambda: LogisticSteps(DESIGN, plan).run(gate, source))


def plainly(source, plan, seed):
    first, *others = releases = plan.releases(RISK)
    gate = Suspicious(Entry("audit", "", releases), None, seed)

    def run():
        private_matrices(gate, others, source, RISK, gate.release(first, source, RISK).value)

    return ratio(gate, run)


def of_squares(source, plan, seed):
    releases = plan.releases().all
    gate = Suspicious(Entry("audit", "", releases), None, seed)
    return ratio(gate, lambda: LinearSteps(DESIGN, plan).run(gate, source))


def with_outcomes(side):
    """Records all over the box with outcome 0, and one at its corner whose outcome is at one end of
    the range.
    """
    values = np.append(np.linspace(-1, 1, COMMON), 1.0)[:, None]
    return Rows.encoded(DESIGN.rows(values), np.append(np.zeros(COMMON), side), "residual")


RATES = Design.of_bounds((-1.0, 1.0), ("a",), CountScale.up_to(50.0), offset=0.0)


def of_rates(source, plan, seed):
    releases = plan.releases(exposed=True).all
    gate = Suspicious(Entry("audit", "", releases), None, seed)
    return ratio(gate, lambda: PoissonSteps(RATES, plan).run(gate, source))


def with_exposures(side):
    """Records all over the box with an exposure of a half, and one at its corner: with all events
    that the bound allows and hardly any exposure, or with none and all of it.
    """
    values = np.column_stack([np.linspace(-1, 1, COMMON), np.full(COMMON, np.log(0.5))])
    last = [1.0, -6.0 if side > 0 else 0.0]
    outcomes = np.append(np.resize([0.0, 0.02, 0.04], COMMON), max(side, 0.0))
    return Rows.encoded(RATES.rows(np.vstack([values, last])), outcomes, COUNT)


EVERY = replace(DESIGN, unit=Unit("one person", "id", "every"))


def of_units(source, plan, seed):
    releases = plan.releases(every=True).all
    gate = Suspicious(Entry("audit", "", releases), None, seed)
    return ratio(gate, lambda: LinearSteps(EVERY, plan).run(gate, source))


def with_rows(side):
    """Units of two rows all over the box with outcome 0, and one of four rows at its corner, at one end of the
    range, or of one row at the other.
    """
    size = 4 if side > 0 else 1
    values = np.append(np.repeat(np.linspace(-1, 1, COMMON), 2), np.ones(size))[:, None]
    ids = np.append(np.repeat(np.arange(COMMON), 2), np.full(size, COMMON))
    outcomes = np.append(np.zeros(2 * COMMON), np.full(size, side))
    return Rows.encoded(EVERY.rows(values), outcomes, "residual").counted(1.0, ids)


PAIRS = {
    of_units: with_rows,
    plainly: in_ball,
    of_labels: in_box,
    of_squares: with_outcomes,
    of_rates: with_exposures,
}


def alarms(release, plan, runs):
    """Lower limit of the true alarms and upper limit of the false ones, for a threshold found on
    other runs.
    """
    first, second = (PAIRS[release](side) for side in (1.0, -1.0))
    on = np.array([release(Twin(first, second), plan, 2 * run) for run in range(runs)])
    off = np.array([-release(Twin(second, first), plan, 2 * run + 1) for run in range(runs)])
    threshold = np.quantile(off[::2], 1 - ALARM)
    hits, false = int((on > threshold).sum()), int((off[1::2] > threshold).sum())
    return beta.ppf(1e-3, hits, runs - hits + 1), beta.ppf(1 - 1e-3, false + 1, runs // 2 - false)


def allowed(events, false_alarms):
    """The largest rate of true alarms that (ε, δ(ε)) allows, at every ε."""
    perturbed = [event.objective for event in events if isinstance(event, PerturbedMinimum)]
    mu = np.sqrt(2 * sum(event.share.rho for event in events if isinstance(event, NoisySum)))
    delta = perturbed[0].delta if perturbed else gaussian_delta
    return min(np.exp(e) * false_alarms + delta(e, mu) for e in np.linspace(0, 6, 61))


RISK = Risk.penalised(dp.Logistic(), 2e-3, COMMON + 1)
CASES = {
    "logistic": (of_labels, dp.GeometryPlan(dp.ZCDP(1.0)), 100),
    "infer": (plainly, default_plan(dp.ZCDP(1.0)), 150),
    "least squares": (of_squares, dp.LinearPlan(dp.ZCDP(1.0)), 100),
    "rates": (of_rates, dp.PoissonPlan(dp.ZCDP(1.0)), 100),
    "every row": (of_units, dp.LinearPlan(dp.ZCDP(1.0), neighbours="replace-unit"), 100),
}


@pytest.mark.parametrize("case", CASES)
def test_the_best_test_is_no_better_than_promised(case, monkeypatch):
    release, plan, runs = CASES[case]
    events = plan.releases(RISK) if release is plainly else plan.releases()
    events = events if release is plainly else events.all
    true, false = alarms(release, plan, runs)
    assert true <= allowed(events, false)
    honest = dpinfer.privacy.gate.rounded

    def weaker(noise, *others):
        return honest(Gaussian(0.25 * noise.scale), *others)

    monkeypatch.setattr(dpinfer.privacy.gate, "rounded", weaker)
    true, false = alarms(release, plan, runs)
    assert true > allowed(events, false)
