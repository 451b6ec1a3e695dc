"""Imports point down, and two doors stay shut: only the gate draws noise, only fit opens the gate."""

import ast
import re
from pathlib import Path

import pytest

import dpinfer

ROOT = Path(dpinfer.__file__).parent
MAP = (ROOT.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def tree():
    """The modules in the order of the map in CONTRIBUTING.md, which is the order in which imports may point."""
    lines = MAP.split("src/dpinfer/\n")[1].split("\ntests/")[0].splitlines()
    folders, found = [], []
    for line in lines:
        indent, name = re.match(r"( *)(\S+)", line).groups()
        folders = folders[: len(indent) // 2 - 1]
        if name.endswith("/"):
            folders.append(name)
        elif re.fullmatch(r"\w+\.py", name):
            found.append("".join(folders) + name)
    return found


ORDER = tree()
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py" or path.read_text())
NAMES = [path.relative_to(ROOT).as_posix() for path in MODULES]
PUBLIC = {  # what `dp.NAME` loads
    "Schema": "data/schema.py", "plot": "views/plot.py", "report": "views/report.py",
    "simulate": "simulate/__init__.py", "datasets": "datasets.py", "Ledger": "privacy/ledger.py",
    "FitResult": "result/result.py", "LedgerError": "errors.py", "Plan": "fit/penalised/plan.py",
    "ObjectivePerturbation": "fit/penalised/plan.py", "OutputPerturbation": "fit/penalised/plan.py",
    "PureDP": "privacy/budget.py", "ZCDP": "privacy/budget.py", "ApproxDP": "privacy/budget.py",
    "NoPrivacy": "privacy/budget.py", "__version__": "__init__.py", "LogisticRegression": "estimators/models.py",
}  # fmt: skip


def place(parts):
    """The file of a dotted name, or of the module that it is a name in."""
    for path in ("/".join(parts), "/".join(parts[:-1])):
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if path and (ROOT / file).exists():
                return file
    return "__init__.py"


def imports(path):
    """The files that a module imports from, ``import dpinfer as dp`` with the names it uses included."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dpinfer":
            yield from (place([*node.module.split(".")[1:], name.name]) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (place(name.name.split(".")[1:]) for name in node.names if name.name.startswith("dpinfer."))
    if any(isinstance(node, ast.Import) and any(name.name == "dpinfer" for name in node.names) for node in nodes):
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "dp"}
        yield from (PUBLIC[name] for name in used)


def test_the_map_is_the_tree():
    listed = set(ORDER)
    assert len(listed) == len(ORDER)
    assert listed == set(NAMES)


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_imports_point_down(path):
    """Also within a package, and through `import dpinfer as dp`; __init__ files of sub-packages only gather names."""
    here = path.relative_to(ROOT).as_posix()
    for target in imports(path):
        if (ROOT / target).read_text() and target != "__init__.py":
            assert ORDER.index(target) < ORDER.index(here), f"{here} imports {target}"
        assert target != "__init__.py" or here.startswith(("cli/", "__main__"))


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_the_doors(path):
    here = path.relative_to(ROOT).as_posix()
    for target in imports(path):
        if target == "privacy/noise.py":
            assert here == "privacy/gate.py"
        if target == "privacy/gate.py":
            assert here.startswith("fit/")


def test_one_bisection():
    """A search by halves is written once."""
    halving = re.compile(r"while (high|abs\(high) ?[->].*\n(.*\n){0,4}.*middle")
    assert [name for name, path in zip(NAMES, MODULES, strict=True) if halving.search(path.read_text())] == [
        "maths/search.py"
    ]


KNOWN = {"numpy", "scipy", "array_api_compat", "dpinfer", "dataclasses", "typing", "collections", "math", "functools"}


def test_maths_knows_numpy_and_scipy_only():
    for path in (ROOT / "maths").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
                assert name.split(".")[0] in KNOWN


def test_sub_packages_are_empty():
    """But for the public ones, which gather the names that users call."""
    public = {ROOT, ROOT / "simulate", ROOT / "cli"}
    for path in ROOT.rglob("__init__.py"):
        assert path.parent in public or path.read_text() == ""
