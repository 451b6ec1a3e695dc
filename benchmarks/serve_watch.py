"""What an analyst hears of a desk on a network while a fit runs, and of names while he signs in: see
`python -m benchmarks.serve`.

The times of two sides that nobody should be able to tell apart are kept as they come, so that a long run
goes on where it stopped.
"""

import http.client
import json
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.desk import PURE, auc, desk_in, run, yes_table
from benchmarks.serve_pages import (
    PASSWORD,
    await_port,
    end,
    forked,
    port_of_nobody,
    site_in,
    tried,
    web,
)

import dpinfer as dp
from dpinfer import persistence
from dpinfer.asking.questions import AnalystQuestion
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web import network

SIDES = ("demo", "yes")
TABLES = 2  # at work at once, all of one side
ROUND = 25  # questions of a table, before a new desk is made
BETWEEN = 0.03  # seconds between two requests to /health, on average

Samples = dict[str, dict[str, list[float]]]
"""Times by what was heard and by side."""


def kept(path: Path | None, heard: tuple[str, ...], sides: tuple[str, ...]) -> Samples:
    """What an earlier run has kept; nothing where there was none."""
    if path is not None and path.exists():
        found: Samples = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {name: {side: [] for side in sides} for name in heard}


def told(samples: Samples) -> dict[str, Any]:
    """AUCs: .5 tells nothing."""
    found = {}
    for name, times in samples.items():
        first, second = times.values()
        sizes = [len(first), len(second)]
        found[name] = {
            "number": dict(zip(times, sizes, strict=True)),
            "auc": round(auc(first, second), 4),
            "auc_sd_of_chance": round(float(np.sqrt((sum(sizes) + 1) / (12 * np.prod(sizes)))), 4),
            "median_ms": {
                side: round(1000 * float(np.median(ones)), 3) for side, ones in times.items()
            },
        }
    return found


def _until(
    samples: Samples,
    number: int,
    seconds: float,
    path: Path | None,
    once: Callable[[Samples], None],
) -> dict[str, Any]:
    """Do something again and again until each side has so many samples, or the time is over."""
    began = time.monotonic()

    def fewest() -> int:
        return min(len(ones) for times in samples.values() for ones in times.values())

    while fewest() < number and time.monotonic() - began < seconds:
        once(samples)
        if path is not None:
            persistence.write(path, json.dumps(samples).encode())
        print(f"{time.monotonic() - began:.0f} s: {fewest()}", flush=True)
    return {**told(samples), "load": os.getloadavg()[0]}


# A fit runs


def watch(number: int, slot: float, seconds: float, path: Path | None) -> dict[str, Any]:
    """What /health and the queue tell of the table that is fitted: the demo's, or one in which every
    outcome is "yes".  For each slot: the time of one request to /health at a random moment, the mean of
    all in this slot, and the time from one booking to the next one of the same table.
    """
    samples = kept(path, ("health", "mean health", "queue"), SIDES)
    outcomes: Counter[str] = Counter()
    turn = random.Random(len(samples["queue"]["yes"]))

    def once(samples: Samples) -> None:
        for side in turn.sample(SIDES, 2):
            _watched(side, slot, samples, outcomes)

    found = _until(samples, number, seconds, path, once)
    return {"slot": slot, "tables at once": TABLES, "outcomes": dict(outcomes), **found}


def _watched(side: str, slot: float, samples: Samples, outcomes: "Counter[str]") -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = yes_table(folder)[side]
        desk = desk_in(folder, dp.PureDP(1e5), slot, {f"t{k}": data for k in range(TABLES)})
        desk.folder.share()
        for table in desk.tables():
            for k in range(ROUND):
                desk.ask(
                    table.name, AnalystQuestion(**PURE), "analyst", str(k), again=True, anyway=True
                )
        config = network.ServerConfig(port=port_of_nobody())
        server = web(desk.folder.path, config)
        try:
            await_port(config.port)
            stop = threading.Event()
            heard: list[tuple[float, float]] = []
            prober = threading.Thread(target=_probe, args=(config.port, heard, stop))
            prober.start()
            worker = forked(lambda: run(desk))
            os.waitpid(worker, 0)
            stop.set()
            prober.join()
        finally:
            end(server)
        for table in desk.tables():
            _sorted_out(desk, table.name, slot, heard, {k: v[side] for k, v in samples.items()})
            outcomes.update(f"{side} {ticket.state}" for ticket in desk.tickets(table.name))


def _probe(port: int, heard: list[tuple[float, float]], stop: threading.Event) -> None:
    """When a request was sent, and how long it took."""
    chance = random.Random(port)
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.wait(chance.expovariate(1 / BETWEEN)):
        moment = time.time()
        start = time.monotonic()
        link.request("GET", "/health")
        link.getresponse().read()
        heard.append((moment, time.monotonic() - start))
    link.close()


def _sorted_out(
    desk: Desk,
    table: str,
    slot: float,
    heard: list[tuple[float, float]],
    times: dict[str, list[float]],
) -> None:
    """Sort what was heard by the slots of a table; its first and its last one are left out."""
    booked = sorted(
        datetime.fromisoformat(ticket.booking_time).timestamp()
        for ticket in desk.tickets(table)
        if ticket.booking_time
    )
    chance = random.Random(0)
    for before, after in pairwise(booked[1:]):
        times["queue"].append(after - before)
        within = [spent for moment, spent in heard if before <= moment < before + slot]
        if within:
            times["health"].append(chance.choice(within))
            times["mean health"].append(float(np.mean(within)))


# Signing in


def signin(number: int, seconds: float, path: Path | None) -> dict[str, Any]:
    """Wrong passwords under known and unknown names, by turns, as the browser sees them, with the hash at its
    full cost.
    """
    people = 200  # nobody has more than 50 tries in an hour
    samples = kept(path, ("sign-in",), ("known", "unknown"))
    with tempfile.TemporaryDirectory() as scratch:
        desk = site_in(Path(scratch), people, 2.0)
        accounts = Accounts(desk.register)
        accounts.set_password("analyst 0", PASSWORD)
        with desk.register.write() as sql:
            hashed = sql(
                "SELECT salt, password FROM accounts WHERE person = 'analyst 0'"
            ).fetchone()
            sql("UPDATE accounts SET salt = ?, password = ?", *hashed)
        config = network.ServerConfig(
            port=port_of_nobody(), names=("stats.example.org",), proxies=("127.0.0.1",)
        )
        server = web(desk.folder.path, config)
        chance = random.Random(len(samples["sign-in"]["known"]))
        done = [0]

        def once(samples: Samples) -> None:
            for _ in range(10):
                k = done[0]
                done[0] += 1
                for side in chance.sample(("known", "unknown"), 2):
                    address = f"10.{chance.randrange(256)}.{chance.randrange(256)}.{k % 256}"
                    who = k % people + (people if side == "unknown" else 0)
                    spent = tried(config.port, f"analyst {who}", address)
                    if k >= 3:  # the first ones load things
                        samples["sign-in"][side].append(spent)

        try:
            await_port(config.port)
            return _until(samples, number, seconds, path, once)
        finally:
            end(server)
