"""Forecasts and studies of hazards: made-up cohorts have the events that are guessed, and fits on them say how long."""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.simulate.synthetic import OfGuesses

SCHEMA = dp.Schema.parse("""
unit = "one patient"
[columns]
entry = { type = "number", low = 0, high = 10 }
years = { type = "number", low = 0, high = 10 }
died = { type = "boolean" }
age = { type = "number", low = 30, high = 90 }
treated = { type = "boolean" }
""").guess(
    {
        "years": {"mean": 7.0, "sd": 2.0},
        "died": {"true": 0.3},
        "age": {"mean": 62.0, "sd": 10.0},
        "treated": {"true": 0.5},
        "entry": {"mean": 1.0, "sd": 1.0},
    }
)


def model(formula="Surv(years, died) ~ age + treated", **options):
    return dp.HazardRegression(
        formula, cuts=[2, 4, 6], horizon=10, schema=SCHEMA, budget=dp.ApproxDP(3, 1e-6), **options
    )


@pytest.mark.parametrize("times", ["years", "entry, years"])
def test_made_up_spells_have_the_events_that_are_guessed(times):
    from dpinfer.schema.design import Design  # noqa: PLC0415
    from dpinfer.schema.formula import parse  # noqa: PLC0415

    asked = model(f"Surv({times}, died) ~ age + treated")
    response, terms = parse(asked.asked_formula, SCHEMA)
    design = Design.of_formula(response, terms, asked.kind)
    for effects in (None, {"treated": -1.0}):
        source = OfGuesses(response, terms, design, SCHEMA.typical, effects)
        block = source.sample(4000, np.random.default_rng(0)).block
        assert block.labels.mean() == pytest.approx(0.3, abs=0.03)
        entry, end = (block.rows[:, -2:] / block.rows[:, :1]).T
        assert (entry < end).all()
        assert end.max() <= 1
    assert "log hazard" in " ".join(
        OfGuesses(response, terms, design, SCHEMA.typical, None).assumed
    )


def test_a_forecast_is_near_what_a_fit_of_such_records_finds():
    budgets = [dp.ApproxDP(1, 1e-6), dp.ApproxDP(3, 1e-6)]
    ahead = dp.simulate.forecast(model(), records=6000, budgets=budgets, replicates=2)
    small, large = ahead.half_width[:, 1]
    assert large < small
    assert (ahead.nonprivate[1] < ahead.half_width[1]).all()


def test_a_study_holds_intervals_against_the_ordinary_coefficients():
    data = dp.datasets.cohort(2000)
    asked = dp.HazardRegression(data.formula, schema=data.schema, budget=dp.ApproxDP(3, 1e-6))
    study = dp.simulate.coverage(asked, data.table, replicates=2)
    assert study.target.shape == (10,)
    assert (study.reported[1:5] == 1).all()
    assert (study.nonprivate_length[1:5] < study.length[1:5]).all()
