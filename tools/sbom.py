"""Write what an installation of dpinfer consists of: a bill of materials in CycloneDX JSON, and a table of licences.

python tools/sbom.py [FOLDER]

The packages are those of the wheel with the extras of the command line and the desk, in the versions that are
installed here; `make` installs those of requirements.lock.
"""

import json
import re
import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("cli", "report", "desk")
_BASE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of names that are addresses, RFC 4122
_CLASSIFIER = "License :: OSI Approved :: "


def installed(name: str = "dpinfer", extras: tuple[str, ...] = EXTRAS) -> dict[str, set[str]]:
    """Return the packages that one needs, itself included, each with those that it needs itself."""
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(name, extra) for extra in ("", *extras)]
    while waiting:
        one, extra = waiting.pop()
        if (one, extra) in seen:
            continue
        seen.add((one, extra))
        needed = found.setdefault(one, set())
        for requirement in _requirements(one, extra):
            other = canonical(requirement.name)
            if other != one:
                needed.add(other)
            waiting += [(other, more) for more in ("", *requirement.extras)]
    return dict(sorted(found.items()))


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def canonical(name: str) -> str:
    """Return a name as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(package: Distribution) -> str:
    """Return the licence that a package states: its expression, its classifiers, or the first line of its text."""
    expression = _field(package, "License-Expression")
    if expression:
        return expression
    classifiers = package.metadata.get_all("Classifier") or []
    approved = [one.removeprefix(_CLASSIFIER) for one in classifiers if one.startswith(_CLASSIFIER)]
    if approved:
        return ", ".join(approved)
    return next(iter(_field(package, "License").splitlines()), "not stated")


def _field(package: Distribution, key: str) -> str:
    """Return a field of the metadata of a package, empty where there is none."""
    return str(next(iter(package.metadata.get_all(key) or [""]))).strip()


def bill(packages: dict[str, set[str]]) -> dict[str, Any]:
    """Return the bill of materials, CycloneDX 1.5; the same packages give the same bytes."""
    components = [_component(name) for name in packages]
    own = next(one for one in components if one["name"] == "dpinfer")
    references = {one["name"]: one["bom-ref"] for one in components}
    named = "\n".join(references.values())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_BASE, named)}",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": [one for one in components if one is not own],
        "dependencies": [
            {"ref": references[name], "dependsOn": sorted(references[one] for one in needed)}
            for name, needed in packages.items()
        ],
    }


def _component(name: str) -> dict[str, Any]:
    package = distribution(name)
    address = f"pkg:pypi/{name}@{package.version}"
    return {
        "type": "library",
        "bom-ref": address,
        "name": name,
        "version": package.version,
        "purl": address,
        "licenses": [{"license": {"name": licence(package)}}],
    }


def licences(packages: dict[str, set[str]]) -> str:
    """Return a table of packages, versions and licences in Markdown."""
    lines = ["| package | version | licence |", "| --- | --- | --- |"]
    for name in packages:
        package = distribution(name)
        stated = " ".join(licence(package).split()).replace("|", "\\|")
        lines.append(f"| {name} | {package.version} | {stated} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write both files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    folder.mkdir(parents=True, exist_ok=True)
    packages = installed()
    version = distribution("dpinfer").version
    text = json.dumps(bill(packages), indent=1, ensure_ascii=False) + "\n"
    (folder / f"dpinfer-{version}.cdx.json").write_text(text, encoding="utf-8")
    (folder / "licences.md").write_text(licences(packages), encoding="utf-8")
    print(f"{len(packages)} packages in {folder}/dpinfer-{version}.cdx.json and licences.md")


if __name__ == "__main__":
    main()
