"""Imports point up the map, and two doors stay shut: only the gate draws noise, only fit opens the gate."""

import ast
import re
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dpinfer
from map_of_rooms import CONTRIBUTING, DESK, PACKAGES, ROOMS, modules, purpose, renewed, room_of

ROOT = Path(dpinfer.__file__).parent


MODULES = modules()
NAMES = [path.relative_to(ROOT).as_posix() for path in MODULES]
PUBLIC = {  # what `dp.NAME` loads
    "Schema": "schema/schema.py", "plot": "views/plot.py", "report": "views/report.py",
    "simulate": "simulate/__init__.py", "datasets": "datasets.py", "Ledger": "privacy/ledger.py",
    "Description": "result/description.py", "SurvivalCurves": "result/survival_curves.py",
    "FitResult": "result/result.py", "LedgerError": "errors.py", "Plan": "fit/penalised_plan.py",
    "ObjectivePerturbation": "fit/penalised_plan.py", "OutputPerturbation": "fit/penalised_plan.py",
    "PureDP": "privacy/budget.py", "ZCDP": "privacy/budget.py", "ApproxDP": "privacy/budget.py",
    "NoPrivacy": "privacy/budget.py", "__version__": "__init__.py", "LogisticRegression": "estimators/models.py",
    "MomentRelease": "moment_release/released_moments.py", "moments": "moment_release/released_moments.py",
    "plan_moments": "moment_release/forecasting.py",
    "compare": "result/comparison.py", "Comparison": "result/comparison.py",
}  # fmt: skip


def place(parts, root=ROOT):
    """The file of a dotted name, or of the module that it is a name in."""
    for path in ("/".join(parts), "/".join(parts[:-1])):
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if path and (root / file).exists():
                return file
    return "__init__.py"


@cache
def imports(path):
    """The files that a module imports from, ``import dpinfer as dp`` with the names it uses
    included.
    """
    return set(_imports(path))


def _imports(path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    for node in nodes:
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "dpinfer"
        ):
            yield from (place([*node.module.split(".")[1:], name.name]) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                place(name.name.split(".")[1:])
                for name in node.names
                if name.name.startswith("dpinfer.")
            )
    if any(
        isinstance(node, ast.Import) and any(name.name == "dpinfer" for name in node.names)
        for node in nodes
    ):
        used = {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "dp"
        }
        yield from (PUBLIC[name] for name in used)


def test_the_map_is_the_tree():
    """Every module is in the map, under the words of its docstring."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert renewed(text) == text, "run `make map`"
    assert all(purpose(path) for package in PACKAGES for path in modules(package))


# Loaded when it is called: what reads the types of a table on behalf of a draft.
ON_CALL = {("schema/schema.py", "tables/table.py")}


def test_imports_point_up_the_map():
    """Also through `import dpinfer as dp`; no import reaches a room further down."""
    order = list(ROOMS)
    faults = []
    for path in MODULES:
        own = room_of(path)
        for target in imports(path):
            if target == "__init__.py" and own in {"cli/", "__main__.py"}:
                continue
            if (path.relative_to(ROOT).as_posix(), target) in ON_CALL:
                continue
            if order.index(room_of(ROOT / target)) > order.index(own):
                faults.append(f"{path.relative_to(ROOT)} imports {target}")
    assert not faults


def test_imports_have_no_cycle():
    graph = {name: set(imports(path)) - {name} for name, path in zip(NAMES, MODULES, strict=True)}
    list(TopologicalSorter(graph).static_order())


def test_no_two_modules_have_one_name():
    """But for a command, which is named after what it runs."""
    every = [path for package in PACKAGES for path in modules(package)]
    names = Counter(path.stem for path in every if room_of(path) != "cli/")
    assert [name for name, count in names.items() if count > 1 and name != "__init__"] == []


def test_the_doors():
    """Only the gate draws noise, only recipes open the gate."""
    faults = []
    for path, name in zip(MODULES, NAMES, strict=True):
        targets = set(imports(path))
        if "privacy/noise.py" in targets and name != "privacy/gate.py":
            faults.append(f"{name} draws noise")
        if "privacy/gate.py" in targets and not name.startswith(
            ("fit/", "description/", "moment_release/")
        ):
            faults.append(f"{name} opens the gate")
    assert not faults


KNOWN = {
    "numpy",
    "scipy",
    "dpinfer",
    "dataclasses",
    "typing",
    "collections",
    "itertools",
    "math",
    "functools",
}


def outside(path):
    """The packages that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        yield from (name.split(".")[0] for name in names)


@pytest.mark.parametrize("room", ["numerics", "mechanisms", "inference"])
def test_sums_and_inference_know_numpy_and_scipy_only(room):
    for path in (ROOT / room).glob("*.py"):
        assert set(outside(path)) <= KNOWN


BLIND = ("numerics/", "inference/", "errors.py", "adjacency.py")
"""What cannot see a record: neither rows, nor sums over them, nor the gate."""


def test_inference_sees_released_numbers_only():
    """So whatever inference does is post-processing, and costs nothing.

    An error there costs coverage, never privacy.
    """
    faults = [
        f"{name} imports {target}"
        for path, name in zip(MODULES, NAMES, strict=True)
        if name.startswith(("numerics/", "inference/"))
        for target in imports(path)
        if not target.startswith(BLIND)
    ]
    assert not faults


PRIVACY_RESTS_ON = ("mechanisms/", "privacy/", "rows/", "tables/")


def test_privacy_rests_on_no_inference():
    faults = [
        f"{name} imports {target}"
        for path, name in zip(MODULES, NAMES, strict=True)
        if name.startswith(PRIVACY_RESTS_ON)
        for target in imports(path)
        if target.startswith("inference/")
    ]
    assert not faults


