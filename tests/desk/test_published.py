"""What the worker publishes, and a desk that knows nothing else of its tables."""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import published
from dpinfer_desk.store.tables import Policy, RegisteredTable
from helpers.desks import ask, desk_in, question, work


@pytest.fixture
def both(tmp_path):
    """A desk, and the same as the process with the network sees it."""
    desk = desk_in(tmp_path)
    return desk, Desk.open(desk.folder.path, "web", public=True)


@pytest.fixture
def no_files(monkeypatch, tmp_path):
    """Opening the data, the ledger or the secret fails from here on."""

    def forbid(desk):
        secret = {str(tmp_path / name) for name in ("table.parquet", "ledger.db")}
        secret.add(str(desk.folder.secret))
        opened = os.open

        def watched(path, *rest, **more):
            assert str(path) not in secret, path
            return opened(path, *rest, **more)

        for path in secret:
            os.rename(path, f"{path}.away")
        monkeypatch.setattr(os, "open", watched)

    return forbid


def test_guarantee_web_needs_no_data(both, no_files):
    """Everything that a page does, where data, ledger and secret are out of reach."""
    desk, web = both
    asked = ask(desk)
    work(desk)
    expected = desk.account("visits").state()
    checked = desk.check("visits", question(rho=0.2), "meier")
    no_files(desk)
    with pytest.raises(dp.LedgerError):
        desk.account("visits")  # the test has power
    shown = web.account("visits").state()
    assert {**expected, "path": ""} == {**shown, "path": ""}
    found = web.check("visits", question(rho=0.2), "meier")
    assert (found.cost, found.permitted, found.preview) == (
        checked.cost,
        checked.permitted,
        checked.preview,
    )
    assert web.analyst("visits", "meier").spent == pytest.approx(0.1)
    assert len(web.burn_down("visits")) == 1
    assert web.reserved("visits")
    assert web.result(asked.id).privacy.release == desk.ticket(asked.id).release
    assert web.ask("visits", question(rho=0.2), "meier", anyway=True).state == "queued"
    assert web.forecast("visits", question(rho=0.2), replicates=2).names
    web.allow("visits", "meier", 50.0)
    web.set_policy("visits", Policy("each"))
    web.pause("visits", "for a while")
    web.resume("visits", "on we go")
    web.set_state("visits", "meier", "paused")
    web.practice("visits")
    assert web.verify().faults == ()


def test_a_copy_books_nothing(both):
    desk, web = both
    ledger = web.table("visits").ledger()
    entry = desk.check("visits", question(), "meier").entry
    with pytest.raises(dp.LedgerError, match="a copy of a ledger"):
        ledger.book(entry)
    assert ledger.verify().head == desk.table("visits").ledger().verify().head
    assert ledger.chain() == desk.table("visits").ledger().chain()


def test_a_copy_that_was_changed_is_none(both):
    _, web = both
    place = web.folder.account("visits")
    document = json.loads(place.read_text())
    document["chain"][0][1] = document["chain"][0][1].replace("1000.0", "9000.0")
    place.write_text(json.dumps(document))
    with pytest.raises(dp.LedgerError, match="was changed"):
        web.account("visits")


def test_what_is_not_there(both):
    desk, web = both
    place = web.folder.account("visits")
    content = place.read_bytes()
    place.unlink()
    with pytest.raises(dp.LedgerError, match="not published yet"):
        web.account("visits")
    place.write_bytes(content[:50])
    with pytest.raises(dp.LedgerError, match="not published yet"):
        web.account("visits")
    desk.publish("visits")
    assert web.account("visits").entries == ()


def test_a_ledger_that_cannot_be_read_is_told_without_its_place(both, tmp_path):
    desk, web = both
    (tmp_path / "ledger.db").rename(tmp_path / "gone.db")
    desk.publish("visits")
    with pytest.raises(dp.LedgerError, match=r"there is no ledger at ledger\.db") as told:
        web.account("visits")
    assert str(tmp_path) not in str(told.value)


def test_a_table_that_was_changed_is_opened_where_the_data_are(both, tmp_path):
    desk, web = both
    os.utime(tmp_path / "table.parquet", (1, 1))
    assert web.table("visits").changed() == ""
    desk.publish("visits")
    assert "were changed" in web.table("visits").changed()
    desk.pause("visits", "changed")
    with pytest.raises(dp.InputError, match="who holds the data opens it again"):
        web.resume("visits", "it is fine")
    desk.resume("visits", "a copy of the same bytes")
    assert web.table("visits").changed() == ""
    assert web.table("visits").state == "open"
    with pytest.raises(dp.InputError, match="where the data are"):
        web.add_table("more", "x", "y", "z")


def test_the_worker_publishes_and_is_seen_at_work(both):
    desk, web = both
    assert not published.at_work(web.folder.accounts)
    before = web.account("visits")
    assert web.account("visits") is before  # reckoned once
    ask(desk)
    work(desk)
    assert published.at_work(web.folder.accounts)
    assert len(web.account("visits").entries) == 1
    beat = web.folder.accounts / ".worker"
    os.utime(beat, (1, 1))
    assert not published.at_work(web.folder.accounts)


FORGERIES = {
    "book": "another ledger.db",
    "place": "another table.parquet",
    "text": "title = 'x'",
    "records": 7,
    "fingerprint": '["a", [], []]',
}


@pytest.mark.parametrize("column", FORGERIES)
def test_guarantee_sealed_tables(tmp_path, column):
    """Whoever writes into desk.db gets nothing booked, and no other ledger opened."""
    desk = desk_in(tmp_path)
    dp.Ledger.create(tmp_path / "another ledger.db", dp.ZCDP(1e9))
    (tmp_path / "another table.parquet").write_bytes((tmp_path / "table.parquet").read_bytes())
    value = FORGERIES[column]
    if column in ("book", "place"):
        value = str(tmp_path / value)
    asked = ask(desk)
    with closing(sqlite3.connect(desk.folder.database)) as connection:
        connection.execute(f"UPDATE tables SET {column} = ?", (value,))
        connection.commit()
    with pytest.raises(dp.LedgerError, match="is not what was registered"):
        desk.table("visits").ledger()
    work(desk)
    assert desk.table("visits").state == "paused"
    assert desk.ticket(asked.id).state == "queued"
    for name in ("ledger.db", "another ledger.db"):
        assert dp.Ledger.open(tmp_path / name).entries() == ()
    assert not list(desk.folder.results.iterdir())


def test_a_seal_is_of_one_table(tmp_path):
    desk = desk_in(tmp_path)
    table = desk.table("visits")
    assert table.sealed().seal == table.seal
    assert replace(table, name="other").sealed().seal != table.seal
    assert isinstance(table, RegisteredTable)
