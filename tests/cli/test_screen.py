"""What is shown, at the widths of terminals."""

import io
import json

import pytest
from rich.console import Console

import dpinfer as dp
from dpinfer.cli import screen
from open_results import opened
from support import labelled


@pytest.fixture(scope="module")
def aside():
    """A result in which no coefficient is identified."""
    X, y = labelled(500, 3)
    return dp.infer(
        X, y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.01), target="unpenalised"
    )


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_not_identified_shows_it(aside, width):
    assert not aside.reported.any()
    shown = io.StringIO()
    Console(file=shown, width=width).print(screen.coefficients(aside, 0.95))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert [line.count("not identified") for line in lines[2:]] == [1, 1, 1]
    assert "nan" not in shown.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_open_says_so_and_what_is_known_instead_is_indented(width):
    shown = io.StringIO()
    Console(file=shown, width=width).print(screen.coefficients(opened(), 0.95))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    (place,) = [j for j, line in enumerate(lines) if line.strip().startswith("income ")]
    (under,) = [j for j, line in enumerate(lines) if line.strip().startswith("income,")]
    assert under == place + 1
    indent = [len(lines[j]) - len(lines[j].lstrip()) for j in (place, under)]
    assert indent[1] == indent[0] + 2
    assert sum(" open " in line for line in lines) == 4


def test_json_has_no_numbers_that_are_none(aside, capsys):
    screen.Screen(as_json=True).give({"coefficients": aside.table(), "total": dp.ZCDP(1.0)})
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told["coefficients"][0]["high"] is None
    assert told["coefficients"][0]["status"]
    assert told["total"] == {"kind": "ZCDP", "rho": 1.0}


def test_quiet_and_json_show_nothing_else(capsys):
    for talk in (screen.Screen(quiet=True), screen.Screen(as_json=True)):
        talk.show("words")
        talk.note("words")
        assert not talk.live
    screen.Screen(quiet=True).give({"a": 1})
    assert capsys.readouterr() == ("", "")
