"""Docstrings of public names: their examples run, and what users call has numpydoc sections."""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpinfer as dp

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
WITH_EXAMPLES = [
    path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
    for path in sorted((SOURCE / "dpinfer").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
REFERENCE = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md"))
)
# Columns of printed tables are as wide as their widest number, which may differ in a last digit.
FLAGS = doctest.NORMALIZE_WHITESPACE


def failures(test: doctest.DocTest) -> int:
    """The number of examples of a docstring whose output is another; doctest prints them."""
    return doctest.DocTestRunner(optionflags=FLAGS).run(test).failed


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    tests = doctest.DocTestFinder().find(importlib.import_module(name), globs={})
    assert [test.name for test in tests if failures(test)] == []
    assert any(test.examples for test in tests)


def test_a_wrong_output_is_noticed(capsys):
    parser = doctest.DocTestParser()
    right, wrong = (
        parser.get_doctest(f">>> 1 + 1\n{output}\n", {}, "sum", None, None) for output in (2, 3)
    )
    assert failures(right) == 0
    assert failures(wrong) == 1
    assert "Expected:" in capsys.readouterr().out


def shown_members() -> dict[str, list[str]]:
    """The members of classes and modules that the reference shows."""
    listed = re.findall(
        r"^::: dpinfer\.(\w+)\n    options:\n      members: \[(.*?)\]$",
        REFERENCE,
        re.MULTILINE | re.DOTALL,
    )
    return {name: re.findall(r"\w+", members) for name, members in listed}


def public() -> Iterator[tuple[str, Any]]:
    """The names of `dp.__all__` and, in its modules, their functions and classes."""
    for name in dp.__all__:
        found = getattr(dp, name)
        if not inspect.ismodule(found):
            yield name, found
            continue
        here = [
            key
            for key, value in vars(found).items()
            if inspect.isfunction(value) and value.__module__ == found.__name__
        ]
        for key in getattr(found, "__all__", here):
            if not key.startswith("_"):
                yield f"{name}.{key}", getattr(found, key)


def documented() -> Iterator[tuple[str, Any]]:
    """Public names but errors, and the members of classes that the reference shows."""
    members = shown_members()
    for name, found in public():
        if inspect.isclass(found) and issubclass(found, Exception):
            continue
        yield name, found
        if not inspect.isclass(found):
            continue
        own = [key for key in vars(found) if not key.startswith("_")]
        for key in members[name] if "." not in name else own:
            value = inspect.getattr_static(found, key)
            value = getattr(value, "__func__", value)
            if inspect.isfunction(value) or isinstance(value, property):
                yield f"{name}.{key}", value


def items(text: str, *titles: str) -> list[str]:
    """The names that are described in a section of a docstring."""
    names: list[str] = []
    for title in titles:
        section = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.MULTILINE | re.DOTALL)
        lines = section[1].splitlines() if section else []
        for line in lines:
            if line and not line.startswith(" "):
                names += [name.strip("* ") for name in line.partition(" : ")[0].split(",")]
    return names


def faults(found: Any) -> list[str]:
    """What the docstring of a public object lacks."""
    text = inspect.cleandoc(found.__doc__ or "")
    first, _, rest = text.partition("\n")
    lacking = []
    if not first.endswith((".", "?")) or (rest and not rest.startswith("\n")):
        lacking.append("a first line that is a sentence")
    if re.match(r"(Of|That of|What|Those|How much|The same)\b", first):
        lacking.append("a subject or a verb in its first line")
    if isinstance(found, property) or found is dp.Loss:
        return lacking
    signature = inspect.signature(found)
    described = items(text, "Parameters", "Attributes")
    lacking += [name for name in signature.parameters if name not in ("self", "cls", *described)]
    returned = signature.return_annotation
    if inspect.isclass(found) or returned in (None, "None", inspect.Signature.empty):
        return lacking
    if not items(text, "Returns", "Yields"):
        lacking.append("Returns")
    return lacking


def test_public_names_have_their_sections():
    found = {name: faults(thing) for name, thing in documented()}
    assert {name: lacking for name, lacking in found.items() if lacking} == {}
    assert len(found) > 150


def test_what_is_lacking_is_noticed():
    def scaled(value: float, factor: float) -> float:
        """What a value becomes.

        Parameters
        ----------
        value : float
            The value.
        """
        return value * factor

    assert faults(scaled) == ["a subject or a verb in its first line", "factor", "Returns"]


def test_every_class_of_the_reference_lists_its_members():
    """Else pages would show what only other parts of the package call."""
    classes = [name for name in dp.__all__ if inspect.isclass(getattr(dp, name))]
    own = [name for name in classes if not issubclass(getattr(dp, name), Exception)]
    assert [name for name in own if name not in shown_members()] == []


def test_most_public_names_have_an_example():
    with_example = [name for name, found in documented() if ">>> " in (found.__doc__ or "")]
    assert len(with_example) >= 40
    assert len([name for name in with_example if name in dp.__all__]) >= 30
