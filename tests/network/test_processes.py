"""Two processes: the one with the network cannot read the data, the one with the data has no network;
and both end together.
"""

import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dpinfer_desk.checkup import UNSHARE, without_network
from dpinfer_desk.desk import Desk
from helpers.servers import PROGRAM, Client, peopled, served
from helpers.visits import made, question


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(what, seconds=300):
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.1)
    return what()


def settled(desk, ident):
    assert until(lambda: desk.ticket(ident).ended)
    return desk.ticket(ident).state


CONNECT = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
except OSError as fault:
    print("no:", fault.errno)
else:
    print("connected")
"""


@pytest.mark.skipif(not without_network(), reason="this system starts no process without a network")
def test_the_worker_has_no_network(site):
    """The worker is in a network of its own, where nothing is: not even this machine answers there."""
    assert until(lambda: set(site.pids()) == {"web", "worker"})
    pids = site.pids()
    assert until(
        lambda: os.readlink(f"/proc/{pids['worker']}/ns/net") != os.readlink("/proc/self/ns/net")
    )
    names = {pid: os.readlink(f"/proc/{pid}/ns/net") for pid in (os.getpid(), *pids.values())}
    assert names[pids["web"]] == names[os.getpid()]
    assert names[pids["worker"]] != names[os.getpid()]
    devices = Path(f"/proc/{pids['worker']}/net/dev").read_text(encoding="ascii")
    assert [line.split(":")[0].strip() for line in devices.splitlines()[2:]] == ["lo"]
    told = [
        subprocess.run(
            [*before, sys.executable, "-c", CONNECT, str(site.port)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for before in ((), UNSHARE)
    ]
    assert told[0] == "connected\n"  # the test has power
    assert told[1].startswith("no:")


def children(pid):
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=", "-o", "ppid="], capture_output=True, text=True, check=True
    )
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = {pid}
    while True:
        more = {child for child, parent in pairs if parent in found} | found
        if more == found:
            return found - {pid}
        found = more


def files_of(pid):
    """What a process has open or mapped, as one text; of one that ends meanwhile, what was seen."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        found.append(Path(f"/proc/{pid}/maps").read_text())
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.append(os.readlink(link))
    return "\n".join(found)


def test_the_web_process_opens_no_data(site, visitors):
    """After pages, a forecast and a question: no file of the data is open in it or mapped, and none
    of its children has it either.
    """
    visitors["a.meier"].go("/t/visits/ask?formula=visit+~+age&rho=0.1&go=forecast")
    web = site.pids()["web"]
    private = [str(site.folder.parent / name) for name in ("visits.parquet", "ledger.db")]
    private.append(str(site.folder / "secret"))
    for pid in (web, *children(web)):
        held = files_of(pid)
        assert not any(path in held for path in private)
    assert "libc" in files_of(web)  # it is there, and was looked at


def test_a_worker_that_is_stopped_or_killed_loses_nothing(tmp_path):
    """The one ends, the other ends with it, and what was asked is answered by the next run."""
    folder = peopled(made(tmp_path))
    desk = Desk.open(folder)
    for name, kill in (("worker", signal.SIGKILL), ("web", signal.SIGTERM)):
        asked = desk.ask(
            "visits", question(rho=0.02, title=name), "a.meier", f"{name}{kill}", again=True
        )
        with served(folder) as site:
            assert until(lambda: set(site.pids()) == {"web", "worker"})
            pids = site.pids()
            os.kill(pids[name], kill)
            assert site.process.wait(300) != 0
            assert not any(alive(pid) for pid in pids.values())
            assert f"the {name} process has ended" in site.said.read_text()
    with served(folder):
        states = [settled(desk, ticket.id) for ticket in desk.tickets()]
    assert len(states) == 2
    assert set(states) <= {"answered", "lost"}
    assert asked.id in {ticket.id for ticket in desk.tickets()}
    assert desk.verify().ok


def test_both_end_with_who_started_them(tmp_path):
    """Also where that one is killed and can do nothing any more."""
    folder = peopled(made(tmp_path))
    with served(folder) as site:
        assert until(lambda: set(site.pids()) == {"web", "worker"})
        pids = site.pids()
        site.process.kill()
        site.process.wait()
        assert until(lambda: not any(alive(pid) for pid in pids.values()))
    with served(folder) as site:  # nothing holds the port or the desk
        assert Client(site).go("/sign-in").status == 200
        site.process.send_signal(signal.SIGTERM)
        assert site.process.wait(300) == 0


def user_of(name):
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


BOUNDED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner")
"""Before a command of root: it then has the rights to files that any other user would have."""


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which(BOUNDED[0]) is None or user_of("nobody") is None,
    reason="needs two users",
)
def test_the_pages_as_a_user_who_cannot_read_the_data(tmp_path):
    """Everything that people do works for a user who may read neither data nor ledger nor secret,
    where those belong to another one; the group of both is the one that the desk is shared with.
    """
    folder = peopled(made(tmp_path))
    desk = Desk.open(folder)
    desk.folder.share(grp.getgrgid(os.getgid()).gr_name)
    owner = user_of("nobody").pw_uid
    private = [tmp_path / "visits.parquet", tmp_path / "ledger.db", desk.folder.secret]
    for path in private:
        os.chmod(path, 0o600)
    for path in (*private, folder, *folder.rglob("*")):
        os.chown(path, owner, -1)
    for path in private:
        done = subprocess.run([*BOUNDED, "cat", str(path)], capture_output=True, check=False)
        assert b"Permission denied" in done.stderr
    worker = subprocess.Popen(
        [*PROGRAM, "run", str(folder), "--worker-only"], stderr=subprocess.DEVNULL
    )
    run = [*BOUNDED, *PROGRAM, "run", str(folder), "--port", "0", "--web-only"]
    try:
        with served(folder, run=run) as site:
            mine = Client(site, "a.meier")
            boss = Client(site, "boss")
            assert mine.go("/t/visits/ask?formula=visit+~+age&rho=0.1&go=forecast").status == 200
            fields = {"formula": "visit ~ age", "rho": "0.1", "key": "k"}
            place = mine.post("/t/visits/questions", fields).headers["location"]
            assert settled(desk, place.rpartition("/")[2]) == "answered"
            assert mine.go(f"{place}/report").status == 200
            assert "5 % of the total is used" in mine.go("/t/visits").text
            assert boss.post("/t/visits/pause", {"reason": "x"}).status == 303
            assert boss.post("/t/visits/resume", {"reason": "x"}).status == 303
            allowed = {"person": "a.meier", "amount": "ρ = 1"}
            assert boss.post("/t/visits/allowance", allowed).status == 303
            assert "are consistent" in boss.go("/verify?go=verify").text
    finally:
        worker.terminate()
        worker.wait(300)
    assert desk.verify().ok


def test_two_workers_or_two_servers_are_one_too_many(site):
    with socket.create_connection(("127.0.0.1", site.port), 5):
        pass
    port = ["--port", str(site.port), "--web-only"]
    done = subprocess.run(
        [*PROGRAM, "run", str(site.folder), *port],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0
    assert "is taken" in done.stderr
    done = subprocess.run(
        [*PROGRAM, "run", str(site.folder), "--worker-only"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0
    assert "a worker of this desk runs already" in done.stderr
