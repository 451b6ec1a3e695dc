"""The parts of an interval: they add up to its length, and each follows its own source of error."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import dpinfer as dp
from dpinfer.result import text
from golden.make import FITS, _counted, _rand, _visits

SAVED = Path(__file__).parent / "saved"
LINKS = {"least squares": _visits, "logistic": _rand, "counts": _counted}
PARTS = ["sampling", "privacy_noise", "bias_bound", "hessian"]
WINSORISED = ["asked least squares approx", "asked counts", "asked approx", "asked small"]
NOT_WINSORISED = ["asked least squares by arrays", "asked rates by units", "asked zcdp"]
PENALISED = ["tight pure", "tight zcdp", "paper objective pure", "unpenalised zcdp", "no privacy"]


@pytest.fixture(scope="module")
def results():
    return {name: FITS[name]() for name in WINSORISED + NOT_WINSORISED + PENALISED}


def add_up(result, level):
    parts = result.interval_parts(level)
    assert tuple(parts.index) == result.names
    assert list(parts.columns) == [*PARTS, "total"]
    reported = result.reported
    assert np.array_equal(parts.isna(), np.repeat(~reported[:, None], 5, axis=1))
    known = parts[reported]
    assert (known >= 0).all(axis=None)
    length = np.diff(result.conf_int(level)[reported], axis=1)[:, 0]
    assert np.allclose(known["total"], length, rtol=1e-12, atol=0)
    assert np.allclose(known[PARTS].sum(axis=1), length, rtol=1e-9, atol=0)
    return known


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("name", WINSORISED + NOT_WINSORISED)
def test_parts_add_up(results, name, level):
    result = results[name]
    assert any(result.clipped_to) == (name in WINSORISED)
    parts = add_up(result, level)
    assert (parts[["sampling", "privacy_noise", "hessian"]] > 0).all(axis=None)
    alone = 2 * norm.ppf((1 + level) / 2) * np.sqrt(np.diag(result.error.sampling))
    assert np.allclose(parts["sampling"], alone, rtol=1e-9)


@pytest.mark.parametrize("name", WINSORISED + NOT_WINSORISED)
def test_without_its_noise_an_interval_has_the_other_parts(results, name):
    """The law of the error without privacy noise: sampling error, and the bias that is left."""
    result = results[name]
    parts = result.interval_parts()[result.reported]
    shares = result.joint.variance_shares(np.eye(len(result.names))[result.reported])
    bias = np.diag(np.diag(result.error.covariance()) * shares["bias_bound"])
    quiet = dataclasses.replace(result.error, noise=bias)
    length = np.diff(quiet.interval(np.zeros(len(parts)), 0.95))[:, 0]
    assert np.allclose(parts["sampling"] + parts["bias_bound"], length, rtol=1e-9)


def test_shares_add_up_to_all_of_an_interval(results):
    for result in results.values():
        shares = result.interval_shares()
        assert np.allclose(shares[result.reported].sum(axis=1), 1)
        assert np.isnan(shares[~result.reported]).all()


@pytest.mark.parametrize("name", WINSORISED + NOT_WINSORISED)
def test_the_terms_leave_a_covariance_to_the_hessian(results, name):
    joint = results[name].joint
    sd = np.sqrt(np.diag(joint.covariance))
    terms = [joint.sampling, *(term.covariance for term in joint.terms)]
    for matrix in (*terms, joint.covariance - sum(terms)):
        assert np.linalg.eigvalsh(matrix / np.outer(sd, sd)).min() > -1e-9


@pytest.mark.parametrize("name", PENALISED)
def test_a_penalised_fit_has_sampling_error_and_noise_alone(results, name):
    result = results[name]
    parts = add_up(result, 0.95)
    assert (parts[["bias_bound", "hessian"]] == 0).all(axis=None)
    alone = 2 * norm.ppf(0.975) * np.sqrt(np.diag(result.error.sampling))
    assert np.allclose(parts["sampling"], alone, rtol=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_a_larger_budget_shrinks_the_noise_and_not_the_sampling_error(link):
    small, large = (LINKS[link](budget=dp.ZCDP(rho)).interval_parts() for rho in (0.1, 5.0))
    # of one coefficient of counts a smaller clip, with more bias, may take the place of noise
    assert (small["privacy_noise"] > 2 * large["privacy_noise"]).sum() >= len(small) - 1
    # the sampling error of a rare level is estimated with the noise of its few records
    assert (abs(large["sampling"] / small["sampling"] - 1) < 0.15).sum() >= len(small) - 1


@pytest.mark.parametrize("name", WINSORISED)
def test_a_clip_has_a_bias_bound(results, name):
    result = results[name]
    clipped = np.array([bool(limits) for limits in result.clipped_to]) & result.reported
    assert clipped.any()
    assert (result.interval_parts()["bias_bound"][clipped] > 0).all()


@pytest.mark.parametrize("name", WINSORISED + NOT_WINSORISED + PENALISED)
def test_a_saved_result_has_the_same_parts(results, name):
    again = dp.FitResult.from_json(results[name].to_json())
    assert again.interval_parts().equals(results[name].interval_parts())


@pytest.mark.parametrize("name", ["least_squares", "logistic_open", "rates", "penalised"])
def test_a_result_saved_without_terms_has_sampling_error_and_the_rest(name):
    text = (SAVED / f"{name}.json").read_text(encoding="utf-8")
    assert "terms" not in (json.loads(text)["joint"] or {})
    result = dp.FitResult.from_json(text)
    parts = add_up(result, 0.95)
    assert (parts["hessian"] == 0).all()
    alone = 2 * norm.ppf(0.975) * np.sqrt(np.diag(result.error.sampling))
    assert np.allclose(parts["sampling"], alone, rtol=1e-9)


def test_where_nothing_is_reported_no_part_is():
    result = dp.FitResult.load(SAVED / "not_identified.json")
    assert not result.reported.any()
    assert result.interval_parts().isna().all(axis=None)


def test_a_level_that_is_no_level_is_refused(results):
    with pytest.raises(dp.InputError, match="level"):
        results["tight pure"].interval_parts(95)


def test_every_table_has_the_parts(results):
    """Three of them, in percent, with the Hessian where the budget decides it: with privacy noise."""
    result = results["asked counts"]
    shares = result.interval_shares()
    parts = result.interval_parts()
    noise = parts["privacy_noise"] + parts["hessian"]
    assert np.allclose(shares[:, 2], noise / parts["total"], equal_nan=True)
    for page in (dp.report.markdown(result), result.to_markdown(), result._repr_html_()):
        assert "Sampling / bias / noise" in page
        for share, kept in zip(shares, result.reported, strict=True):
            assert (text.percents(share) in page) or not kept
    assert "a larger budget never does" in dp.report.html(result)
    nothing = dp.FitResult.load(SAVED / "not_identified.json")
    for other in (results["no privacy"], nothing):
        assert "Parts of each interval" not in dp.report.html(other)


def test_percentages_add_up_to_100():
    assert text.percents([1 / 3, 1 / 3, 1 / 3]) == "34 / 33 / 33%"
    assert text.percents([0.666, 0.0, 0.334]) == "67 / 0 / 33%"
    assert text.percents([np.nan, 0.5, 0.5]) == "–"
    assert text.percents([1.0, 0.0, -1e-17]) == "100 / 0 / 0%"
