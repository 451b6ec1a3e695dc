"""What somebody who has taken over the process with the network writes into shared/, and what the
worker does with it.
"""

import os
import sqlite3
from contextlib import closing

import pytest

import dpinfer as dp
from desks import ask, desk_in, work
from dpinfer.desk import child
from dpinfer.desk.holding import held, holder
from forking import forked


@pytest.fixture
def desk(tmp_path):
    return desk_in(tmp_path)


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
            child._log(tmp_path / name)
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
        with held(path) as mine:
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
