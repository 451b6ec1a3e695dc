"""`tools/structure.py` counts a made-up package right, and says nothing of the machine."""

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "structure.py"
MODULE = '''"""A module.

With three lines of docstring."""

from registry import Constant, Numerical, ShareTable

SHARE = 0.25  # why a quarter
"""What it is for."""

_BARE = (1, 2)
NAME = "no number"
CLEAR = Constant(
    2.5, name="CLEAR", decides="what is reported", reason="one in a hundred", source="a table"
)
BARE = Constant(2.5, name="BARE", decides="what is reported", reason="", source="")
TABLE = ShareTable({"a": 1.0}, name="TABLE", decides="a share", reason="one stage", source="none")
GRID: Numerical[int] = 7
# TODO: two words more
OTHER = 3.0


class Twice:
    a: int = 1

    def f(self, x, y, z, u, v, w, t):
        """One line."""
        return x if y else 7.5  # noqa: E501


def g(rows):
    return sum(rows[3:5], axis=1) + 0.1 * 2
'''


def counted(*arguments):
    done = subprocess.run(
        [sys.executable, TOOL, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def made_up(folder):
    (folder / "pack" / "fit").mkdir(parents=True)
    (folder / "pack" / "fit" / "module.py").write_text(MODULE)
    long = "\n".join(f"    x = {number}" for number in range(60))
    members = "\n".join(f"    a{number}: int" for number in range(21))
    text = f"def h():\n    '''Not\n    counted.'''\n{long}\n\n\nclass Twice:\n{members}\n"
    (folder / "pack" / "__init__.py").write_text(text)
    return "--source", str(folder), "--no-walk"


def test_a_made_up_package(tmp_path):
    counts = json.loads(counted(*made_up(tmp_path), "--json"))
    fit = counts["packages"]["pack/fit"]
    lines = len(MODULE.splitlines())
    assert fit == {
        "files": 1,
        "lines": lines,
        "docstring_percent": round(100 * 5 / lines, 1),
        "comment_words_per_kloc": round(1000 * 7 / lines),
        "functions_per_kloc": round(1000 * 2 / lines),
        "conditional_expressions_per_kloc": round(1000 / lines, 1),
        "functions_over_60_lines": 0,
        "classes_over_20_members": 0,
        "functions_over_6_parameters": 1,
    }
    top = counts["packages"]["pack"]
    assert (top["functions_over_60_lines"], top["classes_over_20_members"]) == (1, 1)
    assert counts["total"]["lines"] == lines + top["lines"]
    assert counts["classes_defined_twice"] == {
        "Twice": ["pack/__init__.py:66", "pack/fit/module.py:22"]
    }
    assert [(n["name"], n["account"]) for n in counts["constants"]] == [
        ("SHARE", "described"),
        ("_BARE", "bare"),
        ("CLEAR", "reason"),
        ("BARE", "bare"),
        ("TABLE", "reason"),
        ("GRID", "numerical"),
        ("OTHER", "described"),
    ]
    assert [n["value"] for n in counts["literals_in_functions"]] == ["7.5", "0.1"]


def test_the_text_holds_the_same_counts_and_no_path(tmp_path):
    shown = counted(*made_up(tmp_path))
    assert "class names defined twice: 1\n" in shown
    assert "numeric constants of modules in fit, inference, mechanisms, description: 7;" in shown
    assert str(tmp_path) not in shown


def test_the_walk_of_a_fit():
    """Every function is in the source, and each module's lines are fewer than it has."""
    counts = json.loads(counted("--json"))
    walk = counts["walk"]
    assert walk["modules"] == len(walk["lines_by_module"]) > 20
    assert walk["functions"] <= walk["functions_with_comprehensions_and_lambdas"] <= walk["calls"]
    assert sum(walk["lines_by_module"].values()) == walk["lines_of_functions_called"]
    source = TOOL.parent.parent / "src"
    for name, lines in walk["lines_by_module"].items():
        assert 0 < lines < len((source / name).read_text(encoding="utf-8").splitlines())
    assert "dpinfer/privacy/gate.py" in walk["lines_by_module"]
    assert str(TOOL.parent.parent) not in json.dumps(counts)
