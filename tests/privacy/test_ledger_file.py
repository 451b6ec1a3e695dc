"""The ledger's file against crashes, races, damage, forgers and full disks, with real processes and
a real disk.
"""

import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest

import dpinfer as dp
from dpinfer.privacy import accountant, store
from dpinfer.privacy.entries import Entry
from helpers.forking import forked, in_a_child
from helpers.support import labelled, opaque

X, Y = labelled(50, 2)
KILLS = int(os.environ.get("DPINFER_KILLS", "60"))


def entry(rho=0.01):
    return Entry("test", "one record", (opaque(dp.ZCDP(rho), "step"),))


@pytest.fixture
def ledger(tmp_path):
    """Three entries of a total of 1, and the entries they are."""
    ledger = dp.Ledger.create(tmp_path / "book.db", total=dp.ZCDP(1.0), title="test")
    for rho in (0.1, 0.2, 0.3):
        ledger.book(entry(rho))
    return ledger


class Noting:
    """A ledger that remembers the id of its last release."""

    def __init__(self, path):
        self.ledger, self.last = dp.Ledger.open(path), ""

    def book(self, booked):
        self.last = self.ledger.book(booked)
        return self.last


def fit_and_publish(path, log):
    """Fit for ever; after each fit, its release id is published: on the disk before the next one
    begins.
    """
    noting = Noting(path)
    with log.open("a") as published:
        while True:
            dp.infer(X, Y, loss=dp.Logistic(), penalty=0.05, budget=dp.ZCDP(0.01), ledger=noting)
            published.write(noting.last + "\n")
            published.flush()
            os.fsync(published.fileno())


def test_guarantee_no_charge_lost(tmp_path):
    """A process that fits and publishes is killed at random moments; 60 times, or DPINFER_KILLS."""
    path, log = tmp_path / "book.db", tmp_path / "published.txt"
    # far more than any machine can spend here: what is left would end the fits, and a sum may round
    dp.Ledger.create(path, total=dp.ZCDP(10.0 * KILLS))
    log.touch()
    moments, reach, published = random.Random(0), 0.03, []
    for _ in range(KILLS):
        child = forked(lambda: fit_and_publish(path, log))
        time.sleep(moments.uniform(0.001, reach))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        before, published = published, log.read_text().split("\n")[:-1]
        reach *= 1.2 if len(published) == len(before) else 0.9  # a busy machine takes longer to fit
    assert len(published) > KILLS / 6
    ledger = dp.Ledger.open(path)
    booked = [each.release for each in ledger.entries()]
    assert ledger.verify().ok
    assert set(published) <= set(booked)
    assert len(set(booked)) == len(booked)
    assert ledger.spent() == pytest.approx(0.01 * len(booked))
    assert ledger.spent() <= ledger.total.rho


