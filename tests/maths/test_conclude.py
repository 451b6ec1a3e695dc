"""What is left out and what stays: exact for a quadratic risk, and a choice that shortens intervals."""

from dataclasses import replace

import numpy as np
import pytest
from dpinfer.maths.conclude import Ground, conclude, estimates, rests, split, stay_or_leave

from dpinfer.maths.aside import block
from dpinfer.maths.moments import Indices, raised
from handmade import SCALES, STRONG

EXACT = replace(SCALES, hessian=1e-6)
NONE: Indices = np.zeros(0, dtype=np.intp)


def quadratic(seed=0, hessian=1e-6, spread=1.0):
    """A fit of a quadratic risk with minimum at ``best``: its gradient is known everywhere."""
    rng = np.random.default_rng(seed)
    E, B = rng.standard_normal((4, 4)) + 3 * np.eye(4), rng.standard_normal((4, 4)) * spread
    H = B @ B.T * 40 + 200 * np.eye(4)
    theta, best = rng.standard_normal(4), rng.standard_normal(4)
    g = H @ E @ (best - theta)
    fit = replace(STRONG, hessian=H, released=H, back=E, coef=theta, gradient=g)
    return replace(fit, scales=replace(SCALES, hessian=hessian)), best


def restricted(fit, best, model):
    """Minimum of the quadratic risk over coefficients of the model's columns alone."""
    K = fit.back.T @ fit.hessian @ fit.back
    return np.linalg.solve(K[np.ix_(model, model)], K[model] @ best)


def chosen(fit, S, N):
    ground, out = Ground.of(fit, S), np.setdiff1d(np.arange(len(fit)), np.concatenate([S, N]))
    return split(ground, N, rests(ground, N, out)[0])


def estimate(fit, S, N):
    return estimates(Ground.of(fit, S), chosen(fit, S, N))[0]


@pytest.mark.parametrize("twin", [False, True])
def test_what_is_left_is_beyond_the_columns_of_the_model(twin):
    """As least squares finds it, for every column that may stay; also where one is the twin of another."""
    rng = np.random.default_rng(3)
    E = rng.standard_normal((9, 9))
    if twin:
        E[:, 7] = E[:, 2]
    coef, S, N = rng.standard_normal(9), np.array([0, 2, 5]), np.array([4])
    out = np.array([1, 3, 6, 7, 8])
    ground = replace(Ground.of(quadratic()[0], np.array([0, 1])), fit=replace(STRONG, back=E, coef=coef), S=S)

    def least_squares(model):
        Z = np.setdiff1d(np.arange(9), model)
        r = E[:, Z] @ coef[Z]
        return r - E[:, model] @ np.linalg.lstsq(E[:, model], r, rcond=None)[0]

    rest, after = rests(ground, N, out)
    assert rest == pytest.approx(least_squares(np.append(S, N)))
    for j, beyond in zip(out, after, strict=True):
        assert beyond == pytest.approx(least_squares(np.concatenate([S, N, [j]])))


@pytest.mark.parametrize("S", [[0, 1, 2, 3], [0, 2], [0, 1, 3]])
def test_leaving_columns_out_is_exact_for_a_quadratic_risk(S):
    fit, best = quadratic()
    kept = np.array(S)
    assert estimate(fit, kept, NONE) == pytest.approx(restricted(fit, best, kept), rel=1e-6)


def test_a_twin_hands_its_effect_over_at_no_cost():
    fit, _ = quadratic()
    E = fit.back.copy()
    E[:, 3] = E[:, 1]
    twin = replace(fit, back=E, scales=replace(SCALES, hessian=5.0), gradient=np.zeros(4))
    kept = np.array([0, 1, 2])
    assert estimate(twin, kept, NONE) == pytest.approx(fit.coef[:3] + np.array([0, fit.coef[3], 0]))
    assert chosen(twin, kept, NONE).step == pytest.approx(0, abs=1e-9)


def test_the_noise_of_the_hessian_is_that_of_the_move():
    """Against draws: the estimate from H plus noise, with the same coefficients and gradient."""
    fit, _ = quadratic(hessian=8.0)
    fit = replace(fit, score_cov=np.zeros((4, 4)), gradient=np.array([90.0, -60.0, 40.0, 50.0]))
    fit = replace(fit, scales=replace(fit.scales, gradient=1e-9))
    kept, rng = np.array([0, 1, 2]), np.random.default_rng(1)
    claimed = chosen(fit, kept, NONE).noise
    drawn = []
    for _ in range(4000):
        Z = rng.standard_normal((4, 4)) / np.sqrt(2)
        noisy = replace(fit, hessian=fit.hessian + 8.0 * (Z + Z.T) / np.sqrt(2))
        drawn.append(estimate(noisy, kept, NONE))
    assert np.diag(np.cov(np.array(drawn).T)) == pytest.approx(np.diag(claimed), rel=0.15)


