"""The library stands alone; what an extra brings is missed with a remedy, and nothing else imports
it.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dpinfer as dp
from dpinfer.errors import MissingError, installed, missing
from helpers.terminal import files_in, run, run_here

ROOT = Path(__file__).parent.parent
SOURCE = Path(dp.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    "cli": {"typer", "rich"},
    "report": {"jinja2", "markupsafe", "matplotlib"},
    "dask": {"dask"},
    "spark": {"pyspark"},
    "desk": {"starlette", "uvicorn", "h11"},
}

# Which extras a part of the library may import.
PACKAGES = {"dpinfer", "dpinfer_desk"}
ALLOWED = {
    "dpinfer_desk": {"desk"},
    "cli": {"cli"},
    "views": {"report"},
    "tables/on_dask.py": {"dask"},
    "tables/on_spark.py": {"spark"},
}

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def without(absent, program, *arguments):
    """Run a program in a process of its own that cannot import some packages."""
    code = BLOCKED.format(absent=set(absent)) + program
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def succeeds(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_message():
    error = missing("dp.report", "report", "jinja2", "matplotlib", otherwise="read the JSON")
    assert (
        str(error)
        == "dp.report needs jinja2 and matplotlib: pip install 'dpinfer[report]', or read the JSON"
    )
    assert isinstance(error, ImportError)
    assert isinstance(error, dp.InputError)
    assert installed("numpy", "scipy")
    assert not installed("numpy", "nothing_of_the_kind")


def test_a_package_that_was_hidden_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "nothing_of_the_kind", None)
    assert not installed("nothing_of_the_kind")


COMMAND_LINE = "from dpinfer.cli import main; sys.argv = ['dpinfer', *sys.argv[1:]]; main()"


@pytest.mark.parametrize("absent", [["typer"], ["rich"], ["typer", "rich", "jinja2", "matplotlib"]])
def test_no_command_line(absent):
    done = without(absent, COMMAND_LINE, "--version")
    message = "error: the command line needs typer and rich: pip install 'dpinfer[cli]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_python_m_dpinfer_without_its_packages():
    program = "import runpy; sys.argv = ['dpinfer', 'demo']; runpy.run_module('dpinfer', run_name='__main__')"
    done = without(["typer"], program)
    assert done.returncode == 2
    assert (
        done.stderr == "error: the command line needs typer and rich: pip install 'dpinfer[cli]'\n"
    )


@pytest.mark.parametrize("absent", ["jinja2", "matplotlib"])
def test_no_command_that_could_spend_and_then_not_report(absent, tmp_path):
    done = without([absent], COMMAND_LINE, "demo", "--out", tmp_path / "demo")
    message = "error: the command line needs jinja2 and matplotlib: pip install 'dpinfer[cli]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert not (tmp_path / "demo").exists()


def test_a_broken_package_shows_before_anything_is_spent(tmp_path):
    files_in(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/jinja2.py").write_text(
        "raise ImportError('half an installation')", encoding="utf-8"
    )
    ledger, schema = tmp_path / "ledger.db", tmp_path / "schema.toml"
    succeeds(run_here("budget", "init", ledger, "--rho", 1, "--schema", schema, "--quiet"))
    fit = (
        "fit",
        tmp_path / "table.csv",
        "--schema",
        schema,
        "--formula",
        "y ~ a",
        "--rho",
        0.5,
        "--ledger",
        ledger,
    )
    first = f"{tmp_path / 'broken'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = run(*fit, "--out", tmp_path / "out", env={"PYTHONPATH": first})
    assert (done.returncode, done.stdout) == (1, "")
    assert "ImportError, jinja2.py line 1" in done.stderr
    assert not dp.Ledger.open(ledger).entries()
    succeeds(run_here(*fit, "--out", tmp_path / "out", "--quiet"))
    assert len(dp.Ledger.open(ledger).entries()) == 1


@pytest.mark.parametrize(
    ("absent", "module", "message"),
    [
        ("matplotlib", "plot", "dp.plot needs matplotlib: pip install 'dpinfer[report]'"),
        (
            "matplotlib",
            "report",
            "dp.report needs jinja2 and matplotlib: pip install 'dpinfer[report]'",
        ),
        (
            "jinja2",
            "report",
            "dp.report needs jinja2 and matplotlib: pip install 'dpinfer[report]'",
        ),
    ],
)
def test_no_figures_no_reports(absent, module, message):
    """However it is asked for."""
    program = "import dpinfer as dp\n"
    for line in (f"dp.{module}", f"import dpinfer.views.{module}", f"from dpinfer import {module}"):
        program += f"try:\n    {line}\nexcept ImportError as fault:\n    print(type(fault).__name__, fault, sep=': ')\n"
    assert succeeds(without([absent], program)) == 3 * f"{MissingError.__name__}: {message}\n"


@pytest.mark.parametrize(
    ("package", "module", "message"),
    [
        ("dask", "on_dask", "a Dask DataFrame needs dask: pip install 'dpinfer[dask]'"),
        ("pyspark", "on_spark", "a Spark DataFrame needs pyspark: pip install 'dpinfer[spark]'"),
    ],
)
def test_no_cluster(package, module, message):
    lines = ["try:", f"    import dpinfer.tables.{module}", "except ImportError as fault:"]
    program = "\n".join([*lines, "    print(type(fault).__name__, fault)"])
    assert succeeds(without([package], program)) == f"{MissingError.__name__} {message}\n"


def test_no_desk(tmp_path):
    """Whatever is asked of it is answered by one sentence, before a folder is looked at."""
    for absent, command, *arguments in (
        ("starlette", "desk"),
        ("starlette", "desk", "init", tmp_path / "desk"),
        ("uvicorn", "desk", "open", tmp_path / "nothing"),
        ("uvicorn", "serve", "run", tmp_path / "nothing"),
    ):
        done = without([absent], COMMAND_LINE, command, *arguments)
        message = (
            f"error: dpinfer {command} needs starlette and uvicorn: pip install 'dpinfer[desk]'\n"
        )
        assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert not list(tmp_path.iterdir())


def test_figures_need_no_jinja2():
    succeeds(without(["jinja2"], "import dpinfer as dp; dp.plot.forest"))


LIBRARY = """
import numpy as np
import dpinfer as dp

