"""Where arrays of encoded rows are: in memory, or in a temporary file that has no name.

The file is this user's alone, and is gone when its arrays are, or the process.  It is written by
calls of the system and read as memory: written as memory, every page would cost a fault of its own,
and a disk that is full would end the process where a call raises an error.
"""

import errno
import mmap
import os
import weakref
from tempfile import TemporaryFile
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.rows import workers

_ZEROS = bytes(2**20)


class Storage(Protocol):
    """Arrays that are made once, written once, and read many times."""

    @property
    def memory_limit(self) -> float:
        """Bytes that may be copied from here to memory, to be kept there."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Any:
        """An array whose numbers are not written yet."""
        ...

    def write(self, place: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Write to ``place``, some rows of an array that `empty` made."""
        ...

    def forget(self, place: npt.NDArray[Any]) -> None:
        """Let go of the memory that was taken to read some rows of an array, which stays as it is."""
        ...


class Memory:
    """Arrays as numpy makes them."""

    memory_limit = np.inf

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Any:
        """An array whose numbers are not written yet."""
        return np.empty(shape, dtype)

    def write(self, place: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Copy."""
        place[...] = values

    def forget(self, place: npt.NDArray[Any]) -> None:
        """Nothing: what is in memory was made to stay there."""


MEMORY = Memory()


class Disk:
    """Arrays in a temporary file of ``size`` bytes, on the disk from the beginning.

    OSError where there is no room for it; and from `write` where the disk fails.
    """

    def __init__(self, size: int) -> None:
        if size > workers.disk():
            raise OSError("the temporary file would be larger than it may be")
        file = TemporaryFile(prefix="dpinfer-", dir=workers.scratch(), buffering=0)  # noqa: SIM115
        weakref.finalize(self, file.close)
        self._file = file.fileno()
        _reserve(self._file, max(size, 1))
        self._map = mmap.mmap(self._file, max(size, 1))
        self._address = _address(np.frombuffer(self._map, np.uint8))
        self._end = 0

    @property
    def memory_limit(self) -> float:
        """What rows of files may take."""
        return workers.memory()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Any:
        """The next part of the file."""
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, self._map, self._end)
        self._end += array.nbytes
        return array

    def write(self, place: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """By a call of the system; what is read of ``place`` are the same pages."""
        if not place.size:
            return
        numbers = np.ascontiguousarray(values, place.dtype)
        assert numbers.shape == place.shape
        if os.pwrite(self._file, numbers.data, self._at(place)) != numbers.nbytes:
            raise OSError("the temporary file was not written in full")

    def forget(self, place: npt.NDArray[Any]) -> None:
        """The pages stay those of the file, and what is read of it later is the same."""
        if not place.size:
            return
        at = self._at(place)
        start = at // mmap.PAGESIZE * mmap.PAGESIZE
        self._map.madvise(mmap.MADV_DONTNEED, start, at + place.nbytes - start)

    def _at(self, place: npt.NDArray[Any]) -> int:
        return _address(place) - self._address


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _reserve(file: int, size: int) -> None:
    """Take the room of a file on the disk, so that a disk without it is an error now."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
        for start in range(0, size, len(_ZEROS)):  # a file system that cannot reserve
            os.pwrite(file, _ZEROS[: size - start], start)
