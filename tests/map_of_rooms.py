"""The map in CONTRIBUTING.md, made of the modules' docstrings: `python tests/map_of_rooms.py` renews it.

Imports point up the map: a module imports from its own room and from rooms
above it.  Inside a room modules are in alphabetical order, and imports have no cycle.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/dpinfer"
DESK = ROOT / "src/dpinfer_desk"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
START = "<!-- map: made by `make map` -->\n```\n"
END = "```\n<!-- end of the map -->"

ROOMS = {
    "errors.py": None,
    "adjacency.py": None,
    "numerics/": "numbers and laws that both sides use: no record, no release, no randomness of its own",
    "mechanisms/": "bounded sums over records, with the bounds that privacy rests on",
    "inference/": "from released numbers to coefficients and intervals: nothing here can see a record",
    "persistence.py": None,
    "schema/": "what is public about a table; never sees a row",
    "rows/": "bounded rows, wherever they are; only sums leave",
    "tables/": "where the raw table is, and how its cells are read",
    "privacy/": "the boundary: budgets, the ledger, noise, the gate",
    "result/": "what is published: numbers and the model in words, never rows",
    "datasets.py": None,
    "fit/": "one module per method",
    "description/": "describing a table: what is released of which columns, and what is made of it",
    "moment_release/": "one release of second and fourth moments, and the linear models that it answers",
    "simulate/": "the laboratory: seeded, not private",
    "views/": "a result as a picture or a document",
    "estimators/": "scikit-learn faces",
    "audit.py": None,
    "asking/": "what is asked, in words: specs, and questions of those who must not see the data",
    "client.py": None,
    "__init__.py": None,
    "cli/": "the command line, one module per command",
    "__main__.py": None,
}
DESK_ROOMS = {
    "__init__.py": None,
    "store/": "what a desk keeps in its folder, and who may read and write it",
    "admission.py": None,
    "timing.py": None,
    "desk.py": None,
    "permissions.py": None,
    "backup.py": None,
    "checkup.py": None,
    "worker/": "the process with the data, which has no network; and forecasts, which need no data",
    "web/": "the process with the network, which has no data: pages, and an interface for programs",
    "cli/": "the commands `dpinfer desk` and `dpinfer serve`, which the command line loads as a plug-in",
}
PACKAGES = {SOURCE: ROOMS, DESK: DESK_ROOMS}


def modules(package: Path = SOURCE) -> list[Path]:
    """Every module that holds something."""
    return sorted(
        path for path in package.rglob("*.py") if path.read_text(encoding="utf-8").strip()
    )


def room_of(path: Path) -> str:
    """The room of its package that a module belongs to."""
    package = DESK if path.is_relative_to(DESK) else SOURCE
    first, *rest = path.relative_to(package).parts
    return f"{first}/" if rest else first


def purpose(path: Path) -> str:
    """The first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").removesuffix(".")


def drawn() -> str:
    """The map as text."""
    return "\n".join(_drawn(package, rooms) for package, rooms in PACKAGES.items())


def _drawn(package: Path, rooms: dict[str, str | None]) -> str:
    found = modules(package)
    lines = [f"src/{package.name}/"]
    for room, sentence in rooms.items():
        members = [path for path in found if room_of(path) == room]
        if sentence is None:
            lines += [f"  {path.name:<22}{purpose(path)}" for path in members]
            continue
        lines.append(f"  {room:<22}{sentence}")
        lines += [f"    {path.name:<20}{purpose(path)}" for path in members]
    return "\n".join(lines) + "\n"


def renewed(text: str) -> str:
    """The page with the map of today."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return before + START + drawn() + END + after


if __name__ == "__main__":
    CONTRIBUTING.write_text(renewed(CONTRIBUTING.read_text(encoding="utf-8")), encoding="utf-8")
