"""From exact sums to coefficients: the ordinary ones with their sandwich, in whatever units and
references.
"""

from dataclasses import replace

import numpy as np
import pytest

from dpinfer.inference.joint import NO_EVENTS
from dpinfer.inference.moments import Columns
from dpinfer.inference.posterior import (
    Equation,
    enough_events,
    events,
    infer,
    log_odds_sizes,
    outcome_sizes,
    relative_noise,
)
from helpers.handmade import QUIET, Records, at_centre, columns_of, mixed, to_centre

FAMILIES = pytest.mark.parametrize("logit", [True, False], ids=["logit", "identity"])


def said(fit, clipped=None):
    """What is concluded; ``clipped`` are the numbers with a tail where nothing else is said."""
    return infer(Equation.of(fit), fit.withheld if clipped is None else clipped, 200, 1)


def errors(found):
    return np.sqrt(np.diag(found.answers.law.covariance()))


@FAMILIES
@pytest.mark.parametrize("seed", range(3))
def test_at_the_ordinary_coefficients_the_law_is_the_sandwich(logit, seed):
    data = mixed(seed=seed, logit=logit)
    coef, covariance = data.ordinary()
    found = said(data.fit(coef))
    to = to_centre(found.centre)
    assert found.reported.all()
    assert found.coef == pytest.approx(to @ coef, abs=1e-9)
    exact = to @ covariance @ to.T
    size = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert found.answers.law.covariance() / size == pytest.approx(exact / size, abs=2e-3)
    assert found.answers.law.above == pytest.approx(0, abs=1e-9)
    assert found.answers.law.below == pytest.approx(0, abs=1e-9)
    plain = to @ coef
    half = 1.959964 * np.sqrt(np.diag(to @ covariance @ to.T))
    interval = np.column_stack([plain - half, plain + half])
    assert found.answers.law.interval(found.coef, 0.95) == pytest.approx(
        interval, abs=2e-3 * half.max()
    )


@FAMILIES
def test_the_bias_of_a_score_is_in_the_error_and_no_sampling(logit):
    """Its second moment adds to the covariance of the score, moves no coefficient, and is not counted
    as sampling of the records.
    """
    data = mixed(logit=logit)
    fit = data.fit(data.ordinary()[0])
    plain = said(fit)
    biased = said(replace(fit, bias=3 * fit.score_cov))
    assert biased.coef == pytest.approx(plain.coef, abs=1e-6)
    assert errors(biased) == pytest.approx(2 * errors(plain), rel=0.01)
    assert biased.answers.law.sampling == pytest.approx(plain.answers.law.sampling, rel=0.05)


