import math

import numpy as np
import pytest
from scipy import stats

import dpinfer as dp
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.penalised_plan import default_plan
from dpinfer.fit.recipe import fit
from dpinfer.mechanisms.histograms import BoundedCounts, LevelCounts
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block, BoundedSum
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import (
    MASK,
    LaplaceMinimum,
    NoisyCounts,
    NoisyMinimum,
    NoisySum,
    PerturbedMinimum,
    ScaledSum,
    ShownLevels,
)
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from helpers.support import LOSSES, follows, gate_of, labelled, noisy_sum

X, Y = labelled(60, 3)
COEF = np.array([1.0, -0.5, 0.3])
DRAWS = 1500


def matrix_noise(share, bounded):
    """The noise of many releases of one sum, by subtraction; one vector of R^(d²) a row."""
    source = Rows.of(X, Y)
    exact = bounded.of_block(Block(X, Y))
    noise = [noisy_sum(seed, share, source, bounded).value - exact for seed in range(DRAWS)]
    return np.array(noise).reshape(DRAWS, -1)


def sums(loss):
    """The two matrices with the paper's sensitivities of their means, times n."""
    risk = Risk.penalised(loss, 0.01, 60)
    size = 1 / (1 + np.exp(-np.linalg.norm(COEF)))
    papers = {"Logistic": (1 / 2, 2 * size**2), "HuberHinge": (2 * loss.curvature_bound, 2)}[
        type(loss).__name__
    ]
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
    risk, source = Risk.penalised(dp.Logistic(), 0.01, 60), Rows.of(X, Y)
    bounded = risk.curvature_sum(COEF)
    release = NoisySum("hessian", dp.ZCDP(1.0), bounded.bound)
    gate = gate_of(0, release)
    larger = NoisySum("hessian", dp.ZCDP(1.1), bounded.bound)
    with pytest.raises(dp.PrivacyError, match="hessian"):
        gate.release(larger, source, bounded)
    gate.release(release, source, bounded)
    with pytest.raises(dp.PrivacyError, match="hessian"):
        gate.release(release, source, bounded)
    with pytest.raises(dp.PrivacyError, match="estimate"):
        gate.release(LaplaceMinimum.of("estimate", dp.PureDP(1.0), risk, sharp=False), source, risk)


def total_rows(bound):
    return BoundedSum(lambda block: block.rows.sum(axis=0), bound)


def counted_rows(added):
    return BoundedCounts(lambda block: np.array([float(len(block))]), math.sqrt(2), added)


def risk_of(penalty):
    """Its minimum moves by 1/(60 penalty)."""
    return Risk.penalised(dp.Logistic(), penalty, 60)


BOOKED = {
    "sum": (NoisySum("step", dp.ZCDP(0.5), 2.0), total_rows, 2.0, 2.0 + 1e-9),
    "pure sum": (NoisySum("step", dp.PureDP(0.5), 2.0), total_rows, 2.0, 2.0 + 1e-9),
    "counts": (NoisyCounts("step", dp.PureDP(0.5), 2.0), counted_rows, 2.0, 2.0 + 1e-9),
    "minimum": (NoisyMinimum.of("step", dp.ZCDP(0.5), risk_of(0.1)), risk_of, 0.1, 0.1 - 1e-9),
}


@pytest.mark.parametrize("name", BOOKED)
def test_guarantee_booked_bound(name):
    """What may move by more than was booked is refused before a record is read; what moves by no
    more gets the noise that was booked.
    """
    release, what, booked, beyond = BOOKED[name]
    for fine in (booked, booked - (beyond - booked)):
        assert gate_of(0, release).release(release, Rows.of(X, Y), what(fine)).noise == release.law
    source = Watched()
    with pytest.raises(dp.PrivacyError, match="booked with the bound"):
        gate_of(0, release).release(release, source, what(beyond))
    assert not source.looked


def test_levels_that_move_by_more_than_was_booked_are_refused():
    release = ShownLevels("levels", dp.ZCDP(0.5), 1e-3, 1.0)
    assert gate_of(0, release).levels(release, LevelCounts(("a",), np.array([1e3]), 1.0))
    with pytest.raises(dp.PrivacyError, match="booked with the bound 1,"):
        gate_of(0, release).levels(release, LevelCounts(("a",), np.array([1e3]), math.sqrt(2)))


def test_a_bound_that_an_earlier_release_decides_scales_the_noise_of_its_sum():
    release = ScaledSum("scores", dp.ZCDP(0.5))
    for bound in (0.5, 2.0):
        law = gate_of(0, release).release(release, Rows.of(X, Y), total_rows(bound)).noise
        assert law.scale == pytest.approx(bound, rel=1e-3)
        assert law == NoisySum("scores", dp.ZCDP(0.5), bound).law


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, "1", None])
def test_a_release_without_a_bound_is_none(bound):
    for make in (
        lambda: NoisySum("step", dp.ZCDP(0.5), bound),
        lambda: NoisyCounts("step", dp.PureDP(0.5), bound),
        lambda: ShownLevels("step", dp.ZCDP(0.5), 1e-3, bound),
        lambda: NoisyMinimum("step", dp.ZCDP(0.5), bound),
    ):
        with pytest.raises(dp.BudgetError, match="positive finite"):
            make()


