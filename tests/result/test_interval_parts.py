"""The parts of an interval: they add up to its length, and each follows its own source of error."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
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
    random = parts[["privacy_noise", "hessian"]].sum(axis=1) + parts["sampling"]
    # the noise share counts bias bounds within the variance as noise
    share = 1 - result.noise_share[result.reported]
    assert (parts["sampling"] / random >= share - 1e-9).all()


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
    share = result.noise_share[result.reported]
    assert np.allclose(parts["privacy_noise"] / parts["total"], share, rtol=0, atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_a_larger_budget_shrinks_the_noise_and_not_the_sampling_error(link):
    small, large = (LINKS[link](budget=dp.ZCDP(rho)).interval_parts() for rho in (0.1, 5.0))
    # of one coefficient of counts a smaller clip, with more bias, may take the place of noise
    assert (small["privacy_noise"] > 2 * large["privacy_noise"]).sum() >= len(small) - 1
    assert (large["sampling"] > small["sampling"]).sum() >= len(small) - 1


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
    normal = parts["total"] - parts["bias_bound"]
    share = result.noise_share[result.reported]
    assert np.allclose(parts["privacy_noise"], share * normal, rtol=1e-9)


def test_where_nothing_is_reported_no_part_is():
    result = dp.FitResult.load(SAVED / "not_identified.json")
    assert not result.reported.any()
    assert result.interval_parts().isna().all(axis=None)


def test_a_level_that_is_no_level_is_refused(results):
    with pytest.raises(dp.InputError, match="level"):
        results["tight pure"].interval_parts(95)


def test_the_report_has_the_parts(results):
    result = results["asked counts"]
    page = dp.report.markdown(result)
    parts = result.interval_parts()
    shares = parts[PARTS].div(parts["total"], axis=0)
    noise = shares["privacy_noise"] + shares["hessian"]
    for name, kept in zip(result.names, result.reported, strict=True):
        words = (
            f"sampling error {shares['sampling'][name]:.0%}, privacy noise {noise[name]:.0%}, "
            f"bias bound {shares['bias_bound'][name]:.0%}"
        )
        assert (words in page) == kept
    unchanged = dataclasses.replace(result, joint=None)
    assert "Parts of each interval" in dp.report.html(unchanged)
    for other in (results["no privacy"], dp.FitResult.load(SAVED / "not_identified.json")):
        assert "Parts of each interval" not in dp.report.html(other)
