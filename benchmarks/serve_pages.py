"""The pages of a desk on a network under load and under kills: see `python -m benchmarks.serve`."""

import http.client
import json
import os
import random
import re
import signal
import socket
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from benchmarks.desk import desk_in, small_files

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer.privacy.budget import ZCDP
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import accounts as accounts_module
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.store.locks import holder
from dpinfer_desk.store.verification import valid_result
from dpinfer_desk.web import network
from dpinfer_desk.web.authentication import csrf_token_of
from dpinfer_desk.worker.forecasts import Forecasts
from dpinfer_desk.worker.worker import Worker

FORMULA = "visit ~ health"
ASKED = {"formula": FORMULA, "rho": 0.5}
FORM = "application/x-www-form-urlencoded"
PASSWORD = "correct horse battery"
FORECASTING = 10
BETWEEN_FORECASTS = 60.0  # seconds between two forecasts of one person, on average
THINKS = 10.0  # seconds between two pages of one analyst, on average


def port_of_nobody() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def site_in(folder: Path, analysts: int, slot: float) -> Desk:
    """A desk with one table and some analysts with accounts."""
    small_files(folder)
    desk = desk_in(folder, ZCDP(1e6), slot, {"visits": folder / "table.parquet"})
    accounts = Accounts(desk.register)
    for k in range(analysts):
        desk.add_person(f"analyst {k}")
        desk.allow("visits", f"analyst {k}", 1e4)
        accounts.open(f"analyst {k}", "analyst", "steward")
    desk.check(
        "visits", AnalystQuestion.of(ASKED), "analyst 0"
    )  # what it loads, forks need not load again
    return desk


def forked(work: Callable[[], object]) -> int:
    """A process of its own group that does the work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    os.setsid()
    try:
        work()
    finally:
        os._exit(0)


def web(folder: Path, config: network.ServerConfig, *, warm: bool = False) -> int:
    """The process with the network; ``warm`` where forecasts are asked for."""

    def serve() -> None:
        if not warm:
            Forecasts.warm = lambda _: None  # type: ignore[method-assign]
        network.serve(Desk.open(folder, "web", public=True), config, lambda _: None)

    return forked(serve)


def worker(folder: Path) -> int:
    """The process with the data; its fits are forks of it."""
    return forked(lambda: Worker(Desk.open(folder), "fork").run())


def end(pid: int) -> None:
    """Kill a process."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def await_port(port: int) -> None:
    """Wait until somebody listens."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return


def memory(pid: int, what: str) -> float:
    """Megabytes of a process: VmRSS now, or VmHWM at most."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(rf"{what}:\s+(\d+)", text)
    assert found is not None
    return int(found[1]) / 1000


# Browsing


