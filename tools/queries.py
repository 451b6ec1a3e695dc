"""Write docs/queries.md: input, output, sensitivity, pseudo-code and proof of every query, from its docstring.

python tools/queries.py
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/queries.md"
SECTIONS = ("Input", "Output", "Sensitivity", "Pseudo-code", "Proof")
RELATIONS = ("replace", "add-remove", "replace-unit", "add-remove-unit")
_Definition = ast.FunctionDef | ast.ClassDef
LONGEST = 12
"""Most lines of pseudo-code: more do not fit one look."""
_RETURNED = ("BoundedSum", "BoundedCounts", "Query", "LevelCounts")
_UNIT = re.compile(r"^([\w, -]+) : (.+)$")
_PLACE = re.compile(r"\b((?:docs|tests)/[\w/]+\.(?:md|py))")
_SECTION_NUMBER = re.compile(r"\b(\d+(?:\.\d+)?)\b")

HEAD = """# Every query, for a reviewer

This page is made by `make queries` from the docstrings of the source. A *query* is what a release asks of the
records: a sum over them, whose sensitivity is written beside its formula, or the minimum of such a sum. Nothing
else reads a record for a release.

A record counts *a*: 1, or, as a row of a unit with several rows, its share, so that the rows of a unit count at
most 1 together. The *sensitivity* is the largest distance of the sum between neighbouring data sets, in
Euclidean norm, and after "L1" in the sum of absolute values where Laplace noise may be added to each number.
There are four adjacencies:

| | neighbours differ in |
| --- | --- |
| `replace` | one record, which is replaced; their number is public |
| `add-remove` | one record, which is added or removed; their number is private |
| `replace-unit` | all rows of one unit, which are replaced; the number of units is public |
| `add-remove-unit` | all rows of one unit, which are added or removed |

## How to review them

An afternoon is enough. For each query:

1. Read the proof in the section that is named, and check that it gives the sensitivity under each adjacency.
2. Compare the pseudo-code with the proof: is every number of a record clipped before it is added, by a bound
   that the proof uses? Does what a record adds depend on that record and on public or released numbers alone?
3. Compare the code with the pseudo-code: the function `of_block` inside the query. A block holds some records,
   and the sum of all blocks is the query.
4. Run the named test, then lower the bound in the code and run it again: it must fail where the bound is
   attained, and `tests/test_queries.py`, which compares code and table, for every change. Then look for worse
   neighbours than the test does.
