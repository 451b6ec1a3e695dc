"""Tidy rows: the numbers of the table under the names of broom, and the fit in one row."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from helpers.partial_results import partly_reported

RESULT = partly_reported()


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_tidy_has_the_numbers_of_the_table(level):
    tidy = RESULT.tidy(level)
    assert list(tidy.columns) == [
        "term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high",
        "noise_share", "clipped_to", "status", "label",
    ]  # fmt: skip
    table = RESULT.to_frame(level)
    assert list(tidy["term"]) == list(table.index)
    assert list(tidy["status"]) == list(table["status"])
    for new, old in {"statistic": "z", "conf_low": "low", "conf_high": "high"}.items():
        assert np.array_equal(tidy[new], table[old], equal_nan=True)
    for name in ("estimate", "std_error", "p_value", "noise_share"):
        assert np.array_equal(tidy[name], table[name], equal_nan=True)


def test_glance_is_one_row():
    (row,) = RESULT.glance().to_dict("records")
    assert math.isnan(row.pop("epsilon"))
    assert math.isnan(row.pop("delta"))
    assert row == {
        "model": "logistic regression",
        "target": "ordinary",
        "outcome": "visit",
        "formula": "visit ~ age + left + right + health + income",
        "nobs": 5000.0,
        "usable": 5000.0,
        "coefficients": 7,
        "without_interval": 4,
        "rho": 0.1,
        "unit": "one person",
        "neighbours": "replace",
        "private": True,
        "booked": False,
        "release": "",
    }


@pytest.mark.parametrize(
    ("budget", "epsilon", "delta", "rho"),
    [
        (dp.PureDP(0.5), 0.5, 0.0, math.nan),
        (dp.ApproxDP(1.0, 1e-6), 1.0, 1e-6, math.nan),
        (dp.ZCDP(0.2), math.nan, math.nan, 0.2),
        (dp.NoPrivacy(), math.nan, math.nan, math.nan),
    ],
)
def test_glance_has_the_numbers_of_the_budget(budget, epsilon, delta, rho):
    paid = dataclasses.replace(RESULT.privacy, budget=budget)
    row = dataclasses.replace(RESULT, privacy=paid).glance().iloc[0]
    assert np.array_equal(
        [row["epsilon"], row["delta"], row["rho"]], [epsilon, delta, rho], equal_nan=True
    )


def test_a_private_number_of_records_is_missing():
    apart = dataclasses.replace(RESULT.privacy, neighbours=Adjacency.ADD_REMOVE)
    model = dataclasses.replace(RESULT.model, n=None)
    row = dataclasses.replace(RESULT, model=model, privacy=apart).glance().iloc[0]
    assert math.isnan(row["nobs"])
    assert row["usable"] == 5000.0
    assert row["neighbours"] == "add-remove"


def test_a_fit_on_bare_rows_has_no_question():
    bare = dataclasses.replace(RESULT, question=None, geometry=None)
    row = bare.glance().iloc[0]
    assert (row["outcome"], row["formula"]) == ("", "")
    assert math.isnan(row["usable"])


def test_frames_print_p_values_and_gaps_as_tables_do():
    """In a terminal and in a notebook, also after rounding; the numbers are as they were."""
    frame = partly_reported().to_frame()
    assert frame["p_value"].min() < 1e-4
    for shown in (frame, frame.round(4), frame.drop(columns="status")):
        for view in (repr(shown), shown._repr_html_(), shown.to_string(), shown.to_html()):
            assert "< .001" in view.replace("&lt;", "<")
            assert "–" in view
            assert "NaN" not in view
            assert "0.0000" not in view
            assert "e-" not in view
        assert isinstance(shown, pd.DataFrame)
    rounded = frame.round(4)
    assert rounded["p_value"].tolist()[0] == round(frame["p_value"].iloc[0], 4)
    assert np.isnan(frame["z"]).any()
    assert frame.to_csv().count("–") == 0
    with pd.option_context("display.notebook_repr_html", False):
        assert frame._repr_html_() is None
