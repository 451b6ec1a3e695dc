"""Blocks of a partition in a file of a worker: whole or not there, and read in every pass.

A file belongs to one fit, whose name its own begins with, and to one attempt to write one
partition: the rest of its name is drawn.  So no file is ever written twice, and whoever knows its
name knows what is in it.  It is this user's alone.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block

_PREFIX = "dpinfer-"
_UNFINISHED = ".part"
_NUMBERS = 5  # of a block in the layout: rows, columns, and the lengths of three arrays that may be missing


class GoneError(Exception):
    """A file is not here, or not as it was written."""


@dataclass(frozen=True)
class BlockFile:
    """Where blocks were written, and which: five whole numbers for each."""

    path: str
    layout: bytes

    @property
    def blocks(self) -> npt.NDArray[np.int64]:
        """One line per block."""
        return np.frombuffer(self.layout, np.int64).reshape(-1, _NUMBERS)

    @property
    def size(self) -> int:
        """Bytes."""
        rows, columns, *others = self.blocks.T
        return 8 * int((rows * (columns + 1)).sum() + sum(number.sum() for number in others))

    def read(self) -> Iterator[Block]:
        """The blocks, one after the other; `GoneError` where the file is not here, or not all of it.

        Guarantee [a_file_is_whole]: what was read is what was written, to the last byte, or the
        error comes.
        """
        try:
            with open(self.path, "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != self.size:
                    raise GoneError
                for rows, columns, weights, shares, starts in self.blocks.tolist():
                    yield Block(
                        _next(file, rows * columns).reshape(rows, columns),
                        _next(file, rows),
                        _next(file, weights) if weights else 1.0,
                        _next(file, shares) if shares else 1.0,
                        _next(file, starts, np.intp) if starts else None,
                        fixed=False,
                    )
        except OSError:
            raise GoneError from None


def _next(file: Any, number: int, dtype: npt.DTypeLike = np.float64) -> Any:
    array = np.empty(number, dtype)
    at = array.data.cast("B")
    while at:
        got = file.readinto(at)
        if not got:
            raise GoneError
        at = at[got:]
    return array


def new_fit() -> str:
    """A name for the files of one fit."""
    return secrets.token_hex(16)


def write(folder: str, fit: str, blocks: Iterable[Block]) -> BlockFile | None:
    """The blocks in a file, which has its name when it is whole; None where the disk has no room, or
    the folder cannot be written to.
    """
    path = os.path.join(folder, f"{_PREFIX}{fit}-{secrets.token_hex(16)}")
    unfinished = path + _UNFINISHED
    layout: list[tuple[int, ...]] = []
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            for block in blocks:
                arrays = _arrays(block)
                for array in arrays:
                    file.write(np.ascontiguousarray(array).data)
                others = (array.size for array in arrays[2:])
                layout.append((*block.rows.shape, *others))
        os.rename(unfinished, path)
    except OSError:
        _unlink(unfinished)
        return None
    except BaseException:
        _unlink(unfinished)
        raise
    return BlockFile(path, np.array(layout, np.int64).tobytes())


def _arrays(block: Block) -> list[npt.NDArray[Any]]:
    """All numbers of a block."""
    starts = np.empty(0, np.intp) if block.starts is None else block.starts
    return [block.rows, block.labels, _counts(block.weights), _counts(block.shares), starts]


def _counts(numbers: Array | float) -> Array:
    """Nothing stands for 1, what rows count where no array says it."""
    if isinstance(numbers, float):
        assert numbers == 1.0
        return np.empty(0)
    return numbers


def remove(folders: Iterable[str], fit: str) -> None:
    """All files of a fit in some folders, whole or not: whoever still writes one finds that it has
    no name any more.
    """
    for folder in folders:
        for path in Path(folder).glob(f"{_PREFIX}{fit}-*"):
            _unlink(path)


def _unlink(path: str | Path) -> None:
    with suppress(OSError):
        os.unlink(path)
