"""Files of results: whole or not there, without a text in the place of a number; and the small
views.
"""

import dataclasses
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.result import saved
from dpinfer.result.description import Description
from result.test_question import linear, logistic


@pytest.fixture(scope="module")
def part():
    """A fit of which some coefficients are not reported."""
    found = logistic(budget=dp.ZCDP(0.005)).result_
    assert not found.reported.all()
    assert found.reported.any()
    return found


def texts(value):
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def test_no_number_is_a_text(part):
    for result in (part, linear().result_, logistic(budget=dp.NoPrivacy()).result_):
        saved = json.loads(result.to_json(), parse_constant=pytest.fail)
        assert not {"nan", "inf", "-inf"} & set(texts(saved))
        rows = saved["reading"]["coefficients"][: len(result.names)]
        for row, shown, kept in zip(rows, saved["estimate"], result.reported, strict=True):
            numbers = [
                row[key]
                for key in ("estimate", "std_error", "p_value", "low", "high", "noise_share")
            ]
            assert all(number is not None for number in [*numbers, shown]) == kept
            assert kept or {*numbers, shown} == {None}
            assert (row["status"] == "reported") == kept


def test_what_is_read_back_is_what_was_written(part, tmp_path):
    path = tmp_path / "result.json"
    part.save(path)
    again = dp.FitResult.load(path)
    assert again.to_json() == part.to_json()
    assert os.listdir(tmp_path) == ["result.json"]
    for field in ("estimate", "hessian", "score_cov"):
        assert np.array_equal(getattr(again, field), getattr(part, field), equal_nan=True)
    assert np.array_equal(again.conf_int(), part.conf_int())
    assert again.summary() == part.summary()


def test_files_that_cannot_be_used(part, tmp_path):
    with pytest.raises(dp.InputError, match="check the folder"):
        part.save(tmp_path / "none" / "result.json")
    with pytest.raises(dp.InputError, match=r"result\.json of a fit"):
        dp.FitResult.load(tmp_path / "none.json")
    (tmp_path / "odd.json").write_bytes(b"\xff\xfe")
    with pytest.raises(dp.InputError, match=r"result\.json of a fit"):
        dp.FitResult.load(tmp_path / "odd.json")
    document = json.loads(part.to_json())
    document["question"]["columns"]["age"]["low"] = 1000
    with pytest.raises(dp.InputError, match="not a saved FitResult"):
        dp.FitResult.from_json(json.dumps(document))


@pytest.mark.parametrize("version", [4, 6])
def test_a_result_of_another_version_is_refused_and_left_alone(part, tmp_path, version):
    path = tmp_path / "result.json"
    other = part.to_json().replace('"version": 5', f'"version": {version}')
    path.write_text(other, encoding="utf-8")
    with pytest.raises(dp.InputError, match=f"of version {version} .* the dpinfer that wrote it"):
        dp.FitResult.load(path)
    assert path.read_text(encoding="utf-8") == other
    for wrong in (other.replace(f": {version}", ": null"), other.replace("FitResult", "Study", 1)):
        with pytest.raises(dp.InputError, match="not a saved FitResult"):
            dp.FitResult.from_json(wrong)


def test_a_result_whose_numbers_were_changed_is_refused(part):
    document = json.loads(part.to_json())
    place = int(np.flatnonzero(part.reported)[0])
    document["estimate"][place] += 1
    with pytest.raises(dp.InputError, match="was changed"):
        dp.FitResult.from_json(json.dumps(document))


def test_numbers_of_what_is_not_reported_are_nan_in_every_view(part):
    gone = ~part.reported
    frame = part.to_frame()
    for values in (
        part.params,
        part.bse,
        part.pvalues,
        part.noise_share,
        frame["p_value"],
    ):
        assert np.array_equal(np.isnan(values), gone)
    assert np.isnan(part.tvalues[gone]).all()
    assert np.isnan(frame["z"][gone]).all()
    assert np.array_equal(np.isinf(part.conf_int()).all(axis=1), gone)
    assert np.array_equal(np.isinf(part.simultaneous()).all(axis=1), gone)


