"""A worker that is killed in the middle of a pass: its partitions are summed by others, and nobody pays twice."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
import people
import tables

pytestmark = pytest.mark.filterwarnings("default")


def deadly(engine, folder, after):
    """A step that counts its calls and kills the process of its worker in one of them, after so many."""
    spark = engine.name == "spark"

    def step():
        (Path(folder) / f"{time.time_ns()}-{os.getpid()}").touch()
        if len(list(Path(folder).iterdir())) < after:
            return
        try:
            os.close(os.open(f"{folder}-killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        victim = os.getpid()
        if spark:  # the executor, above the process of Python
            import psutil  # noqa: PLC0415

            victim = next(parent.pid for parent in psutil.Process().parents() if "java" in parent.name())
        os.kill(victim, signal.SIGKILL)
        time.sleep(60)

    return step


def spread_and_kill(engine, frame, tmp_path, after):
    (tmp_path / "calls").mkdir()
    return engine.through(engine.spread(frame), deadly(engine, str(tmp_path / "calls"), after))


def test_rows(engine, tmp_path):
    """Seeded: the same bits as without a death."""
    frame = tables.table(4000)
    fit = dp.LogisticRegression("ill ~ age + w + sex", schema=tables.SCHEMA, budget=dp.ZCDP(0.5), insecure_seed=11)
    alive = fit.fit(engine.spread(frame)).result_
    after = fit.fit(spread_and_kill(engine, frame, tmp_path, after=14)).result_
    assert (tmp_path / "calls-killed").exists()
    assert np.array_equal(after.estimate, alive.estimate)
    assert np.array_equal(after.conf_int(), alive.conf_int(), equal_nan=True)


def test_persons(engine, tmp_path):
    """Booked: one entry, whatever dies; here before or while rows are sorted by their ids."""
    frame = people.table(rows=4000, persons=1000)
    ledger = dp.Ledger(dp.ZCDP(1), unit="one person", neighbours="replace-unit")
    fit = dp.LogisticRegression("y ~ a + b", schema=people.schema(), budget=dp.ZCDP(0.5), ledger=ledger)
    result = fit.fit(spread_and_kill(engine, frame, tmp_path, after=8)).result_
    assert (tmp_path / "calls-killed").exists()
    assert len(ledger.entries()) == 1
    assert result.privacy.release == ledger.entries()[0].release
    assert np.isfinite(result.estimate).all()
