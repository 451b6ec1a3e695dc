import dataclasses

import numpy as np
import pytest
from scipy import stats

import dpinfer as dp
from dpinfer.data.source import Rows
from dpinfer.fit.plan import default_plan
from dpinfer.fit.run import Setting, fit
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.maths.weighted import WeightedRisk
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.ledger import Entry, Event
from support import LOSSES, follows, gate_of, labelled

X, Y = labelled(60, 3)
COEF = np.array([1.0, -0.5, 0.3])
DRAWS = 1500


def matrix_noise(share, bounded):
    """The noise of many releases of one sum, by subtraction; one vector of R^(d²) a row."""
    source = Rows.of(X, Y)
    exact = bounded.of_block(X, Y)
    noise = [gate_of(seed, matrix=share).noisy_sum("matrix", source, bounded).value - exact for seed in range(DRAWS)]
    return np.array(noise).reshape(DRAWS, -1)


def sums(loss):
    """The two matrices with the paper's sensitivities of their means, times n."""
    risk = PenalisedRisk(loss, 0.01, 60)
    size = 1 / (1 + np.exp(-np.linalg.norm(COEF)))
    papers = {"Logistic": (1 / 2, 2 * size**2), "HuberHinge": (2 * loss.curvature_bound, 2)}[type(loss).__name__]
    return list(zip((risk.curvature_sum(COEF), risk.score_sum(COEF)), papers, strict=True))


@pytest.mark.parametrize("which", [0, 1], ids=["hessian", "covariance"])
@pytest.mark.parametrize("loss", LOSSES)
def test_matrix_noise_is_the_papers(loss, which):
    bounded, sensitivity = sums(loss)[which]
    radius = np.linalg.norm(matrix_noise(dp.PureDP(0.25), bounded), axis=1)
    assert follows(radius, stats.gamma(9, scale=sensitivity / 0.25))
    assert not follows(radius, stats.gamma(9, scale=1.2 * sensitivity / 0.25))
    assert not follows(radius, stats.gamma(9, scale=0.8 * sensitivity / 0.25))
    entries = matrix_noise(dp.ZCDP(0.03), bounded).ravel()
    assert follows(entries, stats.norm(scale=sensitivity / np.sqrt(2 * 0.03)))
    assert not follows(entries, stats.norm(scale=1.2 * sensitivity / np.sqrt(2 * 0.03)))


def test_guarantee_spent_once():
    gate = gate_of(0, hessian=dp.ZCDP(1.0))
    bounded = PenalisedRisk(dp.Logistic(), 0.01, 60).curvature_sum(COEF)
    gate.noisy_sum("hessian", Rows.of(X, Y), bounded)
    with pytest.raises(dp.PrivacyError, match="hessian"):
        gate.noisy_sum("hessian", Rows.of(X, Y), bounded)
    with pytest.raises(dp.PrivacyError, match="estimate"):
        gate.perturbed_minimum("estimate", Rows.of(X, Y), PenalisedRisk(dp.Logistic(), 0.01, 60), "laplace")


def test_a_perturbed_minimum_is_not_booked_as_a_sum_plus_noise():
    """Its privacy loss is larger than that of Gaussian noise at the same zCDP cost."""
    gate = Gate(Entry("test", "one record", (Event("estimate", "test", dp.ZCDP(1.0), additive=True),)), None, 0)
    with pytest.raises(dp.PrivacyError, match="booked as a sum plus noise"):
        gate.perturbed_minimum("estimate", Rows.of(X, Y), PenalisedRisk(dp.Logistic(), 0.1, 60), "gaussian")


class Watched:
    """Rows that remember whether anybody looked."""

    n, dim, looked = 60, 3, False

    def total(self, of_block):
        self.looked = True
        return of_block(X, Y)


def test_guarantee_booked_first():
    source, seen = Watched(), []

    class Book:
        def book(self, entry):
            seen.append((entry, source.looked))
            return "release"

    entry = Entry("test", "one record", (Event("hessian", "test", dp.ZCDP(1.0)),))
    gate = Gate(entry, Book())
    gate.noisy_sum("hessian", source, PenalisedRisk(dp.Logistic(), 0.01, 60).curvature_sum(COEF))
    assert seen == [(entry, False)]
    assert gate.release_id == "release"
    assert gate_of(0, hessian=dp.ZCDP(1.0)).release_id is None
    assert source.looked


def test_a_refused_fit_reads_no_record():
    source = Watched()
    setting = Setting(dp.Logistic(), 0.01, default_plan(dp.ZCDP(2.0)), ("a", "b", "c"), np.eye(3))
    with pytest.raises(dp.LedgerError):
        fit(source, setting, dp.Ledger(dp.ZCDP(1.0)), None)
    assert not source.looked


def test_a_crash_after_booking_keeps_the_charge():
    class Broken(Watched):
        def total(self, of_block):
            raise OSError("disk gone")

    ledger = dp.Ledger(dp.ZCDP(1.0))
    setting = Setting(dp.Logistic(), 0.01, default_plan(dp.ZCDP(0.5)), ("a", "b", "c"), np.eye(3))
    with pytest.raises(OSError, match="disk gone"):
        fit(Broken(), setting, ledger, None)
    assert ledger.spent() == pytest.approx(0.5)


def test_a_release_has_the_parameters_that_were_booked():
    """Gaussian objective perturbation booked with a larger scale than it is released with is refused; both kinds."""
    risk = PenalisedRisk(dp.Logistic(), 0.1, 100)
    share, source = dp.ZCDP(0.5), Rows.of(np.full((100, 2), 0.5), np.ones(100))
    honest = risk.perturbed(risk.perturbation_scale(0.5))
    for booked, fine in ((honest, True), (dataclasses.replace(honest, scale=2 * honest.scale), False)):
        gate = Gate(Entry("fit", "", (Event("estimate", "", share, booked),)), None)
        if fine:
            gate.perturbed_minimum("estimate", source, risk, "gaussian")
            continue
        with pytest.raises(dp.PrivacyError, match="other parameters"):
            gate.perturbed_minimum("estimate", source, risk, "gaussian")
    weighted = WeightedRisk(5.0, np.zeros(2), 100)
    for event in (Event("estimate", "", share, additive=True), Event("estimate", "", share, honest)):
        with pytest.raises(dp.PrivacyError):
            Gate(Entry("fit", "", (event,)), None).centred_minimum("estimate", source, weighted)
