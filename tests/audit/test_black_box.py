"""End-to-end audit: the best test between two neighbouring data sets, from everything that is released.

The log-likelihood ratio of a whole transcript, each release given those before it, is the most powerful statistic there
is.  Over fresh runs its rate of true alarms at a given rate of false ones must stay below what the promise allows,
TPR <= e^ε FPR + δ(ε) at every ε, by Clopper-Pearson limits of one in a thousand; with too little noise it does not.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import beta

import dpinfer as dp
from dpinfer.data.design import Design
from dpinfer.data.source import Rows
from dpinfer.fit.estimate import estimate as plain_estimate
from dpinfer.fit.geometry.box import Box, Projected
from dpinfer.fit.geometry.releases import crude_moments, estimate, refined_moments, shape_of
from dpinfer.fit.matrices import private_matrices
from dpinfer.fit.plan import default_plan
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.ledger import Entry

RUNS, ALARM, COMMON = 300, 0.1, 150
DESIGN = Design.of_bounds((-1.0, 1.0), ("a",))


def in_box(side):
    """Records at the middle of the box, all +1, and a -1 at one end of it: steep, and far out in any geometry."""
    values = np.append(np.zeros(COMMON), side)[:, None]
    return Rows.of(DESIGN.rows(values), np.append(np.ones(COMMON), -1.0))


def in_ball(side):
    """Records in one direction, all +1, and a -1 that is nearly opposite to its replacement."""
    angle = 0.35
    last = [side * np.cos(angle), np.sin(angle)]
    return Rows.of(np.vstack([np.tile([0.0, 1.0], (COMMON, 1)), last]), np.append(np.ones(COMMON), -1.0))


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
    return Projected(source.source.other, source.matrix) if isinstance(source, Projected) else source.other


class Suspicious(Gate):
    """A gate that adds up the log-likelihood ratio of what it lets out, as the promise describes its noise."""

    ratio = 0.0

    def noisy_sum(self, step, source, bounded):
        out = super().noisy_sum(step, source, bounded)
        far = [((out.value - s.total(bounded.of_block)) ** 2).sum() for s in (source, neighbour(source))]
        self.ratio += (far[1] - far[0]) / (2 * out.noise.scale**2)
        return out

    def centred_minimum(self, step, source, risk):
        out = super().centred_minimum(step, source, risk)
        self._compare(source, risk, out)
        return out

    def perturbed_minimum(self, step, source, risk, kind):
        out = super().perturbed_minimum(step, source, risk, kind)
        self._compare(source, risk, out)
        return out

    def _compare(self, source, risk, out):
        d, theta, logs = source.dim, out.value, []
        for data in (source, neighbour(source)):
            sums = data.total(risk.totals(theta))
            b = sums[1 : d + 1] + risk.ridge * theta
            bend = np.linalg.slogdet(sums[d + 1 :].reshape(d, d) + risk.ridge * np.eye(d))[1]
            logs.append(bend - b @ b / (2 * out.noise.scale**2))
        self.ratio += logs[0] - logs[1]


def in_geometry(source, plan):
    gate, box = Suspicious(Entry("audit", "", plan.events()), None), Box.of(DESIGN)
    known = refined_moments(gate, source, box, plan, crude_moments(gate, source, box, plan))
    estimate(gate, source, box, plan, shape_of(known, box, plan))
    return gate.ratio


def plainly(source, plan):
    gate = Suspicious(Entry("audit", "", plan.events()), None)
    coef = plain_estimate(plan, gate, source, RISK)
    private_matrices(gate, source, RISK, coef.value, plan.recipe)
    return gate.ratio


def alarms(release, plan):
    """Lower limit of the true alarms and upper limit of the false ones, for a threshold found on other runs."""
    first, second = ((in_ball if release is plainly else in_box)(side) for side in (1.0, -1.0))
    on = np.array([release(Twin(first, second), plan) for _ in range(RUNS)])
    off = np.array([-release(Twin(second, first), plan) for _ in range(RUNS)])
    threshold = np.quantile(off[::2], 1 - ALARM)
    hits, false = int((on > threshold).sum()), int((off[1::2] > threshold).sum())
    return beta.ppf(1e-3, hits, RUNS - hits + 1), beta.ppf(1 - 1e-3, false + 1, RUNS // 2 - false)


def allowed(events, false_alarms):
    """The largest rate of true alarms that (ε, δ(ε)) allows, at every ε."""
    release = next(event.perturbed for event in events if event.perturbed is not None)
    mu = np.sqrt(2 * sum(event.share.rho for event in events if event.additive))
    return min(np.exp(e) * false_alarms + release.delta(e, mu) for e in np.linspace(0, 6, 61))


RISK = PenalisedRisk(dp.Logistic(), 2e-3, COMMON + 1)
CASES = {
    "weighted": (in_geometry, dp.GeometryPlan(dp.ZCDP(1.0))),
    "unweighted": (in_geometry, dp.GeometryPlan(dp.ZCDP(1.0), "unweighted")),
    "infer": (plainly, default_plan(dp.ZCDP(1.0))),
}


@pytest.mark.parametrize("case", CASES)
def test_the_best_test_is_no_better_than_promised(case, monkeypatch):
    release, plan = CASES[case]
    events = plan.events(RISK) if release is plainly else plan.events()
    true, false = alarms(release, plan)
    assert true <= allowed(events, false)
    honest = Gate._draw
    monkeypatch.setattr(Gate, "_draw", lambda self, noise, size: 0.3 * honest(self, noise, size))
    true, false = alarms(release, plan)
    assert true > allowed(events, false)
