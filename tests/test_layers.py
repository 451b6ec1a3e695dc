"""Imports point down, and two doors stay shut: only the gate draws noise, only fit opens the gate."""

import ast
from pathlib import Path

import pytest

import dpinfer

ROOT = Path(dpinfer.__file__).parent
ORDER = [
    "errors", "text", "maths", "codec", "geometry", "data", "privacy", "statements", "result", "datasets", "fit",
    "simulate", "plot", "report", "estimators", "cli", "__main__", "__init__",
]  # fmt: skip
MODULES = sorted(ROOT.rglob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpinfer"):
            for name in node.names:
                yield [*node.module.split(".")[1:], name.name]
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("dpinfer."):
                    yield name.name.split(".")[1:]


def layer(parts):
    return ORDER.index(Path(parts[0]).stem)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    here = path.relative_to(ROOT).parts
    for target in imports(path):
        assert layer(target) <= layer(here), f"{here} imports {target}"
        if len(here) == 1:
            assert layer(target) < layer(here)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_doors(path):
    here = path.relative_to(ROOT).as_posix()
    for target in imports(path):
        if target[:2] == ["privacy", "noise"]:
            assert here == "privacy/gate.py"
        if target[:2] == ["privacy", "gate"]:
            assert here.startswith("fit/")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_small_house(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 40, f"{node.name} is too long"


KNOWN = {"numpy", "scipy", "array_api_compat", "dpinfer", "dataclasses", "typing", "collections", "math", "functools"}


def test_maths_knows_numpy_and_scipy_only():
    for path in (ROOT / "maths").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
                assert name.split(".")[0] in KNOWN


def test_sub_packages_are_empty():
    for package in ("maths", "data", "privacy", "fit"):
        assert (ROOT / package / "__init__.py").read_text() == ""
