"""The records of a CSV file as lines of bytes, before any reader sees them.

One record is one line, whatever it holds: a line ends with LF, and no quote reaches beyond it.  So nothing that stands
in one record can hide or make another one, and the number of records is the number of line ends after the header.
A line that is no row of the table is broken: `sound` takes it out and says where it stood.
"""

import re
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

LONGEST = 2**24
"""Bytes of the longest line that is read, without its LF."""

BROKEN = b"\0"
"""Stands for a line that is too long to keep: neither a record nor a header holds a NUL."""

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs write before UTF-8."""

_BLOCK = 2**23  # bytes read at once, at most LONGEST
_LF, _CR, _COMMA, _QUOTE = b'\n\r,"'
_CELL = re.compile(rb'"([^"]*(?:""[^"]*)*)"|([^",]*)')
_BEFORE, _AFTER = b',\n"', b',\n"\r'  # what may stand beside a quote that opens or closes

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class Readable(Protocol):
    """A file of bytes."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        ...

    def readline(self, size: int, /) -> bytes:
        """At most so many bytes, up to the next LF."""
        ...


def blocks(file: Readable) -> Iterator[bytes]:
    """The whole file in pieces of whole lines, each line with its LF; the last line may lack it in the file.

    A line of more than `LONGEST` bytes comes as one broken line: it is counted, and takes no memory.
    """
    while block := file.read(_BLOCK):
        begun = block.rfind(b"\n") + 1
        if begun < len(block):  # only this line can be longer than a block
            end = file.readline(LONGEST + 1)
            if len(block) - begun + len(end.removesuffix(b"\n")) > LONGEST:
                while end and not end.endswith(b"\n"):
                    end = file.readline(_BLOCK)
                block, end = block[:begun], BROKEN
            block += end.removesuffix(b"\n") + b"\n"
        yield block


def names(line: bytes) -> list[str] | None:
    """The cells of the first line without blanks around them, what is no UTF-8 escaped; None if it is malformed."""
    line = line.removeprefix(MARK).removesuffix(b"\n").removesuffix(b"\r")
    found = None if b"\0" in line or b"\r" in line else split(line)
    return None if found is None else [cell.decode("utf-8", errors="surrogateescape").strip() for cell in found]


def split(line: bytes) -> list[bytes] | None:
    """The cells of one line without its end; None if a quote stands where none may stand.

    A cell is free of quotes, or stands between two of them, with those inside doubled.
    """
    cells, at = [], 0
    while found := _CELL.match(line, at):
        quoted, bare = found.groups()
        cells.append(bare if quoted is None else quoted.replace(b'""', b'"'))
        at = found.end()
        if at == len(line):
            return cells
        if line[at] != _COMMA:
            return None
        at += 1
    raise AssertionError("a cell may be empty")


def row(line: bytes, width: int) -> list[bytes] | None:
    """The cells of one record without its LF; None if it is broken.  This is the rule; `sound` is the same for many."""
    line = line.removesuffix(b"\r")
    if not line or b"\0" in line or b"\r" in line or not _is_text(line):
        return None
    cells = split(line)
    return cells if cells is not None and len(cells) == width else None


def count(block: bytes) -> int:
    """The number of lines of a block."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LF))


def plain(block: bytes) -> bool:
    """Whether no line of a block is broken, but for the number of its cells and blank lines; this is quick."""
    if b"\0" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
        return False
    return _is_text(block) and (b'"' not in block or _well_quoted(np.frombuffer(block, np.uint8)))


def sound(block: bytes, width: int) -> tuple[bytes, Flags]:
    """The block without its broken lines, and which lines these were."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LF)
    starts = np.concatenate([[0], ends[:-1] + 1])
    broken = _broken(data, starts, ends, width)
    if not _is_text(block):
        for i in np.unique(np.searchsorted(ends, np.flatnonzero(data > 127))):
            broken[i] |= not _is_text(block[starts[i] : ends[i]])
    return data[np.repeat(~broken, ends + 1 - starts)].tobytes(), broken


def _is_text(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _well_quoted(data: Bytes) -> bool:
    """Whether all quotes come in pairs within a line, the first at the start of a cell, the second at its end.

    Of a doubled quote the first closes and the second opens again.  Every CR is known to stand before an LF.
    """
    quotes = np.flatnonzero(data == _QUOTE)
    if (np.searchsorted(quotes, np.flatnonzero(data == _LF)) % 2).any():
        return False
    before = data.take(quotes[0::2] - 1, mode="wrap")  # before the first byte of a block stands its last one, an LF
    after = data.take(quotes[1::2] + 1, mode="clip")
    return bool(_any_of(before, _BEFORE).all() and _any_of(after, _AFTER).all())


def _any_of(data: Bytes, edges: bytes) -> Flags:
    """Which bytes are one of a few."""
    found: Flags = data == edges[0]
    for edge in edges[1:]:
        found |= data == edge
    return found


def _broken(data: Bytes, starts: Places, ends: Places, width: int) -> Flags:
    """Which lines are broken in any way but by bytes that are no UTF-8."""
    with_cr = (ends > starts) & (data[ends - 1] == _CR)  # one CR before the LF belongs to the line end
    quotes = np.flatnonzero(data == _QUOTE)
    many = _count(ends, quotes)
    paired = quotes[np.repeat(many % 2 == 0, many)]  # of the lines that have as many opening as closing ones
    opening, closing = paired[0::2], paired[1::2]
    stray = [opening[~_any_of(data[opening - 1], _BEFORE)], closing[~_any_of(data[closing + 1], _AFTER)]]
    inside = np.zeros(len(data), np.uint8)
    inside[paired] = 1
    np.bitwise_xor.accumulate(inside, out=inside)

    broken: Flags = (many % 2 == 1) | (ends - starts == with_cr)
    broken[np.searchsorted(ends, np.concatenate(stray))] = True
    broken |= _count(ends, np.flatnonzero(data == 0)) > 0
    broken |= _count(ends, np.flatnonzero(data == _CR)) > with_cr
    broken |= _count(ends, np.flatnonzero((data == _COMMA) & (inside == 0))) != width - 1
    return broken


def _count(ends: Places, places: Places) -> Places:
    """How many of the places lie in each line."""
    return np.diff(np.searchsorted(places, ends), prepend=0)
