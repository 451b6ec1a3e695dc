"""The desk under kills, under many senders, and by the clock: `python -m benchmarks.desk kills|sends|times`.

kills  a desk that works is killed at random moments, itself, a fit of its, or both; then it is started once again.
sends  120 questions of 30 analysts, each sent three times by 30 threads, for 2.4 times the total.
times  the demo's table next to one in which every outcome is "yes": what the time from booking to answer tells of
       the data, with slots and without.

Results go to benchmarks/results/desk_*.json.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.locks import holder
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.store.verification import valid_result
from dpinfer_desk.worker.worker import Worker

RESULTS = Path(__file__).parent / "results"
SIDE_BY_SIDE = 2  # tables of each side that are at work at once
ROUND = 25  # questions of a table, before a new desk is made
PURE = {"formula": "visit ~ lncoins + idp + lpi + fmde + physlm + disea + health", "epsilon": 1.0}


def small_files(folder: Path, records: int = 400) -> None:
    """A small table with its schema."""
    demo = dp.datasets.rand_hie()
    demo.table.iloc[:records].to_parquet(folder / "table.parquet")
    demo.schema.write(folder / "schema.toml")


def desk_in(folder: Path, total: object, slot: float, tables: dict[str, Path]) -> Desk:
    """A desk with tables of one schema, a ledger each, and one analyst with room for everything."""
    desk = Desk.create(folder / "desk", response_times=[slot])
    roomy = {**vars(desk.settings), "open_per_person": 10**6, "open_per_table": 10**6}
    desk.folder.write(type(desk.settings)(**roomy))
    desk.add_person("analyst")
    for name, data in tables.items():
        ledger = folder / f"{name}.db"
        unit = dp.Schema.read(folder / "schema.toml").unit.name
        dp.Ledger.create(ledger, total, unit=unit)
        desk.add_table(
            name,
            data,
            folder / "schema.toml",
            ledger,
            Policy("none"),
            although="a benchmark has one table several times",
        )
        desk.allow(name, "analyst", 1e6)
    return desk


def forked(work: object) -> int:
    """A process that does the work and ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(0)


