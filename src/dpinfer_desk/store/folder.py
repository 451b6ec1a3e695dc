"""The folder of a desk: where what is kept in it, and the settings that stand in `desk.toml`.

    desk.toml            settings
    secret               the key of the fingerprints and seals of tables, for the worker alone
    shared/desk.db       people, accounts, tables, allowances, questions
    shared/journal.db    who did what, as a chain
    accounts/TABLE.json  what the worker publishes of a table: its ledger, to read
    results/QUESTION/    result.json, once it is there
    locks/QUESTION       held by the process that fits
    logs/QUESTION.log    what went wrong, for the steward alone
    seen/LEDGER.json     how each ledger stood last, for the worker alone

The data, their schema and their ledger are elsewhere; the desk copies no record.

On a network (`dpinfer serve`) the process with the network is another user than the worker: it writes
into the files of shared/ alone, makes none, reads settings, accounts and results, and nothing else.
"""

import os
import secrets
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from dpinfer import persistence
from dpinfer.asking.spec import check_name
from dpinfer.errors import InputError
from dpinfer.privacy.store import keep_sidecar_files
from dpinfer.schema.toml import dump, read_toml

LADDER = (5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds from booking to answer that there are."""

SETTINGS = "desk.toml"
SECRET = "secret"

PREFIX = 8
"""Letters of a desk's id that its requests in ledgers begin with."""


@dataclass(frozen=True)
class Settings:
    """What a steward may change in `desk.toml` while nothing runs.

    ``id`` is random and names the desk in requests.  ``ladder`` are the seconds from booking to
    answer that there are.  ``memory`` (megabytes) bounds the process of a fit; ``free`` (megabytes)
    is kept free on the disk, or nothing is booked.  ``open_per_person`` and ``open_per_table`` bound
    how many questions may be open at once.
    """

    id: str
    title: str = ""
    ladder: tuple[float, ...] = LADDER
    memory: int = 4096
    free: int = 1024
    open_per_person: int = 3
    open_per_table: int = 50

    def __post_init__(self) -> None:
        rungs = self.ladder
        rising = all(a < b for a, b in pairwise(rungs))
        if not rungs or not rising or not 0 < rungs[0] <= rungs[-1] <= 86_400:
            raise InputError(
                f"ladder in {SETTINGS} must be rising numbers of seconds, such as [5, 15, 60]"
            )
        for name in ("memory", "free", "open_per_person", "open_per_table"):
            if getattr(self, name) < (0 if name == "free" else 1):
                raise InputError(f"{name} in {SETTINGS} must be a whole number of at least 1")


@dataclass(frozen=True)
class Folder:
    """The paths of a desk."""

    path: Path

    @classmethod
    def create(cls, path: Path, title: str = "", ladder: tuple[float, ...] = LADDER) -> "Folder":
        """A new folder with settings; one that holds something is refused."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{str(path)!r} is there already: a desk needs a new or empty folder")
        settings = Settings(uuid.uuid4().hex, title, ladder)
        persistence.prepare(path)
        folder = cls(path.resolve())
        for part in (folder.shared, folder.accounts, folder.results, folder.locks, folder.logs):
            part.mkdir()
        os.chmod(folder.path, 0o700)
        folder.write(settings)
        with open(
            os.open(folder.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:
            file.write(secrets.token_bytes(32))
        return folder

    @classmethod
    def open(cls, path: Path) -> "Folder":
        """The folder of a desk that is there."""
        if not (path / SETTINGS).is_file():
            raise InputError(
                f"there is no desk in {str(path)!r}: make one with `dpinfer desk init {path}`"
            )
        return cls(path.resolve())

    @property
    def shared(self) -> Path:
        """What the worker and those who show pages both write."""
        return self.path / "shared"

    @property
    def database(self) -> Path:
        """People, accounts, tables, allowances, questions."""
        return self.shared / "desk.db"

    @property
    def secret(self) -> Path:
        """The key of the fingerprints and seals of tables, for the worker alone."""
        return self.path / SECRET

    @property
    def journal(self) -> Path:
        """Who did what."""
        return self.shared / "journal.db"

    @property
    def accounts(self) -> Path:
        """What the worker publishes of each table."""
        return self.path / "accounts"

    @property
    def results(self) -> Path:
        """One folder per question that has a result."""
        return self.path / "results"

    @property
    def locks(self) -> Path:
        """One file per question, held by the process that fits."""
        return self.path / "locks"

    @property
    def logs(self) -> Path:
        """What went wrong, for the steward alone."""
        return self.path / "logs"

    @property
    def seen(self) -> Path:
        """How each ledger stood when the worker saw it last; for the worker alone."""
        return self.path / "seen"

    def result(self, question: str) -> Path:
        """The file of the result of a question."""
        return self.results / question / persistence.RESULT

    def share(self, group: str = "") -> None:
        """Let the process with the network in, as another user of a group: it writes into the databases of
        shared/, reads settings, accounts and results, and nothing else.

        Guarantee [nothing_beside_the_databases]: that user makes no file in shared/ and takes none
        away, as SQLite would follow what he puts beside a database.
        """
        rights = {
            self.path: 0o750,
            self.shared: 0o2750,
            self.accounts: 0o2750,
            self.results: 0o2750,
            self.path / SETTINGS: 0o640,
            self.database: 0o660,
            self.journal: 0o660,
            self.locks: 0o700,
            self.logs: 0o700,
        }
        for path, mode in rights.items():
            try:
                if group:
                    shutil.chown(path, group=group)
                os.chmod(path, mode)
            except (LookupError, OSError):
                raise InputError(
                    f"{path} cannot be given to the group {group!r}: make the group, and be one of it, or root"
                ) from None
        for path in (self.database, self.journal):
            keep_sidecar_files(path)

    def account(self, table: str) -> Path:
        """What the worker publishes of a table."""
        return self.accounts / f"{table}.json"

    def write(self, settings: Settings) -> None:
        """Write the settings."""
        document = {field.name: getattr(settings, field.name) for field in fields(settings)}
        document["ladder"] = list(settings.ladder)
        persistence.write(self.path / SETTINGS, dump(document).encode())

    def settings(self) -> Settings:
        """Read the settings; a key that is none is refused."""
        text = (self.path / SETTINGS).read_text(encoding="utf-8-sig")
        return _settings_of(read_toml(text, SETTINGS))

    def owns(self, request: str) -> bool:
        """Whether a request in a ledger is of this desk."""
        return request.startswith(self.settings().id[:PREFIX])

    def room(self) -> int:
        """Megabytes that are free on the disk."""
        return shutil.disk_usage(self.path).free // 10**6


def _settings_of(document: Mapping[str, Any]) -> Settings:
    kinds = {field.name: field.type for field in fields(Settings)}
    values: dict[str, Any] = {}
    for key, value in document.items():
        check_name(SETTINGS, "key", key, kinds)
        if key == "ladder":
            fine = isinstance(value, list) and all(type(one) in (int, float) for one in value)
            values[key] = tuple(map(float, value)) if fine else ()
            continue
        if type(value) is not kinds[key]:
            raise InputError(f"{key} in {SETTINGS} must be of the type {kinds[key].__name__}")  # type: ignore[union-attr]
        values[key] = value
    if not values.get("id"):
        raise InputError(f"{SETTINGS} has no id: put the one back that `desk init` wrote")
    return Settings(**values)
