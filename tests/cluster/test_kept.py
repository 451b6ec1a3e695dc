"""What workers keep for the time of a fit: rows are read once, partitions have any number and size,
and nothing stays behind.
"""

import _thread
import itertools
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import moment_and_score, sum_error
from dpinfer.rows import workers
from dpinfer.schema.formula import parse
from dpinfer.tables.table import read
from helpers import people, tables

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines warn of much

RECORDS = "ill ~ age + w + sex"
PERSONS = "y ~ a + b"
ROWS = Adjacency.REPLACE
WHAT = moment_and_score(ROWS).of_block


def records(native):
    return read(native, *parse(RECORDS, tables.SCHEMA), "margin")[1]


def persons(native):
    """Their number is declared, so that nothing is read before the fit."""
    schema = people.schema(people.AVERAGE + "units = 300\n")
    return read(native, *parse(PERSONS, schema), "margin", schema.unit)[1]


KINDS = {
    "records": (records, lambda: tables.table(900)),
    "persons": (persons, lambda: people.table(rows=900, persons=300)),
}


def marking(folder):
    """A step that leaves a mark in a folder whenever a partition is read."""
    folder.mkdir()
    name = str(folder)
    return lambda: Path(name, f"{time.time_ns()}-{os.getpid()}").touch()


def taken(folder):
    """The number of marks, which are gone then."""
    found = list(folder.iterdir())
    for mark in found:
        mark.unlink()
    return len(found)


def let_go(engine):
    """Whether nothing is kept any more; an engine takes a while."""
    for _ in range(100):
        if not engine.held():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_read_once(engine, kind, tmp_path):
    """In the first pass; beyond the bound of what may be kept in every pass, with the same sums."""
    opened, table = KINDS[kind]
    marks = tmp_path / "marks"
    pending = opened(engine.through(engine.spread(table()), marking(marks)))
    taken(marks)
    with pending.opened() as source:
        kept = [source.total(WHAT) for _ in range(3)]
        once = taken(marks)
        assert engine.held()
    assert let_go(engine)
    with pytest.MonkeyPatch.context() as patch, pending.opened() as source:
        patch.setenv("DPINFER_KEEP", "0")
        anew = [source.total(WHAT)]
        taken(marks)
        anew += [source.total(WHAT), source.total(WHAT)]
        # the rows of persons were sorted, and that is kept as it always was
        assert taken(marks) == (0 if kind == "persons" else 2 * once)
    assert let_go(engine)
    here = opened(table()).read().total(WHAT)
    error = 2 * sum_error(private_number=True, units=True)
    assert all(np.abs(found - here).max() <= error for found in kept + anew)


def test_the_bound_of_what_is_kept(engine):
    """Of all workers together: 900 rows of 4 numbers, label, weight, share and start are 58 kB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPINFER_KEEP", "1")
        with records(engine.spread(tables.table(900))).opened() as source:
            source.total(WHAT)
            assert source._kept
        patch.setattr(workers, "kept", lambda: 28_000)
        with records(engine.spread(tables.table(900))).opened() as source:
            source.total(WHAT)
            assert not source._kept
        patch.setattr(workers, "kept", lambda: 29_500)
        with records(engine.spread(tables.table(900))).opened() as source:
            source.total(WHAT)
            assert source._kept


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_dies_with_what_it_keeps(engine, kind):
    """Another one encodes its partitions again."""
    opened, table = KINDS[kind]
    here = opened(table()).read().total(WHAT)
    with opened(engine.spread(table())).opened() as source:
        before = source.total(WHAT)
        assert engine.held()
        os.kill(engine.workers()[0], signal.SIGKILL)
        after = source.total(WHAT)
    for found in (before, after):
        assert np.allclose(found, here, rtol=1e-12, atol=1e-12)
    assert let_go(engine)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_stays_behind_after_an_error(engine, kind):
    opened, table = KINDS[kind]
    pending = opened(engine.spread(table()))

    def broken():
        with pending.opened() as source:
            source.total(WHAT)
            assert engine.held()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert let_go(engine)


@pytest.fixture
def interruptible():
    """A program that was started in the background is deaf to Ctrl-C, and so would its tests be."""
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, signal.SIG_DFL):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [1, 3])
def test_nothing_stays_behind_after_an_interrupt(engine, number):
    """Ctrl-C while a pass runs, the first, which encodes, or a later one; the session works on."""
    native = engine.through(engine.spread(tables.table(900)), lambda: time.sleep(0.3))
    fit = dp.LogisticRegression(RECORDS, schema=tables.SCHEMA, budget=dp.ZCDP(0.5), insecure_seed=1)
    passes = []

    def watch(_, done):
        if done == 0:
            passes.append(done)
            if len(passes) == number:
                threading.Timer(0.05, _thread.interrupt_main).start()

    with pytest.raises(KeyboardInterrupt), workers.progress(watch):
        fit.fit(native)
    assert len(passes) <= number + 1
    assert let_go(engine)
    assert np.isfinite(fit.fit(engine.spread(tables.table(900))).result_.estimate).all()
    assert let_go(engine)


def parted(engine, frame, sizes):
    """A table in partitions of these sizes."""
    ends = np.cumsum([0, *sizes])
    parts = [frame.iloc[first:last] for first, last in itertools.pairwise(ends)]
    if engine.name == "dask":
        import dask.dataframe as dd  # noqa: PLC0415

        return dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])
    native = None
    for part in parts:
        one = engine.spread(part, parts=1)
        native = one if native is None else native.union(one)
    return native


@pytest.mark.parametrize("sizes", [(0, 1, 899), (900, 0), (1, 1, 1, 897)], ids=str)
def test_partitions_of_any_size(engine, sizes):
    frame = tables.table(900)
    here = records(frame).read().total(WHAT)
    with records(parted(engine, frame, sizes)).opened() as source:
        for _ in range(2):
            assert np.allclose(source.total(WHAT), here, rtol=1e-12, atol=1e-12)
    assert let_go(engine)


def test_more_partitions_than_rows(engine, monkeypatch):
    """Some of them empty; one sum comes back, through several levels of a tree."""
    frame = tables.table(300)
    if engine.name == "dask":
        native = engine.spread(frame, parts=300)
        assert native.npartitions > 16**2  # groups of groups
    else:
        native = engine.spread(frame, parts=1).repartition(400)
        monkeypatch.setattr("dpinfer.tables.on_spark._GROUP", 10)
        monkeypatch.setattr("dpinfer.tables.on_spark._FEW", 1)
    here = records(frame).read().total(WHAT)
    with records(native).opened() as source:
        back = []
        real = source.sums
        source.sums = lambda task: back.append(real(task)) or back[-1]
        for _ in range(2):
            assert np.allclose(source.total(WHAT), here, rtol=1e-12, atol=1e-12)
    assert [len(found) for found in back] == [1, 1]
    assert let_go(engine)
