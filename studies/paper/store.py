"""Where the numbers of the studies are kept: three small JSON files, saved whole after every
record.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.paper.cells import Cell

Record = dict[str, Any]
PARTS = {"tables": "tables", "figures": "figures", "rand": "rand_hie"}
"""The parts of the study, and the file each is saved in."""
KINDS = ("cells", "variability", "spectrum")
"""Coverage studies, variability intervals, and the eigenvalues of Σ without noise."""


@dataclass(frozen=True)
class Settings:
    """What a result depends on besides its cell.  Results of different settings never share a file."""

    replicates: int = 1000
    variability: int = 10_000
    seed: int = 0
    level: float = 0.95


class Results:
    """The three files of a folder.  A record is looked for in all of them and saved in the one of
    its part.
    """

    def __init__(self, folder: str | Path, settings: Settings | None = None) -> None:
        self.folder = Path(folder)
        self.files: dict[str, dict[str, Any]] = {}
        self.settings = settings
        for part in PARTS.values():
            path = self.folder / f"{part}.json"
            if path.is_file():
                self.files[part] = json.loads(path.read_text(encoding="utf-8"))
                self._same_settings(path, Settings(**self.files[part]["settings"]))
        self.settings = self.settings or Settings()

    def get(self, kind: str, cell: Cell) -> Record | None:
        """The record of a cell, if it is there; ``kind`` is one of `KINDS`."""
        key = (cell.released() if kind == "variability" else cell).key
        found: Record | None = next(
            (f[kind][key] for f in self.files.values() if key in f.get(kind, {})), None
        )
        return found

    def add(self, part: str, kind: str, cell: Cell, record: Record) -> None:
        """Keep a record and save the file of its part."""
        assert self.settings is not None
        file = self.files.setdefault(PARTS[part], {"settings": asdict(self.settings)})
        file.setdefault(kind, {})[cell.key] = record
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{PARTS[part]}.json"
        draft = path.with_suffix(".json.part")
        draft.write_text(_lines(file), encoding="utf-8")
        os.replace(draft, path)

    def _same_settings(self, path: Path, saved: Settings) -> None:
        if self.settings not in (None, saved):
            raise SystemExit(
                f"{path.name} was computed with {saved}: use the same settings, or name another --out"
            )
        self.settings = saved


def _lines(file: dict[str, Any]) -> str:
    """JSON with one record a line, numbers to seven digits: small, and easy to compare."""
    blocks = [f'"settings": {json.dumps(file["settings"])}']
    for kind in (kind for kind in KINDS if kind in file):
        rows = [
            f"{json.dumps(key)}: {json.dumps(_short(record))}"
            for key, record in sorted(file[kind].items())
        ]
        blocks.append(f'"{kind}": {{\n' + ",\n".join(rows) + "\n}")
    return "{" + ",\n".join(blocks) + "}\n"


def _short(record: Record) -> Record:
    return {
        name: float(f"{value:.7g}") if isinstance(value, float) else value
        for name, value in record.items()
    }
