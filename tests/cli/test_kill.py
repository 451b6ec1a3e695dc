"""A fit that is killed at any moment leaves a whole ledger, and no result without its entry."""

import os
import random
import signal
import time

import dpinfer as dp
from helpers.forking import forked
from helpers.terminal import files_in, run_here, succeeds


def test_guarantee_no_result_without_its_entry(tmp_path):
    """Each is a process of its own, forked when everything is imported, so that the moments are
    moments of a fit.
    """
    files_in(tmp_path, 4000)
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1e6))
    given = [
        "fit",
        "table.parquet",
        "--schema",
        "schema.toml",
        "--formula",
        "y ~ a + b",
        "--rho",
        "1",
        "-q",
    ]
    command = [*given, "--ledger", "ledger.db", "--out"]
    succeeds(run_here(*command, "first", cwd=tmp_path))
    start = time.monotonic()
    succeeds(run_here(*command, "whole", cwd=tmp_path))
    whole, chance = time.monotonic() - start, random.Random(0)
    for j in range(6):
        child = forked(lambda out=f"out{j}": run_here(*command, out, cwd=tmp_path))
        time.sleep(whole * chance.uniform(0.4, 1.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    ledger = dp.Ledger.open(tmp_path / "ledger.db")
    assert ledger.verify().ok
    booked = {entry.release for entry in ledger.entries()}
    results = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*/result.json")]
    releases = [dp.FitResult.from_json(text).privacy.release for text in results]
    assert releases
    assert set(releases) <= booked
    assert len(set(releases)) == len(releases)
    assert len(os.listdir(tmp_path / "whole")) == 4
