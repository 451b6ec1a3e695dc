"""A fit that is killed at any moment leaves a whole ledger, and no result without its entry."""

import os
import random
import signal
import subprocess
import time

import dpinfer as dp
from terminal import PROGRAM, files_in


def test_guarantee_no_result_without_its_entry(tmp_path):
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
    command = [PROGRAM, *given, "--ledger", "ledger.db", "--out"]
    start = time.monotonic()
    subprocess.run([*command, "whole"], cwd=tmp_path, check=True, timeout=60)
    whole, chance = time.monotonic() - start, random.Random(0)
    for j in range(4):
        child = subprocess.Popen([*command, f"out{j}"], cwd=tmp_path)
        time.sleep(whole * chance.uniform(0.4, 1.1))
        child.send_signal(signal.SIGKILL)
        child.wait()
    ledger = dp.Ledger.open(tmp_path / "ledger.db")
    assert ledger.verify().ok
    booked = {entry.release for entry in ledger.entries()}
    results = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*/result.json")]
    releases = [dp.FitResult.from_json(text).privacy.release for text in results]
    assert releases
    assert set(releases) <= booked
    assert len(set(releases)) == len(releases)
    assert len(os.listdir(tmp_path / "whole")) == 4
