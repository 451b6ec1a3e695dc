"""What somebody who has taken over the process with the network writes into shared/, and what the
worker does with it.
"""

import os
import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.locks import acquire, holder
from dpinfer_desk.worker import fit_process
from helpers.desks import ask, desk_in, hasten, later, work
from helpers.forking import forked


@pytest.fixture
def desk(tmp_path):
    """One whose fits are never late, however busy the machine is, and whose slots nobody waits for."""
    return hasten(desk_in(tmp_path, response_times=(600.0,)))


def forge(desk, statement, *values):
    """Change desk.db as somebody who can write it, whatever the desk thinks of that."""
    with closing(sqlite3.connect(desk.folder.database)) as connection:
        cursor = connection.execute(statement, values)
        connection.commit()
        return cursor.fetchall()


@pytest.mark.parametrize("ident", ["../shared/x", "x", "0" * 31, "0" * 33, "A" * 32, "", 7, b"0"])
def test_guarantee_no_path_from_desk_db(desk, ident):
    """No file is made, here or elsewhere, for an id that is none."""
    ask(desk)
    forge(desk, "UPDATE questions SET id = ?", ident)
    before = {str(path) for path in desk.folder.path.rglob("*") if path.suffix != ".db-shm"}
    with pytest.raises(dp.LedgerError, match="no desk wrote, the id of a question is"):
        work(desk)
    after = {str(path) for path in desk.folder.path.rglob("*") if path.suffix != ".db-shm"}
    made = {path for path in after - before if not path.endswith(("locks/worker", "-wal"))}
    assert {path for path in made if "accounts" not in path} == set()
    assert desk.table("visits").ledger().entries() == ()


def test_a_question_of_a_table_that_is_a_path(desk):
    ask(desk)
    forge(desk, "UPDATE questions SET tab = '../shared/x'")
    with pytest.raises(dp.LedgerError, match="no desk wrote, the name of a table"):
        desk.tickets()


def test_the_name_of_a_table_overwrites_no_result(desk):
    """A name that is a path is refused; one that is none is published by nobody without its seal."""
    asked = ask(desk)
    work(desk)
    paid = desk.folder.result(asked.id).read_bytes()
    forge(desk, "UPDATE tables SET name = ?", f"../results/{asked.id}/result")
    with pytest.raises(dp.LedgerError, match="no desk wrote, the name of a table"):
        desk.tables()
    assert desk.folder.result(asked.id).read_bytes() == paid
    forge(desk, "UPDATE tables SET name = 'other'")
    desk.publish("other")
    assert not desk.folder.account("other").exists()


def test_a_table_without_its_seal_is_not_published(desk):
    before = desk.folder.account("visits").read_bytes()
    forge(desk, "UPDATE tables SET records = 7")
    desk.publish("visits")
    assert desk.folder.account("visits").read_bytes() == before


def test_a_log_is_a_plain_file(tmp_path):
    """What is printed goes through no link, neither by name nor by a second name."""
    target = tmp_path / "target"
    target.write_text("as it was")
    (tmp_path / "one.log").symlink_to(target)
    os.link(target, tmp_path / "two.log")
    for name in ("one.log", "two.log"):

        def log(name=name):
            fit_process._log(tmp_path / name)
            print("into the log", flush=True)

        _, status = os.waitpid(forked(log), 0)
        assert status != 0
    assert target.read_text() == "as it was"


@pytest.mark.parametrize("text", ["-1", "0", "1", "-5", "x", ""])
def test_a_lock_names_one_process_or_none(tmp_path, text):
    """-1 would be every process of the user, 0 the own group."""
    path = tmp_path / "lock"
    ready, told = os.pipe()
    done, finish = os.pipe()

    def hold():
        with acquire(path) as mine:
            os.write(told, b"." if mine else b"x")
            os.read(done, 1)

    holding = forked(hold)
    assert os.read(ready, 1) == b"."
    assert holder(path) == holding
    path.write_text(text)
    found = holder(path)
    os.write(finish, b".")
    os.waitpid(holding, 0)
    assert found == 0


