"""Fifty processes book in one ledger that has thousands of entries: nothing overspent, nothing
lost, and how fast.

PYTHONPATH=src .venv/bin/python benchmarks/ledger.py --entries 3000 --processes 50 --each 20
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import dpinfer as dp
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from dpinfer.privacy import store
from dpinfer.privacy.entries import Entry, entry_text
from dpinfer.privacy.release import NoisySum, PerturbedMinimum

RHO = 1e-6


def entry(number: int, rho: float = RHO) -> Entry:
    """Four releases, the perturbed minimum different for each number, as fits of a geometry have
    them.
    """
    objective = PerturbedObjective(3e4 * (1 + number / 1e4), 1e-5, "logistic")
    share = dp.ZCDP(objective.cost() * 1.001)
    sums = tuple(
        NoisySum(step, dp.ZCDP(rho), 1.0) for step in ("crude moments", "moments", "matrices")
    )
    return Entry("benchmark", "one record", (*sums, PerturbedMinimum("estimate", share, objective)))


def filled(path: Path, entries: int, total: dp.ApproxDP) -> dp.Ledger:
    """A ledger with so many entries, written at once."""
    ledger = dp.Ledger.create(path, total)
    with store.transaction(path, "BEGIN IMMEDIATE") as connection:
        row = store._rows(connection)[-1]
        for number in range(entries):
            row = store.link(row, entry_text(entry(number)))
            connection.execute("INSERT INTO chain VALUES (?, ?, ?)", row)
    return ledger


def spend(path: Path, each: int) -> tuple[list[str], int]:
    """Book so often; the releases that were booked, and how often the file was locked for too long."""
    ledger = dp.Ledger.open(path)
    taken = list[str]()
    locked = 0
    for number in range(each):
        try:
            taken.append(ledger.book(entry(number, 5e-5)))
        except dp.LedgerError as refusal:
            locked += "is locked" in str(refusal)
            if "is locked" not in str(refusal) and "left of" not in str(refusal):
                raise
    return taken, locked


def main() -> None:
    """Fill, book from all processes, check, print."""
    parser = argparse.ArgumentParser()
    for name, usual in (("--entries", 3000), ("--processes", 50), ("--each", 20)):
        parser.add_argument(name, type=int, default=usual)
    asked = parser.parse_args()
    path = Path(tempfile.mkdtemp()) / "ledger.db"
    ledger = filled(path, asked.entries, dp.ApproxDP(2.6, 1e-6))
    start = time.perf_counter()
    opened = dp.Ledger.open(path)
    found: dict[str, Any] = {"entries": asked.entries, "open_warm_s": time.perf_counter() - start}
    with multiprocessing.get_context("fork").Pool(asked.processes) as pool:
        start = time.perf_counter()
        done = pool.starmap(spend, [(path, asked.each)] * asked.processes, chunksize=1)
        wall = time.perf_counter() - start
    booked = [each.release for each in opened.entries()[asked.entries :]]
    assert sorted(booked) == sorted(release for taken, _ in done for release in taken), (
        "a booking was lost"
    )
    assert opened.verify().ok
    assert opened.spent() <= ledger.total.epsilon * (1 + 1e-9), "overspent"  # type: ignore[union-attr]
    asks = asked.processes * asked.each
    found |= {"processes": asked.processes, "asked": asks, "booked": len(booked)}
    found |= {"locked": sum(locked for _, locked in done)}
    found |= {
        "wall_s": wall,
        "asked_per_s": asks / wall,
        "booked_per_s": len(booked) / wall,
        "left": opened.left(),
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