def test_processes_cannot_share_the_last_share(tmp_path, monkeypatch):
    path, log = tmp_path / "book.db", tmp_path / "taken.txt"
    dp.Ledger.create(path, total=dp.ZCDP(0.1))
    paid = accountant.Count.paid

    def slowly(count):  # so that without a lock the processes would overtake each other
        found = paid(count)
        time.sleep(3e-3)
        return found

    monkeypatch.setattr(accountant.Count, "paid", slowly)

    def take():
        ledger = dp.Ledger.open(path)
        for _ in range(5):
            try:
                answer = ledger.book(entry())
            except dp.LedgerError as refusal:
                answer = str(refusal)
            with log.open("a") as taken:
                taken.write(answer + "\n")

    children = [forked(take) for _ in range(6)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    answers = log.read_text().split("\n")[:-1]
    booked = {each.release for each in dp.Ledger.open(path).entries()}
    assert len(booked) == 10
    assert {answer for answer in answers if "may cost up to" not in answer} == booked
    assert sum("up to ρ = 0 of the total, ρ = 0.1" in answer for answer in answers) == 20


def test_a_ledger_is_made_once(tmp_path):
    path = tmp_path / "a book?#%41.db"
    dp.Ledger.create(path, total=dp.ZCDP(1.0)).book(entry())
    with pytest.raises(dp.LedgerError, match="exists already: open it"):
        dp.Ledger.create(path, total=dp.ZCDP(5.0))
    assert len(dp.Ledger.open(str(path)).entries()) == 1
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    with pytest.raises(dp.LedgerError, match="No such file"):
        dp.Ledger.create(tmp_path / "nowhere" / "book.db", total=dp.ZCDP(1.0))
    with pytest.raises(dp.LedgerError, match=r"make one with dp\.Ledger\.create"):
        dp.Ledger.open(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_it_stays_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = dp.Ledger.create("book.db", total=dp.ZCDP(1.0))
    monkeypatch.chdir("/")
    ledger.book(entry())
    assert ledger.path == tmp_path / "book.db"


def test_what_is_not_a_ledger(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("rho = 1\n" * 1000)
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE chain (number INTEGER PRIMARY KEY, body TEXT, hash TEXT)")
    other.close()
    (tmp_path / "folder").mkdir()
    for name in ("empty", "text", "other", "folder"):
        with pytest.raises(dp.LedgerError, match=r"not a ledger|broken|cannot be written"):
            dp.Ledger.open(tmp_path / name)


@pytest.mark.parametrize(
    ("version", "words"),
    [(1, "format 1 .* left as it is"), (2, "format 2 .* left as it is"), (4, "use a newer one")],
)
def test_another_format_is_not_guessed_at(tmp_path, version, words):
    path = tmp_path / "book.db"
    store.FileStore.create(path, f'{{"format": "dpinfer.Ledger", "version": {version}}}')
    before = path.read_bytes()
    with pytest.raises(dp.LedgerError, match=words):
        dp.Ledger.open(path)
    assert path.read_bytes() == before


def test_an_entry_without_later_fields_is_read(ledger):
    ledger._store.append(lambda rows: rows[-1][1].replace('"schema": "", ', ""))
    *_, third, old = ledger.entries()
    assert '"schema"' not in ledger._store.rows()[-1][1]
    assert old == third
    ledger._store.append(lambda rows: rows[-1][1].replace('"purpose"', '"aim"'))
    with pytest.raises(dp.LedgerError, match="entry 5 cannot be read by this version"):
        ledger.book(entry())


TOTAL = """UPDATE chain SET body = replace(body, '"rho": 1.0', '"rho": 9.0') WHERE number = 0"""
EDITS = {
    TOTAL: "the header was changed",
    "DELETE FROM chain WHERE number = 0": "the header is missing",
    "DELETE FROM chain": "the header is missing",
    """UPDATE chain SET body = replace(body, '"rho": 0.1', '"rho": 0.01')""": "entry 1 was changed",
    "UPDATE chain SET hash = upper(hash) WHERE number = 2": "entry 2 was changed",
    "UPDATE chain SET body = CAST(body AS BLOB) WHERE number = 3": "entry 3 was changed",
    "DELETE FROM chain WHERE number = 2": "entry 2 is missing",
    "DELETE FROM chain WHERE number = 2; UPDATE chain SET number = 2 WHERE number = 3": "entry 2 was changed",
    "UPDATE chain SET number = 4 WHERE number = 3": "entry 3 is missing",
    "INSERT INTO chain SELECT 4, body, hash FROM chain WHERE number = 3": "entry 4 was changed",
}
RULES = ("rows_stay", "rows_keep", "rows_follow")


def edit(path, script):
    """Change the file behind the ledger's back: without its rules, which are put back."""
    connection = sqlite3.connect(path)
    connection.executescript("".join(f"DROP TRIGGER {rule};" for rule in RULES) + script + ";")
    for rule in RULES:
        connection.execute(store._TRIGGERS[rule])
    connection.commit()
    connection.close()


@pytest.mark.parametrize("script", EDITS)
def test_guarantee_append_only(ledger, script):
    for forbidden in (
        "UPDATE chain SET hash = ''",
        "DELETE FROM chain",
        "INSERT OR REPLACE INTO chain VALUES (1, '', '')",
    ):
        connection = sqlite3.connect(ledger.path)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(forbidden)
        connection.close()
    assert ledger.verify().ok
    edit(ledger.path, script)
    for use in (
        ledger.entries,
        ledger.spent,
        lambda: ledger.book(entry()),
        lambda: dp.Ledger.open(ledger.path),
    ):
        with pytest.raises(
            dp.LedgerError, match=f"broken, {EDITS[script]}, .* put the last good copy in its place"
        ):
            use()
    found = ledger.verify()
    assert not found.ok
    assert EDITS[script] in found.fault


def test_dropped_rules_are_found(ledger):
    connection = sqlite3.connect(ledger.path)
    connection.execute("DROP TRIGGER rows_keep")
    connection.close()
    assert "append-only were changed" in ledger.verify().fault
    with pytest.raises(dp.LedgerError, match="append-only were changed"):
        dp.Ledger.open(ledger.path)


def test_what_the_chain_cannot_see(ledger, tmp_path):
    """A shorter chain is a chain: only the number of entries and the head tell, if somebody kept
    them.
    """
    shutil.copy(ledger.path, tmp_path / "old.db")
    before = ledger.verify()
    ledger.book(entry())
    after = ledger.verify()
    assert after.entries == before.entries + 1
    edit(ledger.path, "DELETE FROM chain WHERE number = 4")
    opened = dp.Ledger.open(ledger.path)
    assert opened.verify() == dp.Ledger.open(tmp_path / "old.db").verify() == before != after


@pytest.mark.parametrize("meanwhile", [0, 1, 5])
def test_guarantee_no_way_back(ledger, tmp_path, meanwhile):
    """An old copy under a ledger that is open is refused, however many entries were booked in it
    meanwhile.
    """
    shutil.copy(ledger.path, tmp_path / "old.db")
    ledger.book(entry())
    ledger.book(entry())
    shutil.copy(ledger.path, tmp_path / "new.db")
    other = dp.Ledger.open(tmp_path / "old.db")
    for _ in range(meanwhile):
        other.book(entry())
    shutil.copy(tmp_path / "old.db", ledger.path)
    for use in (
        ledger.entries,
        ledger.spent,
        ledger.left,
        ledger.rules,
        lambda: ledger.book(entry()),
    ):
        with pytest.raises(
            dp.LedgerError, match="an old copy was put back; put the newest one in its place"
        ):
            use()
    assert "an old copy" in ledger.verify().fault
    assert "an old copy" in ledger.preview(entry()).reason
    assert len(dp.Ledger.open(ledger.path).entries()) == 3 + meanwhile
    shutil.copy(tmp_path / "new.db", ledger.path)
    ledger.book(entry())
    assert len(ledger.entries()) == 6


def test_what_another_program_booked_is_remembered_too(ledger, tmp_path):
    shutil.copy(ledger.path, tmp_path / "old.db")
    dp.Ledger.open(ledger.path).book(entry())
    assert len(ledger.entries()) == 4
    shutil.copy(tmp_path / "old.db", ledger.path)
    with pytest.raises(dp.LedgerError, match="an old copy"):
        ledger.book(entry())


def test_another_ledger_in_its_place_is_refused(ledger, tmp_path):
    dp.Ledger.create(tmp_path / "new.db", total=dp.ZCDP(1.0), title="test")
    shutil.copy(tmp_path / "new.db", ledger.path)
    with pytest.raises(dp.LedgerError, match="no longer the ledger that was opened"):
        ledger.book(entry())


def test_a_flipped_bit_is_found_or_harmless(ledger):
    whole, entries = ledger.path.read_bytes(), ledger.entries()
    moments, found = random.Random(0), 0
    used = [place for place, byte in enumerate(whole) if byte]
    for place in moments.sample(used, 150):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << moments.randrange(8)
        ledger.path.write_bytes(flipped)
        try:
            opened = dp.Ledger.open(ledger.path)
        except dp.LedgerError:
            found += 1
        else:
            assert (opened.entries(), opened.total) == (entries, dp.ZCDP(1.0))
    assert found > 100


def test_a_locked_file_is_refused_in_time(ledger, monkeypatch):
    monkeypatch.setattr(store, "TIMEOUT", 0.2)
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    with pytest.raises(
        dp.LedgerError, match=r"locked for more than 0\.2 s: wait for the other process"
    ):
        ledger.book(entry())
    assert 0.2 <= time.monotonic() - start < 3
    assert ledger.spent() == pytest.approx(0.6)  # reading needs no lock
    holder.execute("ROLLBACK")
    holder.close()
    ledger.book(entry())


def test_a_full_disk_refuses_and_loses_nothing(ledger, tmp_path):
    log, refused = tmp_path / "published.txt", tmp_path / "refused.txt"

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_960, 40_960))
        with log.open("a") as published:
            while ledger.preview(entry(1e-6)).accepted:
                try:
                    published.write(ledger.book(entry(1e-6)) + "\n")
                except dp.LedgerError as refusal:
                    refused.write_text(str(refusal))
                    return

    assert in_a_child(fill)
    assert "make room and try again" in refused.read_text()
    published = log.read_text().split()
    assert len(published) > 10
    assert ledger.verify().ok
    assert [each.release for each in ledger.entries()[3:]] == published
    ledger.book(entry())


def test_a_full_disk_leaves_no_half_made_ledger(tmp_path):
    def make():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
        with pytest.raises(dp.LedgerError, match="make room and try again"):
            dp.Ledger.create(tmp_path / "book.db", total=dp.ZCDP(1.0))

    assert in_a_child(make)
    dp.Ledger.create(tmp_path / "book.db", total=dp.ZCDP(1.0))


@pytest.mark.parametrize(("of_file", "of_folder"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555)])
def test_guarantee_refused_unless_written(of_file, of_folder):
    folder = Path(tempfile.mkdtemp())
    ledger = dp.Ledger.create(folder / "book.db", total=dp.ZCDP(1.0))
    ledger.path.chmod(of_file)
    folder.chmod(of_folder)

    def fit():
        if os.getuid() == 0:  # whom no permission stops
            os.setuid(65534)
        with pytest.raises(dp.LedgerError, match="allow writing to the file and to its folder"):
            dp.infer(X, Y, loss=dp.Logistic(), penalty=0.05, budget=dp.ZCDP(0.01), ledger=ledger)
        if of_folder == 0o555:
            with pytest.raises(dp.LedgerError, match="Permission denied"):
                dp.Ledger.create(folder / "new.db", total=dp.ZCDP(1.0))

    try:
        assert in_a_child(fit)
        folder.chmod(0o755)
        assert ledger.entries() == ()
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_every_transaction_waits_for_the_disk(tmp_path):
    """FULL is 2: with OFF or NORMAL a power cut could take back an entry whose release is out."""
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0))
    for begin in ("BEGIN", "BEGIN IMMEDIATE"):
        with store.transaction(tmp_path / "ledger.db", begin) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_fifty_processes_on_a_long_ledger(tmp_path):
    """Nothing overspent and nothing lost; benchmarks/ledger.py is the same with thousands of
    entries.
    """
    path, log = tmp_path / "book.db", tmp_path / "taken.txt"
    ledger = dp.Ledger.create(path, total=dp.ZCDP(1.2))
    for _ in range(20):
        ledger.book(entry())

    def take():
        mine = dp.Ledger.open(path)
        for _ in range(3):
            try:
                name = mine.book(entry())
            except dp.LedgerError as refusal:
                if "of the total, ρ = 1.2" not in str(refusal):
                    raise
            else:
                with log.open("a") as taken:
                    taken.write(name + "\n")

    children = [forked(take) for _ in range(50)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 50
    booked = [each.release for each in ledger.entries()]
    assert len(booked) == 120
    assert sorted(log.read_text().split()) == sorted(booked[20:])
    assert ledger.verify().ok
    assert ledger.left() == pytest.approx(0, abs=1e-12)
