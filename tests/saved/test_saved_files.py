"""Files that commit 3a42421 wrote are read and continued, whatever classes and fields are called now."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.privacy import entries
from dpinfer.result import saved
from saved.make import costs, make

WRITTEN = Path(__file__).parent / "written"
LEDGERS = sorted(WRITTEN.glob("*.db"))
RESULTS = sorted(set(WRITTEN.glob("*.json")) - {WRITTEN / "description.json"})


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    """The same files, written by today's code."""
    folder = tmp_path_factory.mktemp("saved")
    make(folder)
    return folder


def keys(value):
    """The keys that each class has in a document."""
    found = {}
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict) and "kind" in value:
        found[value["kind"]] = set(value)
    if isinstance(value, dict | list):
        for part in parts:
            found |= keys(part)
    return found


def keys_of_ledgers(folder):
    texts = (text for path in LEDGERS for _, text, _ in rows(folder / path.name))
    return keys([json.loads(text) for text in texts])


def rows(path):
    return dp.Ledger.open(path).chain()


def test_every_ledger_opens_and_costs_what_it_did(tmp_path):
    for path in LEDGERS:
        shutil.copy(path, tmp_path)
    then = json.loads((WRITTEN / "costs.txt").read_text())
    now = costs(tmp_path)
    assert then.keys() == now.keys()
    for name, (entries_then, *amounts_then) in then.items():
        entries_now, *amounts_now = now[name]
        assert entries_now == entries_then
        # Sums were rounded to the nearest float then, and are rounded outward now.
        assert amounts_now == pytest.approx(amounts_then, rel=1e-8)
        assert amounts_now[0] >= amounts_then[0] * (1 - 1e-15)


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_a_ledger_verifies_and_is_continued(path, tmp_path):
    shutil.copy(path, tmp_path)
    ledger = dp.Ledger.open(tmp_path / path.name)
    before = ledger.chain()
    assert ledger.verify().ok
    header, *others = (text for _, text, _ in before)
    assert entries.header_text(entries.terms_of(header)) == header
    for number, text in enumerate(others, 1):
        assert entries.entry_text(entries.entry_of(number, text)) == text
    again = ledger.entries()[-1]
    ledger.book(again)
    assert ledger.chain()[: len(before)] == before
    assert dp.Ledger.open(tmp_path / path.name).entries()[-1].events == again.events


def test_what_is_booked_today_has_the_names_of_then(now):
    """Each name of a class and of a field is there still; what is added is optional."""
    then, today = keys_of_ledgers(WRITTEN), keys_of_ledgers(now)
    assert entries.NAMES.classes.keys() | {"Entry", "Terms"} == then.keys() == today.keys()
    assert all(then[name] <= today[name] for name in then)


def with_todays_word(text):
    """A file whose statuses call what has no interval not reported, as they are read today."""
    return re.sub(r'"open: (in the model, but )?', '"not reported: ', text)


def read_back(text):
    """The fields that are read: the others are for readers, or of an earlier or later version."""
    fields = json.loads(text)
    del fields["reading"]
    joint = fields["joint"] or {}
    joint.pop("surely_longer", None)
    assert not joint.pop("terms", [])
    return fields


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_is_read_and_written_as_it_was(path):
    result = dp.FitResult.load(path)
    assert read_back(result.to_json()) == read_back(with_todays_word(path.read_text()))
    shown = [row["estimate"] for row in json.loads(path.read_text())["reading"]["coefficients"]]
    assert [row["estimate"] for row in result.table()] == pytest.approx(
        [np.nan if value is None else value for value in shown][: len(result.table())],
        nan_ok=True,
        rel=0,
    )


def test_every_name_of_a_result_is_in_these_files():
    found = keys([json.loads(path.read_text()) for path in RESULTS])
    later = {"NoPrivacy", "VarianceTerm"}
    assert saved._NAMES.classes.keys() - entries.NAMES.classes.keys() <= found.keys() | later


def test_a_description_is_read_and_written_as_it_was():
    path = WRITTEN / "description.json"
    written = json.loads(with_todays_word(path.read_text()))
    assert json.loads(dp.Description.load(path).to_json()) == written


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_what_was_open_is_shown_as_not_reported(path):
    result = dp.FitResult.load(path)
    shown = f"{result.summary()} {dp.report.markdown(result)}"
    assert "open: " not in shown
    assert ("not reported: " in shown) == ('"open: ' in path.read_text())
