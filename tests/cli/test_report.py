"""`dpinfer report` of several results: on the screen, as JSON, in a folder, and what is refused."""

import json
from dataclasses import replace

import pytest

import dpinfer as dp
from helpers.partial_results import partly_reported
from helpers.terminal import fails, run_here, succeeds

LOGIT = partly_reported()
SHORT = partly_reported(income=False)


@pytest.fixture
def folder(tmp_path):
    for name, result in {
        "all": LOGIT,
        "short": SHORT,
        "amounts": partly_reported(squares=True),
    }.items():
        (tmp_path / name).mkdir()
        result.save(tmp_path / name / "result.json")
    return tmp_path


def beside(folder, *more, names=("all", "short")):
    paths = [f"{name}/result.json" for name in names]
    return run_here("report", *paths, "--side-by-side", *more, cwd=folder)


def test_the_table_is_shown_and_nothing_is_written(folder):
    shown = succeeds(beside(folder))
    compared = dp.compare({"all": LOGIT, "short": SHORT})
    assert shown == compared.to_text(99) + "\n"
    assert sorted(path.name for path in folder.rglob("*.*")) == ["result.json"] * 3


def test_names_level_and_ratios(folder):
    shown = succeeds(
        beside(folder, "--name", "First", "--name", "Second", "--level", 0.9, "--ratios")
    )
    compared = dp.compare({"First": LOGIT, "Second": SHORT}, level=0.9, ratios=True)
    assert shown == compared.to_text(99) + "\n"


def test_with_a_folder_every_form_is_written(folder):
    shown = succeeds(beside(folder, "--out", "tables", "--title", "Two models"))
    assert "wrote tables/comparison.html" in shown
    assert sorted(path.suffix for path in (folder / "tables").iterdir()) == [
        ".csv", ".html", ".md", ".png", ".tex",
    ]  # fmt: skip
    page = (folder / "tables/comparison.html").read_text(encoding="utf-8")
    assert "<h1>Two models</h1>" in page


def test_json_has_rows_and_notes(folder):
    told = json.loads(succeeds(beside(folder, "--json")))
    compared = dp.compare({"all": LOGIT, "short": SHORT})
    assert told["models"] == ["all", "short"]
    assert told["releases"] == [None, None]
    assert told["notes"] == compared.notes()
    assert [row["term"] for row in told["coefficients"]] == list(compared.to_frame()["term"])
    assert {row["estimate"] for row in told["coefficients"] if row["status"] != "reported"} == {
        None
    }


def test_a_terminal_without_signs_shows_it_all_the_same(folder):
    paths = ["all/result.json", "short/result.json"]
    done = run_here("report", *paths, "--side-by-side", cwd=folder, encoding="ascii")
    assert "health[fair]" in succeeds(done)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all/result.json", "short/result.json"], ["add --side-by-side"]),
        (["all/result.json", "--side-by-side"], ["2 to 12 results"]),
        (["all/result.json", "--ratios"], ["go with --side-by-side"]),
        (["all/result.json", "--name", "a"], ["go with --side-by-side"]),
        (
            ["all/result.json", "short/result.json", "--side-by-side", "--text"],
            ["leave out --text"],
        ),
        (["all/result.json", "none.json", "--side-by-side"], ["'none.json'", "check the path"]),
        (
            ["all/result.json", "short/result.json", "--side-by-side", "--name", "a"],
            ["one name per result"],
        ),
        (
            ["all/result.json", "amounts/result.json", "--side-by-side", "--ratios"],
            ["leave out amounts"],
        ),
        (["all/result.json", "short/result.json", "--side-by-side", "--level", "2"], ["--level"]),
    ],
)
def test_what_is_refused(folder, arguments, words):
    fails(run_here("report", *arguments, cwd=folder), *words)


def test_a_release_is_told(folder):
    booked = replace(LOGIT, privacy=replace(LOGIT.privacy, in_ledger=True, release="abc"))
    booked.save(folder / "all/result.json")
    assert json.loads(succeeds(beside(folder, "--json")))["releases"] == ["abc", None]
