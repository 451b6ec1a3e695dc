"""The interface of a desk under many senders and under made-up requests: see `python -m benchmarks.serve`.

The server and the worker are processes of their own, as `dpinfer serve` has them; the server opens
the desk as one that may read neither data nor ledgers.
"""

import json
import multiprocessing
import os
import random
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.desk import PURE, desk_in, small_files

import dpinfer as dp
from dpinfer import persistence
from dpinfer.client import RemoteDesk
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web.openapi import PREFIX
from dpinfer_desk.worker.worker import Worker

ANALYSTS = 200
HERE = Path(__file__).parent
QUESTION = {"formula": PURE["formula"], "rho": 0.002}
_process = multiprocessing.get_context("forkserver").Process


def web(folder: str, port: int, counted: str) -> None:
    """The process with the network; it counts what it answers in a file, where one is named."""
    import uvicorn  # noqa: PLC0415

    from dpinfer_desk.web.network import ServerConfig, app_of  # noqa: PLC0415

    application = app_of(Desk.open(folder, public=True), ServerConfig(port=port))
    counts: Counter[str] = Counter()

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                counts[str(message["status"])] += 1
                if counted and sum(counts.values()) % 50 == 0:
                    persistence.write(Path(counted), json.dumps(counts).encode())
            await send(message)

        await application(scope, receive, sent)

    config = uvicorn.Config(
        counting, "127.0.0.1", port, log_level="critical", access_log=False, lifespan="off"
    )
    uvicorn.Server(config).run()


def work(folder: str) -> None:
    """The process with the data."""
    warnings.simplefilter("ignore", DeprecationWarning)
    Worker(Desk.open(folder), "fork").run()


