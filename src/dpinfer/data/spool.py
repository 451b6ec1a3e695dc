"""Encoded rows in a temporary file: for what is too large for memory and is passed over many times.

The file has no name, is this user's alone, and is gone when the source is, or the process.
"""

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from tempfile import mkstemp
from threading import Lock, Thread

import numpy as np

from dpinfer.data import crew, limits
from dpinfer.data.source import SHORT, Blocks, Piece
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block

_BESIDE = 4  # numbers of a row beside its columns: label, weight, share, and where a unit starts


class File:
    """Numbers in a temporary file, at places that are given out once."""

    def __init__(self) -> None:
        self._file, name = mkstemp(prefix="dpinfer-", dir=limits.scratch())
        os.unlink(name)
        weakref.finalize(self, _close, self._file).atexit = False  # the system closes what is open then
        self._lock, self._end, self._most = Lock(), 0, limits.disk()

    def reserve(self, numbers: int) -> int:
        """A place for so many, on the disk from now on."""
        with self._lock:
            at, size = self._end, max(numbers, 1) * 8
            if at + size > self._most:
                raise OSError("the temporary file is as large as it may be")
            os.posix_fallocate(self._file, at, size)
            self._end = at + size
        return at

    def write(self, at: int, parts: list[Array]) -> None:
        """Arrays of numbers, one after the other."""
        whole = [np.ascontiguousarray(part).data for part in parts if part.size]
        if whole and os.pwritev(self._file, whole, at) != sum(part.nbytes for part in whole):
            raise OSError("the temporary file was not written in full")

    def read(self, at: int, into: Array) -> None:
        """As many numbers as there is room for."""
        try:
            whole = not into.size or os.preadv(self._file, [into.data], at) == into.nbytes
        except OSError:
            whole = False
        if not whole:
            raise _broken()


def _close(file: int) -> None:
    """In a thread of its own, as a system takes its time to free a large file."""
    Thread(target=os.close, args=(file,), daemon=True).start()


def _broken() -> InputError:
    return InputError("the temporary file of a fit is not as it was written: look after the disk, and fit again")


@dataclass(frozen=True)
class Place:
    """Where a block is, and what is there: rows, weights and shares if rows differ in them, starts of units if any."""

    at: int
    rows: int
    weights: bool
    shares: bool
    starts: int | None


@dataclass(frozen=True, repr=False)
class Spooled(Blocks):
    """Rows in a temporary file, in the pieces and blocks of the source that they were made of; ``facts`` are its."""

    facts: "_Facts"
    width: int
    file: File
    written: list[tuple[int, list[Place]]]

    @property
    def n(self) -> int:
        """Number of records or, with ids, of units."""
        return self.facts.n

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.width

    @property
    def size(self) -> int:
        """As of the other source."""
        return self.facts.size

    @property
    def number(self) -> int | None:
        """That of the units, where it was declared."""
        return self.facts.number

    @property
    def height(self) -> int:
        """Rows of a block, as of the other source."""
        return self.facts.height

    @property
    def room(self) -> float:
        """As of the other source."""
        return self.facts.room

    @property
    def shared(self) -> bool:
        """Unless rows are short."""
        return self.dim >= SHORT

    def pieces(self) -> Iterator[Piece]:
        """Those that were written."""
        for start, places in self.written:
            yield Piece(start, partial(self._blocks, places))

    def over(self, changed: Callable[[Block], Block], dim: int) -> "Spooled":
        """All blocks, each changed, written over these, which are gone; their rows must not be longer."""

        def write(piece: tuple[int, list[Place]]) -> tuple[int, list[Place]]:
            start, places = piece
            blocks = map(changed, self._blocks(places))
            with np.errstate(all="ignore"):  # a warning would tell of a value
                return start, [_write(self.file, place.at, block) for place, block in zip(places, blocks, strict=True)]

        try:
            return replace(self, width=dim, written=_watched(crew.in_order(write, self.written), self.size))
        except OSError:
            raise _broken() from None

    def _blocks(self, places: list[Place]) -> Iterator[Block]:
        """One after the other, in the same memory."""
        numbers = np.empty(max(place.rows for place in places) * (self.width + _BESIDE))
        yield from (self._block(place, numbers) for place in places)

    def _block(self, place: Place, numbers: Array) -> Block:
        m, end = place.rows, 0

        def part(size: int) -> Array:
            nonlocal end
            end += size
            return numbers[end - size : end]

        rows, labels = part(m * self.width).reshape(m, self.width), part(m)
        weights, shares = part(m) if place.weights else 1.0, part(m) if place.shares else 1.0
        starts = None if place.starts is None else part(place.starts)
        self.file.read(place.at, numbers[:end])
        return Block(rows, labels, weights, shares, None if starts is None else starts.astype(np.intp))


@dataclass(frozen=True)
class _Facts:
    n: int
    size: int
    number: int | None
    height: int
    room: float


def spooled(source: Blocks, changed: Callable[[Block], Block], dim: int) -> Spooled | None:
    """All blocks, each changed, in a temporary file; None where there is no room for it."""
    if source.size * dim * 8 > limits.disk():
        return None
    facts = _Facts(source.n, source.size, source.number, source.height, source.room)
    try:
        file = File()
        copied = crew.in_order(partial(_copy, file, changed, dim), source.pieces())
        return Spooled(facts, dim, file, _watched(copied, source.size))
    except OSError:
        return None


def _copy(file: File, changed: Callable[[Block], Block], dim: int, piece: Piece) -> tuple[int, list[Place]]:
    blocks = map(changed, piece.blocks())
    with np.errstate(all="ignore"):  # a warning would tell of a value
        return piece.start, [_write(file, file.reserve(len(b) * (dim + _BESIDE)), b) for b in blocks]


def _watched(found: Iterator[tuple[int, list[Place]]], size: int) -> list[tuple[int, list[Place]]]:
    watched, all_ = crew.Pass(), []
    for start, places in found:
        watched.seen(start / max(size, 1))
        all_.append((start, places))
    watched.seen(1.0)
    return all_


def _write(file: File, at: int, block: Block) -> Place:
    counts = [w for w in (block.weights, block.shares) if not isinstance(w, float)]
    starts = [] if block.starts is None else [block.starts.astype(float)]
    file.write(at, [block.rows.reshape(-1), block.labels, *counts, *starts])
    differ = not isinstance(block.weights, float), not isinstance(block.shares, float)
    return Place(at, len(block), *differ, None if block.starts is None else len(block.starts))
