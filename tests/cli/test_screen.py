"""What is shown, at the widths of terminals."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import dpinfer as dp
from dpinfer.cli import screen
from helpers.partial_results import partly_reported
from helpers.support import labelled
from helpers.terminal import PROGRAM, run


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
    rows = lines[1 + [set(line) for line in lines].index({"─"}) :]
    assert [line.count("not identified") for line in rows] == [1, 1, 1]
    assert "nan" not in shown.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_not_reported_says_so_and_what_is_known_instead_is_indented(width):
    shown = io.StringIO()
    Console(file=shown, width=width).print(screen.coefficients(partly_reported(), 0.95))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    (place,) = [j for j, line in enumerate(lines) if line.strip().startswith("income ")]
    (under,) = [j for j, line in enumerate(lines) if line.strip().startswith("income,")]
    assert under == place + 1
    indent = [len(lines[j]) - len(lines[j].lstrip()) for j in (place, under)]
    assert indent[1] == indent[0] + 2
    assert sum(" not reported " in line for line in lines) == 4


def test_json_has_no_numbers_that_are_none(aside, capsys):
    screen.Screen(as_json=True).emit({"coefficients": aside.table(), "total": dp.ZCDP(1.0)})
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told["coefficients"][0]["high"] is None
    assert told["coefficients"][0]["status"]
    assert told["total"] == {"kind": "ZCDP", "rho": 1.0}


def test_quiet_and_json_show_nothing_else(capsys):
    for console in (screen.Screen(quiet=True), screen.Screen(as_json=True)):
        console.show("words")
        console.note("words")
        assert not console.live
    screen.Screen(quiet=True).emit({"a": 1})
    assert capsys.readouterr() == ("", "")


NAMES = [
    "self_rated_general_health[poor or very poor]:hospital_admissions_last_year",
    "hospital_admissions_last_year",
    "age",
]


def printed(table, monkeypatch, capsys, columns=80):
    monkeypatch.setenv("COLUMNS", str(columns))
    screen.Screen().show(table())
    return capsys.readouterr().out


def test_names_are_broken_where_their_parts_meet(monkeypatch, capsys):
    """At 80 columns; no line ends inside a word, and nothing of a name is lost."""
    heads = ("Coefficient", "Estimate", "Std. error", "95% interval", "p", "Noise")
    rows = [[name, "-0.030", "0.038", "-0.104 to 0.044", ".429", "47%"] for name in NAMES]
    out = printed(lambda: screen.table(heads, rows), monkeypatch, capsys)
    assert max(map(len, out.splitlines())) <= 80
    names = " ".join(re.split(r" {3,}", line)[0] for line in out.splitlines())
    words = set(re.split(r"[_ :\[\]]", names))
    assert {"self", "rated", "general", "hospital", "admissions", "last", "year", "age"} <= words
    assert all("-0.104 to 0.044" not in line or ".429" in line for line in out.splitlines())


def test_headings_give_way_to_names(monkeypatch, capsys):
    heads = (
        "Column",
        "missing",
        "no level or number",
        "of these by case",
        "below low",
        "above high",
    )
    rows = [[name, *"00000"] for name in NAMES[1:]]
    out = printed(lambda: screen.table(heads, rows), monkeypatch, capsys)
    assert any(line.startswith(f"{NAMES[1]} ") for line in out.splitlines())
    wide = printed(lambda: screen.table(heads, rows[1:]), monkeypatch, capsys, columns=120)
    assert "no level or number" in wide


@given(st.text(max_size=40), st.integers(3, 20))
def test_no_letter_of_a_broken_name_is_lost(name, width):
    assert "".join(screen.broken(name, width).split()) == "".join(name.split())


def test_a_table_gives_its_words_the_room_that_there_is(monkeypatch, capsys):
    """At 80 columns no word of a column of words is broken, as long as all of them fit."""
    heads = ("#", "Release", "By", "Id", "Booked (UTC)", "Cost")
    purpose = "LogisticRegression: visit ~ lncoins + idp + lpi + fmde + physlm"
    row = ["1", purpose, "Gaussian filter", "db52dd27", "2026-11-19 20:43", "ε = 1"]
    out = printed(lambda: screen.table(heads, [row], left=3), monkeypatch, capsys)
    assert max(map(len, out.splitlines())) <= 80
    for word in [*purpose.split(), "Gaussian", "filter", *row[3:]]:
        assert word in out


def on_a_terminal(columns, *arguments):
    """What the program writes to a terminal of this width."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in GONE}
    with subprocess.Popen(
        [PROGRAM, *arguments],
        stdin=other,
        stdout=other,
        stderr=other,
        env=environment | {"TERM": "xterm-256color"},
    ):
        os.close(other)
        written = b""
        with contextlib.suppress(OSError):  # the other side is closed
            while chunk := os.read(main, 65_536):
                written += chunk
    os.close(main)
    return written.decode().replace("\r\n", "\n")


GONE = ("COLUMNS", "LINES", "NO_COLOR", "TERM")


@pytest.mark.parametrize("columns", [60, 80])
def test_an_error_on_a_terminal_is_bold_and_wrapped_at_words(columns):
    shown = on_a_terminal(columns, "schema", "check", "nowhere/schema.toml")
    assert shown.startswith("\x1b[1;31merror:\x1b[0m ")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= columns
    assert len(plain.splitlines()) > 1
    (piped,) = run("schema", "check", "nowhere/schema.toml").stderr.splitlines()
    assert plain.split() == piped.split()