def test_the_error_of_a_column_that_stays_reaches_the_others():
    """θ_N is off by δ: θ_S moves by Γδ.  With a known H the second moment is Γ C Γᵀ."""
    fit, best = quadratic()
    kept, stays = np.array([0, 1, 2]), np.array([3])
    some = block(fit, kept)
    found = chosen(fit, kept, stays)
    K = fit.back.T @ fit.hessian @ fit.back
    coupling = some.inverse @ K[kept][:, stays]
    own = np.linalg.inv(np.linalg.inv(K)[np.ix_(stays, stays)])
    slope = (fit.back[:, stays] - some.back @ coupling).T @ fit.gradient
    assert slope == pytest.approx(own @ (best - fit.coef)[stays])  # what N would still step
    coupling[0] += fit.centre[3]  # the intercept is at the reference of N
    assert (np.diag(found.moved) >= ((coupling @ (best - fit.coef)[stays]) ** 2) * 0.99).all()
    assert estimate(fit, kept, stays)[0] - found.step[0] == pytest.approx(fit.coef[0] - 0.2 * fit.coef[3])
    assert found.shift.tolist() == [-0.2]


def plainly(fit, S, N):
    """The variance of S as the formulas say, with every matrix written out; and whether N leaves the intercept open."""
    k, E, EN, h, model = len(fit), fit.back[:, S], fit.back[:, N], fit.scales.hessian, np.concatenate([S, N])
    Z = np.setdiff1d(np.arange(k), model)
    r = fit.back[:, Z] @ fit.coef[Z]
    rest = r - fit.back[:, model] @ np.linalg.lstsq(fit.back[:, model], r, rcond=None)[0]
    inverse = np.linalg.inv(E.T @ fit.hessian @ E)
    W = fit.total + h**2 / 2 * (rest @ rest) * np.eye(k)
    g = fit.gradient + fit.hessian @ rest
    s = E @ inverse @ E.T @ g
    noise = W - fit.score_cov + h**2 / 2 * ((s @ s) * np.eye(k) + np.outer(s, s))
    a = E @ inverse
    variance = np.diag(a.T @ (fit.score_cov + noise) @ a)
    if not len(N):
        return variance, False
    coupling = inverse @ E.T @ fit.hessian @ EN
    own = EN - E @ coupling
    unit = np.sqrt(h) * np.linalg.norm(own, axis=0)
    scaled = raised(own.T @ fit.hessian @ own / np.outer(unit, unit) - np.eye(len(N)), 0.5)
    inner = np.linalg.inv(scaled) / np.outer(unit, unit)
    step = inner @ own.T @ g
    error = inner @ own.T @ W @ own @ inner + np.outer(step, step)
    coupling[0] += np.where(fit.dummy[N], fit.centre[N], 0.0)
    whole = coupling @ error @ coupling.T
    known = np.diag(whole - h**2 / 2 * np.trace(error @ own.T @ own) * (a.T @ a))
    least = 0.02**2 * np.trace(np.linalg.inv(inner) @ error) * np.diag(inverse)
    return variance + np.maximum(np.maximum(known, least), 0.0), whole[0, 0] > a[:, 0] @ W @ a[:, 0]


def random_fit(rng, k=7):
    root = rng.standard_normal((k, 3 * k)) * np.exp(rng.uniform(0, 2, (k, 1)))
    other = rng.standard_normal((k, 2 * k))
    back = np.eye(k) + 0.4 * rng.standard_normal((k, k))
    drawn = {"coef": 2 * rng.standard_normal(k), "gradient": 4 * rng.standard_normal(k), "back": back}
    centre = {"centre": 0.3 * rng.standard_normal(k), "dummy": rng.random(k) < 0.5, "spread": rng.uniform(0.2, 1, k)}
    scales = replace(SCALES, hessian=float(rng.uniform(0.1, 3)), gradient=float(rng.uniform(0.1, 5)))
    H = root @ root.T
    rest = {"hessian": H, "released": H, "score_cov": other @ other.T, "ends": np.full((k, 2), np.nan)}
    return replace(STRONG, **rest, **drawn, **centre, scales=scales, mask=0.01)


def test_a_choice_is_worth_what_the_formulas_say():
    rng, S, seen = np.random.default_rng(8), np.array([0, 2, 5]), set()
    for _ in range(200):
        fit = random_fit(rng)
        for N in (NONE, np.array([1]), np.array([3, 6, 1])):
            found, (variance, vague) = chosen(fit, S, N), plainly(fit, S, N)
            said = np.diag(found.sampling + found.noise) + np.maximum(np.diag(found.moved), 0.0)
            assert said == pytest.approx(variance, rel=1e-6)
            assert found.vague == vague
            seen.add(bool(vague))
    assert seen == {False, True}


