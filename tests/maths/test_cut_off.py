"""What a clip takes off coefficients: by one law of outcomes over their mean, and how near records are to it."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.fit import poisson
from dpinfer.maths import cut_off
from dpinfer.maths.cut_off import CutOff, Typical, _Along, influence_of
from dpinfer.maths.spreads import UNKNOWN_PART, Known

_N = 20_000


def _fits(draw, seeds, monkeypatch):
    """What is known of the cut in fits of counts drawn from means."""
    found = []
    judged = CutOff.one_law.func

    def watched(self):
        part = judged(self)
        found.append((part, self.lost(Known(1.0, 0.0))[0]))
        return part

    monkeypatch.setattr(CutOff, "one_law", property(watched))
    for seed in seeds:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(_N, 2)).clip(-3, 3)
        y = draw(np.exp(0.5 + x @ [0.6, -0.3]), rng)
        options = {"bounds": (-3, 3), "outcome": (0, 1000)}
        dp.PoissonRegression(budget=dp.ZCDP(0.3), insecure_seed=seed, **options).fit(x, y)
    return found


def _in_bunches(mean, rng):
    """Bunches of four: the variance is four times the mean."""
    return 4 * rng.poisson(mean / 4)


def _in_proportion(mean, rng):
    """One law of outcomes over their mean."""
    return mean * rng.gamma(0.7, 1 / 0.7, _N)


@pytest.mark.parametrize(("draw", "truth"), [(_in_bunches, 0.0), (_in_proportion, 1.0)])
def test_the_covariance_of_the_scores_tells_how_spreads_go_with_means(draw, truth, monkeypatch):
    found = [known for known, _ in _fits(draw, range(8), monkeypatch)]
    off = np.array([known.value for known in found]) - truth
    assert np.abs(off).mean() < 0.25
    # surer than before: of a part of which nothing is known the deviation is .19
    assert np.mean([known.variance for known in found]) < 0.6 * UNKNOWN_PART.variance


def test_where_means_are_alike_nothing_is_known(monkeypatch):
    """No spread can go with means that do not differ."""
    fits = _fits(lambda mean, rng: rng.poisson(1.5, _N), range(4), monkeypatch)
    for known, _ in fits:
        assert known.variance > 0.5 * UNKNOWN_PART.variance


def test_a_column_whose_mean_rises_loses_by_one_law(monkeypatch):
    """A slope is drawn towards 0, the steeper one by more."""
    fits = _fits(_in_proportion, range(4), monkeypatch)
    for _, lost in fits:
        assert lost[0] == 0
        assert lost[1] > 0 > lost[2]
        assert abs(lost[1]) > abs(lost[2])


def test_what_a_strong_level_loses_is_no_part_of_the_tail_that_it_makes(monkeypatch):
    """The longest influences are those of the level itself: one law of them all, as if records were
    alike, would take it to lose several times as much as the band takes off.
    """
    lost = []
    judged = CutOff.lost

    def watched(self, part):
        lost.append(judged(self, Known(1.0, 0.0))[0])
        return judged(self, part)

    monkeypatch.setattr(CutOff, "lost", watched)
    taken = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = np.column_stack([rng.normal(size=_N).clip(-3, 3), rng.random(_N) < 0.1])
        y = _in_proportion(np.exp(0.3 + 0.2 * x[:, 0] + 1.5 * x[:, 1]), rng)
        options = {"bounds": ([-3, 0], [3, 1]), "yes_no": [1], "outcome": (0, 1000)}
        asked = dp.PoissonRegression(budget=dp.ZCDP(0.03), insecure_seed=seed, **options)
        result = asked.fit(x, y).result_
        pulled = result.band.pulled(result.geometry, x, y)
        level = x[:, 1] == 1
        left = np.log(pulled[level].mean() / y[level].mean())
        taken.append(np.log(pulled[~level].mean() / y[~level].mean()) - left)
    of_level = np.mean([one[2] for one in lost])
    assert 0.4 * np.mean(taken) < of_level < 2 * np.mean(taken)


@pytest.mark.parametrize(("slopes", "of"), [((0.8, 0.0), 1), ((0.4, 1.2), 1), ((0.4, 1.2), 2)])
def test_what_a_slope_loses_is_what_the_band_takes(slopes, of, monkeypatch):
    """Steep or beside a steep one: between what its two ends tell, and near their middle."""
    ends = []
    judged = CutOff.lost

    def watched(self, part):
        ends.append(self._lost_by_one_law(self._columns[of - 1]))
        return judged(self, part)

    monkeypatch.setattr(CutOff, "lost", watched)
    taken = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(_N, 2)).clip(-3, 3) / 3
        y = _in_proportion(np.exp(0.3 + 3 * x @ slopes), rng)
        options = {"bounds": (-1, 1), "outcome": (0, 1000)}
        asked = dp.PoissonRegression(budget=dp.ZCDP(0.1), insecure_seed=seed, **options)
        result = asked.fit(x, y).result_
        pulled = result.band.pulled(result.geometry, x, y)
        weights = result.geometry.row_weights(x)
        rows = np.column_stack([np.ones(_N), x])
        whole, left = (
            sm.GLM(outcome, rows, family=sm.families.Poisson(), freq_weights=weights).fit().params
            for outcome in (y, pulled)
        )
        taken.append(whole[of] - left[of])
    least, most = np.mean(ends, axis=0) / np.mean(taken)
    assert 0.6 < least < 1 < most < 2.4


def _watched(monkeypatch, look):
    """What ``look`` finds in the cut of each fit that is made from now on."""
    found = []
    judged = CutOff.lost

    def watched(self, part):
        found.append(look(self))
        return judged(self, part)

    monkeypatch.setattr(CutOff, "lost", watched)
    return found


def test_a_number_that_is_yes_or_no_loses_what_a_level_does(monkeypatch):
    """Its bars show that it has two values, one of them rare.  As a normal number it would be taken to
    lose less than half as much: none of its records would have a long row.
    """

    judged = CutOff.lost

    def lost(cut):
        both = (cut, replace(cut, bars={}))
        return [judged(one, UNKNOWN_PART)[0][2] * cut.fit.spread[2] for one in both]

    per_deviation = []
    for options in ({}, {"yes_no": [1]}):
        with monkeypatch.context() as context:
            found = _watched(context, lost)
            for seed in range(4):
                rng = np.random.default_rng(seed)
                x = np.column_stack([rng.normal(size=_N).clip(-3, 3), rng.random(_N) < 0.1])
                y = _in_proportion(np.exp(0.3 + 0.2 * x[:, 0] + 0.3 * x[:, 1]), rng)
                asked = {"bounds": ([-3, 0], [3, 1]), "outcome": (0, 1000), "insecure_seed": seed}
                dp.PoissonRegression(budget=dp.ZCDP(0.1), **asked, **options).fit(x, y)
        per_deviation.append(np.mean(found, axis=0))
    (number, as_normal), (level, _) = per_deviation
    assert number == pytest.approx(level, rel=0.15)
    assert as_normal < 0.5 * level


def test_nobody_loses_more_than_a_mean(monkeypatch):
    """Whatever noise says of means and tails, what is put back is a part of a mean."""
    judged = CutOff.lost

    def parts(cut):
        return [cut.of_level, *(judged(cut, UNKNOWN_PART)[0] * [0, cut.fit.spread[1], 1.0])]

    found = _watched(monkeypatch, parts)
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=3000).clip(-3, 3), rng.random(3000) < 0.3])
    y = rng.poisson(np.exp(0.3 + x @ [0.2, 0.5])).astype(float)
    options = {"bounds": ([-3, 0], [3, 1]), "yes_no": [1], "outcome": (0, 1000)}
    for rho in (1e-5, 1e-4, 1e-3):
        for seed in range(20):
            dp.PoissonRegression(budget=dp.ZCDP(rho), insecure_seed=seed, **options).fit(x, y)
    assert len(found) == 60
    assert np.abs(found).max() <= 1
    assert np.abs(found).max() > 0.5  # so this is worth its lines


def test_levels_may_lose_more_than_their_ends_tell(monkeypatch):
    """On the side to which they lose, by half of what lies between the ends or of the smaller one;
    numbers do not.
    """
    found = _watched(monkeypatch, lambda cut: (cut._by_one_law, cut.lost_beside()))
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=_N).clip(-3, 3), rng.random((_N, 2)) < 0.2])
    y = _in_proportion(np.exp(0.3 + x @ [0.5, 0.5, -0.5]), rng)
    options = {"bounds": ([-3, 0, 0], [3, 1, 1]), "yes_no": [1, 2], "outcome": (0, 1000)}
    dp.PoissonRegression(budget=dp.ZCDP(0.3), insecure_seed=0, **options).fit(x, y)
    ((_, more, less), beside) = found[0]
    assert more[1] > more[0] > 0 > less[0] > less[1]
    halves = [min(most - least, least) / 2 for least, most in (more, (-less[0], -less[1]))]
    assert beside == pytest.approx([0, 0, halves[0], -halves[1]])


def _taken(result, x, y):
    """The score that the band takes off each record, in columns (1, x), and what it leaves."""
    pulled = result.band.pulled(result.geometry, x, y)
    line = result.geometry.line
    mean = np.exp(line[0] + x @ line[1:])
    weights = result.geometry.row_weights(x)
    rows = np.column_stack([np.ones(len(x)), x])
    return rows * (weights * (y - pulled))[:, None], rows * (weights * (pulled - mean))[:, None]


@pytest.mark.parametrize("persons", [1, 3])
def test_what_is_hidden_is_the_covariance_of_what_the_clip_takes_off(persons, monkeypatch):
    """Over that of what it leaves, for all columns together: of records, and of persons with rows that
    are alike, whose scores are means of those of their rows.
    """
    monkeypatch.setattr(poisson.TailLaw, "clip", lambda *_: 0.1)
    shares = _watched(monkeypatch, lambda cut: cut._hidden_share)
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        units = np.repeat(np.arange(_N), persons)
        x = rng.normal(size=(_N, 2)).clip(-3, 3)[units]
        own = rng.gamma(0.7, 1 / 0.7, _N)[units]
        y = rng.poisson(own * np.exp(0.5 + x @ [0.3, -0.2])).astype(float)
        options = {"bounds": (-3, 3), "outcome": (0, 1000), "insecure_seed": seed}
        asked = dp.PoissonRegression(budget=dp.ZCDP(100), **options)
        result = asked.fit(x, y, units=units if persons > 1 else None).result_
        taken, left = (
            np.add.reduceat(part, np.arange(0, len(units), persons))
            for part in _taken(result, x, y)
        )
        ratios.append((taken**2).sum() / (left**2).sum())
    assert np.mean(shares) == pytest.approx(np.mean(ratios), rel=0.25)


def test_what_is_hidden_leans_towards_larger_means(monkeypatch):
    """Of a level with twice the mean more is cut off than its part of the squares."""
    hidden = _watched(monkeypatch, lambda cut: (cut.hidden(), cut.fit.score_cov, cut._uncentred))
    of_level = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = np.column_stack([rng.normal(size=_N).clip(-3, 3), rng.random(_N) < 0.2])
        y = _in_proportion(np.exp(0.3 + 0.2 * x[:, 0] + 0.7 * x[:, 1]), rng)
        options = {"bounds": ([-3, 0], [3, 1]), "yes_no": [1], "outcome": (0, 1000)}
        result = dp.PoissonRegression(budget=dp.ZCDP(0.3), insecure_seed=seed, **options).fit(x, y)
        taken, left = (part[:, 2] for part in _taken(result.result_, x, y))
        everybody, all_left = (part[:, 0] for part in _taken(result.result_, x, y))
        part = (taken @ taken) / (everybody @ everybody)
        of_level.append(part / ((left @ left) / (all_left @ all_left)))
    leaning = []
    for covariance, squares, columns in hidden:
        in_columns, left = (columns.T @ matrix @ columns for matrix in (covariance, squares))
        leaning.append(in_columns[2, 2] / in_columns[0, 0] / (left[2, 2] / left[0, 0]))
        assert np.linalg.eigvalsh(covariance).min() > 0
    assert 0.6 * np.mean(of_level) < np.mean(leaning) < 1.5 * np.mean(of_level)
    assert np.mean(leaning) > 1.2


def test_records_along_a_column_have_the_mean_of_all(monkeypatch):
    seen = []
    judged = CutOff.lost

    def watched(self, part):
        seen.extend((along.shares @ along.means) / self.typical.mean for along in self._columns)
        return judged(self, part)

    monkeypatch.setattr(CutOff, "lost", watched)
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=_N).clip(-3, 3), rng.random(_N) < 0.1])
    y = rng.poisson(np.exp(0.3 + 0.7 * x[:, 0] + 1.5 * x[:, 1]))
    options = {"bounds": ([-3, 0], [3, 1]), "yes_no": [1], "outcome": (0, 1000)}
    dp.PoissonRegression(budget=dp.ZCDP(0.1), insecure_seed=0, **options).fit(x, y)
    assert seen == pytest.approx([1.0, 1.0])


def test_what_grows_along_a_column():
    """From the reference to a level; along a number by the line nearest where records count by w μ."""
    column = np.array([-1.0, 0.0, 2.0])
    shares = np.array([0.3, 0.4, 0.3])
    means = np.array([0.5, 1.0, 4.0])
    lengths2 = np.array([0.1, 0.2, 1.0])
    values = np.array([1.0, 1.5, 5.0])
    number = _Along(column, shares, means, lengths2, None)
    counted = shares * means * [1.0, 1.0, 0.25]
    line = np.polyfit(column, values, 1, w=np.sqrt(counted))
    assert number.per_unit(values) == pytest.approx(line[0])
    factor = _Along(column, shares, means, lengths2, 1)
    assert factor.per_unit(values) == pytest.approx(1.5 - 5.0)


def test_typical_records():
    """At the centre they are usual ones; a larger mean has more influence, up to a limit."""
    centre = np.array([1.0, 0.2, -0.1])
    line = np.array([0.0, 2.0, 0.0])
    matrix = np.diag([0.6, 0.5, 0.5])
    typical = Typical(matrix, line, centre, kappa=2.0, mean=0.8)
    moved = np.array([[0.0, 0.0, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 9.0], [0.0, 50.0, 0.0]])
    means, lengths2 = typical.means(centre + moved)
    influences = influence_of(means, lengths2)
    assert means[0] == pytest.approx(0.8)
    assert influences[0] == pytest.approx(typical.usual)
    assert lengths2[0] == pytest.approx(1 / (2.0 * 0.8))
    assert means[1] == pytest.approx(0.8 * np.exp(0.4))
    assert influences[1] > influences[0]
    assert influences[2] * np.sqrt(lengths2[2]) == pytest.approx(1.0)  # counts less by its length
    assert means[3] == pytest.approx(0.8 * np.exp(cut_off._FARTHEST))