def forged_journal(database, named):
    """A rollback journal of a database in the form of SQLite that says: undo nothing, then delete
    ``named``.
    """
    pages = database.stat().st_size // 4096
    start = bytes.fromhex("d9d505f920a163d7")
    header = (start + struct.pack(">IIIII", 0, 1, pages, 512, 4096)).ljust(512, b"\0")
    name = os.fsencode(named)
    total = sum(byte - 256 if byte > 127 else byte for byte in name)
    end = struct.pack(">I", 0x40000000 // 4096 + 1) + name
    return header + end + struct.pack(">II", len(name), total) + start


def test_guarantee_no_forged_database(desk, tmp_path):
    """A rollback journal that names the ledger deletes it where SQLite believes it, and here not."""
    ledger = tmp_path / "ledger.db"
    for database in (desk.folder.database, desk.folder.journal):
        beside = database.with_name(f"{database.name}-journal")
        beside.write_bytes(forged_journal(database, ledger))
        with pytest.raises(dp.LedgerError, match="no file of a desk"):
            Desk.open(desk.folder.path)
        with pytest.raises(dp.LedgerError, match="no file of a desk"):
            ask(desk)
        assert ledger.exists()
        beside.unlink()
    assert Desk.open(desk.folder.path).verify().ok


def test_the_forged_journal_would_be_believed(desk, tmp_path):
    """The test above has power: SQLite by itself deletes the file that is named."""
    named = tmp_path / "ledger.db"
    copy = tmp_path / "copy.db"
    shutil.copy2(desk.folder.database, copy)
    copy.with_name("copy.db-journal").write_bytes(forged_journal(copy, named))
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("SELECT count(*) FROM people").fetchall()
    assert not named.exists()


@pytest.mark.parametrize("name", ["desk.db", "journal.db", "desk.db-wal", "journal.db-shm"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_leads_to_no_ledger(desk, tmp_path, name, link):
    ledger = tmp_path / "ledger.db"
    before = dp.Ledger.open(ledger).verify().head
    place = desk.folder.shared / name
    place.unlink(missing_ok=True)
    link(ledger, place)
    with pytest.raises(dp.LedgerError, match="is a link, or no regular file"):
        Desk.open(desk.folder.path)
    assert dp.Ledger.open(ledger).verify().head == before


def test_a_ledger_is_no_journal(desk, tmp_path):
    """A copy of a ledger, a chain as well, in the place of the journal: nothing is added to it."""
    shutil.copy2(tmp_path / "ledger.db", desk.folder.journal)
    for action in (lambda: Desk.open(desk.folder.path), desk.register.catch_up):
        with pytest.raises(dp.LedgerError, match="is no journal"):
            action()


def test_an_old_ledger_is_refused_whatever_desk_db_says(desk, tmp_path):
    """Questions that were paid are taken out of desk.db, and the ledger from before is put back."""
    ask(desk)
    work(desk)
    ledger = tmp_path / "ledger.db"
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(ledger)) as one, closing(sqlite3.connect(old)) as two:
        one.backup(two)
    paid = ask(desk, rho=0.2)
    work(desk)
    forge(desk, "DELETE FROM questions WHERE id = ?", paid.id)
    for ending in ("", "-wal", "-shm"):
        ledger.with_name(ledger.name + ending).unlink(missing_ok=True)
    shutil.copy2(old, ledger)
    asked = ask(desk, rho=0.3)
    work(desk)
    assert desk.table("visits").state == "paused"
    assert "an old copy was put back" in desk.table("visits").reason
    forge(desk, "UPDATE tables SET state = 'open'")  # and again, by who has taken over the pages
    work(desk)
    assert desk.ticket(asked.id).state in ("queued", "refused")
    assert len(dp.Ledger.open(ledger).entries()) == 1
    shutil.rmtree(desk.folder.path / "seen")  # this alone had kept it
    forge(desk, "UPDATE tables SET state = 'open'")
    again = ask(desk, rho=0.4)
    work(desk)
    assert later(desk).ticket(again.id).state == "answered"


@pytest.mark.parametrize("slot", [1e-3, 0.5, 1e9, -1.0, None])
def test_a_response_time_is_one_of_the_desk(desk, slot):
    """One that is not is refused before anything is booked."""
    asked = ask(desk)
    desk.register.move(asked.id, ("queued",), "claimed", "worker", slot=slot)
    os.waitpid(forked(lambda: fit_process.main(str(desk.folder.path), asked.id)), 0)
    found = desk.ticket(asked.id)
    assert (found.state, found.reason) == ("refused", fit_process.NO_SUCH_RESPONSE_TIME)
    assert desk.table("visits").ledger().entries() == ()


def test_a_table_without_its_seal_is_changed(desk):
    """Also where its files are those that were registered."""
    assert desk.table("visits").changed() == ""
    forge(desk, "UPDATE tables SET records = 7")
    assert "is not what was registered" in desk.table("visits").changed()


OWNER = 61_001
OTHER = 61_002
GROUP = 61_000
TWO_USERS = pytest.mark.skipif(os.getuid() != 0, reason="acts as two users of the system")


@pytest.fixture
def shared_desk():
    """A desk of one user that another one of the group is let in to."""
    with tempfile.TemporaryDirectory() as place:  # not that of pytest, which is for its user alone
        os.chmod(place, 0o755)
        desk = desk_in(Path(place))
        folder = desk.folder
        for path in (Path(place), *Path(place).rglob("*")):
            if path.name != "desk":
                os.chown(path, OWNER, GROUP)
        os.chown(folder.path, OWNER, GROUP)
        as_user(OWNER, folder.share)
        yield desk


def as_user(user, act):
    """Do something as a user of the group, under the mask of the units."""
    child = forked(lambda: changed_to(user, act))
    _, status = os.waitpid(child, 0)
    assert status == 0


def changed_to(user, act):
    os.setgroups([GROUP])
    os.setgid(GROUP)
    os.setuid(user)
    os.umask(0o027)
    act()


@TWO_USERS
def test_guarantee_nothing_beside_the_databases(shared_desk):
    """Another user of the group changes the desk; he puts nothing in the place of its files, makes none
    beside them, no rollback journal either, and takes none away.
    """
    folder = shared_desk.folder
    files = sorted(folder.shared.iterdir())
    endings = ("", "-wal", "-shm")
    expected = [
        folder.shared / f"{name}.db{end}" for name in ("desk", "journal") for end in endings
    ]
    assert files == sorted(expected)

    def other():
        with closing(sqlite3.connect(folder.database)) as connection:
            connection.execute("UPDATE people SET words = 'changed'")
            connection.commit()
        for path in files:
            with pytest.raises(PermissionError):
                path.unlink()
            with pytest.raises(PermissionError):
                path.rename(folder.shared / "away")
            with pytest.raises(PermissionError):
                os.symlink(path, folder.shared / "link")
            with pytest.raises(PermissionError):
                (folder.shared / f"{path.name}-journal").touch()

    as_user(OTHER, other)
    assert sorted(folder.shared.iterdir()) == files
    assert shared_desk.persons()[0].description == "changed"
    assert sorted(folder.shared.iterdir()) == files  # also after a connection of root


@TWO_USERS
def test_two_users_write_at_once(shared_desk):
    """What SQLite makes beside a database, and gives its rights a moment later, stops neither of them."""
    times = 150

    def write(user):
        def act():
            desk = Desk.open(shared_desk.folder.path, who=str(user), public=user == OTHER)
            for number in range(times):
                with desk.register.change(str(user)) as change:
                    change.event("written", number=number)

        return lambda: changed_to(user, act)

    before = len(shared_desk.journal())
    children = [forked(write(user)) for user in (OWNER, OTHER, OWNER, OTHER)]
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert statuses == [0, 0, 0, 0]
    shared_desk.register.catch_up()
    assert len(shared_desk.journal()) == before + 4 * times
    assert shared_desk.verify().faults == ()


@TWO_USERS
def test_nothing_is_left_beside_a_database_that_would_be_read_with_a_copy(shared_desk):
    """Whoever could not take the log of SQLite away has emptied it."""

    def act():
        desk = Desk.open(shared_desk.folder.path, who="web", public=True)
        with desk.register.change("web") as change:
            change.event("written")

    as_user(OTHER, act)
    logs = sorted(shared_desk.folder.shared.glob("*-wal"))
    assert [log.stat().st_size for log in logs] == [0, 0]
