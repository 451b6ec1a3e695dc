"""What is shown, at the widths of terminals."""

import io
import json

import pytest
from rich.console import Console

import dpinfer as dp
from dpinfer.cli import screen
from support import labelled


@pytest.fixture(scope="module")
def aside():
    """A result in which no coefficient is identified."""
    X, y = labelled(500, 3)
    return dp.infer(X, y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.01), target="unpenalised")


@pytest.mark.parametrize("width", [80, 120])
def test_what_was_set_aside_shows_its_status(aside, width):
    assert not aside.reported.any()
    shown = io.StringIO()
    Console(file=shown, width=width).print(screen.coefficients(aside, 0.95))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert [line.count("set aside") for line in lines[2:]] == [1, 1, 1]
    assert "nan" not in shown.getvalue()


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