5. Once for all queries: `privacy/gate.py` adds noise by the bound of the query, refuses a query whose bound
   exceeds the booked one, and is the only place that adds noise; [section 7](method.md#7-on-a-real-computer)
   has the rounding of floats.

Where proof, pseudo-code and code differ, or a test cannot fail, report it as [SECURITY.md](../SECURITY.md) says:
name the query, the adjacency, and two neighbouring data sets if you have them. A pair of data sets is worth
more than an argument.
"""


@dataclass(frozen=True)
class Query:
    """A query by its module, its name and its docstring."""

    path: Path
    name: str
    doc: str

    @property
    def sections(self) -> dict[str, str]:
        """Return the sections of the docstring that has them, by their titles."""
        titles = "|".join(map(re.escape, SECTIONS))
        parts = re.split(rf"^({titles})\n-+\n", self.doc, flags=re.MULTILINE)
        return dict(zip(parts[1::2], (part.strip("\n") for part in parts[2::2]), strict=True))

    @property
    def sensitivities(self) -> dict[str, str]:
        """Return the sensitivity as it is written, by adjacency."""
        found = {}
        for line in self.sections.get("Sensitivity", "").splitlines():
            matched = _UNIT.match(line)
            if matched:
                names = matched[1].split(", ")
                found.update(dict.fromkeys((name.strip() for name in names), matched[2]))
        return found

    def faults(self) -> Iterator[str]:
        """Say what its docstring lacks."""
        sections = self.sections
        if tuple(sections) != SECTIONS:
            yield f"has the sections {', '.join(sections) or 'none'}, and needs {', '.join(SECTIONS)}"
            return
        if sorted(self.sensitivities) != sorted(RELATIONS):
            yield (
                "states no sensitivity, as in `replace, replace-unit : sqrt(2)`, for each of "
                + ", ".join(RELATIONS)
            )
        if len(sections["Pseudo-code"].splitlines()) > LONGEST:
            yield f"has more than {LONGEST} lines of pseudo-code"
        places = _PLACE.findall(sections["Proof"])
        for place in places:
            if not (ROOT / place).exists():
                yield f"names {place}, which is not there"
        if not any(place.startswith("docs/") for place in places):
            yield "names no page with its proof, as docs/method.md, 6.5"
        if not any(place.startswith("tests/") for place in places):
            yield "names no test of its sensitivity, as tests/audit/test_sensitivity.py"


def queries(root: Path = ROOT / "src/dpinfer") -> list[Query]:
    """Return every function that returns a query, and does not only hand on that of another one, and every
    class that says of itself that it is one.
    """
    found = []
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, node in _definitions(tree):
            query = Query(path, name, ast.get_docstring(node) or "")
            public = not node.name.startswith("_")
            if query.sections or (public and _returned(node) in _RETURNED):
                found.append((query, node))
    names = {query.name for query, _ in found}
    return [query for query, node in found if _handed_on(node) not in names]


def _definitions(tree: ast.Module) -> Iterator[tuple[str, _Definition]]:
    for node in tree.body:
        if isinstance(node, _Definition):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def _returned(node: _Definition) -> str:
    if isinstance(node, ast.ClassDef) or node.returns is None:
        return ""
    return ast.unparse(node.returns).strip("\"'")


def _handed_on(node: _Definition) -> str:
    """Return the name of the function whose result is all that this one returns."""
    body = [one for one in node.body if not isinstance(one, ast.Expr)]
    if len(body) == 1 and isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Call):
        return ast.unparse(body[0].value.func)
    return ""


def section_numbers(proof: str) -> set[str]:
    """Return the sections of docs/method.md that a proof names."""
    if "docs/method.md" not in proof:
        return set()
    return set(_SECTION_NUMBER.findall(_PLACE.sub("", proof)))


def page() -> str:
    """Return the page."""
    parts = [HEAD.strip()]
    folder = None
    for query in queries():
        module = query.path.relative_to(ROOT).as_posix()
        if module != folder:
            parts.append(f"## `{module}`")
            folder = module
        parts.append(f"### `{query.name}`")
        parts.append(_summary(query.doc))
        sections = query.sections
        parts.append("**Input.** " + _flowed(sections["Input"]))
        parts.append("**Output.** " + _flowed(sections["Output"]))
        rows = [
            f"| {' , '.join(f'`{name}`' for name in names)} | `{value}` |".replace(" , ", ", ")
            for names, value in _grouped(query.sensitivities)
        ]
        parts.append("\n".join(["| adjacency | sensitivity |", "| --- | --- |", *rows]))
        notes = [line for line in sections["Sensitivity"].splitlines() if not _UNIT.match(line)]
        if notes:
            parts.append(_flowed("\n".join(notes)) + ".")
        parts.append(f"```text\n{textwrap.dedent(sections['Pseudo-code'])}\n```")
        parts.append("**Proof.** " + _linked(_flowed(sections["Proof"])) + ".")
    return "\n\n".join(parts) + "\n"


def _summary(doc: str) -> str:
    """Return the paragraphs before the sections, and the guarantee."""
    text = re.split(r"^Input\n-+\n", doc, flags=re.MULTILINE)[0].strip()
    text = re.sub(r"Guarantee \[(\w+)\]", r"*Guarantee* `\1`", text)
    return text.replace("``", "`")


def _grouped(sensitivities: dict[str, str]) -> list[tuple[list[str], str]]:
    found: dict[str, list[str]] = {}
    for name in RELATIONS:
        found.setdefault(sensitivities[name], []).append(name)
    return [(names, value) for value, names in found.items()]


def _flowed(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _linked(text: str) -> str:
    text = re.sub(r"docs/method\.md", "[the mathematics](method.md)", text)
    return re.sub(r"(tests/[\w/]+\.py)", r"`\1`", text)


def main() -> None:
    """Write the page, or say what is missing."""
    faults = [f"{query.name} {fault}" for query in queries() for fault in query.faults()]
    if faults:
        sys.exit("\n".join(faults))
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