@FAMILIES
def test_a_bias_along_one_column_moves_others_as_they_correlate(logit):
    """A score that is off by b along column 1 moves coefficients by H^(-1) b e₁: its square is what
    variances gain.
    """
    data = mixed(logit=logit)
    fit = data.fit(data.ordinary()[0])
    along = np.linalg.solve(fit.back.T, np.eye(5))[:, 1]
    hessian = fit.back.T @ fit.last.hessian @ fit.back
    size2 = 16 * (fit.back.T @ fit.score_cov @ fit.back)[1, 1]
    biased = said(replace(fit, bias=size2 * np.outer(along, along)))
    gained = size2 * np.linalg.inv(hessian)[1:, 1] ** 2
    assert gained[1] > 2 * errors(said(fit))[2] ** 2  # the number that column 1 correlates with
    assert errors(biased)[1:] ** 2 == pytest.approx(errors(said(fit))[1:] ** 2 + gained, rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_least_squares_is_exact_from_any_line(seed):
    data = mixed(seed=seed, logit=False)
    coef, covariance = data.ordinary()
    line = coef + 0.3 * np.random.default_rng(seed).standard_normal(5)
    found = said(data.fit(line))
    assert found.coef == pytest.approx(
        at_centre(coef, found.centre), abs=3e-3 * np.sqrt(covariance[1, 1])
    )
    assert (
        errors(found)[1:] >= 0.999 * np.sqrt(np.diag(covariance))[1:]
    ).all()  # residuals from a bad line are longer


@pytest.mark.parametrize(("part", "tolerance"), [(0.9, 0.01), (0.7, 0.05), (0.5, 0.3)])
def test_a_logistic_step_ends_at_the_ordinary_coefficients(part, tolerance):
    """From a line a part of the way off: within this many standard errors, and within what is
    allowed for.
    """
    data = mixed()
    coef, covariance = data.ordinary()
    found = said(data.fit(part * coef))
    off = found.coef - at_centre(coef, found.centre)
    to = to_centre(found.centre)
    assert (np.abs(off) <= tolerance * np.sqrt(np.diag(to @ covariance @ to.T))).all()
    assert (np.abs(off)[1:] <= found.answers.law.above[1:]).all()


@FAMILIES
def test_the_rest_takes_back_what_a_step_leaves(logit):
    """After a step the estimate is as good as from the line where it ends; without its rest it
    would be off.
    """
    data = mixed(logit=logit, effect=1.5)
    coef, covariance = data.ordinary()
    fit = data.fit(0.6 * coef, 0.35 * coef)
    found = said(fit)
    off = np.abs(found.coef - at_centre(coef, found.centre))[1:] / np.sqrt(np.diag(covariance))[1:]
    assert (off < 0.05).all()
    if logit:
        without = said(replace(fit, last=replace(fit.last, remainder=np.zeros(5))))
        assert (
            np.abs(without.coef - found.coef)[1:3] > 0.4 * np.sqrt(np.diag(covariance))[1:3]
        ).all()


def releases(data, noise, coef, seed=1):
    """A fit with noise that is really there."""
    rng = np.random.default_rng(seed)
    fit = data.fit(coef, noise=noise)
    Z = rng.standard_normal((2, 5, 5)) * noise / np.sqrt(2)
    last = replace(
        fit.last,
        score=fit.last.score + noise * rng.standard_normal(5),
        hessian=fit.last.hessian + (Z[0] + Z[0].T) / np.sqrt(2),
        score_cov=fit.last.score_cov + (Z[1] + Z[1].T) / np.sqrt(2),
    )
    return replace(fit, last=last)


def same(found, other, slopes=slice(1, None), tolerance=1e-6):
    """Estimates and errors of slopes, within a part of a standard error."""
    size = errors(found)[slopes]
    assert (np.abs(found.coef - other.coef)[slopes] <= tolerance * size).all()
    assert errors(other)[slopes] == pytest.approx(size, rel=tolerance)
    assert found.reported.tolist() == other.reported.tolist()


@pytest.mark.parametrize("noise", [QUIET, 3.0])
def test_units_change_nothing_else(noise):
    """A number in half its units: the geometry takes it up, and the coefficient doubles.

    A logistic fit takes the size of third derivatives from the range of a number, which a whole fit
    keeps.
    """
    data = mixed(logit=False)
    coef = 0.8 * data.ordinary()[0]
    scale = np.array([1, 1, 0.5, 1, 1])
    first = said(releases(data, noise, coef))
    other = said(releases(data.with_columns(data.x * scale), noise, coef / scale))
    assert other.coef * scale == pytest.approx(first.coef, rel=1e-6)
    assert errors(other) * scale == pytest.approx(errors(first), rel=1e-6)
    assert other.reported.tolist() == first.reported.tolist()


@FAMILIES
@pytest.mark.parametrize("noise", [QUIET, 3.0])
def test_the_order_of_columns_changes_nothing(logit, noise):
    data = mixed(logit=logit)
    coef = 0.8 * data.ordinary()[0]
    order = np.array([0, 3, 4, 2, 1])
    columns = Columns(data.columns.dummy[order], data.columns.group[order])
    fit = releases(data, noise, coef)
    turned = data.with_columns(data.x[:, order], columns).fit(coef[order], noise=noise)
    shuffled = np.ix_(order, order)
    last = replace(
        turned.last,
        score=fit.last.score[order],
        hessian=fit.last.hessian[shuffled],
        score_cov=fit.last.score_cov[shuffled],
    )
    first, other = said(fit), said(replace(turned, last=last))
    assert other.coef == pytest.approx(first.coef[order], rel=1e-6)
    assert errors(other) == pytest.approx(errors(first)[order], rel=1e-6)


@FAMILIES
def test_a_constant_added_to_a_column_changes_nothing(logit):
    """The intercept is at the centre, so that it stays as well."""
    data = mixed(logit=logit)
    coef = 0.9 * data.ordinary()[0]
    moved = data.with_columns(data.x + np.array([0, 0.2, -0.1, 0, 0]))
    there = coef.copy()
    there[0] -= coef[1:3] @ [0.2, -0.1]
    first, other = said(data.fit(coef)), said(moved.fit(there))
    same(first, other, slice(None), 1e-3)


@FAMILIES
def test_another_reference_changes_contrasts_alone(logit):
    """b against a is minus a against b, and c against b the difference; numbers stay."""
    data = mixed(logit=logit)
    coef = 0.9 * data.ordinary()[0]
    x = data.x.copy()
    x[:, 3] = 1 - data.x[:, 3] - data.x[:, 4]  # a, with b as the reference
    turn = np.eye(5)
    turn[0, 3] = 1.0
    turn[3, 3] = -1.0
    turn[4, 3] = -1.0
    first, other = said(data.fit(coef)), said(data.with_columns(x).fit(turn @ coef))
    same(first, other, slice(1, 3), 2e-3)
    wanted = turn[3:] @ first.coef
    law = first.answers.law.mapped(turn[3:])
    assert other.coef[3:] == pytest.approx(wanted, abs=2e-3 * errors(other)[3])
    assert errors(other)[3:] == pytest.approx(np.sqrt(np.diag(law.covariance())), rel=2e-3)


@FAMILIES
def test_plausible_sizes_pull_nothing_that_is_printed(logit):
    """S says what others may be, and when one is not reported: a printed estimate hardly knows it."""
    data = mixed(logit=logit)
    coef = 0.6 * data.ordinary()[0]
    fit = releases(data, 1.0, coef)
    outcome = (
        fit
        if logit
        else replace(fit, sizes=outcome_sizes(fit.spread, data.columns.dummy, data.y.std()))
    )
    one = said(outcome)
    two = said(replace(outcome, sizes=2 * outcome.sizes))
    assert one.reported.all()
    assert two.reported.all()
    assert (np.abs(one.coef - two.coef) < 0.15 * errors(one)).all()
    assert (
        np.abs(one.coef - at_centre(coef, one.centre))[1:3] > errors(one)[1:3]
    ).all()  # it went a long way
    assert errors(two) == pytest.approx(errors(one), rel=0.15)


def test_a_column_that_is_silent_keeps_its_size_and_leaves_the_others_alone():
    """A constant column: not reported, with a large variance, and the others are as without it."""
    data = mixed()
    coef, covariance = data.ordinary()
    x = np.column_stack([data.x, np.full(len(data.x), 0.3)])
    columns = columns_of([False, False, True, True, False], [0, 1, 2, 2, 3])
    with_it = Records(x, data.y, columns)
    line = np.append(coef, 0.0)
    fit = replace(with_it.fit(line, noise=1e-3), centre=np.append(data.fit(coef).centre, 0.3))
    found = said(fit)
    assert found.reported.tolist() == [False, True, True, True, True, False]
    assert found.coef[1:5] == pytest.approx(coef[1:], abs=0.02 * np.sqrt(covariance[1, 1]))
    assert errors(found)[1:5] == pytest.approx(np.sqrt(np.diag(covariance))[1:], rel=0.05)
    assert found.joint.covariance[5, 5] > (0.05 * fit.sizes[5]) ** 2


def test_sizes_are_per_level_and_per_deviation():
    spread, dummy = np.array([1.0, 0.25, 0.3]), np.array([False, False, True])
    assert log_odds_sizes(spread, dummy).tolist() == [2.5, 5.0, 2.5]
    assert outcome_sizes(spread, dummy, 0.1) == pytest.approx([0.2, 0.4, 0.2])


def test_the_law_at_another_centre_is_the_same_law():
    """Questions about slopes have the same answers; the level is that of other records."""
    joint = Equation.of(mixed().fit([-0.2, 0.8, -1.0, 0.4, -0.5], noise=1.0)).posterior()
    further = np.array([0.0, 0.3, -0.2, 0.1, 0.0])
    moved = joint.at(further)
    question = np.array([[0, 1.0, 0, 0, 0], [0, 0, 1, -1, 0], [0, 0, 0, 1, 1]])
    first, other = joint.about(question, 100, 1), moved.about(question, 100, 1)
    assert other.estimate == pytest.approx(first.estimate)
    assert other.law.covariance() == pytest.approx(first.law.covariance())
    assert joint.signal(question) == pytest.approx(moved.signal(question))
    level = np.eye(5)[:1]
    assert moved.about(level, 100, 1).estimate == pytest.approx(
        joint.about(level @ to_centre(further), 100, 1).estimate
    )
    assert moved.about(level, 100, 1).law.covariance() == pytest.approx(
        joint.about(level @ to_centre(further), 100, 1).law.covariance(), rel=1e-3
    )
    # what is unsure of single columns counts where they are in a question; the rest is about all
    # columns, wherever the centre is
    here, there = (replace(one, own=np.zeros(5)) for one in (joint, moved))
    assert there.signal(level) == pytest.approx(here.signal(level @ to_centre(further)))


def random_lines(seed):
    """Records with rare levels and rare outcomes, and any lines at all."""
    rng = np.random.default_rng(seed)
    n = 800
    level = rng.choice(4, n, p=[0.1, 0.5, 0.35, 0.05])
    x = np.column_stack(
        [np.ones(n), rng.uniform(-1, 1, n), level == 1, level == 2, level == 3]
    ).astype(float)
    chance = np.array([0.02, 0.3, 0.9, 0.5])[rng.permutation(4)]
    data = Records(
        x,
        (rng.random(n) < chance[level]).astype(float),
        columns_of([False, True, True, True], [0, 1, 1, 1]),
    )
    return data, level, rng


def counted(data):
    """Directions c with c·(1, x) = 1 for the records of the reference and of each level, and 0 for
    the others.
    """
    found = np.zeros((5, 4))
    found[0, 0] = 1.0
    found[2:, 0] = -1.0
    found[[2, 3, 4], [1, 2, 3]] = 1.0
    assert set(np.unique(data.x @ found)) == {0.0, 1.0}
    return found


def numbers(v, hessian, score):
    """The lower estimates themselves: with noise of the score alone, their doubt is ‖v‖ over them."""
    doubt = relative_noise(v, hessian, -np.abs(score @ v), (0.0, 1.0))
    return np.where(doubt < NO_EVENTS, np.linalg.norm(v, axis=0) / doubt, 0.0)


@pytest.mark.parametrize("seed", range(12))
def test_events_are_a_lower_bound_at_any_line(seed):
    """Of the rarer outcomes of each level and of the reference: p >= p(1 - p), so no line can claim
    more.
    """
    data, level, rng = random_lines(seed)
    true = np.array(
        [min(data.y[level == k].sum(), (1 - data.y[level == k]).sum()) for k in range(4)]
    )
    v = np.linalg.inv(data.matrix).T @ counted(data)
    largest = np.zeros(4)
    for scale in (0.0, 0.5, 1.0, 2.0, 5.0):
        for _ in range(8):
            last = data.fit(scale * rng.standard_normal(5)).last
            found = numbers(v, last.hessian, last.score)
            assert (found <= true + 1e-6).all()
            largest = np.maximum(largest, found)
    assert (largest[true >= 20] > 0).all()  # a good line does find some


@pytest.mark.parametrize("seed", range(4))
def test_at_the_line_0_events_are_counted_exactly(seed):
    data, level, _ = random_lines(seed)
    true = np.array(
        [min(data.y[level == k].sum(), (1 - data.y[level == k]).sum()) for k in range(4)]
    )
    moments = data.moments()
    found = numbers(
        moments.back.T @ counted(data),
        moments.released / 2,
        np.linalg.solve(moments.back, moments.score),
    )
    assert found == pytest.approx(np.where(true >= 8, true, 0.0))


def test_events_at_the_level_means_are_what_curvature_says():
    """With the line at the share p of each level there are n p(1 - p): nearly all where p is small."""
    data, level, _ = random_lines(0)
    share = np.array([data.y[level == k].mean() for k in range(4)])
    logit = np.log(share / (1 - share))
    last = data.fit([logit[0], 0.0, *(logit[1:] - logit[0])]).last
    found = numbers(np.linalg.inv(data.matrix).T @ counted(data), last.hessian, last.score)
    wanted = np.array([(level == k).sum() * share[k] * (1 - share[k]) for k in range(4)])
    assert found == pytest.approx(np.where(wanted >= 8, wanted, 0.0), rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_surer_release_says_how_many_events_there_are(seed):
    """Noise of both releases: doubt is never below that of the exact number, which the line 0
    gives.
    """
    data, level, rng = random_lines(seed)
    true = np.array(
        [min(data.y[level == k].sum(), (1 - data.y[level == k]).sum()) for k in range(4)]
    )
    fit = data.fit(rng.standard_normal(5), noise=0.3)
    found = events(fit)
    v = np.linalg.inv(data.matrix).T @ counted(data)
    length = np.linalg.norm(v, axis=0)
    at_zero = np.hypot(0.15 * length**2, 0.3 * length) / np.maximum(true, 8)
    at_zero[true < 8] = NO_EVENTS
    assert not found.level[:2].any()
    assert not found.reference[:2].any()
    assert (found.level[2:] <= at_zero[1:] * (1 + 1e-9)).all()
    assert found.reference[2:] == pytest.approx(np.full(3, found.reference[2]))
    assert (found.level[2:][true[1:] < 8] == NO_EVENTS).all()
    assert (found.reference[2] == NO_EVENTS) == (true[0] < 8)


def test_a_level_would_run_where_its_outcomes_are():
    data, level, _ = random_lines(3)
    share = np.array([data.y[level == k].mean() for k in range(4)])
    logit = np.log(share / (1 - share))
    found = events(data.fit([logit[0], 0.0, *(logit[1:] - logit[0])]))
    assert found.level_toward[2:].tolist() == np.sign(logit[1:]).tolist()
    assert found.reference_toward[2:].tolist() == [np.sign(logit[0])] * 3


@pytest.mark.parametrize(
    ("ones", "noise", "sure"),
    [(0, 1e-7, False), (5, 1e-7, False), (400, 1e-7, True), (400, 1e3, False)],
)
def test_two_classes(ones, noise, sure):
    """8 events of the rarer outcome and three deviations of the noise more."""
    data = mixed()
    y = np.zeros(len(data.x))
    y[:ones] = 1.0
    share = max(ones, 1) / len(y)
    fit = replace(data, y=y).fit([np.log(share / (1 - share)), 0, 0, 0, 0], noise=noise)
    assert enough_events(fit) == sure
    assert said(fit).reported.any() == sure


def test_one_class_has_no_line_at_all():
    data = mixed()
    found = said(replace(data, y=np.ones(len(data.x))).fit([4.0, 0.5, 0.0, 0.0, 0.0]))
    assert not found.reported.any()
    assert not len(found.alternatives.estimate)


def scarce_reference(seed=2):
    """A factor whose reference has three events, and two common levels."""
    rng = np.random.default_rng(seed)
    n = 6000
    level = rng.choice(3, n, p=[0.2, 0.4, 0.4])
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, n), level == 1, level == 2]).astype(float)
    y = (rng.random(n) < np.array([0.0, 0.3, 0.5])[level]).astype(float)
    y[np.flatnonzero(level == 0)[:3]] = 1.0
    return Records(x, y, columns_of([False, True, True], [0, 1, 1]))


