"""Documents to file about a release: the entry for a registry, and the disclosure."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import dpinfer as dp
from dpinfer.views.registry import QUESTIONS, unanswered
from helpers.schema_check import faults
from helpers.terminal import fails, run_here, succeeds

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = yaml.safe_load((DOCS / "registry-schema.yaml").read_text(encoding="utf-8"))
PAGE = (DOCS / "howto/file-a-release.md").read_text(encoding="utf-8")
ANSWERS = tomllib.loads(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1])
TABLE = pd.DataFrame(
    {
        "y": np.random.default_rng(0).normal(size=2000).clip(-4, 4),
        "x": np.random.default_rng(1).uniform(-1, 1, 2000),
        "group": np.random.default_rng(2).choice(["a", "b | c"], 2000),
    }
)
COLUMNS = """
unit = "one visit"
columns.y = {type = "number", low = -4, high = 4}
columns.x = {type = "number", low = -1, high = 1, label = "Size"}
columns.group = {type = "category", levels = ["a", "b | c"]}
"""
SCHEMA_OF_TABLE = dp.Schema.parse(COLUMNS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ledger with a fit, a description and a moment release, and another ledger."""
    place = tmp_path_factory.mktemp("filed")
    ledger = dp.Ledger.create(place / "ledger.db", dp.ApproxDP(5.0, 1e-6), unit="one visit")
    given = {"schema": SCHEMA_OF_TABLE, "ledger": ledger}
    model = dp.LinearRegression("y ~ x + group", budget=dp.ApproxDP(1.0, 1e-6), **given)
    model.fit(TABLE).result_.save(place / "result.json")
    budget = dp.ZCDP(0.1)
    dp.describe(TABLE, budget=budget, columns=["y", "group"], **given).save(
        place / "description.json"
    )
    release = dp.release_moments(TABLE, columns="y + x", budget=budget, **given)
    release.save(place / "survey.moments")
    dp.Ledger.create(place / "other.db", dp.ApproxDP(5.0, 1e-6), unit="one visit")
    return place


def read(folder, name):
    if name.endswith("moments"):
        return dp.moments(folder / name)
    kind = dp.Description if name.startswith("description") else dp.FitResult
    return kind.load(folder / name)


RELEASES = ("result.json", "description.json", "survey.moments")


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("booked", [True, False])
def test_an_entry_with_answers_is_valid(folder, name, booked):
    ledger = dp.Ledger.open(folder / "ledger.db") if booked else None
    text = dp.report.registry(read(folder, name), ANSWERS, ledger=ledger)
    entry = yaml.safe_load(text)
    assert list(faults(entry, SCHEMA)) == []
    told = entry["deployment"]
    assert told["basic"]["publication_date"] == ANSWERS["publication_date"]
    assert told["privacy_loss"]["number_of_privacy_units"] == 2000
    parameters = told["privacy_loss"]["privacy_parameters"]
    expected = {"epsilon": 1.0, "delta": 1e-6} if name == "result.json" else {"rho": 0.1}
    assert parameters == expected
    assert told["deployment_model"]["release_type"] == (
        "Many releases" if booked else "One release"
    )
    assert ("ε = 5" in told["privacy_loss"]["privacy_parameters_details"]) == booked
    assert "y: from -4 to 4" in told["dp_variant"]["data_domain"]


def test_an_entry_without_answers_asks_for_them(folder):
    entry = yaml.safe_load(dp.report.registry(read(folder, "result.json")))
    found = list(faults(entry, SCHEMA))
    assert len(found) == len(QUESTIONS)
    assert unanswered({}) == list(QUESTIONS)
    assert unanswered({**ANSWERS, "actors": ""}) == ["actors"]
    assert unanswered(ANSWERS) == []
    questions = [f"TODO: {question}" for question in QUESTIONS.values()]
    text = json.dumps(entry, ensure_ascii=False)
    assert all(question in text for question in questions)


def test_the_schema_refuses_what_is_not_in_it(folder):
    entry = yaml.safe_load(dp.report.registry(read(folder, "result.json"), ANSWERS))
    entry["deployment"]["basic"]["surprise"] = 1
    entry["deployment"]["dp_variant"]["variant_name"] = "DP"
    del entry["url_slug"]
    assert len(list(faults(entry, SCHEMA))) == 3


