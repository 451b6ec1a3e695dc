"""Instrumental variables from moments: the estimate is that of two stages, and its set that of Anderson and Rubin."""

import math

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.errors import InputError
from dpinfer.moment_release.moment_questions import answer

SCHEMA = dp.Schema.parse(
    'unit = "one person"\n'
    + "".join(f'[columns.{name}]\ntype = "number"\nlow = -8\nhigh = 8\n' for name in "yxwzv")
)
COLUMNS = "y + x + w + z + v"


def table(n, strength, seed=0):
    """y = .5 x + .2 w + e, where x and e share a cause, and z and v move x alone."""
    rng = np.random.default_rng(seed)
    z, v, w, cause, own = rng.standard_normal((5, n))
    x = strength * (z + v) + 0.3 * w + cause
    y = 0.5 * x + 0.2 * w + 0.7 * cause + 0.7 * own
    return pd.DataFrame({"y": y, "x": x, "w": w, "z": z, "v": v}).clip(-8, 8)


TABLE = table(4000, 0.3)
EXACT = dp.release_moments(TABLE, SCHEMA, COLUMNS, dp.NoPrivacy())


def two_stages(instruments):
    one = np.ones(len(TABLE))
    given = np.column_stack([one, TABLE["w"], *(TABLE[name] for name in instruments)])
    x = np.column_stack([one, TABLE["x"], TABLE["w"]])
    fitted = given @ np.linalg.lstsq(given, x, rcond=None)[0]
    return np.linalg.lstsq(fitted, TABLE["y"], rcond=None)[0][1]


@pytest.mark.parametrize("instruments", ["z", "zv"])
def test_without_noise_it_is_two_stage_least_squares(instruments):
    found = EXACT.iv(f"y ~ x + w | {' + '.join(instruments)} + w")
    assert found.estimate == pytest.approx(two_stages(instruments), abs=1e-9)
    ((low, high),) = found.intervals
    assert (found.low, found.high) == (low, high)
    assert low < 0.5 < high
    assert found.first_stage > 100
    if instruments == "z":  # the ends are where the test of the instrument is at its limit
        for end in (low, high):
            rest = TABLE["y"] - end * TABLE["x"]
            given = np.column_stack([np.ones(len(TABLE)), TABLE["w"], TABLE["z"]])
            coef, *_ = np.linalg.lstsq(given, rest, rcond=None)
            bread = np.linalg.inv(given.T @ given)
            scores = given * (rest - given @ coef).to_numpy()[:, None]
            error = math.sqrt((bread @ scores.T @ scores @ bread)[2, 2])
            assert abs(coef[2]) / error == pytest.approx(1.959964, rel=1e-3)


def test_weak_instruments_have_no_interval():
    release = dp.release_moments(
        table(4000, 0.0), SCHEMA, COLUMNS, dp.ApproxDP(3.0, 1e-6), insecure_seed=0
    )
    found = release.iv("y ~ x + w | z + w")
    assert found.status.startswith("not reported: the instruments are too weak")
    assert math.isinf(found.low)
    assert math.isinf(found.high)
    assert "first-stage F" in str(found)


def test_the_set_holds_the_effect_however_weak_instruments_are():
    """12 releases of instruments that are strong, weak and none: at most 3 of 36 sets miss it."""
    missed = 0
    for strength in (0.3, 0.03, 0.0):
        for seed in range(12):
            release = dp.release_moments(
                table(3000, strength, seed), SCHEMA, COLUMNS, dp.ZCDP(0.2), insecure_seed=seed
            )
            found = release.iv("y ~ x + w | z + w")
            missed += not any(low <= 0.5 <= high for low, high in found.intervals)
    assert missed <= 3


def test_instruments_that_disagree_leave_no_effect():
    """v acts on y directly."""
    changed = TABLE.assign(y=(TABLE["y"] + TABLE["v"]).clip(-8, 8))
    release = dp.release_moments(changed, SCHEMA, COLUMNS, dp.NoPrivacy())
    found = release.iv("y ~ x + w | z + v + w")
    assert found.intervals == ()
    assert found.status.startswith("not reported: no effect fits all instruments")
    assert math.isnan(found.low)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ x + w", "after a bar"),
        ("y ~ x + w | x + w", "there are 0 and 0"),
        ("y ~ x + w | z", "there are 2 and 1"),
        ("y ~ x + w | z + y + w", "the outcome is no instrument"),
        ("y ~ x + w | nope + w", "no column 'nope'"),
        ("y ~ x - 1 | z", "with an intercept"),
        ("y ~ x | ", "there are 1 and 0"),
    ],
)
def test_a_formula_that_cannot_be_answered_says_why(formula, words):
    with pytest.raises(InputError, match=words):
        EXACT.iv(formula)


def test_it_is_a_question_like_others():
    found = answer(EXACT, "iv(y ~ x + w | z + w)")
    assert found == EXACT.iv("y ~ x + w | z + w")
    assert str(found).startswith("effect of x on y: 0.")
