"""Registered tables: schema, paths of data and ledger, policy, fingerprint and seal."""

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
"""The questions that need an approval: each, those that cost more than an amount, or none."""

OPEN = "open"
PAUSED = "paused"

UNSEALED = (
    "what desk.db says of this table is not what was registered, so nothing is booked: put the newest desk.db in its "
    "place, and find out who could write into it"
)
UNCHECKED = (
    "the table was registered before a desk checked the sizes of tables, so nothing is booked until the steward has "
    "resumed it"
)
MAX_CELL = 4096
"""Bytes of a text in a column of the schema: more than any level has, however it is stored."""
MAX_RECORD = 16_384
"""Bytes of a line of a CSV file, which is read in full whatever a question asks for."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")


@dataclass(frozen=True)
class Policy:
    """The questions that need an approval, and the analysts who read an answer.

    ``approval`` is "each", "above" or "none"; with "above" a question needs one if it costs more than
    ``up_to``, in the measure of allowances.  With ``shared`` every analyst of the table reads all
    answers.
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
        """Tell whether a question of this cost waits for an approval."""
        if self.approval == ABOVE:
            return cost > self.up_to
        return self.approval == EACH


@dataclass(frozen=True)
class RegisteredTable:
    """A registered table.

    ``data_path`` and ``ledger_path`` are absolute, ``schema_text`` is the schema as it was registered.
    ``records`` is the number of records or units if it is public, or a public guess for forecasts if
    it is private and somebody gave one.  ``max_rows`` and ``max_unit_rows`` are the public numbers of rows that
    the table and one unit have at most; None in a table that an older version registered, of which
    nothing is booked.  ``secret`` is the file with the key of fingerprint and seal.
    ``state`` is "open" or "paused", ``reason`` says why.  ``seal`` is an HMAC of all that was
    registered.  ``published`` is the copy of the ledger that stands in for ledger and data in a
    process that may read neither; None in one that may.
    """

    name: str
    data_path: str
    ledger_path: str
    schema_text: str
    records: int | None
    policy: Policy
    fingerprint: "Fingerprint"
    secret: Path
    state: str = OPEN
    reason: str = ""
    added: str = ""
    seal: str = ""
    published: Path | None = None
    max_rows: int | None = None
    max_unit_rows: int | None = None

    @property
    def schema(self) -> Schema:
        return Schema.parse(self.schema_text)

    @property
    def title(self) -> str:
        return self.schema.title or self.name

    def sealed(self) -> "RegisteredTable":
        """Return the table with a new seal, of the values that it has now."""
        return replace(self, seal=self._seal())

    def _seal(self) -> str:
        # Everything that decides which data are read, how, and which total pays for it.  State and
        # policy are not sealed, as stewards change them in the process with the network.
        registered = [self.name, self.data_path, self.ledger_path, self.schema_text, self.records]
        if self.max_rows is not None:  # else an older version made the seal
            registered += [self.max_rows, self.max_unit_rows]
        content = json.dumps([*registered, self.fingerprint.text()])
        return _hmac(_key(self.secret), content.encode())

    def is_sealed(self) -> bool:
        """Tell whether the seal was made with the secret of the desk, for just these values."""
        try:
            return hmac.compare_digest(str(self.seal).encode(), self._seal().encode())
        except (InputError, TypeError):  # no secret, or a row of other types
            return False

    def ledger(self) -> Ledger:
        """Open the ledger, which alone decides what was spent, or the published copy of it.

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
            return Ledger.open(self.ledger_path)
        except InputError as fault:  # the secret is gone
            raise LedgerError(str(fault)) from None
        except LedgerError as fault:
            raise LedgerError(self.without_folders(str(fault))) from None

    def without_folders(self, text: str) -> str:
        """Return a text for analysts, who must not learn in which folders the files are."""
        for path in (self.data_path, self.ledger_path):
            text = text.replace(f"{Path(path).parent}{os.sep}", "")
        return text

    def changed(self) -> str:
        """Return how the table differs from the registered one, by sizes and times; empty if not at all.

        Guarantee [registered_table]: a fit at a desk reads the files that were registered; where one
        has another size, time or inode, nothing is booked and the table pauses.  No byte of them is
        read for it, and what it returns is one of four fixed texts.
        """
        if self.published is not None:
            return published.read(self.published, self.name).changed
        if self.max_rows is None:
            return UNCHECKED
        try:
            key = _key(self.secret)
            if not self.is_sealed():
                return UNSEALED
            metadata = _metadata(Path(self.data_path), key)
        except (InputError, OSError):
            return "the files of the table cannot be found"
        if metadata != self.fingerprint.metadata:
            return "the files of the table were changed since it was registered"
        return ""

    def altered(self) -> str:
        """Return how the table differs from the registered one, by its bytes, which are all read."""
        if self.published is not None:
            return "its bytes are compared where the data are, by `dpinfer desk verify --thorough`"
        try:
            fingerprint = Fingerprint.of(Path(self.data_path), self.secret)
        except (InputError, OSError):
            return "the files of the table cannot be found"
        if fingerprint.bytes != self.fingerprint.bytes:
            return "the bytes of the table differ from those that were registered"
        return ""


def table_named(name: str) -> str:
    """Return the name of a table if it may be part of an address and of a path."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"the name of a table has lower-case letters, digits, '.', '_' and '-', at most 60, not {short(name)}"
        )
    return name


@dataclass(frozen=True)
class Fingerprint:
    """Keyed hashes of the files of a table: one of all names, sizes, times and inodes (``metadata``),
    and for each file one of its path and one of its bytes.

    Guarantee [fingerprints_tell_nothing]: they are HMACs with a secret of the desk, so whoever has
    the journal or desk.db cannot try out guesses of the records, or of their number.
    """

    metadata: str
    paths: tuple[str, ...]
    bytes: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, secret: Path) -> "Fingerprint":
        """Return the fingerprint of the files as they are now."""
        key = _key(secret)
        members = [member.path for member in members_of(path)]
        paths = tuple(_hmac(key, str(member).encode()) for member in members)
        return cls(_metadata(path, key), paths, tuple(_bytes(member, key) for member in members))

    @classmethod
    def read(cls, text: str) -> "Fingerprint":
        """Parse a fingerprint; the inverse of `text`."""
        metadata, paths, content = json.loads(text)
        return cls(metadata, tuple(paths), tuple(content))

    def text(self) -> str:
        """Return the fingerprint as it is stored."""
        return json.dumps([self.metadata, self.paths, self.bytes])

    def shares(self, other: "Fingerprint") -> bool:
        """Tell whether two tables have a file in common, by its path or by its bytes."""
        return bool({*self.paths, *self.bytes} & {*other.paths, *other.bytes})


def _key(secret: Path) -> bytes:
    try:
        return secret.read_bytes()
    except OSError:
        raise InputError(
            f"the secret of the desk, {secret.name!r} in its folder, cannot be read: put it back"
        ) from None


def _hmac(key: bytes, content: bytes) -> str:
    return hmac.digest(key, content, "sha256").hex()


def _metadata(path: Path, key: bytes) -> str:
    metadata: list[list[str | int]] = []
    for member in members_of(path):
        facts = member.path.stat()
        metadata.append([str(member.path), facts.st_size, facts.st_mtime_ns, facts.st_ino])
    return _hmac(key, json.dumps(metadata).encode())


def _bytes(path: Path, key: bytes) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hmac.new(key, digestmod="sha256")).hexdigest()
