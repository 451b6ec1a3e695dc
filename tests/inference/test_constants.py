"""Every number of a module that decides what is reported is a constant with a reason, or numerical."""

import ast
import copy
import pickle
import sys
from pathlib import Path

import pytest

from dpinfer.inference import constants as of_inference
from dpinfer.numerics.reasons import Constant, ShareTable

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import constants as tool  # noqa: E402  (the tools are no package)
import structure  # noqa: E402

MODULES = sorted(
    path
    for folder in structure.STATISTICAL
    for path in (ROOT / "src/dpinfer" / folder).glob("*.py")
)
EVERY = [one for package in tool.PACKAGES for _, one in tool.constants(package)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_number_of_a_module_has_a_reason_or_is_numerical(path):
    found = structure.module_constants(path.stem, path.read_text(encoding="utf-8"))
    assert [one.name for one in found if one.account not in ("reason", "numerical")] == []


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_every_constant_says_what_it_decides_why_and_by_which_source(one):
    assert one.name
    assert one.decides
    assert one.reason
    assert one.source


def test_no_constant_is_missing_in_the_page():
    calls = [
        node
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Constant", "ShareTable")
    ]
    assert len(EVERY) == len(calls) > 70
    names = [name for name, one in vars(of_inference).items() if isinstance(one, Constant)]
    assert names == [getattr(of_inference, name).name for name in names]


def test_the_page_is_what_the_tool_writes():
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page()


def test_shares_add_up_to_one():
    """But for those of descriptions, of which all three releases together do, and integer parts."""
    for one in EVERY:
        if isinstance(one, ShareTable) and one.name.startswith(("LINEAR", "ROBUST", "ALL", "LOGI")):
            assert sum(one.values()) == pytest.approx(1)


def test_arithmetic_with_a_constant_gives_a_float_and_a_copy_is_one():
    third = Constant(1 / 3, name="THIRD", decides="a test", reason="a test", source="a test")
    assert type(third * 2) is float
    assert (third * 2, repr(third)) == (2 / 3, repr(1 / 3))
    for copied in (pickle.loads(pickle.dumps(third)), copy.deepcopy(third)):
        assert type(copied) is float
        assert copied == third
    table = ShareTable({"a": 1.0}, name="ONE", decides="a test", reason="a test", source="a test")
    assert table == {"a": 1.0}
    assert type(copy.deepcopy(table)) is dict
