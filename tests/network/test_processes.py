"""Two processes: the one with the network cannot read the data, the one with the data has no network;
and both end together.
"""

import grp
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpinfer.desk.checkup import UNSHARE, without_network
from dpinfer.desk.desk import Desk
from servers import PROGRAM, Client, peopled, served
from visits import made, question


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z"


def until(what, seconds=60):
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.1)
    return what()


def settled(desk, ident):
    assert until(lambda: desk.ticket(ident).ended, 90)
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
def test_guarantee_worker_has_no_network(site):
    """The worker is in a network of its own, where nothing is: not even this machine answers there."""
    pids = site.pids()
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


def test_the_web_process_opens_no_data(site, visitors):
    """After pages, a forecast and a question: no file of the data is open in it or mapped, and none
    of its children has it either.
    """
    visitors["a.meier"].go("/t/visits/ask?formula=visit+~+age&rho=0.1&go=forecast")
    web = site.pids()["web"]
    private = [str(site.folder.parent / name) for name in ("visits.parquet", "ledger.db")]
    private.append(str(site.folder / "secret"))
    for pid in (web, *children(web)):
        opened = [
            os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()
        ]
        assert not set(private) & set(opened)
        assert not any(path in Path(f"/proc/{pid}/maps").read_text() for path in private)


def test_a_worker_that_is_stopped_or_killed_loses_nothing(tmp_path):
    """The one ends, the other ends with it, and what was asked is answered by the next run."""
    folder = peopled(made(tmp_path))
    desk = Desk.open(folder)
    for name, kill in (
        ("web", signal.SIGKILL),
        ("worker", signal.SIGKILL),
        ("web", signal.SIGTERM),
    ):
        asked = desk.ask("visits", question(rho=0.02, title=name), "a.meier", key=f"{name}{kill}")
        with served(folder) as site:
            assert until(lambda: set(site.pids()) == {"web", "worker"})
            pids = site.pids()
            os.kill(pids[name], kill)
            assert site.process.wait(90) != 0
            assert not any(alive(pid) for pid in pids.values())
            assert f"the {name} process has ended" in site.said.read_text()
    with served(folder):
        states = [settled(desk, ticket.id) for ticket in desk.tickets()]
    assert len(states) == 3
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
        assert until(lambda: not any(alive(pid) for pid in pids.values()), 30)
    with served(folder) as site:  # nothing holds the port or the desk
        assert Client(site).go("/sign-in").status == 200
        site.process.send_signal(signal.SIGTERM)
        assert site.process.wait(90) == 0


def user_of(name):
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


AS_OTHER = """
import os, sys
group, user = int(sys.argv[1]), int(sys.argv[2])
os.setgroups([group])
os.setgid(group)
os.setuid(user)
os.umask(0o027)
for path in sys.argv[4:]:
    try:
        open(path, "rb").close()
        print("read", path)
    except PermissionError:
        print("no", path)
os.execv(sys.executable, [sys.executable, "-m", "dpinfer", "serve", "run", sys.argv[3], "--port", "0", "--web-only"])
"""


@pytest.mark.skipif(os.getuid() != 0 or user_of("nobody") is None, reason="needs another user")
def test_the_pages_as_a_user_who_cannot_read_the_data(tmp_path_factory):
    """Everything that people do works for a user who may read neither data nor ledger nor secret,
    where the worker is another one.
    """
    root = tmp_path_factory.mktemp("users")
    folder = peopled(made(root))
    desk = Desk.open(folder)
    group = grp.getgrgid(user_of("nobody").pw_gid)
    desk.folder.share(group.gr_name)
    for name in ("visits.parquet", "ledger.db", "schema.toml"):
        os.chmod(root / name, 0o600)
    for above in root.parents:
        if above.stat().st_uid == os.getuid() and above != Path("/"):
            os.chmod(above, above.stat().st_mode | 0o011)
    os.chmod(root, 0o711)
    private = [str(root / "visits.parquet"), str(root / "ledger.db"), str(folder / "secret")]
    numbers = [str(group.gr_gid), str(user_of("nobody").pw_uid)]
    worker = subprocess.Popen(
        [*PROGRAM, "run", str(folder), "--worker-only"], stderr=subprocess.DEVNULL
    )
    run = [sys.executable, "-c", AS_OTHER, *numbers, str(folder), *private]
    try:
        with served(folder, run=run) as site:
            mine = Client(site, "a.meier")
            boss = Client(site, "boss")
            assert mine.go("/t/visits/ask?formula=visit+~+age&rho=0.1").status == 200
            fields = {"formula": "visit ~ age", "rho": "0.1", "key": "k"}
            place = mine.post("/t/visits/questions", fields).headers["location"]
            assert settled(desk, place.rpartition("/")[2]) == "answered"
            assert mine.go(f"{place}/report").status == 200
            assert "0.1 of 2 spent" in mine.go("/t/visits").text
            assert boss.post("/t/visits/pause", {"reason": "x"}).status == 303
            assert boss.post("/t/visits/resume", {"reason": "x"}).status == 303
            assert (
                boss.post("/t/visits/allowance", {"person": "a.meier", "amount": "1"}).status == 303
            )
            assert "fit together" in boss.go("/verify?go=verify").text
            assert not os.access(folder / "accounts" / "visits.json", os.X_OK)
    finally:
        worker.terminate()
        worker.wait(90)
    assert desk.verify().ok
    told = subprocess.run(
        [sys.executable, "-c", AS_OTHER.partition("os.execv")[0], *numbers, "x", *private],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.splitlines() == [f"no {path}" for path in private]


def test_two_workers_or_two_servers_are_one_too_many(site):
    with socket.create_connection(("127.0.0.1", site.port), 5):
        pass
    port = ["--port", str(site.port), "--web-only"]
    done = subprocess.run(
        [*PROGRAM, "run", str(site.folder), *port],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "is taken" in done.stderr
    done = subprocess.run(
        [*PROGRAM, "run", str(site.folder), "--worker-only"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "a worker of this desk runs already" in done.stderr
