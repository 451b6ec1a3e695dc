"""The map in CONTRIBUTING.md, made of the modules' docstrings: `python tests/map_of_rooms.py` renews it.

Imports point up the map: a module imports from its own room and from rooms
above it.  Inside a room modules are in alphabetical order, and imports have no cycle.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/dpinfer"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
START = "<!-- map: made by `make map` -->\n```\n"
END = "```\n<!-- end of the map -->"

ROOMS = {
    "errors.py": None,
    "neighbours.py": None,
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
    "simulate/": "the laboratory: seeded, not private",
    "views/": "a result as a picture or a document",
    "estimators/": "scikit-learn faces",
    "audit.py": None,
    "asking/": "what is asked, in words: specs, and questions of those who must not see the data",
    "desk/": "questions from people who must never see the data: no network, no extra",
    "serve/": "the page of a desk on the loopback address; Starlette only here",
    "client.py": None,
    "__init__.py": None,
    "cli/": "the command line, one module per command",
    "__main__.py": None,
}


def modules() -> list[Path]:
    """Every module that holds something."""
    return sorted(path for path in SOURCE.rglob("*.py") if path.read_text(encoding="utf-8").strip())


def room_of(path: Path) -> str:
    """The entry of ROOMS a module belongs to."""
    first, *rest = path.relative_to(SOURCE).parts
    return f"{first}/" if rest else first


def purpose(path: Path) -> str:
    """The first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").removesuffix(".")


def drawn() -> str:
    """The map as text."""
    found = modules()
    lines = ["src/dpinfer/"]
    for room, sentence in ROOMS.items():
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
