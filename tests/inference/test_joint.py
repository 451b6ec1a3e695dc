"""One law for all coefficients: every line is a question to it, and every reason for one not reported
has its case.
"""

from dataclasses import replace

import numpy as np
import pytest

from dpinfer.inference.joint import (
    FEW,
    KNOWN,
    NO_EVENTS,
    REFERENCE,
    TAIL,
    TOGETHER,
    WEAK,
    Joint,
    VarianceTerm,
    doubled,
    event_allowance,
)

D = 5
EYE = np.eye(D)


def joint(**changes):
    """Two numbers and two levels of a factor, all of them well known."""
    H = np.diag([400.0, 300.0, 200.0, 100.0, 80.0])
    nothing = np.zeros(D)
    inverse = np.linalg.inv(H)
    plain = Joint(
        estimate=np.array([-0.5, 1.0, 0.5, 0.3, -0.2]),
        prior_mean=np.array([-0.4, 0.8, 0.5, 0.2, -0.3]),
        covariance=1.5 * inverse,
        sampling=inverse,
        sizes=np.full(D, 2.5),
        prior_sd=np.array([250.0, 2.5, 2.5, 2.5, 2.5]),
        basis=EYE,
        hessian=H,
        hessian_sd=np.full((D, D), 2.0),
        own=nothing,
        curvature_correction=nothing,
        bias_bound=nothing,
        few=nothing,
        toward=nothing,
        reference_few=nothing,
        reference_toward=nothing,
        group=np.array([-1.0, -1.0, -1.0, 2.0, 2.0]),
        withheld=nothing,
        centre=nothing,
        contrasts=EYE,
    )
    return replace(plain, **changes)


def why(law, vectors=EYE):
    return law.about(np.atleast_2d(vectors), 100, 1).why


def at(j, value):
    found = np.zeros(D)
    found[j] = value
    return found