def test_against_another_level_where_the_reference_has_no_events():
    """Neither level is reported; the difference of the two is known, and so is the number."""
    data = scarce_reference()
    found = said(data.fit(data.ordinary()[0], noise=1e-3))
    assert found.reported.tolist() == [False, True, False, False] or found.reported.tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert found.answers.why[2:] == ("reference", "reference")
    assert len(found.alternative_columns) == 1
    j, base = found.alternative_columns[0]
    assert {j, base} == {2, 3}
    share = np.array([data.y[data.x[:, k] == 1].mean() for k in (2, 3)])
    odds = dict(zip((2, 3), np.log(share / (1 - share)), strict=True))
    assert found.alternatives.estimate[0] == pytest.approx(odds[j] - odds[base], abs=0.05)


def test_the_intercept_is_at_the_reference_of_levels_not_reported_and_goes_with_a_number():
    data = scarce_reference()
    coef = data.ordinary()[0]
    found = said(data.fit(coef, noise=1e-3))
    assert found.centre[2:].tolist() == [0.0, 0.0]
    tail = said(replace(data.fit(coef, noise=1e-3), withheld=np.array([False, True, False, False])))
    assert not tail.reported[0]
    assert tail.answers.why[1] == "tail"
    assert (1, -1) in tail.alternative_columns  # also where nothing at all is printed
    ordinary = said(
        replace(data.fit(coef, noise=1e-3), withheld=np.array([False, True, False, False])),
        np.zeros(4, bool),
    )
    assert not [
        column for column in ordinary.alternative_columns if column[1] < 0
    ]  # it was not clipped


