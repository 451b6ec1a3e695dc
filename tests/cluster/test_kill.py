"""A worker that is killed in the middle of a pass: its partitions are summed by others, and nobody
pays twice.
"""

import os
import signal
import time
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path

import numpy as np
import psutil
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import second_moment
from dpinfer.rows import workers
from dpinfer.schema.formula import parse
from dpinfer.tables.table import read
from helpers import people, tables

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines warn of much


def deadly(engine, folder, after):
    """A step that counts its calls and kills the process of its worker in one of them, after so
    many.
    """
    spark = engine.name == "spark"

    def step():
        (Path(folder) / f"{time.time_ns()}-{os.getpid()}").touch()
        if len(list(Path(folder).iterdir())) < after:
            return
        try:
            os.close(os.open(f"{folder}-killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        above = [one.pid for one in psutil.Process().parents() if "java" in one.name()]
        os.kill(
            above[0] if spark else os.getpid(), signal.SIGKILL
        )  # with Spark the executor, not only its Python
        time.sleep(60)

    return step


def test_rows(engine, tmp_path):
    """Seeded: the same bits as without a death."""
    frame = tables.table(4000)
    fit = dp.LogisticRegression(
        "ill ~ age + w + sex", schema=tables.SCHEMA, budget=dp.ZCDP(0.5), insecure_seed=11
    )
    alive = fit.fit(engine.spread(frame)).result_
    (tmp_path / "calls").mkdir()
    native = engine.spread(frame)
    # all partitions are read to count their rows, and once more to encode them
    step = deadly(engine, str(tmp_path / "calls"), after=engine.parts(native) + 1)
    after = fit.fit(engine.through(native, step)).result_
    assert (tmp_path / "calls-killed").exists()
    assert np.array_equal(after.estimate, alive.estimate)
    assert np.array_equal(after.conf_int(), alive.conf_int(), equal_nan=True)


@contextmanager
def death_in_pass(engine, number):
    """A worker is killed as a pass begins, by its number."""
    passes = count(1)

    def watch(_, done):
        if done == 0 and next(passes) == number:
            os.kill(engine.workers()[0], signal.SIGKILL)

    with workers.progress(watch):
        yield
    assert next(passes) > number + 1


def test_persons(engine):
    """The worker holds rows that were sorted by their ids: they are sorted again; nobody is lost or
    counted twice.
    """
    frame, schema = (
        people.table(rows=4000, persons=1000),
        people.schema(people.AVERAGE + "units = 1000\n"),
    )
    sums = []
    for native in (frame, engine.spread(frame)):
        _, pending = read(native, *parse("y ~ a + b", schema), "margin", schema.unit)
        with (
            pending.opened() as source,
            death_in_pass(engine, 2) if native is not frame else nullcontext(),
        ):
            sums += [source.total(second_moment(Adjacency.REPLACE_UNIT).of_block) for _ in range(3)]
    assert np.allclose(sums, sums[0], rtol=1e-12, atol=1e-12)


def test_one_charge(engine):
    """The noise is drawn here, after a pass that was begun twice."""
    frame, ledger = tables.table(1000), dp.Ledger(dp.ZCDP(1), unit="one person")
    fit = dp.LinearRegression(
        "cost ~ w + sex", schema=tables.SCHEMA, budget=dp.ZCDP(0.5), ledger=ledger
    )
    with death_in_pass(engine, 3):
        booked = fit.fit(engine.spread(frame)).result_
    (entry,) = ledger.entries()
    assert entry.events == booked.privacy.events
    assert ledger.spent() == pytest.approx(0.5)