def test_a_perturbed_minimum_is_not_booked_as_a_sum_plus_noise():
    """Its privacy loss is larger than that of Gaussian noise at the same zCDP cost."""
    release, risk = NoisySum("estimate", dp.ZCDP(1.0), 1.0), Risk.penalised(dp.Logistic(), 0.1, 60)
    with pytest.raises(dp.PrivacyError, match="booked as a sum over records plus Gaussian noise"):
        gate_of(0, release).release(release, Rows.of(X, Y), risk)
    minimum = PerturbedMinimum.of("estimate", dp.ZCDP(1.0), risk)
    with pytest.raises(dp.PrivacyError, match="booked as objective perturbation"):
        gate_of(0, minimum).release(minimum, Rows.of(X, Y), risk.curvature_sum(COEF))


class Watched:
    """Rows that remember whether anybody looked."""

    n, dim, looked = 60, 3, False

    def total(self, of_block):
        self.looked = True
        return of_block(Block(X, Y))


def test_guarantee_booked_first():
    source, seen = Watched(), []

    class Book:
        def book(self, entry):
            seen.append((entry, source.looked))
            return "release"

    release = NoisySum("hessian", dp.ZCDP(1.0), 0.5)
    entry = Entry("test", "one record", (release,))
    gate = Gate(entry, Book())
    gate.release(release, source, Risk.penalised(dp.Logistic(), 0.01, 60).curvature_sum(COEF))
    assert seen == [(entry, False)]
    assert gate.release_id == "release"
    assert gate_of(0, release).release_id is None
    assert source.looked


def test_a_refused_fit_reads_no_record():
    source = Watched()
    recipe = Penalised(Design.of_rows(3), dp.Logistic(), default_plan(dp.ZCDP(2.0)), penalty=0.01)
    with pytest.raises(dp.LedgerError):
        fit(recipe, source, ledger=dp.Ledger(dp.ZCDP(1.0)))
    assert not source.looked


@pytest.mark.parametrize(
    "fault", [OSError("disk gone"), MemoryError(), KeyboardInterrupt()], ids=repr
)
def test_a_crash_after_booking_keeps_the_charge(fault):
    """Whatever stops a pass over the records: the spend stays booked, and nothing was released."""

    class Broken(Watched):
        def total(self, of_block):
            raise fault

    ledger = dp.Ledger(dp.ZCDP(1.0))
    recipe = Penalised(Design.of_rows(3), dp.Logistic(), default_plan(dp.ZCDP(0.5)), penalty=0.01)
    with pytest.raises(type(fault)):
        fit(recipe, Broken(), ledger=ledger)
    assert ledger.spent() == pytest.approx(0.5)


def test_a_release_has_the_parameters_that_were_booked():
    """A minimum is released with the noise that was booked, and of no other risk: the cost rests on
    both.
    """
    risk, source = (
        Risk.penalised(dp.Logistic(), 0.1, 100),
        Rows.of(np.full((100, 2), 0.5), np.ones(100)),
    )
    booked = {
        PerturbedMinimum.of("estimate", dp.ZCDP(0.5), risk): risk.perturbation_scale(
            0.5 * (1 - MASK)
        ),
        LaplaceMinimum.of("estimate", dp.PureDP(1.0), risk, sharp=False): risk.perturbation_rate(
            1 - MASK
        ),
    }
    others = [Risk.penalised(dp.Logistic(), 0.05, 100), Risk(dp.Logistic(), 5.0, 100)]
    for release, size in booked.items():
        (found,) = vars(gate_of(0, release).release(release, source, risk).noise).values()
        assert found == pytest.approx(size)
        for other in others:
            with pytest.raises(dp.PrivacyError, match="another ridge or loss"):
                gate_of(0, release).release(release, source, other)
    hinge = Risk.penalised(
        dp.HuberHinge(2.0), 0.1, 100
    )  # of the same curvature, but not of the logistic shape
    release = PerturbedMinimum.of("estimate", dp.ZCDP(0.5), risk)
    with pytest.raises(dp.PrivacyError, match="another loss"):
        gate_of(0, release).release(release, source, hinge)


def test_a_laplace_minimum_states_its_whole_cost():
    """Its curvature too, unless it is free; and what was booked as free is released for the
    logistic loss only.
    """
    hinge = Risk.penalised(dp.HuberHinge(0.01), 0.1, 10)
    understated = LaplaceMinimum("estimate", dp.PureDP(1.0), 0.4995, 25.0, 0.001)
    assert understated.cost() > 4
    with pytest.raises(dp.LedgerError, match="estimate"):
        dp.Ledger(dp.PureDP(9.0)).book(Entry("test", "one record", (understated,)))
    assert LaplaceMinimum.of("estimate", dp.PureDP(6.0), hinge, sharp=True).cost() == pytest.approx(
        6.0
    )
    logistic = Risk.penalised(dp.Logistic(), 0.1, 100)
    free = LaplaceMinimum.of("estimate", dp.PureDP(1.0), logistic, sharp=True)
    assert free.sharp
    assert free.cost() == pytest.approx(1.0)
    with pytest.raises(dp.PrivacyError, match="another loss"):
        free.noise(Risk.penalised(dp.HuberHinge(2.0), 0.1, 100))


def test_output_perturbation_that_is_not_proved_is_refused_before_booking():
    ledger, rng = dp.Ledger(dp.ZCDP(1.0)), np.random.default_rng(0)
    rows, y = rng.uniform(-0.5, 0.5, (1000, 2)), rng.uniform(-1, 1, 1000)
    plan = dp.Plan(dp.OutputPerturbation(), *dp.ZCDP(0.3).split(1, 1, 1))
    with pytest.raises(dp.BudgetError, match="not proved"):
        dp.infer(rows, y, loss=dp.Huber(1e-6), penalty=1e-3, plan=plan, ledger=ledger)
    assert ledger.entries() == ()