@pytest.mark.parametrize("kind", ["score", "curvature"])
def test_noise_of_either_release_may_hide_a_class(kind):
    """There must be three deviations more than 8 events: of the noise of the score, σ‖v‖, and of
    the curvature, h‖v‖².
    """
    data = mixed()
    y = np.zeros(len(data.x))
    y[:400] = 1.0
    fit = replace(data, y=y).fit([np.log(400 / 5600), 0, 0, 0, 0])
    level = fit.back[:, 0]
    length = np.linalg.norm(level)
    number = level @ fit.last.hessian @ level - abs(fit.last.score @ level)
    for factor, sure in ((0.99, True), (1.01, False)):
        noise = factor * (number - 8) / 3
        if kind == "score":
            last = replace(fit.last, score_noise=noise / length)
        else:
            last = replace(fit.last, scales=replace(fit.last.scales, hessian=noise / length**2))
        assert enough_events(replace(fit, last=last)) == sure


def with_score_cov(fit, score_cov, noise):
    """The same fit with another released V, and its noise."""
    scales = replace(fit.last.scales, score_cov=noise)
    return replace(fit, last=replace(fit.last, score_cov=score_cov, scales=scales))


@pytest.mark.parametrize("size", [0.0, 1e-6, -1.0])
def test_a_score_covariance_below_its_noise_is_taken_for_the_noise(size):
    """Least squares: what noise hides may be as large as the noise, and an interval must allow for
    that.
    """
    data = mixed(logit=False)
    fit = data.fit(data.ordinary()[0])
    noise = 3.0
    found = with_score_cov(fit, size * np.eye(5), noise).score_cov
    assert np.trace(found) == pytest.approx(noise * np.sqrt(5), rel=1e-6)
    shape = fit.last.hessian / np.trace(fit.last.hessian)
    assert found / np.trace(found) == pytest.approx(shape, abs=1e-6)