def run(desk: Desk) -> None:
    """Everything that is in the queue."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        Worker(Desk.open(desk.folder.path), "fork").run(until_idle=True)


def kills(number: int) -> dict[str, object]:
    """Kill a desk at work so many times; count what must not be.  A trial counts if a process was killed
    while a question was under way.  It goes on where it stopped.
    """
    path = RESULTS / "desk_kills.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    found = Counter(before.get("found", {}))
    hit = Counter(before.get("states at the kill", {}))
    ends = Counter(before.get("ends", {}))
    desk = None
    reach = 0.8
    trial = before.get("trials", 0)
    document: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as place:
        while found["kills"] < number:
            if desk is None or trial % 25 == 0:  # a new desk now and then, as journals grow
                folder = Path(place) / str(trial)
                folder.mkdir()
                small_files(folder)
                desk = desk_in(folder, dp.ZCDP(1e6), 0.3, {"a": folder / "table.parquet"})
            chance = random.Random(trial)
            trial += 1
            question = AnalystQuestion(PURE["formula"], rho=0.1)
            ticket = desk.ask("a", question, "analyst", str(trial), again=True, anyway=True)
            process = forked(lambda desk=desk: run(desk))
            time.sleep(chance.uniform(0.0, reach))
            state = desk.register.ticket(ticket.id).state
            struck = strike(desk, ticket.id, process, chance.choice(["desk", "worker", "both"]))
            os.waitpid(process, 0)
            reach *= 0.9 if state in tickets.ENDED else 1.1
            if struck and state not in tickets.ENDED:
                found["kills"] += 1
                found.update(struck)
                hit[state] += 1
            run(desk)  # one restart
            judge(desk, [ticket], found, ends)
            document = {"trials": trial, "kills": found["kills"], "found": dict(found)}
            document |= {"states at the kill": dict(hit), "ends": dict(ends)}
            path.write_text(json.dumps(document, indent=1) + "\n")
    return document


def strike(desk: Desk, ident: str, process: int, kind: str) -> list[str]:
    """Kill the desk, its fit, or both; what was killed."""
    struck = []
    fit = holder(desk.folder.locks / ident)
    if kind != "desk" and fit:
        os.kill(fit, signal.SIGKILL)
        struck.append("fits killed")
    if kind != "worker" or not fit:
        os.kill(process, signal.SIGKILL)
        struck.append("desks killed")
    return struck


def judge(desk: Desk, asked: list, found: Counter, ends: Counter) -> None:
    """Count what must not be, of the questions of one trial."""
    entries = desk.table("a").ledger().entries()
    for ticket in asked:
        own = [entry for entry in entries if entry.request == ticket.id]
        state = desk.ticket(ticket.id).state
        ends[state] += 1
        found["questions"] += 1
        found["booked twice"] += len(own) > 1
        found["not ended after one restart"] += state not in tickets.ENDED
        there = desk.folder.result(ticket.id).exists()
        found["results without an entry"] += there and not own
        kept = bool(own) and valid_result(desk.folder, ticket.id, own[0].release) is not None
        found["answered without a whole result"] += state == tickets.ANSWERED and not kept
        # killed between writing a result and saying so, and started again after the slot
        found["lost with a whole result, after its slot"] += state == tickets.LOST_STATE and kept
        found["ended free and booked"] += state == tickets.REFUSED and bool(own)
    found["verifications that failed"] += not desk.verify().ok


def sends() -> dict[str, object]:
    """Ask by 30 threads, then run; what is booked is exactly the total."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        small_files(folder)
        desk = desk_in(folder, dp.ZCDP(1.0), 0.3, {"a": folder / "table.parquet"})
        for k in range(30):
            desk.add_person(f"analyst {k}")
            desk.allow("a", f"analyst {k}", 0.06)
        question = AnalystQuestion(PURE["formula"], rho=0.02)
        waiting = iter([(f"analyst {k % 30}", f"key {k}") for k in range(120)] * 3)
        lock = threading.Lock()
        refused: Counter[str] = Counter()

        def send() -> None:
            while True:
                with lock:
                    by, key = next(waiting, ("", ""))
                if not key:
                    return
                try:
                    desk.ask("a", question, by, key, anyway=True)
                except dp.DpinferError as fault:
                    refused[str(fault)[:60]] += 1

        threads = [threading.Thread(target=send) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = len(desk.tickets())
        run(desk)
        entries = desk.table("a").ledger().entries()
        analysts = desk.analysts("a")
        return {
            "questions sent": 360,
            "questions taken": asked,
            "entries": len(entries),
            "spent": desk.table("a").ledger().spent(),
            "total": 1.0,
            "largest part of an allowance": max(a.spent / a.amount for a in analysts),
            "different requests": len({entry.request for entry in entries}),
            "states": dict(Counter(ticket.state for ticket in desk.tickets())),
            "refused at the door": dict(refused),
            "whole": desk.verify().ok,
        }


def yes_table(folder: Path) -> dict[str, Path]:
    """The demo's table, and the same with every outcome "yes"."""
    demo = dp.datasets.rand_hie()
    demo.schema.write(folder / "schema.toml")
    demo.table.to_parquet(folder / "demo.parquet")
    demo.table.assign(visit=True).to_parquet(folder / "yes.parquet")
    return {"demo": folder / "demo.parquet", "yes": folder / "yes.parquet"}


def auc(a: list[float], b: list[float]) -> float:
    """The chance that one of b is larger than one of a, ties as half."""
    low = np.searchsorted(np.sort(b), a, side="left")
    high = np.searchsorted(np.sort(b), a, side="right")
    return float(1 - (low + high).mean() / 2 / len(b))


def without_slots(number: int) -> dict[str, object]:
    """Seconds from booking to the end of the fit, in turn on both tables: of the clock, which other work
    on the machine disturbs, and of the processor, which is what a quiet machine would show.  To be run
    with DPINFER_THREADS=1 and OPENBLAS_NUM_THREADS=1.
    """

    class Clock:
        """A ledger that notes when it booked."""

        def book(self, entry: object) -> str:  # noqa: ARG002
            self.start = time.monotonic()
            self.processor = time.process_time()
            return "none"

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tables = yes_table(folder)
        schema = dp.Schema.read(folder / "schema.toml")
        taken: dict[str, list[float]] = {name: [] for name in tables}
        worked: dict[str, list[float]] = {name: [] for name in tables}
        for k in range(number + 1):
            for name, path in tables.items():
                clock = Clock()
                model = dp.LogisticRegression(
                    PURE["formula"],
                    schema=schema,
                    budget=dp.PureDP(20.0),
                    penalty=1e-5,  # so that the search for the minimum takes some passes
                    ledger=clock,
                )
                model.fit(str(path))
                if k:
                    taken[name].append(time.monotonic() - clock.start)
                    worked[name].append(time.process_time() - clock.processor)
    return {
        "recipe": "penalised logistic regression, pure epsilon = 20, penalty 1e-5",
        "fits a side": number,
        "auc": auc(taken["demo"], taken["yes"]),
        "auc of processor time": auc(worked["demo"], worked["yes"]),
        "median seconds": {name: float(np.median(times)) for name, times in taken.items()},
    }


def watched(
    desk: Desk,
    asked: dict[str, list[str]],
    seen: dict[str, dict[str, float]],
    stop: threading.Event,
) -> None:
    """Note when each answer is there, as somebody sees it who looks all the time."""
    waiting = {name: list(idents) for name, idents in asked.items()}
    order = random.Random(0)
    while any(waiting.values()) and not stop.wait(0.004):
        now = datetime.now(UTC)
        names = list(waiting)
        order.shuffle(names)  # so that no table is looked at first
        for name in names:
            if not waiting[name]:
                continue
            ident = waiting[name][0]  # the queue of a table is in order
            ticket = desk.ticket(ident)
            if ticket.due is None or now < ticket.due - timedelta(seconds=0.03):
                continue
            if ticket.state in (tickets.ANSWERED, tickets.LOST_STATE):
                booked = datetime.fromisoformat(ticket.booking_time)
                seen[name][ident] = (datetime.now(UTC) - booked).total_seconds()
                waiting[name].pop(0)


def with_slots(number: int, slot: float, limit: float) -> dict[str, object]:
    """Seconds from booking to answer as an analyst sees them; some tables a side, all at work at once.
    Which side a worker comes to first changes from desk to desk.
    """
    delays: dict[str, list[float]] = {"demo": [], "yes": []}
    outcomes = {side: Counter() for side in delays}
    began = time.monotonic()
    rounds = 0
    while min(map(len, delays.values())) < number and time.monotonic() - began < limit:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            files = yes_table(folder)
            rounds += 1
            order = list(delays) if rounds % 2 else list(delays)[::-1]
            sides = {f"{k}-{j}": side for k in range(SIDE_BY_SIDE) for j, side in enumerate(order)}
            tables = {name: files[side] for name, side in sides.items()}
            desk = desk_in(folder, dp.PureDP(1e5), slot, tables)
            stop = threading.Event()
            seen: dict[str, dict[str, float]] = {name: {} for name in tables}
            asked: dict[str, list[str]] = {name: [] for name in tables}
            for name in tables:
                for k in range(ROUND):
                    ticket = desk.ask(name, AnalystQuestion(**PURE), "analyst", str(k), anyway=True)
                    asked[name].append(ticket.id)
            watcher = threading.Thread(target=watched, args=(desk, asked, seen, stop))
            worker = forked(lambda desk=desk: run(desk))
            watcher.start()
            os.waitpid(worker, 0)
            time.sleep(0.1)
            stop.set()
            watcher.join()
            for name, side in sides.items():
                delays[side] += seen[name].values()
                outcomes[side].update(ticket.state for ticket in desk.tickets(name))
        sides = {name: len(times) for name, times in delays.items()}
        print(
            f"{time.monotonic() - began:.0f} s: {sides} AUC {auc(*delays.values()):.3f}", flush=True
        )
    return {
        "slot": slot,
        "tables a side at once": SIDE_BY_SIDE,
        "fits a side": {name: len(times) for name, times in delays.items()},
        "auc": auc(delays["demo"], delays["yes"]),
        "median seconds beyond the slot": {
            name: float(np.median(times) - slot) for name, times in delays.items()
        },
        "outcomes": {name: dict(counts) for name, counts in outcomes.items()},
    }


def main() -> None:
    """Run one of them and keep what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["kills", "sends", "times", "power"])
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--slot", type=float, default=0.5)
    parser.add_argument("--limit", type=float, default=7200.0, help="seconds, of times")
    given = parser.parse_args()
    if given.which == "kills":
        found = kills(given.number or 500)
    elif given.which == "sends":
        found = sends()
    elif given.which == "power":
        found = without_slots(given.number or 200)
    else:
        found = with_slots(given.number or 2000, given.slot, given.limit)
    found = {"command": f"python -m benchmarks.desk {given.which}", **found}
    print(json.dumps(found, indent=1))
    (RESULTS / f"desk_{given.which}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