def browse(analysts: int, seconds: float, *, asking: bool = False) -> dict[str, Any]:
    """Pages of many people while fits run; where ``asking``, some of them ask for forecasts."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        desk = site_in(folder, analysts, 2.0)
        accounts = Accounts(desk.register)
        sessions = [accounts.open_session(f"analyst {k}") for k in range(analysts)]
        config = network.ServerConfig(port=port_of_nobody())
        tokens = [
            accounts.make_token(f"analyst {k}", ("read", "ask"), 1, "benchmark")[1]
            for k in range(FORECASTING)
        ]
        pids = [web(desk.folder.path, config, warm=asking), worker(desk.folder.path)]
        try:
            await_port(config.port)
            idents = _questions(desk, int(seconds / 2) + 5)
            _settled(desk, idents[:2])
            times: dict[str, list[float]] = {}
            faults: Counter[str] = Counter()
            stop = threading.Event()
            paths = ["/", "/t/visits", "/t/visits/ask", "/q", f"/q/{idents[0]}", "/tokens"]
            paths += [f"/t/visits/confirm?{urlencode({'formula': FORMULA, 'rho': 0.5})}"]
            threads = [
                threading.Thread(
                    target=_visits, args=(config.port, sessions[k::20], paths, times, faults, stop)
                )
                for k in range(20)
            ]
            ahead: dict[str, list[float]] = {"new": [], "there": []}
            if asking:
                threads += [
                    threading.Thread(
                        target=_forecasts, args=(config.port, k, tokens[k], ahead, stop)
                    )
                    for k in range(FORECASTING)
                ]
            for thread in threads:
                thread.start()
            seen = []
            for _ in range(int(seconds)):
                time.sleep(1)
                seen.append(memory(pids[0], "VmRSS"))
            stop.set()
            for thread in threads:
                thread.join()
            most = memory(pids[0], "VmHWM")
            _signs_in(config)
            hashing = memory(pids[0], "VmHWM")
            ended = Counter(ticket.state for ticket in desk.tickets())
        finally:
            for pid in pids:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    everything = sorted(one for path in times.values() for one in path)
    forecasts = {
        kind: {
            "number": len(ones),
            "p50_ms": _milliseconds(ones, 50),
            "p95_ms": _milliseconds(ones, 95),
            "most_ms": _milliseconds(ones, 100),
        }
        for kind, ones in ahead.items()
        if ones
    }
    return {
        "forecasts": forecasts,
        "analysts": analysts,
        "seconds": seconds,
        "pages": len(everything),
        "faults": dict(faults),
        "fits": dict(ended),
        "p50_ms": _milliseconds(everything, 50),
        "p95_ms": _milliseconds(everything, 95),
        "p99_ms": _milliseconds(everything, 99),
        "p95_ms_by_page": {path[:40]: _milliseconds(ones, 95) for path, ones in times.items()},
        "web_MB": round(max(seen)),
        "web_MB_at_most": round(most),
        "web_MB_at_most_while_a_password_is_hashed": round(hashing),
        "load": os.getloadavg()[0],
    }


def _signs_in(config: network.ServerConfig) -> None:
    """One password is hashed."""
    link = http.client.HTTPConnection("127.0.0.1", config.port, timeout=60)
    headers = {"origin": config.address.rstrip("/"), "content-type": FORM}
    link.request("POST", "/sign-in", urlencode({"person": "nobody", "password": "x"}), headers)
    assert link.getresponse().status == 403
    link.close()


def _forecasts(
    port: int, person: int, token: str, times: dict[str, list[float]], stop: threading.Event
) -> None:
    """New forecasts of one person, and each once more."""
    table = dp.connect(f"http://127.0.0.1:{port}", token, timeout=60).table("visits")
    chance = random.Random(person)
    formulas = ["visit ~ lncoins + idp + lpi + fmde + physlm + disea + health", FORMULA]
    stop.wait(5 + chance.uniform(0, BETWEEN_FORECASTS))
    while not stop.is_set():
        question = (chance.choice(formulas), ZCDP(round(chance.uniform(0.1, 1.0), 6)))
        for ones in times.values():
            start = time.monotonic()
            table.forecast(*question)
            ones.append(time.monotonic() - start)
        stop.wait(chance.expovariate(1 / BETWEEN_FORECASTS))


def _milliseconds(values: list[float], percent: float) -> float:
    return round(1000 * float(np.percentile(values, percent)), 1)


def _questions(desk: Desk, number: int) -> list[str]:
    question = AnalystQuestion.of(ASKED)
    tickets = [
        desk.ask("visits", question, f"analyst {k % 50}", f"key {k}", again=True, anyway=True)
        for k in range(number)
    ]
    return [ticket.id for ticket in tickets]


def _settled(desk: Desk, idents: list[str]) -> None:
    while not all(desk.ticket(ident).ended for ident in idents):
        time.sleep(0.2)


def _visits(
    port: int,
    sessions: list[str],
    paths: list[str],
    times: dict[str, list[float]],
    faults: "Counter[str]",
    stop: threading.Event,
) -> None:
    """The pages of some analysts, each with a connection of his own."""
    chance = random.Random(sessions[0])
    links = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in sessions]
    due = [time.monotonic() + chance.expovariate(1 / THINKS) for _ in sessions]
    while not stop.is_set():
        k = min(range(len(due)), key=due.__getitem__)
        if due[k] > time.monotonic():
            stop.wait(min(0.2, due[k] - time.monotonic()))
            continue
        path = chance.choice(paths)
        start = time.monotonic()
        try:
            links[k].request("GET", path, headers={"cookie": f"desk={sessions[k]}"})
            answer = links[k].getresponse()
            answer.read()
            if answer.status != 200:
                faults[f"{answer.status} {path[:20]}"] += 1
        except (OSError, http.client.HTTPException) as fault:
            if not isinstance(fault, http.client.RemoteDisconnected):  # it was idle for long
                faults[type(fault).__name__] += 1
            links[k].close()
            continue
        times.setdefault(path, []).append(time.monotonic() - start)
        due[k] = time.monotonic() + chance.expovariate(1 / THINKS)
    for link in links:
        link.close()


# Signing in


def bare(number: int) -> dict[str, Any]:
    """The same where a password is judged, with a hash that hides nothing."""
    accounts_module._N = 2**4
    with tempfile.TemporaryDirectory() as scratch:
        desk = site_in(Path(scratch), 1, 2.0)
        accounts = Accounts(desk.register)
        accounts.set_password("analyst 0", PASSWORD)
        times: dict[str, list[float]] = {"analyst 0": [], "unknown 0": []}
        chance = random.Random(0)
        now = desk.clock()
        for k in range(number):
            sides = list(times)
            chance.shuffle(sides)
            for side in sides:
                later = now + timedelta(minutes=10 * k)  # nobody is locked out
                start = time.monotonic()
                accounts.check(side, "not the password", "10.0.0.1", later)
                times[side].append(time.monotonic() - start)
    return _told(times)


def _told(times: dict[str, list[float]]) -> dict[str, Any]:
    """What the times of two sides tell: AUC .5 is nothing."""
    known, unknown = map(np.array, times.values())
    number = len(known)
    above = (known[:, None] > unknown).mean() + (known[:, None] == unknown).mean() / 2
    return {
        "number_a_side": number,
        "auc": round(float(above), 4),
        "auc_sd_of_chance": round(float(np.sqrt((2 * number + 1) / 12) / number), 4),
        "median_ms": {
            side: round(1000 * float(np.median(ones)), 3) for side, ones in times.items()
        },
        "load": os.getloadavg()[0],
    }


def tried(port: int, name: str, address: str) -> float:
    """Seconds that a wrong password takes, sent by a proxy for an address."""
    headers = {
        "host": "stats.example.org",
        "origin": "https://stats.example.org",
        "x-forwarded-proto": "https",
        "x-forwarded-for": address,
        "content-type": FORM,
    }
    body = urlencode({"form": "", "person": name, "password": "not the password"})
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    link.connect()
    start = time.monotonic()
    link.request("POST", "/sign-in", body, headers)
    answer = link.getresponse()
    answer.read()
    spent = time.monotonic() - start
    link.close()
    assert answer.status in (403, 429), answer.status
    return (
        spent
        if answer.status == 403
        else tried(port, name, f"{address[:-1]}{time.time_ns() % 200}")
    )


# Kills


def kills(number: int, people: int = 4) -> dict[str, Any]:
    """Kills of web and worker while people ask, and what is left of it."""
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        desk = site_in(folder, people, 0.5)
        accounts = Accounts(desk.register)
        config = network.ServerConfig(port=port_of_nobody())
        pids = {"web": web(desk.folder.path, config), "worker": worker(desk.folder.path)}
        clients = forked_clients(
            config.port, [accounts.open_session(f"analyst {k}") for k in range(people)], folder
        )
        done: Counter[str] = Counter()
        for _ in range(number):
            time.sleep(chance.uniform(0.05, 3.0))
            what = chance.choice(["web", "worker", "both", "fit"])
            done[what] += 1
            if what == "fit":
                _kill_fits(desk)
                continue
            for name in ("web", "worker") if what == "both" else (what,):
                end(pids[name])
                pids[name] = (
                    web(desk.folder.path, config) if name == "web" else worker(desk.folder.path)
                )
        (folder / "stop").touch()
        os.waitpid(clients, 0)
        for name in ("worker", "web"):
            end(pids[name])
        Worker(Desk.open(desk.folder.path), "fork").run(until_idle=True)
        asked, told = _heard(folder)
        left = _left(Desk.open(desk.folder.path), asked)
    return {"kills": number, "killed": dict(done), "clients": dict(told), **left}


def forked_clients(port: int, sessions: list[str], folder: Path) -> int:
    """People who ask and send again until they are answered, in a process of their own."""

    def work() -> None:
        threads = [
            threading.Thread(target=_asks, args=(port, session, k, folder))
            for k, session in enumerate(sessions)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return forked(work)


def _asks(port: int, session: str, person: int, folder: Path) -> None:
    """Ask, wait for the answer, and ask anew; every request is sent until it is answered."""
    heard = {}
    retries = 0
    stop = folder / "stop"
    number = 0
    while not stop.exists():
        number += 1
        key = f"key {person} {number}"
        fields = {"form": csrf_token_of(session), "formula": FORMULA, "rho": 0.5, "key": key}
        fields |= {"again": "yes", "anyway": "yes"}
        location = ""
        while not location and not stop.exists():
            answer = _sent(port, session, "POST", "/t/visits/questions", urlencode(fields))
            location = answer[1] if answer[0] == 303 else ""
            retries += not location
        heard[key] = location.rpartition("/")[2]
        while location and not stop.exists():
            status, _, text = _sent(port, session, "GET", location)
            retries += status != 200
            if status == 200 and re.search("state-(answered|lost|refused)", text):
                break
            time.sleep(0.1)
    content = json.dumps({"heard": heard, "retries": retries})
    (folder / f"heard-{person}.json").write_text(content, encoding="utf-8")


def _sent(port: int, session: str, method: str, path: str, body: str = "") -> tuple[int, str, str]:
    headers = {
        "cookie": f"desk={session}",
        "origin": f"http://127.0.0.1:{port}",
        "content-type": FORM,
    }
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        link.request(method, path, body or None, headers)
        answer = link.getresponse()
        return answer.status, answer.headers.get("location") or "", answer.read().decode()
    except (OSError, http.client.HTTPException):
        time.sleep(0.05)
        return 0, "", ""
    finally:
        link.close()


def _kill_fits(desk: Desk) -> None:
    for lock in desk.folder.locks.iterdir():
        pid = holder(lock) if lock.name != "worker" else None
        if pid:
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _heard(folder: Path) -> tuple[dict[str, str], "Counter[str]"]:
    asked: dict[str, str] = {}
    told: Counter[str] = Counter()
    for path in folder.glob("heard-*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        asked |= document["heard"]
        told["keys"] += len(document["heard"])
        told["sent_again"] += document["retries"]
    return asked, told


def _left(desk: Desk, asked: dict[str, str]) -> dict[str, Any]:
    """What is left: every question, entry and result."""
    table = desk.table("visits")
    entries = Counter(entry.request for entry in table.ledger().entries())
    states = Counter(ticket.state for ticket in desk.tickets())
    results = [
        path.name
        for path in desk.folder.results.iterdir()
        if desk.folder.result(path.name).exists()
    ]
    whole = sum(
        valid_result(desk.folder, ticket.id, ticket.release) is not None
        for ticket in desk.tickets(states=("answered",))
    )
    return {
        "states": dict(states),
        "entries": sum(entries.values()),
        "booked_twice": sum(number > 1 for number in entries.values()),
        "results_without_entry": sum(name not in entries for name in results),
        "answered_with_whole_result": whole,
        "not_ended": sum(not ticket.ended for ticket in desk.tickets()),
        "keys_that_led_to_no_question": sum(
            bool(ident) and not desk.register.tickets("id = ?", ident) for ident in asked.values()
        ),
        "faults_of_verify": list(desk.verify().faults),
    }
