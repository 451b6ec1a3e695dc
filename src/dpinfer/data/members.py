"""The files of a table: one, those of a folder, those of a pattern; and the columns that names of folders tell."""

from dataclasses import dataclass
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dpinfer.data import formats
from dpinfer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = {
    ".csv": "CSV",
    ".csv.gz": "CSV",
    ".parquet": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
}
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # what writers call a folder of missing values


@dataclass(frozen=True)
class Member:
    """One file of a table, its kind, and the columns that its folders tell, each with a text or nothing."""

    path: Path
    kind: str
    keys: tuple[tuple[str, str | None], ...] = ()


def members_of(path: str | PathLike[str]) -> list[Member]:
    """The files of a table, in the order of their names."""
    path = Path(path)
    try:
        folder, there = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        folder, there = False, False
    if folder:
        inside = sorted(file for file in path.rglob("*") if _visible(file.relative_to(path)) and _kind(file))
        return _alike([_member(file, path) for file in inside if file.is_file()], f"the folder {str(path)!r}")
    if not there and has_magic(str(path)):
        found = sorted(map(Path, glob(str(path), recursive=True)))
        members = [_member(file, Path(path.anchor)) for file in found if file.is_file() and _kind(file)]
        return _alike(members, f"the pattern {str(path)!r}")
    if not _kind(path):
        raise formats.refusal(path.name, _KINDS)
    if not there:
        raise InputError(f"there is no file {str(path)!r}: check the path")
    return [Member(path, _kind(path))]


def _member(file: Path, root: Path) -> Member:
    folders = file.relative_to(root).parts[:-1] if file.is_relative_to(root) else file.parts[:-1]
    keys = [part.partition("=") for part in folders if "=" in part]
    told = tuple((unquote(key), None if value == _NOTHING else unquote(value)) for key, _, value in keys)
    return Member(file, _kind(file), told)


def _alike(members: list[Member], owner: str) -> list[Member]:
    """Files of one kind, whose folders tell the same columns."""
    if not members:
        raise InputError(f"{owner} holds no file that is read: {', '.join(_KINDS)}")
    if len({member.kind for member in members}) > 1:
        raise InputError(f"{owner} holds files of different kinds: name one kind, such as *.parquet")
    if len({tuple(key for key, _ in member.keys) for member in members}) > 1:
        raise InputError(f"{owner} has folders such as key=value, but not the same ones for all files")
    return members


def _visible(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def _kind(path: Path) -> str:
    return next((kind for end, kind in _KINDS.items() if path.name.lower().endswith(end)), "")


def told_by_folders(members: list[Member]) -> dict[str, "pa.Array"]:
    """The columns that folders tell, one value a file: integers if all are, else texts."""
    import pyarrow as pa  # noqa: PLC0415

    found = {}
    for j, (key, _) in enumerate(members[0].keys):
        told = [member.keys[j][1] for member in members]
        whole = all(text is None or (text.removeprefix("-").isdecimal() and len(text) < 19) for text in told)
        found[key] = pa.array([None if t is None else int(t) for t in told], pa.int64()) if whole else pa.array(told)
    return found


def with_told(table: "pa.Table", member: Member, whole: dict[str, "pa.Array"]) -> "pa.Table":
    """The table of a file with the columns that its folders tell."""
    import pyarrow as pa  # noqa: PLC0415

    for name, values in whole.items():
        told = dict(member.keys)[name]
        scalar = pa.scalar(told if told is None or pa.types.is_string(values.type) else int(told), values.type)
        table = table.append_column(name, pa.repeat(scalar, len(table)))
    return table