def test_columns_stay_one_after_the_other_while_intervals_become_shorter():
    rng, S, most = np.random.default_rng(9), np.array([0, 2, 5]), 0
    for _ in range(100):
        fit = random_fit(rng)
        found = stay_or_leave(Ground.of(fit, S))

        def size(N, fit=fit):
            return chosen(fit, S, N).size

        for more in range(len(found.stays)):
            others = np.setdiff1d(np.arange(len(fit)), np.concatenate([S, found.stays[:more]]))
            sizes = [size(np.append(found.stays[:more], j)) for j in others]
            assert others[np.argmin(sizes)] == found.stays[more]
            assert min(sizes) < size(found.stays[:more])
        left = np.setdiff1d(np.arange(len(fit)), np.concatenate([S, found.stays]))
        assert all(size(np.append(found.stays, j)) >= found.size for j in left)
        most = max(most, len(found.stays))
    assert most >= 2


def coupled(correlation, hessian):
    """Columns 1 and 3 with this correlation in the metric of the information; 3 is to stay and is far from fitted."""
    H = np.diag([400.0, 300.0, 200.0, 100.0])
    H[1, 3] = H[3, 1] = correlation * np.sqrt(300.0 * 100.0)
    fit = replace(STRONG, hessian=H, released=H, gradient=np.array([0.0, 0.0, 0.0, 50.0]))
    return replace(fit, scales=replace(SCALES, hessian=hessian), ends=np.full((4, 2), np.nan))


def move_of_1(fit):
    kept, stays = np.array([0, 1, 2]), np.array([3])
    return chosen(fit, kept, stays).moved[1, 1]


def test_a_column_that_stays_is_never_believed_to_be_unrelated():
    """Where noise hides the coupling, what a correlation of .02 would move is allowed for; a larger one is seen."""
    assert move_of_1(coupled(0.0, 1e-6)) == pytest.approx(move_of_1(coupled(0.02, 1e-6)), rel=0.01)
    assert move_of_1(coupled(0.2, 1e-6)) == pytest.approx(100 * move_of_1(coupled(0.02, 1e-6)), rel=0.1)
    assert move_of_1(coupled(0.0, 20.0)) >= move_of_1(coupled(0.0, 1e-6))


@pytest.mark.parametrize(("slope", "noise", "far"), [(500.0, 2.0, [3]), (50.0, 2.0, []), (500.0, 300.0, [])])
def test_a_number_that_stays_is_far_if_its_step_is_long_and_no_noise(slope, noise, far):
    fit = replace(coupled(0.0, 1.0), gradient=np.array([0.0, 0.0, 0.0, slope]))
    fit = replace(fit, scales=replace(fit.scales, gradient=noise))
    kept, stays = np.array([0, 1, 2]), np.array([3])
    assert chosen(fit, kept, stays).far.tolist() == far
    dummy = replace(fit, ends=np.array([[-0.2, 0.8]] * 4))
    assert chosen(dummy, kept, stays).far.tolist() == []


def test_a_strong_unrelated_column_stays_and_a_twin_leaves():
    """Leaving out a large, unrelated effect moves the gradient by a lot; a twin's effect is taken over."""
    back, h = np.eye(4), replace(SCALES, hessian=3.0)
    H = np.diag([400.0, 300.0, 200.0, 60.0])
    H[0, 3] = H[3, 0] = 20.0
    unrelated = replace(STRONG, hessian=H, released=H, back=back, coef=np.array([0.5, 1.0, 1.0, 6.0]), scales=h)
    unrelated = replace(unrelated, gradient=np.array([1.0, 1.0, 1.0, 1.0]))
    assert stay_or_leave(Ground.of(unrelated, np.array([0, 1, 2]))).stays.tolist() == [3]
    twin = back.copy()
    twin[:, 3] = back[:, 1]
    twin[3, 3] = 0.02
    assert stay_or_leave(Ground.of(replace(unrelated, back=twin), np.array([0, 1, 2]))).stays.tolist() == []


def test_a_conclusion_is_whole():
    fit, best = quadratic()
    fit = replace(fit, gradient=fit.gradient / 50, ends=np.full((4, 2), np.nan), dummy=np.zeros(4, dtype=bool))
    said = conclude(fit, 1000, 1)
    assert said.reported.tolist() == [0, 1, 2, 3]
    assert said.law.interval(said.coef, 0.95).shape == (4, 2)
    assert said.coef == pytest.approx(fit.coef + (best - fit.coef) / 50)
    weak = replace(fit, hessian=np.diag([2.0, 400.0, 300.0, 200.0]), back=np.eye(4), scales=SCALES)
    said = conclude(weak, 1000, 1)
    assert 0 in said.silent
    assert len(said.law.covariance()) == len(said.reported)


def test_what_moves_the_others_is_a_second_moment():
    """Noise taken off it can leave it indefinite: the law still has a covariance, with the same variances."""
    fit, _ = quadratic(seed=3, hessian=30.0, spread=2.0)
    H = fit.hessian.copy()
    fit = replace(fit, hessian=H, ends=np.full((4, 2), np.nan), gradient=fit.gradient / 20)
    said = conclude(fit, 1000, 1)
    assert np.linalg.eigvalsh(said.law.covariance())[0] > 0