def test_the_score_covariance_is_known_better_than_released():
    """Where the model is right it is near a multiple of H, which has less noise; without noise it
    is as released.
    """
    data = mixed()
    fit = data.fit(data.ordinary()[0])
    exact = fit.last.score_cov
    assert with_score_cov(fit, exact, QUIET).score_cov == pytest.approx(exact, abs=1e-3)
    noise = np.linalg.norm(exact) / 10
    off = []
    for seed in range(40):
        Z = noise / 2 * np.random.default_rng(seed).standard_normal((5, 5))
        noisy = exact + Z + Z.T
        found = with_score_cov(fit, noisy, noise).score_cov
        off.append([np.linalg.norm(found - exact), np.linalg.norm(noisy - exact)])
    known, released = np.mean(off, axis=0)
    assert known < 0.7 * released


def test_a_bend_is_half_the_square_of_the_step():
    """In log-odds, of a level as of a deviation of a number; a quadratic risk has none."""
    data = mixed()
    fit = data.fit(0.6 * data.ordinary()[0])
    law = Equation.of(fit).posterior()
    step = law.estimate - law.prior_mean
    assert (np.abs(step) > 0.01).all()
    size = np.array([fit.spread[0], fit.spread[1], fit.spread[2], 1.0, 1.0])
    assert law.curvature_correction == pytest.approx(step**2 * size / 2)
    plain = mixed(logit=False)
    straight = Equation.of(plain.fit(0.6 * plain.ordinary()[0])).posterior()
    assert not straight.curvature_correction.any()


@pytest.mark.parametrize(("records", "known"), [(10, False), (14, False), (16, True), (200, True)])
def test_a_level_of_few_records_is_not_reported_in_least_squares(records, known):
    """Its mean is not near normal below 15 of them, however well it is known."""
    rng = np.random.default_rng(0)
    n = 4000
    level = np.arange(n) < records
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, n), level]).astype(float)
    y = 0.3 * x[:, 1] + 0.2 * level + 1e-4 * rng.standard_normal(n)
    data = Records(x, y, columns_of([False, True]), logit=False)
    found = said(data.fit(data.ordinary()[0]))
    assert found.reported[2] == known
    assert found.answers.why[2] == ("known" if known else "few")