@pytest.mark.parametrize(
    "text", ["a: b", 'a "quote"', "#", "- x", "yes", "ε\nδ", "x" * 100, "é: [1"]
)
def test_any_answer_is_read_as_it_was_written(folder, text):
    answers = {**ANSWERS, "intended_use": text, "registry_authors": [text]}
    entry = yaml.safe_load(dp.report.registry(read(folder, "result.json"), answers, title=text))
    assert entry["deployment"]["basic"]["intended_use"] == text
    assert entry["deployment"]["basic"]["name"] == text
    assert entry["deployment"]["administrative"]["registry_authors"] == [text]


@pytest.mark.parametrize("name", RELEASES)
def test_a_disclosure_has_what_a_board_asks_for(folder, name):
    ledger = dp.Ledger.open(folder / "ledger.db")
    released = read(folder, name)
    text = dp.report.disclosure(released, ledger=ledger, title="Visits")
    assert text.startswith("# Disclosure: Visits\n")
    for wanted in (
        "| Unit of privacy | one visit |",
        "one record replaced, number of records public",
        released.privacy.budget.amount,
        "ε = 5, δ = 10⁻⁶",
        "3 entries in the ledger",
        released.privacy.release,
        "| Estimand |",
        "## What is not claimed",
        "## How to cite",
        ledger.statement(),
    ):
        assert wanted in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert "not stated here" in dp.report.disclosure(released)


def test_what_cannot_be_filed(folder):
    result = read(folder, "result.json")
    with pytest.raises(dp.InputError, match=r"'colour'.*data_curator"):
        dp.report.registry(result, {"colour": "red"})
    with pytest.raises(dp.LedgerError, match="not in this ledger"):
        dp.report.disclosure(result, ledger=dp.Ledger.open(folder / "other.db"))
    model = dp.LinearRegression("y ~ x", schema=SCHEMA_OF_TABLE, budget=dp.NoPrivacy())
    for document in (dp.report.disclosure, dp.report.registry):
        with pytest.raises(dp.InputError, match="not private"):
            document(model.fit(TABLE).result_)


def test_three_commands(folder, tmp_path):
    """From a release to its papers and a verified ledger, as docs/howto/file-a-release.md says."""
    (tmp_path / "answers.toml").write_text(
        re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1], encoding="utf-8"
    )
    result = folder / "result.json"
    ledger = ["--ledger", folder / "ledger.db"]
    to = ["-o", tmp_path]
    shown = succeeds(
        run_here(
            "report", result, "--registry", "--answers", "answers.toml", *ledger, *to, cwd=tmp_path
        )
    )
    assert shown == f"wrote {tmp_path}/registry.yaml\n"
    entry = yaml.safe_load((tmp_path / "registry.yaml").read_text(encoding="utf-8"))
    assert list(faults(entry, SCHEMA)) == []
    succeeds(run_here("report", result, "--disclosure", *ledger, *to))
    text = (tmp_path / "disclosure.md").read_text(encoding="utf-8")
    assert text == dp.report.disclosure(
        read(folder, "result.json"), ledger=dp.Ledger.open(folder / "ledger.db")
    )
    shown = succeeds(
        run_here("budget", "verify", folder / "ledger.db", result, "--second-accountant")
    )
    assert "matches" in shown
    assert "by dp_accounting" in shown


def test_the_command_says_what_is_missing(folder, tmp_path):
    result = folder / "result.json"
    both = ["report", result, "--registry", "--disclosure", "-o", tmp_path]
    assert "To be answered" in succeeds(run_here(*both))
    told = json.loads(succeeds(run_here(*both, "--json")))
    assert told["unanswered"] == list(QUESTIONS)
    assert [Path(name).name for name in told["files"]] == ["registry.yaml", "disclosure.md"]
    fails(run_here(*both, "--text"), "leave out --text")
    fails(run_here("report", result, "--ledger", folder / "ledger.db"), "--registry")
    fails(run_here(*both, "--answers", tmp_path / "none.toml"), "none.toml", "file-a-release")
    (tmp_path / "bad.toml").write_text("a = ", encoding="utf-8")
    fails(run_here(*both, "--answers", tmp_path / "bad.toml"), "bad.toml", "TOML")
    fails(run_here(*both, "--ledger", folder / "other.db"), "not in this ledger", code=3)
