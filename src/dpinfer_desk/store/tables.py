"""A table as it is registered: what is public about it, where it is, who decides, and its fingerprint."""

import hashlib
import hmac
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as short

from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy.ledger import Ledger
from dpinfer.schema.schema import Schema
from dpinfer.tables.arrow_files import members_of
from dpinfer_desk.store import published

EACH = "each"
ABOVE = "above"
NONE = "none"
APPROVALS = (EACH, ABOVE, NONE)
"""Which questions wait for the steward: each, those that cost more than an amount, none."""

OPEN = "open"
PAUSED = "paused"

UNSEALED = (
    "what desk.db says of this table is not what was registered, so nothing is booked: put the newest desk.db in its "
    "place, and find out who could write into it"
)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")


@dataclass(frozen=True)
class Policy:
    """Who decides, and who reads.

    ``approval`` is "each", "above" or "none"; ``up_to`` is the cost, in the terms of allowances, up
    to which no approval is needed where it is "above".  With ``shared`` every analyst of the table
    reads all answers.
    """

    approval: str = EACH
    up_to: float = 0.0
    shared: bool = True

    def __post_init__(self) -> None:
        if self.approval not in APPROVALS:
            raise InputError(f"approval must be {', '.join(APPROVALS)}, not {short(self.approval)}")
        if not 0 <= self.up_to < float("inf"):
            raise InputError("the cost up to which no approval is needed is 0 or a number above")

    def waits(self, cost: float) -> bool:
        """Whether a question of this cost waits for the steward."""
        if self.approval == ABOVE:
            return cost > self.up_to
        return self.approval == EACH


@dataclass(frozen=True)
class Table:
    """A registered table.

    ``place`` and ``book`` are the absolute paths of the data and of the ledger, ``text`` is the
    schema as it was registered.  ``records`` is the number of records or units where it is public,
    or a public guess for forecasts where it is private and somebody gave one.  ``secret`` is the
    file with the key of the fingerprint.  ``state`` is "open" or "paused", ``reason`` says why.
    ``seal`` covers what was registered.  ``published`` is the file that stands in for data and ledger
    where neither may be read; None where they are.
    """

    name: str
    place: str
    book: str
    text: str
    records: int | None
    policy: Policy
    fingerprint: "Fingerprint"
    secret: Path
    state: str = OPEN
    reason: str = ""
    added: str = ""
    seal: str = ""
    published: Path | None = None

    @property
    def schema(self) -> Schema:
        """What is public about the columns."""
        return Schema.parse(self.text)

    @property
    def title(self) -> str:
        """What the data are."""
        return self.schema.title or self.name

    def sealed(self) -> "Table":
        """The same with the seal of what is registered now."""
        return replace(self, seal=self._seal())

    def _seal(self) -> str:
        registered = [self.name, self.place, self.book, self.text, self.records]
        content = json.dumps([*registered, self.fingerprint.text()])
        return _mark(_key(self.secret), content.encode())

    def is_sealed(self) -> bool:
        """Whether this is what was registered by somebody who has the secret of the desk."""
        try:
            return hmac.compare_digest(str(self.seal).encode(), self._seal().encode())
        except (InputError, TypeError):  # no secret, or a row of other types
            return False

    def ledger(self) -> Ledger:
        """The only truth about what was spent; a copy to read where ``published`` stands in for it.

        Guarantee [sealed_tables]: the ledger and the data of a table are those that were registered
        by somebody who has the secret of the desk: whoever can write into desk.db alone can put no
        other ledger, file, schema or number in their place.
        """
        if self.published is not None:
            return published.read(self.published, self.name).ledger
        try:
            _key(self.secret)
            if not self.is_sealed():
                raise LedgerError(UNSEALED)
            return Ledger.open(self.book)
        except InputError as fault:  # the secret is gone
            raise LedgerError(str(fault)) from None
        except LedgerError as fault:
            raise LedgerError(self.public(str(fault))) from None

    def public(self, text: str) -> str:
        """A text for analysts, who are not told where the files are."""
        for path in (self.place, self.book):
            text = text.replace(f"{Path(path).parent}{os.sep}", "")
        return text

    def changed(self) -> str:
        """What is no longer as it was registered, from sizes and times alone; empty if nothing is.

        Guarantee [registered_table]: a fit at a desk reads the files that were registered; where one
        has another size, time or inode, nothing is booked and the table pauses.
        """
        if self.published is not None:
            return published.read(self.published, self.name).changed
        try:
            key = _key(self.secret)
            if not self.is_sealed():
                return UNSEALED
            found = _looks(Path(self.place), key)
        except (InputError, OSError):
            return "the files of the table cannot be found"
        if found != self.fingerprint.looks:
            return "the files of the table were changed since it was registered"
        return ""

    def altered(self) -> str:
        """The same, from the bytes of the files: it takes its time."""
        if self.published is not None:
            return "its bytes are compared where the data are, by `dpinfer desk verify --thorough`"
        try:
            found = Fingerprint.of(Path(self.place), self.secret)
        except (InputError, OSError):
            return "the files of the table cannot be found"
        if found.bytes != self.fingerprint.bytes:
            return "the bytes of the table are others than those that were registered"
        return ""


def table_named(name: str) -> str:
    """A name that may stand in addresses and on command lines."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"the name of a table has small letters, digits, '.', '_' and '-', at most 60, not {short(name)}"
        )
    return name


@dataclass(frozen=True)
class Fingerprint:
    """What the files of a table are compared by: keyed hashes of their names, sizes, times and inodes
    together (``looks``), and of the path and of the bytes of each.

    Guarantee [fingerprints_tell_nothing]: they are HMACs with a secret of the desk, so whoever has
    the journal or desk.db cannot try out guesses of the records, or of their number.
    """

    looks: str
    paths: tuple[str, ...]
    bytes: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, secret: Path) -> "Fingerprint":
        """Those of the files as they are."""
        key = _key(secret)
        members = [member.path for member in members_of(path)]
        paths = tuple(_mark(key, str(member).encode()) for member in members)
        return cls(_looks(path, key), paths, tuple(_bytes(member, key) for member in members))

    @classmethod
    def read(cls, text: str) -> "Fingerprint":
        """The inverse of `text`."""
        looks, paths, content = json.loads(text)
        return cls(looks, tuple(paths), tuple(content))

    def text(self) -> str:
        """As it is stored."""
        return json.dumps([self.looks, self.paths, self.bytes])

    def shares(self, other: "Fingerprint") -> bool:
        """Whether a file is in both, by its path or by its bytes."""
        return bool({*self.paths, *self.bytes} & {*other.paths, *other.bytes})


def _key(secret: Path) -> bytes:
    try:
        return secret.read_bytes()
    except OSError:
        raise InputError(
            f"the secret of the desk, {secret.name!r} in its folder, cannot be read: put it back"
        ) from None


def _mark(key: bytes, content: bytes) -> str:
    return hmac.digest(key, content, "sha256").hex()


def _looks(path: Path, key: bytes) -> str:
    looks: list[list[str | int]] = []
    for member in members_of(path):
        facts = member.path.stat()
        looks.append([str(member.path), facts.st_size, facts.st_mtime_ns, facts.st_ino])
    return _mark(key, json.dumps(looks).encode())


def _bytes(path: Path, key: bytes) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hmac.new(key, digestmod="sha256")).hexdigest()
