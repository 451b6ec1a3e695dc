"""Moment releases at a desk: published if the ledger paid for them, and found if they are changed."""

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import dpinfer as dp
from dpinfer.errors import InputError
from dpinfer.inference.moment_answers import ReleasedSums
from dpinfer_desk import backup
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import moment_files
from helpers.terminal import run_here, succeeds
from helpers.visits import made, published


@pytest.fixture
def desk(tmp_path):
    return Desk.open(made(tmp_path), who="steward")


def released(desk, tmp_path, name="new.moments", **options):
    table = desk.table("visits")
    given = {"budget": dp.ZCDP(0.05), "ledger": table.ledger()} | options
    release = dp.release_moments(table.data_path, table.schema, "age + income", **given)
    release.save(tmp_path / name)
    return tmp_path / name, release


def test_guarantee_published_moments_are_booked(desk, tmp_path):
    """Of another ledger, not booked, with a seed, of other releases, of another schema: refused."""
    other = dp.Ledger.create(tmp_path / "other.db", dp.ZCDP(1.0), unit="one person")
    for options, words in (
        ({"ledger": other}, "not in the ledger"),
        ({"ledger": None}, "not in the ledger"),
        ({"ledger": None, "insecure_seed": 1}, "seed"),
        ({"ledger": None, "budget": dp.NoPrivacy()}, "seed or without noise"),
    ):
        path, _ = released(desk, tmp_path, **options)
        with pytest.raises(InputError, match=words):
            desk.publish_moments("visits", path)
    path, release = released(desk, tmp_path)
    document = json.loads(path.read_text())
    for change in (
        lambda one: one["privacy"]["events"][0].__setitem__("bound", 1.0),
        lambda one: one["privacy"].__setitem__("unit", "one row"),
        lambda one: one.__setitem__("declared", "income + age"),
        lambda one: one["schema"]["columns"]["age"].__setitem__("high", 99),
        lambda one: one.__setitem__("n", 17),
    ):
        changed = json.loads(json.dumps(document))
        change(changed)
        (tmp_path / "changed.moments").write_text(json.dumps(changed))
        with pytest.raises(InputError):
            desk.publish_moments("visits", tmp_path / "changed.moments")
    assert desk.moment_releases("visits") == []
    assert desk.publish_moments("visits", path).privacy.release == release.privacy.release
    (found,) = desk.moment_releases("visits")
    assert found.to_json() == release.to_json()


def test_a_changed_or_foreign_file_is_found(desk, tmp_path):
    ident = published(desk)
    assert desk.verify().ok
    path = moment_files.path_of(desk.folder, "visits", ident)
    plain = path.read_text()
    path.write_text(plain.replace('"weight": ', '"weight": 1'))
    assert "was changed" in " ".join(desk.verify().faults)
    path.rename(path.with_name("0" * 32 + ".json"))
    faults = " ".join(desk.verify().faults)
    assert "is missing" in faults
    assert "was not published by a steward" in faults


def test_a_file_that_cannot_be_read_hides_no_other(desk):
    first, second = published(desk), published(desk, "age + health")
    moment_files.path_of(desk.folder, "visits", first).write_bytes(b"\xff{")
    (found,) = desk.moment_releases("visits")
    assert found.privacy.release == second
    assert "was changed" in " ".join(desk.verify().faults)


def test_one_release_is_found_by_its_entry_alone(desk):
    ident = published(desk)
    assert desk.moment_release("visits", ident).privacy.release == ident
    path = moment_files.path_of(desk.folder, "visits", ident)
    path.rename(path.with_name("0" * 32 + ".json"))
    for other in (ident, "0" * 32, f"../visits/{'0' * 32}", "*", ""):
        assert desk.moment_release("visits", other) is None


def test_lists_factor_nothing_and_threads_factor_once(desk, monkeypatch):
    """Known entries of many levels take a second: who asks at once waits for one of them."""
    ident = published(desk)
    (found,) = desk.moment_releases("visits")
    found.notes()
    assert "_known" not in found.sums.__dict__
    calls = []
    basis = ReleasedSums._known_basis

    def slow(sums):
        calls.append(sums)
        time.sleep(0.05)
        return basis(sums)

    monkeypatch.setattr(ReleasedSums, "_known_basis", slow)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(desk.moment_release("visits", ident).mean, "age") for _ in range(4)]
    assert len({one.result().estimate for one in asked}) == 1
    assert len(calls) == 1


def test_a_backup_has_the_releases(desk, tmp_path):
    ident = published(desk)
    backup.back_up(desk, tmp_path / "copy")
    kept = tmp_path / "copy/releases/visits" / f"{ident}.json"
    assert kept.read_bytes() == moment_files.path_of(desk.folder, "visits", ident).read_bytes()


def test_a_desk_of_an_older_version_takes_one(desk):
    shutil.rmtree(desk.folder.releases)
    os.chmod(desk.folder.results, 0o2750)
    assert desk.moment_releases("visits") == []
    assert desk.verify().ok
    published(desk)
    assert len(desk.moment_releases("visits")) == 1
    assert desk.folder.releases.stat().st_mode == desk.folder.results.stat().st_mode


def test_the_command_publishes_and_the_network_does_not(desk, tmp_path):
    path, release = released(desk, tmp_path)
    public = Desk(desk.folder, public=True)
    with pytest.raises(InputError, match="where the ledger is"):
        public.publish_moments("visits", path)
    asked = ["desk", "table", "publish", desk.folder.path, "visits", path]
    assert release.privacy.release in succeeds(run_here(*asked))
    (event,) = [one for one in desk.journal() if one.action == moment_files.PUBLISHED]
    assert event.facts["columns"] == "age + income"
    (sentence,) = desk.sentences([event])
    assert sentence.endswith("published a moment release of visits (age + income).")
