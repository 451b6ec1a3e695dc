"""Tables at which one threshold alone decides whether a coefficient is reported."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp

SEEDS = range(4)
GENEROUS = dp.ZCDP(1e8)

LEVELS = dp.Schema.parse(
    """
    [columns.y]
    type = "number"
    low = 0
    high = 30
    [columns.g]
    type = "category"
    levels = ["most", "few"]
    """
)


@pytest.mark.parametrize(("records", "known"), [(25, False), (2_500, True)])
def test_a_coefficient_that_its_prior_decides_is_not_reported(records, known):
    """Two numbers with correlation .97, and next to no noise: 25 records decide each of them less than
    its prior does, so that an interval with the prior divided out would be the more uncertain.
    """
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        first, other = rng.normal(size=(2, records)) / 4
        twins = np.clip(np.column_stack([first, 0.97 * first + 0.24 * other]), -1, 1)
        outcomes = np.clip(twins[:, 0] + rng.normal(size=records), -4, 4)
        model = dp.LinearRegression(
            bounds=(-1, 1), outcome=(-4, 4), budget=GENEROUS, insecure_seed=seed
        )
        result = model.fit(twins, outcomes).result_
        assert result.reported[1:].tolist() == [known, known], result.status
        if not known:
            assert "too noisy" in result.status[1]


@pytest.mark.parametrize(("records", "known"), [(10, False), (25, True)])
def test_a_level_of_ten_records_is_not_reported(records, known):
    """The mean of ten skewed outcomes is not normal, however little noise there is."""
    table = pd.DataFrame({"g": ["few"] * records + ["most"] * (2_000 - records)})
    for seed in SEEDS:
        table["y"] = np.random.default_rng(seed).exponential(size=len(table))
        model = dp.LinearRegression("y ~ g", schema=LEVELS, budget=GENEROUS, insecure_seed=seed)
        assert model.fit(table).result_.reported[1] == known


def test_a_strong_effect_of_two_groups_of_a_number_is_reported():
    """Least squares of the outcome of two groups far apart is as of a separated one, of infinite length:
    a pilot without an end lies where no record has information.
    """
    n = 100_000
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        group = np.where(rng.random(n) < 0.5, -0.8, 0.8) + 0.1 * rng.normal(size=n)
        columns = np.column_stack([np.clip(group, -1, 1), rng.uniform(-1, 1, n)])
        chance = 1 / (1 + np.exp(-columns @ [6.0, 0.5]))
        outcomes = (rng.random(n) < chance).astype(int)
        model = dp.LogisticRegression(bounds=(-1, 1), budget=dp.ZCDP(0.1), insecure_seed=seed)
        result = model.fit(columns, outcomes).result_
        assert result.reported.all()
        assert result.estimate[1] == pytest.approx(6.0, rel=0.1)
