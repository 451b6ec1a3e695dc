"""Files of blocks: whole or not there, and what comes back is what was written."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from dpinfer.mechanisms.sums import Block
from dpinfer.tables.block_files import GoneError, new_fit, remove, write


def blocks():
    """With and without weights and units; of any length."""
    rng = np.random.default_rng(0)
    plain = Block(rng.random((5, 3)), rng.random(5), fixed=False)
    shares = rng.random(4)
    units = Block(
        np.asfortranarray(rng.random((4, 3))),
        rng.random(4),
        shares,
        shares,
        np.array([0, 2]),
        False,
    )
    return [plain, units, plain[:1], Block(rng.random((2, 3)), rng.random(2), rng.random(2))]


def test_there_and_back(tmp_path):
    file = write(str(tmp_path), new_fit(), iter(blocks()))
    (path,) = tmp_path.iterdir()
    assert (str(path), path.stat().st_size) == (file.path, file.size)
    assert path.stat().st_mode & 0o777 == 0o600
    found = list(file.read())
    assert len(found) == 4
    for one, other in zip(found, blocks(), strict=True):
        assert not one.fixed
        for name in ("rows", "labels", "weights", "shares", "starts"):
            was = getattr(other, name)
            now = getattr(one, name)
            assert type(now) is type(was)
            assert np.array_equal(now, was)


@pytest.mark.parametrize("size", [-8, -1, 1, 8])
def test_a_file_of_another_length_is_not_read(tmp_path, size):
    file = write(str(tmp_path), new_fit(), blocks())
    os.truncate(file.path, file.size + size)
    with pytest.raises(GoneError):
        next(file.read())


def test_guarantee_a_file_is_whole(tmp_path):
    """Also where it becomes shorter while it is read."""
    file = write(str(tmp_path), new_fit(), blocks())
    reading = file.read()
    next(reading)
    os.truncate(file.path, file.size - 1)
    with pytest.raises(GoneError):
        list(reading)


def test_a_file_that_is_gone(tmp_path):
    file = write(str(tmp_path), new_fit(), blocks())
    os.unlink(file.path)
    with pytest.raises(GoneError):
        next(file.read())


def test_no_room(tmp_path):
    assert write(str(tmp_path / "nowhere"), new_fit(), blocks()) is None


def test_what_fails_leaves_nothing(tmp_path):
    def broken():
        yield blocks()[0]
        assert len(list(tmp_path.glob("*.part"))) == 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(str(tmp_path), new_fit(), broken())
    assert not list(tmp_path.iterdir())


def test_whoever_writes_on_after_the_end_of_a_fit_leaves_nothing(tmp_path):
    """Its file has no name any more: it gets none."""
    fit = new_fit()

    def late():
        yield blocks()[0]
        remove([str(tmp_path)], fit)
        yield blocks()[1]

    assert write(str(tmp_path), fit, late()) is None
    assert rows_in(tmp_path) == []


def rows_in(folder):
    """All but the empty files that say that a fit has ended."""
    return [path for path in folder.iterdir() if path.suffix != ".ended" or path.stat().st_size]


def test_whoever_begins_after_the_end_of_a_fit_writes_nothing(tmp_path):
    """A task that Spark has cancelled may go on for a while: not a row of it is written."""
    fit = new_fit()
    remove([str(tmp_path)], fit)

    def asked_for():
        raise AssertionError
        yield

    assert write(str(tmp_path), fit, asked_for()) is None
    assert rows_in(tmp_path) == []


def test_a_fit_that_ends_while_a_file_gets_its_name(tmp_path, monkeypatch):
    """Whoever removes files may have read the folder before: the writer looks once more."""
    fit = new_fit()
    real = os.rename

    def renamed(old, new):
        Path(f"{tmp_path}/dpinfer-{fit}.ended").touch()
        real(old, new)

    monkeypatch.setattr(os, "rename", renamed)
    assert write(str(tmp_path), fit, blocks()) is None
    assert rows_in(tmp_path) == []


def test_as_much_room_is_left_as_is_taken(tmp_path, monkeypatch):
    size = write(str(tmp_path), new_fit(), blocks()).size
    for free, written in ((2 * size, True), (2 * size - 2, False)):
        usage = shutil.disk_usage(tmp_path)._replace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        before = rows_in(tmp_path)
        assert (write(str(tmp_path), new_fit(), blocks()) is not None) is written
        assert (len(rows_in(tmp_path)) > len(before)) is written


def test_files_of_one_fit_are_removed(tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    mine, other = new_fit(), new_fit()
    for folder in folders:
        for fit in (mine, mine, other):
            write(str(folder), fit, blocks())
    assert len(remove(map(str, folders), mine)) == 4
    for folder in folders:
        assert [other in path.name for path in rows_in(folder)] == [True]
    assert remove([str(tmp_path / "nowhere")], mine) == []