def test_p_values_are_written_alike(part):
    """ "< .001" wherever people read it."""
    small = [row["name"] for row in part.table() if row["p_value"] < 0.001]
    assert small
    for name in small:
        table = part.summary().split("\n(Intercept) is")[0]
        (line,) = [line for line in table.splitlines() if line.startswith(f"{name} ")]
        assert "< .001" in line
        (line,) = [
            line
            for line in part.to_markdown().replace("\\", "").splitlines()
            if line.startswith(f"| {name} ")
        ]
        assert "< .001" in line


def test_small_views_are_short_and_safe(part):
    assert len(repr(part)) < 200
    assert "NOT PRIVATE" in repr(part)
    assert repr(part).startswith("<FitResult visit ~ age")
    odd = dataclasses.replace(part, names=("(Intercept)", "<b>&|_{x}$", *part.names[2:]))
    page = odd._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page
    assert "<script" not in page
    assert page.count("<tr>") == len(part.names) + len(part.alternatives()) + 2
    assert [line for line in odd.to_latex().splitlines() if line.startswith(r"$<$b$>$\&|\_\{x\}\$")]
    assert r"\begin{tabular}{lrrrrrrr}" in part.to_latex()
    rows = [line for line in odd.to_markdown().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {9}
    assert "NOT PRIVATE" in part.to_markdown()


def test_the_file_for_r_knows_the_format():
    """It reads saved results without Python: where the version grows, it has to be looked at."""
    client = Path(__file__).parents[2] / "clients/r/dpinfer.R"
    known = re.search(r"\.dpinfer_formats <- (\d+)", client.read_text(encoding="utf-8"))
    assert int(known[1]) == saved.VERSION


OF_FIXED_FORMAT = Path(__file__).with_name("saved")
"""Results and a description as they were saved before classes, attributes and statuses got other
names; what is in these files is never written again.
"""


def _shown(value):
    """A number of the part of a file that is for readers without dpinfer."""
    return np.nan if value is None else value


@pytest.mark.parametrize(
    "name", ["logistic_open", "least_squares", "rates", "penalised", "not_identified"]
)
def test_a_saved_result_of_this_format_is_read(name):
    path = OF_FIXED_FORMAT / f"{name}.json"
    result = dp.FitResult.load(path)
    reading = json.loads(path.read_text(encoding="utf-8"))["reading"]
    table = [*result.table(), *filter(None, [result.ordinary_intercept()])]
    for read, rows in (("coefficients", table), ("alternatives", result.instead_rows())):
        assert len(reading[read]) == len(rows)
        for stored, row in zip(reading[read], rows, strict=True):
            assert stored["name"] == row["name"]
            assert (stored["status"] == "reported") == (row["status"] == "reported")
            for key in ("estimate", "std_error", "z", "p_value", "noise_share"):
                assert np.array_equal(_shown(stored[key]), row[key], equal_nan=True)
            if row["status"] == "reported":
                assert (stored["low"], stored["high"]) == (row["low"], row["high"])
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert again.summary() == result.summary()


def test_a_saved_description_of_this_format_is_read():
    path = OF_FIXED_FORMAT / "description.json"
    found = Description.load(path)
    stored = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert len(found.figures) == len(stored)
    for figure, kept in zip(found.figures, stored, strict=True):
        assert (figure.column, figure.figure) == (kept["column"], kept["figure"])
        numbers = [_shown(kept[key]) for key in ("estimate", "low", "high")]
        shown = [figure.estimate, figure.low, figure.high]
        assert np.array_equal(shown, np.array(numbers, dtype=float), equal_nan=True)
    assert Description.from_json(found.to_json()).summary() == found.summary()