@contextmanager
def running(desk: Desk, counted: Path | str = "") -> Iterator[str]:
    """The address of a desk that is served and worked at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = str(desk.folder.path)
    processes = [
        _process(target=web, args=(folder, port, str(counted))),
        _process(target=work, args=(folder,)),
    ]
    for process in processes:
        process.start()
    address = f"http://127.0.0.1:{port}"
    try:
        while not _answers(port):
            time.sleep(0.1)
            if not all(process.is_alive() for process in processes):
                raise RuntimeError("the server or the worker has ended: its words are above")
        yield address
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def desk_of(folder: Path, total: float, slot: float, allowance: float) -> tuple[Desk, list[str]]:
    """A desk with one table and many analysts, and a token for each."""
    small_files(folder)
    desk = desk_in(folder, dp.ZCDP(total), slot, {"a": folder / "table.parquet"})
    accounts = Accounts(desk.register)
    secrets = []
    for k in range(ANALYSTS):
        name = f"analyst-{k}"
        desk.add_person(name)
        desk.allow("a", name, allowance)
        accounts.open(name, "analyst", "steward")
        secrets.append(accounts.make_token(name, ("read", "ask"), 1, "benchmark")[1])
    desk.publish("a")
    return desk, secrets


def at_once(number: int, send: Callable[[int], None]) -> float:
    """Call a function for each of many numbers, by as many threads as there are analysts; seconds."""
    waiting = iter(range(number))
    lock = threading.Lock()

    def sending() -> None:
        while True:
            with lock:
                k = next(waiting, -1)
            if k < 0:
                return
            send(k)

    start = time.monotonic()
    threads = [threading.Thread(target=sending) for _ in range(ANALYSTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


def until_ended(desk: Desk, limit: float = 3600.0) -> None:
    """Wait until nothing is open or under way."""
    until = time.monotonic() + limit
    left = -1
    while left and time.monotonic() < until:
        time.sleep(5)
        left = sum(not ticket.ended for ticket in desk.tickets())
        print(f"{left} questions are open", flush=True)


def judged(desk: Desk, total: float) -> dict[str, object]:
    """What the ledger and the desk say at the end."""
    ledger = desk.table("a").ledger()
    entries = ledger.entries()
    analysts = desk.analysts("a")
    return {
        "entries": len(entries),
        "different requests": len({entry.request for entry in entries}),
        "spent": ledger.spent(),
        "total": total,
        "overspent": ledger.spent() > total * (1 + 1e-9),
        "largest part of an allowance": max(
            one.spent / one.amount for one in analysts if one.amount
        ),
        "states": dict(Counter(ticket.state for ticket in desk.tickets())),
        "entries without a question": len(
            {entry.request for entry in entries} - {ticket.id for ticket in desk.tickets()}
        ),
        "whole": desk.verify().ok,
    }


def overspend(number: int, slot: float) -> dict[str, object]:
    """Questions of 200 analysts at once, for twice the total; allowances add up to 1.2 of it."""
    total = number * QUESTION["rho"] / 2
    each = number // ANALYSTS
    allowance = round(3 * each / 5) * QUESTION["rho"]
    answers: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        desk, tokens = desk_of(Path(place), total, slot, allowance)
        with running(desk) as address:
            sites = [dp.connect(address, token, timeout=300) for token in tokens]

            def send(k: int) -> None:
                path = f"/tables/a/questions/benchmark-{k}"
                chosen = {"anyway": "true", "again": "true"}
                answers[outcome(sites[k % ANALYSTS], path, chosen)] += 1

            seconds = at_once(number, send)
            until_ended(desk)
        found = judged(desk, total)
    return {
        "questions": number,
        "answers to the senders": dict(answers),
        "seconds": seconds,
        **found,
    }


def outcome(site: RemoteDesk, path: str, chosen: dict[str, str]) -> str:
    """The status of one send, or the kind of its error."""
    try:
        answer = site._connection.call("PUT", path, QUESTION, **chosen)
    except dp.ServerError:
        return "no answer"
    code = "" if answer.status < 300 else f" {answer.document['code']}"
    return f"{answer.status}{code}"


class BrokenLine:
    """A line to a server on which half of the connections break off: before anything is handed on,
    after the server has it all, or in the middle of what comes back.
    """

    def __init__(self, address: str, seed: int = 0) -> None:
        self._port = int(address.rpartition(":")[2])
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.broken: Counter[str] = Counter()

    def __enter__(self) -> str:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        threading.Thread(target=self._listen, daemon=True).start()
        port = self._listener.getsockname()[1]
        self._names = [f"Host: 127.0.0.1:{one}".encode() for one in (port, self._port)]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                word = self._chance.choice(["", "", "", "before", "after", "middle"])
                self.broken[word or "whole"] += 1
            threading.Thread(target=self._carry, args=(connection, word), daemon=True).start()

    def _carry(self, connection: socket.socket, word: str) -> None:
        with connection, socket.create_connection(("127.0.0.1", self._port), 600) as server:
            while word != "before":
                ready, _, _ = select.select([connection, server], [], [], 600)
                if not ready:
                    return
                for heard, other in ((connection, server), (server, connection)):
                    if heard not in ready:
                        continue
                    piece = heard.recv(65536)
                    if not piece or (heard is server and word == "after"):
                        return
                    if heard is server and word == "middle":
                        connection.sendall(piece[: len(piece) // 2])
                        return
                    other.sendall(piece.replace(*self._names))


def replays(keys: int, times: int, slot: float) -> dict[str, object]:
    """Every key sent many times on a line that breaks off, in an order of chance."""
    order = [k for k in range(keys) for _ in range(times)]
    random.Random(1).shuffle(order)
    answers: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        desk, tokens = desk_of(Path(place), 1e6, slot, 1e3)
        with running(desk) as address:
            line = BrokenLine(address)
            with line as broken:
                sites = [dp.connect(broken, token, timeout=300) for token in tokens]

                def send(k: int) -> None:
                    path = f"/tables/a/questions/benchmark-{order[k]}"
                    chosen = {"anyway": "true", "again": "true"}
                    answers[outcome(sites[order[k] % ANALYSTS], path, chosen)] += 1

                seconds = at_once(len(order), send)
            until_ended(desk)
        found = judged(desk, 1e6)
    return {
        "keys": keys,
        "sends": len(order),
        "connections": dict(line.broken),
        "answers to the senders": dict(answers),
        "seconds": seconds,
        **found,
    }


def schemathesis(
    cases: int, program: str | None, seconds: int, before: dict[str, Any]
) -> dict[str, object]:
    """Made-up requests from the document of the interface, right and wrong, by every role, until there
    were so many; the server counts what it answers.  It goes on where it stopped ``before``.
    """
    command = program or shutil.which("schemathesis")
    if command is None:
        raise dp.InputError(
            "this benchmark needs schemathesis: install it in an environment of its own, and name its program with "
            "--program"
        )
    runs: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        desk, tokens = desk_of(folder, 1e6, 5.0, 1e3)
        accounts = Accounts(desk.register)
        people = {"analyst": "analyst-0", "steward": "steward", "auditor": "auditor"}
        for role in ("steward", "auditor"):
            desk.add_person(role)
            accounts.open(role, role, "steward")
        counted = folder / "counted.json"
        with running(desk, counted) as address:
            table = dp.connect(address, tokens[0]).table("a")
            asked = table.ask(PURE["formula"], dp.ZCDP(0.1), anyway=True)
            asked.wait(600)
            known = {"table": "a", "question": asked.id, "key": asked.key, "analyst": "analyst-1"}
            until = time.monotonic() + seconds
            seed = before.get("next seed", 0)
            wanted = cases - before.get("requests", 0)
            while sum(_counts(counted).values()) < wanted and time.monotonic() < until:
                for role, person in people.items():
                    token = accounts.make_token(person, ("read", "ask"), 1, "benchmark")[1]
                    names = known if seed % 2 else {}
                    runs.append(_one_run([command, "run"], address, token, names, folder, seed))
                    runs[-1]["role"] = role
                    print(runs[-1], sum(_counts(counted).values()), flush=True)
                seed += 1
        answers = Counter(_counts(counted)) + Counter(before.get("answers", {}))
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    return {
        "program": version.stdout.strip(),
        "requests": sum(answers.values()),
        "answers": dict(sorted(answers.items())),
        "answers of 500 and above": sum(n for code, n in answers.items() if code >= "500"),
        "runs": before.get("runs", 0) + len(runs),
        "runs with a failure": before.get("runs with a failure", [])
        + [run for run in runs if run["failed"]],
        "next seed": seed,
        "checks": CHECKS,
    }


CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,unsupported_method,ignored_auth,use_after_free"
)


def _one_run(
    command: list[str], address: str, token: str, names: dict[str, str], folder: Path, seed: int
) -> dict[str, object]:
    """All operations once, with some examples each; its last words where something failed."""
    settings = folder / "schemathesis.toml"
    lines = [f'"path.{name}" = "{value}"' for name, value in names.items()]
    settings.write_text("\n".join(["[parameters]", *lines]) + "\n", encoding="utf-8")
    done = subprocess.run(
        [
            *(command[0], "--config-file", str(settings), *command[1:]),
            *(f"{address}{PREFIX}/openapi.json", "--checks", CHECKS, "--seed", str(seed)),
            *("--max-examples", "60", "--no-color", "--header", f"Authorization: Bearer {token}"),
            *("--suppress-health-check", "all", "--request-timeout", "60", "--warnings", "off"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "SCHEMATHESIS_HOOKS": str(HERE / "schemathesis_hooks.py")},
    )
    words = done.stdout + done.stderr
    return {
        "seed": seed,
        "names known": bool(names),
        "failed": done.returncode != 0,
        "words": words[-6000:] if done.returncode else words[-300:],
    }


def _counts(path: Path) -> dict[str, int]:
    return json.loads(path.read_text()) if path.exists() else {}
