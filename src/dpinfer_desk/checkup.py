"""What is missing before a desk may stand on a network: rights, users, clock, disk, backup, people."""

import grp
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from dpinfer.errors import InputError
from dpinfer.privacy.store import sidecar_files
from dpinfer_desk.backup import last_backup
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import published
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.store.roles import STEWARD
from dpinfer_desk.store.tables import Table

UNSHARE = ("unshare", "--user", "--map-current-user", "--net", "--")
"""What comes before a command that is to run without a network."""
_OLDEST = timedelta(days=7)
_FUTURE = timedelta(seconds=60)
_SHARE = "`dpinfer serve share DIR --group GROUP`"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: whether it is as it should be, and what to do else."""

    fine: bool
    words: str


def findings(desk: Desk, web: str = "") -> Iterator[Finding]:
    """Everything that was looked at; ``web`` is the user of the process with the network."""
    yield from _rights(desk)
    yield from _of_web(desk, web)
    yield _network()
    yield _clock(desk)
    yield _synchronised()
    yield _room(desk)
    yield _backup(desk)
    yield _steward(desk)
    yield _at_work(desk)
    yield _whole(desk)


def without_network() -> bool:
    """Whether this system lets a process be started without a network."""
    if shutil.which(UNSHARE[0]) is None:
        return False
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False, timeout=30)
    return tried.returncode == 0


def _rights(desk: Desk) -> Iterator[Finding]:
    folder = desk.folder
    yield _closed(folder.path, 0o007, "the folder of the desk is for its users alone")
    for path in (folder.secret, folder.logs, folder.locks):
        yield _closed(path, 0o077, f"{path.name} is for the worker alone")
    for table in desk.tables():
        for path in (Path(table.place), Path(table.book)):
            yield _closed(path, 0o007, f"{path.name} of {table.name} is not for everybody")


def _closed(path: Path, others: int, words: str) -> Finding:
    """Whether some have no right to a path."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return Finding(False, f"{path} cannot be found: put it back")
    if mode & others:
        remedy = f"chmod {'go' if others == 0o077 else 'o'}-rwx {path}"
        return Finding(False, f"{words}, and others have rights to it: {remedy}")
    return Finding(True, words)


def _of_web(desk: Desk, web: str) -> Iterator[Finding]:
    if not web:
        yield Finding(
            False,
            "it is not known as whom the process with the network runs: name its user with --web-user",
        )
        return
    try:
        user = pwd.getpwnam(web)
    except KeyError:
        raise InputError(
            f"there is no user {web!r} on this machine: make one, or name another"
        ) from None
    groups = {user.pw_gid, *(one.gr_gid for one in grp.getgrall() if web in one.gr_mem)}
    for path in (desk.folder.secret, *_private(desk.tables())):
        can = _may(path, user.pw_uid, groups, os.R_OK)
        words = f"{web} cannot read {path}"
        yield Finding(not can, words if not can else f"{web} can read {path}: take that right away")
    for path in (desk.folder.database, desk.folder.journal):
        can = all(_may(one, user.pw_uid, groups, os.W_OK) for one in (path, *sidecar_files(path)))
        words = f"{web} can write {path}"
        yield Finding(can, words if can else f"{web} cannot write {path}, and has to: {_SHARE}")
    can = _may(desk.folder.shared, user.pw_uid, groups, os.W_OK)
    words = f"{web} can make no file in {desk.folder.shared}"
    yield Finding(
        not can, words if not can else f"{web} can make files in {desk.folder.shared}: {_SHARE}"
    )


def _private(tables: list[Table]) -> Iterator[Path]:
    for table in tables:
        yield Path(table.place)
        yield Path(table.book)


def _may(path: Path, user: int, groups: set[int], right: int) -> bool:
    """Whether a user has a right to a path, by the modes of it and of the folders that lead there."""
    if user == 0:
        return True
    steps = [(one, os.X_OK) for one in path.resolve().parents]
    return all(_allows(one, user, groups, needed) for one, needed in [*steps, (path, right)])


def _allows(path: Path, user: int, groups: set[int], right: int) -> bool:
    try:
        facts = path.stat()
    except OSError:
        return False
    if facts.st_uid == user:
        return bool(facts.st_mode >> 6 & right)
    if facts.st_gid in groups:
        return bool(facts.st_mode >> 3 & right)
    return bool(facts.st_mode & right)


def _network() -> Finding:
    if without_network():
        return Finding(True, "the worker can be started without a network")
    return Finding(
        False,
        "this system starts no process without a network (unshare): use the unit of systemd or the container, whose "
        "worker has none",
    )


def _clock(desk: Desk) -> Finding:
    last = max((event.time for event in desk.journal()), default="")
    if last > (desk.clock() + _FUTURE).isoformat():
        return Finding(False, "the clock is behind the last event of the journal: set it right")
    return Finding(True, "the clock is ahead of the journal")


def _synchronised() -> Finding:
    words = "the clock follows a time server"
    if shutil.which("timedatectl") is None:
        return Finding(False, f"it is not known whether {words}: see to it")
    told = subprocess.run(
        ["timedatectl", "show", "--property=NTPSynchronized", "--value"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if told.stdout.strip() == "yes":
        return Finding(True, words)
    return Finding(False, f"{words} is not so, or not known: answers come by the clock")


def _room(desk: Desk) -> Finding:
    room = desk.folder.room()
    least = desk.settings.free
    if room < least:
        return Finding(
            False, f"{room} MB are free on the disk, and nothing is booked below {least}"
        )
    return Finding(True, f"{room} MB are free on the disk; below {least} nothing is booked")


def _backup(desk: Desk) -> Finding:
    last = last_backup(desk)
    if last is None:
        return Finding(False, "there was no backup yet: `dpinfer serve backup`")
    days = (desk.clock() - last).days
    if desk.clock() - last > _OLDEST:
        return Finding(False, f"the last backup is {days} days old: `dpinfer serve backup`")
    return Finding(True, f"the last backup is {days} days old")


def _steward(desk: Desk) -> Finding:
    accounts = Accounts(desk.register).all()
    if any(one.role == STEWARD and one.has_password for one in accounts):
        return Finding(True, "a steward can sign in")
    return Finding(
        False, "no steward can sign in: `dpinfer serve person add DIR NAME --role steward`"
    )


def _at_work(desk: Desk) -> Finding:
    if published.at_work(desk.folder.accounts):
        return Finding(True, "the worker is at work")
    return Finding(False, "the worker is not at work: `dpinfer serve run`")


def _whole(desk: Desk) -> Finding:
    faults = desk.verify().faults
    if faults:
        return Finding(False, f"{faults[0]}: see `dpinfer desk verify`")
    return Finding(True, "journal, questions, ledgers and results fit together")
