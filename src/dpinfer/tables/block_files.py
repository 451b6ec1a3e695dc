"""Blocks of a partition in a file of a worker: complete or not there, and read in every pass.

A file belongs to one fit, whose name its own begins with, and to one attempt to write one
partition: the rest of its name is drawn.  So no file is ever written twice, and whoever knows its
name knows what is in it.  Only the user of the process may read it.

Where a fit has ended an empty file says so: a task that Spark has cancelled may go on for a while,
and must not leave a file behind.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array

_PREFIX = "dpinfer-"
_UNFINISHED = ".part"
_ENDED = ".ended"
_NUMBERS = 5  # integers of a block in the layout: rows, columns, and the lengths of three arrays that may be missing


class GoneError(Exception):
    """A file is not here, or not as it was written."""


@dataclass(frozen=True)
class BlockFile:
    """The path of a file of blocks, and its layout: five integers for each block."""

    path: str
    layout: bytes

    @property
    def blocks(self) -> npt.NDArray[np.int64]:
        """The layout, one row per block."""
        return np.frombuffer(self.layout, np.int64).reshape(-1, _NUMBERS)

    @property
    def size(self) -> int:
        """The size in bytes."""
        rows, columns, *others = self.blocks.T
        return 8 * int((rows * (columns + 1)).sum() + sum(number.sum() for number in others))

    def read(self) -> Iterator[Block]:
        """Yield the blocks, one after the other; `GoneError` where the file is not here, or not all
        of it.

        Guarantee [a_file_is_whole]: blocks come from a file that was written to its end and is as
        long as it was then, or the error comes.
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
    """Return a name for the files of one fit."""
    return secrets.token_hex(16)


def write(folder: str, fit: str, blocks: Iterable[Block]) -> BlockFile | None:
    """Write the blocks to a file, which gets its name when it is complete; None where the fit has
    ended, where the folder cannot be written to, or where the disk has no room: as much must be
    left as is taken.
    """
    path = os.path.join(folder, f"{_PREFIX}{fit}-{secrets.token_hex(16)}")
    unfinished = path + _UNFINISHED
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            layout = None
            if not _ended(folder, fit):  # before any row is written
                layout = _written(file, blocks, shutil.disk_usage(folder).free // 2)
        if layout is None:
            _unlink(unfinished)
            return None
        os.rename(unfinished, path)
        if _ended(folder, fit):  # meanwhile: whoever removes files may have missed this one
            _unlink(path)
            return None
    except OSError:
        _unlink(unfinished)
        return None
    except BaseException:
        _unlink(unfinished)
        raise
    return BlockFile(path, layout)


def _written(file: Any, blocks: Iterable[Block], room: int) -> bytes | None:
    """Return the layout of blocks that were written; None where they take more room than there is."""
    layout: list[tuple[int, ...]] = []
    for block in blocks:
        arrays = _arrays(block)
        room -= sum(array.nbytes for array in arrays)
        if room < 0:
            return None
        for array in arrays:
            file.write(np.ascontiguousarray(array).data)
        others = (array.size for array in arrays[2:])
        layout.append((*block.rows.shape, *others))
    return np.array(layout, np.int64).tobytes()


def _ended(folder: str, fit: str) -> bool:
    return os.path.exists(os.path.join(folder, f"{_PREFIX}{fit}{_ENDED}"))


def _arrays(block: Block) -> list[npt.NDArray[Any]]:
    """Return all arrays of a block."""
    starts = np.empty(0, np.intp) if block.starts is None else block.starts
    return [block.rows, block.labels, _counts(block.weights), _counts(block.shares), starts]


def _counts(numbers: Array | float) -> Array:
    """Return the weights as an array, which is empty where all are 1."""
    if isinstance(numbers, float):
        assert numbers == 1.0
        return np.empty(0)
    return numbers


def remove(folders: Iterable[str], fit: str) -> list[str]:
    """Remove all files of a fit in some folders, finished or not, and return their names.  No other
    will come: whoever writes one finds that the fit has ended, or that the file has no name any
    more.
    """
    removed = []
    for folder in folders:
        with suppress(OSError):
            Path(folder, f"{_PREFIX}{fit}{_ENDED}").touch(mode=0o600)
        for path in Path(folder).glob(f"{_PREFIX}{fit}-*"):
            _unlink(path)
            removed.append(str(path))
    return removed


def _unlink(path: str | Path) -> None:
    with suppress(OSError):
        os.unlink(path)