def random_law(seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((D, 4 * D))
    H = 60 * root @ root.T
    basis = EYE + 0.2 * rng.standard_normal((D, D))
    covariance = np.linalg.inv(basis.T @ H @ basis)
    own = np.abs(rng.standard_normal(D))
    return joint(
        hessian=H,
        basis=basis,
        covariance=2 * covariance,
        sampling=covariance,
        own=own,
        curvature_correction=0.01 * own,
        few=np.array([0, 0, 0, 0.2, 0.1]),
        toward=np.array([0.0, 0, 0, 1, -1]),
        reference_few=np.array([0, 0, 0, 0.3, 0.3]),
        reference_toward=np.array([0.0, 0, 0, -1, -1]),
    )


QUESTIONS = np.array(
    [[0, 1.0, 1.0, 0, 0], [0, 0, 0, 1.0, -1.0], [1.0, 0, -0.5, 0, 2.0], [0, 0, 0, -1.0, 0]]
)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_prior_contrasts_of_lines_are_lines_of_contrasts(seed):
    """Own sizes are all that tells a combination from its lines; where they say nothing, the law is
    linear.
    """
    law = replace(random_law(seed), prior_sd=np.full(D, 1e6))
    single, together = law.about(EYE, 100, 1), law.about(QUESTIONS, 100, 1)
    assert together.estimate == pytest.approx(QUESTIONS @ single.estimate)
    assert together.law.covariance() == pytest.approx(
        QUESTIONS @ single.law.covariance() @ QUESTIONS.T
    )
    assert together.law.sampling == pytest.approx(QUESTIONS @ single.law.sampling @ QUESTIONS.T)


@pytest.mark.parametrize("seed", range(3))
def test_with_usual_sizes_it_is_nearly_linear(seed):
    """What is known has an error far below its size, so that dividing the size out moves next to
    nothing.
    """
    law = random_law(seed)
    single, together = law.about(EYE, 100, 1), law.about(QUESTIONS, 100, 1)
    error = np.sqrt(np.diag(together.law.covariance()))
    assert (np.abs(together.estimate - QUESTIONS @ single.estimate) < 0.02 * error).all()
    mapped = np.sqrt(np.diag(single.law.mapped(QUESTIONS).covariance()))
    assert error == pytest.approx(mapped, rel=0.02)


def test_the_own_size_is_divided_out():
    """A posterior with the prior N(line, S²) gives back the estimate and the variance that the
    records alone have.
    """
    alone, said, size, line = 0.3, 1.4, 2.5, 0.8
    variance = 1 / (1 / alone**2 + 1 / size**2)
    shrunk = line + (said - line) * variance / alone**2
    covariance = joint().covariance.copy()
    covariance[1, 1] = variance
    estimate = joint().estimate.copy()
    estimate[1] = shrunk
    found = joint(covariance=covariance, estimate=estimate).about(EYE, 100, 1)
    assert found.estimate[1] == pytest.approx(said)
    assert found.law.covariance()[1, 1] == pytest.approx(alone**2)


def test_what_has_no_information_of_its_own_stays_finite():
    covariance = joint().covariance.copy()
    covariance[1, 1] = 2.5**2
    found = joint(covariance=covariance).about(EYE, 100, 1)
    assert np.isfinite(found.estimate).all()
    assert np.isfinite(found.law.covariance()).all()
    assert found.why[1] == WEAK


def test_all_is_known_where_all_is_well():
    assert why(joint()) == (KNOWN,) * D
    assert joint().about(EYE, 100, 1).known.all()


def test_tail():
    law = joint(withheld=at(1, 1.0))
    assert why(law) == (KNOWN, TAIL, KNOWN, KNOWN, KNOWN)
    assert why(law, [0, 1.0, -1.0, 0, 0]) == (TAIL,)  # in a combination as well


def test_few_events():
    law = joint(few=at(3, 0.34))
    assert why(law) == (KNOWN, KNOWN, KNOWN, FEW, KNOWN)
    assert why(joint(few=at(3, 0.24))) == (KNOWN,) * D  # three deviations of its noise
    assert why(joint(few=at(3, NO_EVENTS)))[3] == FEW


def test_few_events_of_the_reference():
    """Both levels rest on it, and the intercept, as far as it is that of the reference; a
    difference does not.
    """
    law = joint(reference_few=np.array([0, 0, 0, NO_EVENTS, NO_EVENTS]))
    assert why(law) == (REFERENCE, KNOWN, KNOWN, REFERENCE, REFERENCE)
    elsewhere = replace(law, centre=np.array([0, 0, 0, 0.4, 0.6]))
    assert why(elsewhere)[0] == KNOWN
    assert why(law, [0, 0, 0, 1.0, -1.0]) == (KNOWN,)
    assert why(law, [0, 0, 0, 1.0, 1.0]) == (REFERENCE,)


def test_weak_by_its_error():
    """A standard error above 40 % of the size, or information below 2.5 deviations of its noise."""
    for error, word in ((0.39, KNOWN), (0.41, WEAK)):
        covariance = joint().covariance.copy()
        size = 2.5
        covariance[2, 2] = 1 / (1 / (error * size) ** 2 + 1 / size**2)
        assert why(joint(covariance=covariance))[2] == word
    for noise, word in ((79.0, KNOWN), (81.0, WEAK)):
        assert why(joint(own=at(2, noise)))[2] == word


def twins(correlation):
    H = joint().hessian.copy()
    H[1, 2] = H[2, 1] = correlation * np.sqrt(H[1, 1] * H[2, 2])
    return joint(hessian=H, covariance=1.5 * np.linalg.inv(H), sampling=np.linalg.inv(H))


def test_together():
    """Strong one by one, and not to be told apart: the other one is named."""
    law = twins(0.9995)
    assert why(law)[1:3] == (TOGETHER, TOGETHER)
    assert law.nearest(1) == 2
    assert law.nearest(2) == 1
    assert why(law, [0, np.sqrt(300.0), np.sqrt(200.0), 0, 0]) == (
        KNOWN,
    )  # what they have in common
    assert why(twins(0.5)) == (KNOWN,) * D


def test_the_signal_is_information_over_its_noise():
    """Against draws of the curvature, in a basis that is not that of the coefficients."""
    law = replace(random_law(4), own=np.zeros(D), hessian_sd=np.full((D, D), 0.3))
    rng = np.random.default_rng(5)
    upper = np.triu(rng.standard_normal((4000, D, D))) * 0.3
    drawn = law.hessian + upper + np.triu(upper, 1).mT
    inverse = np.linalg.inv(law.basis.T @ drawn @ law.basis)
    information = 1 / np.einsum("qi,sij,qj->sq", QUESTIONS, inverse, QUESTIONS)
    assert law.signal(QUESTIONS) == pytest.approx(
        information.mean(axis=0) / information.std(axis=0), rel=0.06
    )


@pytest.mark.parametrize("seed", range(3))
def test_other_units_ask_the_same_questions(seed):
    """A line of the formula is a column's times its units: answers, reasons and allowances are
    those of that column.
    """
    law = random_law(seed)
    units = np.diag([3.0, 0.1, 20.0, 3.0, 3.0])
    first, other = (
        law.about(QUESTIONS @ units, 100, 1),
        replace(law, contrasts=units).about(QUESTIONS, 100, 1),
    )
    assert other.estimate == pytest.approx(first.estimate)
    assert other.law.covariance() == pytest.approx(first.law.covariance())
    assert other.why == first.why
    single, scaled = law.about(EYE, 100, 1), replace(law, contrasts=units).about(EYE, 100, 1)
    assert scaled.why == single.why
    assert scaled.estimate == pytest.approx(units @ single.estimate)
    assert scaled.law.above == pytest.approx(units @ single.law.above)


def test_a_question_of_ten_is_ten_times_the_answer():
    """Ten years are as well known as one: whether there is an interval does not depend on the size
    of a question.
    """
    law = replace(random_law(2), own=np.full(D, 30.0))
    for question in QUESTIONS:
        for factor in (0.01, 10.0, -1.0):
            first, other = (
                law.about(question[None], 100, 1),
                law.about(factor * question[None], 100, 1),
            )
            assert other.why == first.why
            assert other.estimate == pytest.approx(factor * first.estimate)
            assert law.signal(factor * question[None]) == pytest.approx(law.signal(question[None]))


def test_the_own_doubt_of_a_column_is_that_of_its_direction():
    """Of a difference of two columns alike each has half the way, so that their doubt counts for
    less than of one.
    """
    H = np.diag([400.0, 200.0, 200.0, 100.0, 80.0])
    law = joint(hessian=H, own=np.array([0, 20.0, 20.0, 0, 0]), hessian_sd=np.full((D, D), 1e-6))
    one, both = law.signal(np.array([[0, 1.0, 0, 0, 0], [0, 1.0, -1.0, 0, 0]]))
    assert one == pytest.approx(200 / 20)
    assert both == pytest.approx(100 / (20 * np.sqrt(2) / 4))


def test_a_shift_moves_the_intercept_alone():
    law = random_law(1)
    first, other = law.about(EYE, 100, 1), replace(law, shift=7.0).about(EYE, 100, 1)
    assert other.estimate - first.estimate == pytest.approx([7.0, 0, 0, 0, 0])
    assert other.law.covariance() == pytest.approx(first.law.covariance())
    assert replace(law, shift=7.0).coef - law.coef == pytest.approx([7.0, 0, 0, 0, 0])


def ends(law, vector):
    found = law.about(np.array([vector]), 100, 1).law
    return float(found.below[0]), float(found.above[0])


def test_allowances_are_on_the_side_to_which_fewer_events_would_move():
    few = joint(few=at(3, 0.3), toward=at(3, 1.0))
    size = float(event_allowance(np.array([0.3]))[0])
    assert size == pytest.approx(-np.log(0.4) - 0.6)
    assert ends(few, EYE[3]) == pytest.approx((0.0, size))
    assert ends(few, -EYE[3]) == pytest.approx((size, 0.0))
    assert ends(replace(few, toward=at(3, -1.0)), EYE[3]) == pytest.approx((size, 0.0))
    assert ends(few, 2 * EYE[3]) == pytest.approx((0.0, 2 * size))
    assert ends(few, EYE[4]) == (0.0, 0.0)


def test_allowances_for_the_reference_are_the_other_way_round():
    """A reference that would run down moves what is compared with it up; two levels of a factor
    cancel it.
    """
    few = np.array([0, 0, 0, 0.3, 0.3])
    toward = np.array([0.0, 0, 0, -1, -1])
    law = joint(reference_few=few, reference_toward=toward)
    size = float(event_allowance(np.array([0.3]))[0])
    assert ends(law, EYE[3]) == pytest.approx((0.0, size))
    assert ends(law, EYE[4]) == pytest.approx((0.0, size))
    assert ends(law, EYE[3] - EYE[4]) == (0.0, 0.0)
    assert ends(law, EYE[3] + EYE[4]) == pytest.approx((0.0, 2 * size))


def test_longer_tails_of_an_earlier_version_are_allowed_for_on_their_side():
    """A saved result may have this allowance: intervals of its contrasts keep it."""
    law = joint(tail_allowance=at(3, 0.3))
    assert ends(law, EYE[3]) == pytest.approx((0.0, 0.3))
    assert ends(law, -EYE[3]) == pytest.approx((0.3, 0.0))
    assert ends(replace(law, tail_allowance=at(3, -0.3)), 2 * EYE[3]) == pytest.approx((0.6, 0.0))
    assert ends(law, EYE[4]) == (0.0, 0.0)


def test_bends_are_allowed_for_at_both_ends():
    law = joint(curvature_correction=np.array([0, 0.1, 0.2, 0, 0]))
    assert ends(law, EYE[1] - EYE[2]) == pytest.approx((0.3, 0.3))


def test_an_allowance_grows_with_the_doubt_and_stays_finite():
    found = event_allowance(np.array([0.0, 0.1, 0.2, 0.4, NO_EVENTS]))
    assert found[0] == 0
    assert (np.diff(found) > 0).all()
    assert np.isfinite(found).all()


def test_entries_beside_the_diagonal_count_twice():
    assert doubled(np.array([[1.0, 2.0], [2.0, 3.0]])).tolist() == [[1.0, 4.0], [4.0, 3.0]]


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_the_variance_add_up_and_do_not_depend_on_the_centre(seed):
    law = random_law(seed)
    terms = (
        VarianceTerm("privacy_noise", 0.5 * law.sampling),
        VarianceTerm("bias_bound", 0.2 * law.sampling),
    )
    law = replace(law, terms=terms)
    found = law.variance_shares(QUESTIONS)
    # covariance is twice sampling
    expected = {"sampling": 0.5, "privacy_noise": 0.25, "bias_bound": 0.1, "hessian": 0.15}
    assert found.keys() == expected.keys()
    for name, share in expected.items():
        assert np.allclose(found[name], share)
    further = np.array([0.0, 1.0, -2.0, 0.5, 0.3])
    away = law.at(further)
    back = QUESTIONS.copy()
    back[:, 1:] -= np.outer(QUESTIONS[:, 0], further[1:])
    for name, shares in away.variance_shares(back).items():
        assert np.allclose(shares, found[name])
