"""Requirements of a desk on a network: rights, users, clock, disk, backup, accounts, worker."""

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
from dpinfer_desk.store.tables import RegisteredTable

UNSHARE = ("unshare", "--user", "--map-current-user", "--net", "--")
"""The prefix of a command that runs without a network."""
_MAX_AGE = timedelta(days=7)  # of a backup
_MAX_CLOCK_ERROR = timedelta(seconds=60)
_SHARE = "`dpinfer serve share DIR --group GROUP`"


@dataclass(frozen=True)
class Requirement:
    """A requirement: whether it is met, and a message that says what to do if it is not."""

    met: bool
    message: str


def requirements(desk: Desk, web: str = "", identity_header: str = "") -> Iterator[Requirement]:
    """Yield each requirement.

    ``web`` is the user of the process with the network; ``identity_header`` is the header in which a
    proxy names who has signed in there, if any.
    """
    yield from _rights(desk)
    yield from _web_rights(desk, web)
    yield _network()
    yield _clock(desk)
    yield _synchronised()
    yield _disk(desk)
    yield _backup(desk)
    yield _steward(desk, identity_header)
    yield _worker(desk)
    yield _consistent(desk)


def without_network() -> bool:
    """Tell whether this system can start a process without a network."""
    if shutil.which(UNSHARE[0]) is None:
        return False
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False, timeout=30)
    return tried.returncode == 0


def _rights(desk: Desk) -> Iterator[Requirement]:
    folder = desk.folder
    yield _closed(folder.path, 0o007, "the folder of the desk is for its users alone")
    for path in (folder.secret, folder.logs, folder.locks):
        yield _closed(path, 0o077, f"{path.name} is for the worker alone")
    for table in desk.tables():
        for path in (Path(table.data_path), Path(table.ledger_path)):
            yield _closed(path, 0o007, f"{path.name} of {table.name} is not for everybody")


def _closed(path: Path, others: int, message: str) -> Requirement:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return Requirement(False, f"{path} cannot be found: put it back")
    if mode & others:
        remedy = f"chmod {'go' if others == 0o077 else 'o'}-rwx {path}"
        return Requirement(False, f"{message}, and others have rights to it: {remedy}")
    return Requirement(True, message)


def _web_rights(desk: Desk, web: str) -> Iterator[Requirement]:
    if not web:
        yield Requirement(
            False,
            "the user of the process with the network is not known: name it with --web-user",
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
        if _may(path, user.pw_uid, groups, os.R_OK):
            yield Requirement(False, f"{web} can read {path}: take that right away")
        else:
            yield Requirement(True, f"{web} cannot read {path}")
    for path in (desk.folder.database, desk.folder.journal):
        if all(_may(one, user.pw_uid, groups, os.W_OK) for one in (path, *sidecar_files(path))):
            yield Requirement(True, f"{web} can write {path}")
        else:
            yield Requirement(False, f"{web} cannot write {path}, and has to: {_SHARE}")
    if _may(desk.folder.shared, user.pw_uid, groups, os.W_OK):
        yield Requirement(False, f"{web} can make files in {desk.folder.shared}: {_SHARE}")
    else:
        yield Requirement(True, f"{web} can make no file in {desk.folder.shared}")


def _private(tables: list[RegisteredTable]) -> Iterator[Path]:
    for table in tables:
        yield Path(table.data_path)
        yield Path(table.ledger_path)


def _may(path: Path, user: int, groups: set[int], right: int) -> bool:
    """Tell whether a user has a right to a path, by its mode and those of the folders above it."""
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


def _network() -> Requirement:
    if without_network():
        return Requirement(True, "the worker can be started without a network")
    return Requirement(
        False,
        "this system starts no process without a network (unshare): use the unit of systemd or the container, whose "
        "worker has none",
    )


def _clock(desk: Desk) -> Requirement:
    last = max((event.time for event in desk.journal()), default="")
    if last > (desk.clock() + _MAX_CLOCK_ERROR).isoformat():
        return Requirement(False, "the clock is behind the last event of the journal: set it right")
    return Requirement(True, "the clock is ahead of the journal")


def _synchronised() -> Requirement:
    message = "the clock follows a time server"
    if shutil.which("timedatectl") is None:
        return Requirement(False, f"it is not known whether {message}: see to it")
    done = subprocess.run(
        ["timedatectl", "show", "--property=NTPSynchronized", "--value"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if done.stdout.strip() == "yes":
        return Requirement(True, message)
    return Requirement(
        False, "the clock may not follow a time server, and answers come by the clock: set one up"
    )


def _disk(desk: Desk) -> Requirement:
    free = desk.folder.free_megabytes()
    needed = desk.settings.free
    if free < needed:
        return Requirement(
            False,
            f"{free} MB are free on the disk, and nothing is booked below {needed}: make room",
        )
    return Requirement(True, f"{free} MB are free on the disk; below {needed} nothing is booked")


def _backup(desk: Desk) -> Requirement:
    last = last_backup(desk)
    if last is None:
        return Requirement(False, "there was no backup yet: `dpinfer serve backup`")
    days = (desk.clock() - last).days
    if desk.clock() - last > _MAX_AGE:
        return Requirement(False, f"the last backup is {days} days old: `dpinfer serve backup`")
    return Requirement(True, f"the last backup is {days} days old")


def _steward(desk: Desk, identity_header: str) -> Requirement:
    # Who signs in at the proxy needs an account here, and no password.
    accounts = Accounts(desk.register).all()
    if any(one.role == STEWARD and (one.has_password or identity_header) for one in accounts):
        return Requirement(True, "a steward can sign in")
    return Requirement(
        False, "no steward can sign in: `dpinfer serve person add DIR NAME --role steward`"
    )


def _worker(desk: Desk) -> Requirement:
    if published.at_work(desk.folder.accounts):
        return Requirement(True, "the worker is running")
    return Requirement(False, "the worker is not running: `dpinfer serve run`")


def _consistent(desk: Desk) -> Requirement:
    faults = desk.verify().faults
    if faults:
        return Requirement(False, f"{faults[0]}: see `dpinfer desk verify`")
    return Requirement(True, "journal, questions, ledgers and results are consistent")
