"""The folder of a desk: the files in it, their rights, and the settings in `desk.toml`.

    desk.toml            settings
    secret               the key of the fingerprints and seals of tables, for the worker alone
    shared/desk.db       persons, accounts, tables, allowances, questions
    shared/journal.db    the journal: who did what, as a chain
    accounts/TABLE.json  a read-only copy of the ledger of a table, published by the worker
    results/QUESTION/    result.json, once there is one
    releases/TABLE/      moment releases that a steward has published
    locks/QUESTION       locked by the process of the fit
    logs/QUESTION.log    errors of a fit, for the steward alone
    seen/LEDGER.json     the checkpoint of a ledger, for the worker alone

Data, schemas and ledgers lie elsewhere; the desk copies no record.

On a network (`dpinfer serve`) the process with the network runs as another user than the worker: it
writes into the files of shared/, makes none, and reads settings, accounts, results and releases, nothing else.
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

RESPONSE_TIMES = (5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds from booking to answer: each question gets one of these, so that the time tells little."""

SETTINGS = "desk.toml"
SECRET = "secret"

PREFIX = 8
"""Number of letters of a desk's id with which its requests in ledgers begin."""

_KEYS = {"response_times": "ladder"}
"""Keys of `desk.toml` that differ from the name of the setting."""


@dataclass(frozen=True)
class Settings:
    """Settings that a steward may change in `desk.toml` while nothing runs.

    ``id`` is random and names the desk in requests.  ``response_times`` (``ladder`` in the file) are
    the possible seconds from booking to answer.  ``memory`` (megabytes) bounds the process of a fit;
    ``free`` (megabytes) is kept free on the disk, or nothing is booked.  ``open_per_person`` and
    ``open_per_table`` bound how many questions may be open at once.
    """

    id: str
    title: str = ""
    response_times: tuple[float, ...] = RESPONSE_TIMES
    memory: int = 4096
    free: int = 1024
    open_per_person: int = 3
    open_per_table: int = 50

    def __post_init__(self) -> None:
        times = self.response_times
        increasing = all(a < b for a, b in pairwise(times))
        if not times or not increasing or not 0 < times[0] <= times[-1] <= 86_400:
            raise InputError(
                f"ladder in {SETTINGS} must be increasing numbers of seconds, such as [5, 15, 60]"
            )
        for name in ("memory", "free", "open_per_person", "open_per_table"):
            if getattr(self, name) < (0 if name == "free" else 1):
                raise InputError(f"{name} in {SETTINGS} must be a whole number of at least 1")


@dataclass(frozen=True)
class Folder:
    """The paths of a desk, with the rights that they need."""

    path: Path

    @classmethod
    def create(
        cls, path: Path, title: str = "", response_times: tuple[float, ...] = RESPONSE_TIMES
    ) -> "Folder":
        """Make the folder of a desk, new or empty, with its settings and its secret."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{str(path)!r} is there already: a desk needs a new or empty folder")
        settings = Settings(uuid.uuid4().hex, title, response_times)
        persistence.prepare(path)
        folder = cls(path.resolve())
        parts = (folder.shared, folder.accounts, folder.results, folder.releases, folder.locks)
        for part in (*parts, folder.logs):
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
        """Open the folder of an existing desk."""
        if not (path / SETTINGS).is_file():
            raise InputError(
                f"there is no desk in {str(path)!r}: make one with `dpinfer desk init {path}`"
            )
        return cls(path.resolve())

    @property
    def shared(self) -> Path:
        """The folder of the databases that the worker and the process with the network both write."""
        return self.path / "shared"

    @property
    def database(self) -> Path:
        return self.shared / "desk.db"

    @property
    def secret(self) -> Path:
        return self.path / SECRET

    @property
    def journal(self) -> Path:
        return self.shared / "journal.db"

    @property
    def accounts(self) -> Path:
        return self.path / "accounts"

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def releases(self) -> Path:
        return self.path / "releases"

    @property
    def locks(self) -> Path:
        return self.path / "locks"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def checkpoints(self) -> Path:
        return self.path / "seen"

    def result(self, question: str) -> Path:
        """Return the path of the result of a question."""
        return self.results / question / persistence.RESULT

    def share(self, group: str = "") -> None:
        """Give the process with the network its rights, as another user of a group.

        It writes into the databases of shared/, reads settings, accounts, results and releases, nothing
        else.

        Guarantee [nothing_beside_the_databases]: that user makes no file in shared/ and takes none
        away, as SQLite would follow a file that he puts beside a database.
        """
        # The group may write into the databases (0o660) and not into their folder (0o2750; setgid, so
        # that SQLite's own files beside them belong to the group as well).
        rights = {
            self.path: 0o750,
            self.shared: 0o2750,
            self.accounts: 0o2750,
            self.results: 0o2750,
            self.releases: 0o2750,
            self.path / SETTINGS: 0o640,
            self.database: 0o660,
            self.journal: 0o660,
            self.locks: 0o700,
            self.logs: 0o700,
        }
        self.releases.mkdir(exist_ok=True)  # a desk of an older version has none
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
        """Return the path of the copy of a ledger that the worker publishes."""
        return self.accounts / f"{table}.json"

    def write(self, settings: Settings) -> None:
        document = {_key(field.name): getattr(settings, field.name) for field in fields(settings)}
        document[_key("response_times")] = list(settings.response_times)
        persistence.write(self.path / SETTINGS, dump(document).encode())

    def settings(self) -> Settings:
        """Read the settings; an unknown key is an `InputError`."""
        text = (self.path / SETTINGS).read_text(encoding="utf-8-sig")
        return _settings_of(read_toml(text, SETTINGS))

    def owns(self, request: str) -> bool:
        """Tell whether a request in a ledger was made by this desk."""
        return request.startswith(self.settings().id[:PREFIX])

    def free_megabytes(self) -> int:
        """Return the free space on the disk of the desk, in megabytes."""
        return shutil.disk_usage(self.path).free // 10**6


def _key(setting: str) -> str:
    return _KEYS.get(setting, setting)


def _settings_of(document: Mapping[str, Any]) -> Settings:
    settings = {_key(field.name): field for field in fields(Settings)}
    values: dict[str, Any] = {}
    for key, value in document.items():
        check_name(SETTINGS, "key", key, settings)
        setting = settings[key]
        if setting.name == "response_times":
            valid = isinstance(value, list) and all(type(one) in (int, float) for one in value)
            values[setting.name] = tuple(map(float, value)) if valid else ()
            continue
        if type(value) is not setting.type:
            raise InputError(f"{key} in {SETTINGS} must be of the type {setting.type.__name__}")  # type: ignore[union-attr]
        values[setting.name] = value
    if not values.get("id"):
        raise InputError(f"{SETTINGS} has no id: put the one back that `desk init` wrote")
    return Settings(**values)
