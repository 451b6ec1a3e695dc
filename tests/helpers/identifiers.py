"""Names of the package that use a private word, or that two classes share.

``python tests/helpers/identifiers.py src/dpinfer/fit`` lists those of a folder, one per line.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

PRIVATE = {
    "alike", "allowed", "bend", "bent", "beside", "bowed", "booked", "deviation", "deviations", "elsewhere",
    "entered", "entrance", "found", "harmless", "hidden", "holding", "hopeless", "ladder", "lane", "lanes",
    "least", "line", "lines", "lost", "longer", "most", "nobody", "notion", "people", "place", "places", "rest",
    "rung", "said", "sight", "slot", "slots", "seen", "sheet", "surely", "talk", "tell", "tells", "terrain",
    "told", "unsure", "usual", "visit", "visitor", "what", "whole", "whom",
}  # fmt: skip
"""Words that have a name in the field, or several meanings: see "Names" in CONTRIBUTING.md."""

TERMS = (
    "at_least",
    "at_most",
    "booked_state",
    "command_line",
    "connection_lost",
    "least_squares",
    "line_number",
    "line_numbers",
    "line_search",
    "lost_state",
    "not_found",
    "one_line",
    "text_line",
    "text_lines",
)
"""Terms of art that contain one of these words."""


def words(name: str) -> list[str]:
    """The words of an identifier, whether they are joined by capitals or by underscores."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    for term in TERMS:
        parted = re.sub(rf"(?<![a-z]){term}(?![a-z])", "", parted)
    return [word for word in re.split(r"[_\d]+", parted) if word]


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Module-level names, public members of classes, and parameters of public functions."""
    yield 1, path.stem
    yield from _of_body(ast.parse(path.read_text(encoding="utf-8")).body, top=True)


def _of_body(body: list[ast.stmt], *, top: bool) -> Iterator[tuple[int, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.lineno, node.name
            yield from _of_body(node.body, top=False)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if top or not node.name.startswith("_"):
                yield node.lineno, node.name
            if not node.name.startswith("_") or node.name == "__init__":
                arguments = node.args
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                yield from ((a.lineno, a.arg) for a in every)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and (top or not name.id.startswith("_")):
                        yield node.lineno, name.id
        elif isinstance(node, ast.If):  # if TYPE_CHECKING
            yield from _of_body(node.body, top=top)


def _modules(root: Path) -> list[Path]:
    return [root] if root.is_file() else sorted(root.rglob("*.py"))


def private_words(root: Path, aliases: Collection[str] = ()) -> list[str]:
    """``file:line: identifier`` of every name with a private word, but for ``aliases``."""
    faults = []
    for path in _modules(root):
        for number, name in identifiers(path):
            if name not in aliases and PRIVATE & set(words(name)):
                faults.append(f"{path}:{number}: {name}")
    return faults


def repeated_classes(*roots: Path) -> dict[str, list[str]]:
    """Classes that are defined more than once, with their files."""
    files = defaultdict(list)
    for root in roots:
        for path in _modules(root):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    files[node.name].append(f"{path}:{node.lineno}")
    return {name: where for name, where in files.items() if len(where) > 1}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(*private_words(Path(argument)), sep="\n")
        for name, where in repeated_classes(Path(argument)).items():
            print(name, *where)