demo = dp.datasets.rand_hie()
budget = dp.ZCDP(0.5)
result = dp.LogisticRegression(demo.formula, schema=demo.schema, budget=budget).fit(demo.table).result_
assert dp.FitResult.from_json(result.to_json()).names == result.names
assert result.summary() and len(result.to_frame()) == len(result.names)
X = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))
y = np.where(X[:, 0] > 0, 1, -1)
study = dict(loss=dp.Logistic(), penalty=0.01, budget=budget, replicates=4)
dp.simulate.coverage(X, y, **study)
"""


def test_the_library_stands_alone():
    """Fits, results and studies without any extra."""
    assert succeeds(without(set.union(*EXTRAS.values()), LIBRARY)) == ""


def named(requirements):
    """Names of distributions; an extra that names others of ours brings what they bring."""
    found = set()
    for requirement in requirements:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement).groups()
        if name == "dpinfer":
            found |= named(
                line
                for extra in extras.split(",")
                for line in PROJECT["optional-dependencies"][extra]
            )
        else:
            found.add(name)
    return found


def test_extras_hold_what_the_messages_say():
    extras = {name: named(lines) for name, lines in PROJECT["optional-dependencies"].items()}
    assert extras["report"] == EXTRAS["report"]
    assert extras["cli"] == EXTRAS["cli"] | EXTRAS["report"]
    assert [extras[name] for name in ("dask", "spark")] == [EXTRAS["dask"], EXTRAS["spark"]]
    assert extras["serve"] == extras["desk"] == EXTRAS["desk"] | extras["cli"]
    assert extras["all"] == extras["cli"] | extras["report"]
    assert extras["dev"] > extras["all"]
    for extra, packages in EXTRAS.items():
        assert not packages & named(PROJECT["dependencies"]), f"[{extra}] is an extra"


def test_the_readme_lists_every_extra():
    table = re.findall(
        r"^\| (`dpinfer.*?) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
    )
    listed = {name for row in table for name in re.findall(r"`dpinfer\[(\w+)\]`", row)}
    # "page" is for `make test-page` alone, "desk" another name of "serve"
    assert listed == PROJECT["optional-dependencies"].keys() - {"page", "desk"}


def imported(path):
    """Third-party modules with the places of their imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - PACKAGES:
            yield name, node


def distribution(module):
    return {"sklearn": "scikit-learn", "flint": "python-flint"}.get(
        module, module.replace("_", "-")
    )


def test_every_import_is_declared():
    """A module relies on the dependencies and on what its part may take of the extras."""
    base = named(PROJECT["dependencies"])
    faults = []
    for path in sorted(SOURCE.parent.rglob("*.py")):
        place = path.relative_to(SOURCE.parent).as_posix().removeprefix("dpinfer/")
        extras = ALLOWED.get(place.partition("/")[0], ALLOWED.get(place, set()))
        allowed = base.union(*(named(PROJECT["optional-dependencies"][name]) for name in extras))
        for module, _ in imported(path):
            if distribution(module) not in allowed:
                faults.append(f"{place} imports {module}, which it may not rely on")
    assert faults == []
