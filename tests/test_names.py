import ast
import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import dpinfer as dp
from helpers.identifiers import private_words, repeated_classes
from helpers.terminal import run_here

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/dpinfer"
PACKAGES = (PACKAGE, ROOT / "src/dpinfer_desk")
ALIASES = {"most_weight"}
"""Other names of parameters that users may still give."""


def test_all_is_exactly_what_is_documented():
    """Each public name has one place in the reference, which is made of its docstring."""
    pages = sorted((ROOT / "docs/reference").glob("*.md"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    documented = re.findall(r"^::: dpinfer\.(.+)$", text, re.MULTILINE)
    assert sorted(documented) == sorted(dp.__all__)


def test_every_public_name_is_there_and_described():
    for name in dp.__all__:
        assert getattr(dp, name).__doc__
    assert set(dir(dp)) == set(dp.__all__)
    assert not hasattr(dp, "nothing_of_the_kind")


def test_versions_agree():
    """`__version__` is the one place: the build reads it there."""
    build = [sys.executable, "-m", "hatchling", "metadata", "version"]
    built = subprocess.run(
        build, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert built == dp.__version__ == version("dpinfer")
    assert run_here("--version").stdout == f"dpinfer {dp.__version__}\n"
    assert f"## {dp.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    # tests/test_dist.py compares it with CITATION.cff, the list of changes and the recipe
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not re.search(r"^version\b", project, re.MULTILINE)


HEAVY = (
    "sklearn", "pandas", "formulaic", "matplotlib", "pyarrow", "narwhals", "typer", "rich", "jinja2", "dp_accounting",
    "flint",
)  # fmt: skip


def loaded_by(*lines):
    """The modules that a program of these lines has loaded at its end."""
    program = "\n".join([*lines, "import sys", "print(*sys.modules)"])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_is_light():
    """It loads its errors alone: no number, no table, no plot, until a part of it is asked for."""
    loaded = loaded_by("import dpinfer")
    assert {name for name in loaded if name.startswith("dpinfer")} == {"dpinfer", "dpinfer.errors"}
    assert not loaded & {"numpy", "scipy", *HEAVY}


def test_a_list_of_commands_imports_none():
    """It shows summaries: no command is imported, nor numpy, before one runs."""
    loaded = loaded_by(
        "import os, sys",
        "from contextlib import redirect_stdout",
        "from dpinfer.cli import main",
        "sys.argv = ['dpinfer', '--help']",
        "try:",
        "    with open(os.devnull, 'w') as nowhere, redirect_stdout(nowhere):",
        "        main()",
        "except SystemExit as end:",
        "    assert not end.code",
    )
    assert {"dpinfer.cli.app", "dpinfer_desk.cli.commands", "typer"} <= loaded
    assert not loaded & {"numpy", "dpinfer.cli.fit", "dpinfer.cli.screen", "dpinfer_desk.cli.desk"}


def test_plans_results_and_ledgers_are_light():
    """They load numpy and some of scipy, and nothing heavy."""
    loaded = loaded_by(
        "import dpinfer as dp",
        "dp.infer, dp.GeometryPlan, dp.Plan, dp.Loss, dp.Ledger, dp.compare, dp.Description, dp.FitResult",
    )
    packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert "numpy" in packages
    assert not packages & set(HEAVY)


def public():
    for name in dp.__all__:
        found = getattr(dp, name)
        if not inspect.ismodule(found):
            yield name, found
            continue
        own = [
            k
            for k, v in vars(found).items()
            if inspect.isfunction(v) and v.__module__ == found.__name__
        ]
        yield from (
            (f"{name}.{k}", getattr(found, k))
            for k in getattr(found, "__all__", own)
            if not k.startswith("_")
        )


def callables():
    """Public functions, classes that are made by users, and their public methods."""
    for name, found in public():
        yield name, found
        for key, value in vars(found).items() if inspect.isclass(found) else ():
            method = getattr(value, "__func__", value)
            if inspect.isfunction(method) and not key.startswith("_"):
                yield f"{name}.{key}", method


def test_every_parameter_is_described():
    faults = []
    for name, found in callables():
        if inspect.isclass(found) and (issubclass(found, Exception) or name == "Loss"):
            continue
        for parameter in inspect.signature(found).parameters:
            if parameter in ("self", "cls"):
                continue
            if not re.search(rf"\b{parameter}\b", found.__doc__):
                faults.append(f"{name}: {parameter}")
    assert faults == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_identifier_uses_a_private_word(package):
    """The words, with those of the field in their place, are in `helpers.identifiers`."""
    assert private_words(package, ALIASES) == []


def test_a_class_name_exists_once():
    assert repeated_classes(*PACKAGES) == {}


def test_private_words_and_repeated_classes_are_found(tmp_path):
    (tmp_path / "a.py").write_text("class Told:\n    pass\n")
    (tmp_path / "b.py").write_text("class Told:\n    def nobody(self, what):\n        pass\n")
    found = {fault.rpartition(" ")[2] for fault in private_words(tmp_path)}
    assert found == {"Told", "nobody", "what"}
    assert len(private_words(tmp_path / "b.py", {"what"})) == 2
    assert set(repeated_classes(tmp_path)) == {"Told"}


def test_no_module_has_the_name_of_a_public_function():
    """``dpinfer.compare`` is a function whatever was imported before."""
    modules = {path.stem for path in PACKAGE.iterdir()}
    functions = {name for name in dp.__all__ if not inspect.ismodule(getattr(dp, name))}
    assert not modules & functions


def test_no_test_imports_a_private_name():
    """What a test states is a law of public names: a private one may go without notice."""
    private = [
        f"{path.name}: {name.name}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpinfer")
        for name in node.names
        if name.name.startswith("_") and not name.name.startswith("__")
    ]
    assert private == []
