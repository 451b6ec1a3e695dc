"""Write docs/constants.md: every statistical constant of the package, what it decides, why, and by which source.

python tools/constants.py
"""

import importlib
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from dpinfer.numerics.reasons import Constant, ShareTable  # noqa: E402  (the source beside this tool)

PAGE = ROOT / "docs/constants.md"
PACKAGES = ("inference", "fit", "mechanisms", "description")
HEAD = """# A reason for every constant

This page is made by `python tools/constants.py`. It holds every number of the fits and of Table 1 that decides what is
reported, or how long an interval is. A source is one of these:

- a **derivation**: the number follows from the reason given, or from a bound that is named there;
- an **error rate**: how often noise alone has the effect;
- a **reference**;
- a **simulation**: a command, and what halving and doubling the number does. `python -m studies.constants` does this
  for all constants of inference and of the steps of a fit: [what it changes](constants-study.md);
- a **convention**: another number would do, and nothing better than custom or order of magnitude is claimed for it.

Roundings, grids, numbers of iterations, sizes in memory and bounds that privacy rests on are not here: in the source
they are annotated `Numerical`. Φ is the standard normal distribution function; other symbols are those of the page on
[fits in a private geometry](geometry.md).
"""


def constants(package: str) -> Iterator[tuple[str, Constant | ShareTable]]:
    """Yield the constants of a package with their modules, each where it is defined."""
    folder = ROOT / "src/dpinfer" / package
    seen: set[int] = set()
    # the module of all constants comes first, as other modules import from it
    for path in sorted(folder.glob("*.py"), key=lambda path: (path.stem != "constants", path.stem)):
        module = importlib.import_module(f"dpinfer.{package}.{path.stem}".removesuffix(".__init__"))
        for name, value in vars(module).items():
            for one in value if isinstance(value, tuple) else (value,):
                own = isinstance(one, Constant | ShareTable) and one.name == name
                if own and id(one) not in seen and _is_defined(path, name):
                    seen.add(id(one))
                    yield path.stem, one


def _is_defined(path: Path, name: str) -> bool:
    return f"\n{name} = " in path.read_text(encoding="utf-8")


def shown(value: Any) -> str:
    """Return the value as it is written in a table."""
    if isinstance(value, ShareTable):
        return ", ".join(f"{stage} {share:g}" for stage, share in value.items())
    ratio = Fraction(float(value)).limit_denominator(1000)
    simple = ratio.numerator == 1 and ratio.denominator < 100 and float(ratio) == value
    repeating = simple and len(f"{float(value)!r}") > 8
    return str(ratio) if repeating else f"{float(value):g}"


def table(rows: Iterable[tuple[str, Constant | ShareTable]]) -> str:
    """Return a Markdown table of constants."""
    lines = ["| name | value | decides | reason | source |", "| --- | --- | --- | --- | --- |"]
    for _, one in rows:
        cells = (f"`{one.name}`", shown(one), one.decides, one.reason, one.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for package in PACKAGES:
        rows = list(constants(package))
        if rows:
            parts.append(f"## `dpinfer.{package}`\n\n{table(rows)}")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
