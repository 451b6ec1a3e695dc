"""Bounds and levels that were learnt privately, and the schema they are written into."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.entries import Entry
from dpinfer.schema.schema import Schema


@dataclass(frozen=True)
class Found:
    """What was learnt of one column: the ``keys`` of its entry, empty if nothing was clear of the
    noise, and words.

    ``clipped`` is the largest share of units that the range may clip, ``counts`` are the noisy
    counts of the levels, ``least`` what a level's noisy count had to exceed, or a magnitude's.
    """

    name: str
    keys: Mapping[str, Any]
    words: str
    least: float
    clipped: float | None = None
    counts: Mapping[str, float] | None = None


@dataclass(frozen=True)
class LearnedBounds:
    """Ranges and levels released by `learn_bounds`, as ``columns``, and the ``text`` of the schema
    that holds them.

    ``release`` is the id in the ledger, None where nothing was booked; ``budget`` what it cost;
    ``entry`` what was booked.
    """

    columns: tuple[Found, ...]
    text: str
    budget: Budget
    entry: Entry
    release: str | None
    private: bool = True

    @property
    def schema(self) -> Schema:
        """The schema; `InputError` with the line of the first gap, if one is left."""
        return Schema.parse(self.text)

    @property
    def gaps(self) -> int:
        """How many places of the text are still to be filled in."""
        return self.text.count('= "?"')

    def write(self, path: str | Path) -> None:
        """Write the text to a file at ``path``, gaps included; a reader never sees half of it."""
        try:
            persistence.write(Path(path), self.text.encode())
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be written ({type(fault).__name__}): check the "
                "folder and its rights"
            ) from None

    def summary(self) -> str:
        """What was learnt, column by column, and what it cost."""
        booked = f"booked as release {self.release}" if self.release else "nothing was booked"
        protected = f"protects {self.entry.unit} ({self.entry.neighbours.sentence})"
        lines = [f"{found.name}: {found.words}" for found in self.columns]
        lines.append(f"{self.budget}; {protected}; {booked}")
        if not self.private:
            lines.append("NOT PRIVATE: the noise came from a seed")
        return "\n".join(lines)
