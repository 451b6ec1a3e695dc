"""Encoded rows in a temporary file: for what is too large for memory and is passed over many times.

The file has no name, is this user's alone, and is gone when the source is, or the process.
"""

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from tempfile import mkstemp
from threading import Lock, Thread

import numpy as np

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block, Change
from dpinfer.rows import workers
from dpinfer.rows.source import SHORT, Blocks, Piece, Source

_BESIDE = 4  # numbers of a row beside its columns: label, weight, share, and where a unit starts


class File:
    """Numbers in a temporary file, at places that are given out once."""

    def __init__(self) -> None:
        self._file, name = mkstemp(prefix="dpinfer-", dir=workers.scratch())
        weakref.finalize(
            self, _close, self._file
        ).atexit = False  # the system closes what is open then
        os.unlink(name)
        self._lock, self._end, self._most = Lock(), 0, workers.disk()

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
        whole = [np.ascontiguousarray(part, dtype=np.float64).data for part in parts if part.size]
        if whole and os.pwritev(self._file, whole, at) != sum(part.nbytes for part in whole):
            raise OSError("the temporary file was not written in full")

    def read(self, at: int, into: Array) -> None:
        """As many numbers as there is room for."""
        try:
            whole = not into.size or os.preadv(self._file, [into.data], at) == into.nbytes
        except OSError:
            whole = False
        if not whole:
            raise InputError(
                "the temporary file of a fit is not as it was written: look after the disk, and fit again"
            )


def _close(file: int) -> None:
    """In a thread of its own, if there can be one, as a system takes its time to free a large file."""
    try:
        Thread(target=os.close, args=(file,), daemon=True).start()
    except RuntimeError:
        os.close(file)


@dataclass(frozen=True)
class Place:
    """Where a block is, and what is there: rows, weights and shares if rows differ in them, starts
    of units if any.
    """

    at: int
    rows: int
    weights: bool
    shares: bool
    starts: int | None


Written = list[tuple[int, list[Place]]]
"""The places of the blocks of each piece, with its start."""


@dataclass(frozen=True, repr=False)
class Spooled(Blocks):
    """Rows in a temporary file, in the pieces and blocks of ``base``; ``origin`` gives the same
    rows, made anew.
    """

    base: Blocks
    origin: Source
    file: File
    written: Written
    width: int

    @property
    def n(self) -> int:
        """Number of records or, with ids, of units."""
        return self.base.n

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.width

    @property
    def size(self) -> int:
        """As of the other source."""
        return self.base.size

    @property
    def bulk(self) -> int:
        """As of the other source."""
        return self.base.bulk

    @property
    def number(self) -> int | None:
        """That of the units, where it was declared."""
        return self.base.number

    @property
    def height(self) -> int:
        """Rows of a block, as of the other source."""
        return self.base.height

    @property
    def room(self) -> float:
        """As of the other source; none for units, as nobody knows where in memory each would be."""
        return self.base.room if self.written[0][1][0].starts is None else 0.0

    @property
    def shared(self) -> bool:
        """Unless rows are short."""
        return self.dim >= SHORT

    def pieces(self) -> Iterator[Piece]:
        """Those that were written."""
        for start, places in self.written:
            yield Piece(start, partial(self._blocks, places))

    def over(self, changed: Change, origin: Source) -> "Spooled":
        """All blocks, each changed as in ``origin``, written over these; their rows must not be
        longer.

        These are gone from the beginning on: a later use fails, also where the disk has failed.
        """
        now = replace(self)
        object.__setattr__(self, "written", None)

        def write(piece: tuple[int, list[Place]]) -> tuple[int, list[Place]]:
            start, places = piece
            blocks = map(changed, now._blocks(places))
            with np.errstate(all="ignore"):  # a warning would tell of a value
                return start, [
                    _write(now.file, place.at, block)
                    for place, block in zip(places, blocks, strict=True)
                ]

        written = _watched(workers.in_order(write, now.written), now.size)
        return replace(now, origin=origin, written=written, width=origin.dim)

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
        return Block(
            rows, labels, weights, shares, None if starts is None else starts.astype(np.intp)
        )


def spooled(base: Blocks, changed: Change, origin: Source) -> Spooled | None:
    """All blocks, each changed as in ``origin``, in a temporary file; None where there is no room
    for it.
    """
    dim = origin.dim
    if base.bulk * (dim + _BESIDE) * 8 > workers.disk():
        return None
    try:
        file = File()
        copied = workers.in_order(partial(_copy, file, changed, dim), base.pieces())
        return Spooled(base, origin, file, _watched(copied, base.size), dim)
    except OSError:
        return None


def _copy(file: File, changed: Change, dim: int, piece: Piece) -> tuple[int, list[Place]]:
    blocks = map(changed, piece.blocks())
    with np.errstate(all="ignore"):  # a warning would tell of a value
        return piece.start, [
            _write(file, file.reserve(len(b) * (dim + _BESIDE)), b) for b in blocks
        ]


def _watched(found: Iterator[tuple[int, list[Place]]], size: int) -> Written:
    watched, written = workers.Pass(), []
    for start, places in found:
        watched.seen(start / max(size, 1))
        written.append((start, places))
    watched.seen(1.0)
    return written


def _write(file: File, at: int, block: Block) -> Place:
    counts = [w for w in (block.weights, block.shares) if not isinstance(w, float)]
    starts = [] if block.starts is None else [block.starts.astype(np.float64)]
    file.write(at, [block.rows.reshape(-1), block.labels, *counts, *starts])
    differ = not isinstance(block.weights, float), not isinstance(block.shares, float)
    return Place(at, len(block), *differ, None if block.starts is None else len(block.starts))