def test_sub_packages_are_empty():
    """But for the public ones, which gather the names that users call."""
    public = {ROOT, ROOT / "simulate", ROOT / "cli"}
    for package in PACKAGES:
        for path in package.rglob("__init__.py"):
            assert path.parent in public | {DESK} or path.read_text() == ""


DESK_NAMES = [path.relative_to(DESK).as_posix() for path in modules(DESK)]


def imported_by(path):
    """The modules that a module imports from, with the names it takes, by their dotted names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, name.asname or "") for name in node.names)


def within_desk(path):
    """The files of the desk that a module of it imports from."""
    for module, name in imported_by(path):
        package, *parts = module.split(".")
        if package == "dpinfer_desk":
            yield place([*parts, name], DESK)


def test_imports_of_the_desk_point_up_the_map():
    """The store knows no worker, the worker no web, the web no commands."""
    order = list(PACKAGES[DESK])
    faults = [
        f"{path.relative_to(DESK)} imports {target}"
        for path in modules(DESK)
        for target in within_desk(path)
        if order.index(room_of(DESK / target)) > order.index(room_of(path))
    ]
    assert not faults
    graph = {
        name: set(within_desk(path)) - {name}
        for name, path in zip(DESK_NAMES, modules(DESK), strict=True)
    }
    list(TopologicalSorter(graph).static_order())


def test_dpinfer_never_imports_the_desk():
    faults = [
        name
        for name, path in zip(NAMES, MODULES, strict=True)
        if "dpinfer_desk" in path.read_text(encoding="utf-8")
    ]
    assert not faults


TAKEN_BY_THE_DESK = {  # names that it takes of each module; "dp" for the package itself
    "dpinfer": "dp persistence",
    "dpinfer.asking.questions": "AnalystQuestion LONGEST_TITLE SECTIONS question_of question_schema read_question",
    "dpinfer.asking.from_spec": "budget_of",
    "dpinfer.asking.rules": "Rule one_of",
    "dpinfer.asking.spec": "RULES check check_name of_options",
    "dpinfer.cli": "screen",
    "dpinfer.cli.commands": "Command",
    "dpinfer.cli.screen": "AsJson Quiet Screen",
    "dpinfer.errors": "DpinferError InputError LedgerError "
    "NO_ANSWER NoAnswerError PrivacyError require",
    "dpinfer.estimators.aliases": "HERE",
    "dpinfer.estimators.models": "LinearModel",
    "dpinfer.fit.choose": "TARGETS",
    "dpinfer.fit.penalised": "Penalised",
    "dpinfer.fit.recipe": "Recipe",
    "dpinfer.adjacency": "Adjacency",
    "dpinfer.moment_release.moment_questions": "FORMS answer",
    "dpinfer.moment_release.released_moments": "MomentFigure MomentRelease moments",
    "dpinfer.privacy": "accountant",
    "dpinfer.privacy.account": "Account",
    "dpinfer.privacy.accountant": "Total",
    "dpinfer.privacy.budget": "ApproxDP NoPrivacy PureDP ZCDP power_of_ten",
    "dpinfer.privacy.decimals": "added written",
    "dpinfer.privacy.entries": "Entry",
    "dpinfer.privacy.ledger": "Allowance Ledger Preview larger_delta",
    "dpinfer.privacy.shares": "TotalShares",
    "dpinfer.privacy.store": "ConflictingEntryError FileStore MissingEntryError chain_fault "
    "to_jsonl keep_sidecar_files sidecar_files transaction",
    "dpinfer.result": "coefficient_table text",
    "dpinfer.result.estimates": "PEEK",
    "dpinfer.result.result": "FitResult",
    "dpinfer.result.text": "escape_controls",
    "dpinfer.rows": "workers",
    "dpinfer.schema.columns": "Column Number Outcome Wanted levels_of",
    "dpinfer.schema.design": "Design",
    "dpinfer.schema.expressions": "quoted",
    "dpinfer.schema.formula": "parse",
    "dpinfer.schema.schema": "Schema",
    "dpinfer.schema.toml": "dump read_toml",
    "dpinfer.schema.unit": "Unit",
    "dpinfer.simulate.forecast": "Forecast forecast",
    "dpinfer.simulate.practice": "practice",
    "dpinfer.tables.arrow_files": "members_of",
    "dpinfer.tables.data_check": "sizes_of unit_sizes",
    "dpinfer.tables.table": "check table_of",
    "dpinfer.views": "report",
    "dpinfer.views.page": "breakable style",
    "dpinfer.views.promise": "about_one suspicion suspicion_picture",
}  # fmt: skip


def test_the_desk_imports_these_public_names_of_dpinfer():
    """A name that the desk begins or ceases to need is added here, or taken away."""
    taken = {}
    for path in modules(DESK):
        for module, name in imported_by(path):
            if module.split(".")[0] == "dpinfer":
                taken.setdefault(module, set()).add(name)
    assert taken == {module: set(names.split()) for module, names in TAKEN_BY_THE_DESK.items()}
    assert not [name for names in taken.values() for name in names if name.startswith("_")]


def test_the_walk_names_what_is_there():
    """A file that CONTRIBUTING.md names exists, and holds the name that stands behind it."""
    text = CONTRIBUTING.read_text(encoding="utf-8").partition("<!-- end of the map -->")[2]
    walk = text.partition("## One fit")[2].partition("## The rules")[0]
    steps = re.findall(r"`([a-z_]+/[a-z_]+\.py)`(?:\s`(\w+)`)?", walk)
    assert len(steps) > 20
    for file, name in steps:
        assert (ROOT / file).exists(), file
        assert not name or re.search(rf"(def|class) {name}\b", (ROOT / file).read_text()), name
