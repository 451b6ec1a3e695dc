"""The one class that prints tables: widths, parts, notes and escapes of every format."""

import re

import pytest

from dpinfer.result.grid import Grid, GridCell, GridRow, TextLayout, html_page, latex_page
from dpinfer.result.statements import TOO_NOISY


def table(titles, rows, **layout):
    """A table as text: of each row a name, and its texts or a note."""
    made = [
        GridRow(name, note=cells) if isinstance(cells, str) else GridRow.of(name, cells)
        for name, cells in rows
    ]
    return Grid(("", *titles), tuple(made)).text(TextLayout(**layout))


def test_a_table_is_as_wide_as_its_cells():
    shown = table(["first", "second"], [("a", ["1", "2"]), ("b", ["3", "4" * 15])])
    rule, head, thin, *lines, last = shown.splitlines()
    assert (set(rule), set(thin), last) == ({"="}, {"-"}, rule)
    assert {len(line) for line in (head, *lines)} == {20 + 11 + 16}
    assert head.endswith("first" + "second".rjust(16))
    assert lines[0].split() == ["a", "1", "2"]
    far = table(["first"], [("a", ["1" * 30])], min_column=10, gap=2).splitlines()
    assert far[2] == "-" * 80
    assert far[3] == f"{'a':<20}{'1' * 30:>32}"


def test_a_note_has_lines_of_its_own():
    long = "n" * 40
    shown = table(["first"], [(long, TOO_NOISY), ("b", ["1"])]).splitlines()[3:-1]
    assert " ".join(" ".join(shown[:-1]).split()) == f"{long} {TOO_NOISY}"
    assert all(line.startswith(" " * 43) for line in shown[1:-1])
    assert shown[-1] == f"{'b':<41}{'1':>11}"


def test_a_table_of_notes_alone_has_all_titles():
    head = table(["first", "second"], [("a", "why"), ("b", "why")]).splitlines()[1]
    assert head.split() == ["first", "second"]


def test_a_table_obeys_no_name_and_no_note():
    shown = table(["first"], [("a\x1b[2J", ["1"]), ("b\n", "open\u202e: x")])
    assert "\\x1b[2J" in shown
    assert "b\\x0a" in shown
    assert "\\u202e" in shown
    assert not set("\x1b\u202e") & set(shown)
    assert len(shown.splitlines()) == 6


def pairs(count):
    cells = tuple(GridCell(f"{k}.5", f"{k} to {k + 1}") for k in range(count))
    titles = ("figure", *(f"group {k}" for k in range(count)))
    return Grid(titles, (GridRow("a column"), GridRow("mean", cells, indented=True)))


@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_columns_that_do_not_fit_are_printed_below(count, under):
    layout = TextLayout(width=60, gap=2, min_column=0, brackets=True, split=True, under=under)
    grid = pairs(count)
    shown = grid.text(layout)
    assert max(map(len, shown.splitlines())) == 60
    assert re.findall(r"group \d+", shown) == [f"group {k}" for k in range(count)]
    assert re.findall(r"\(\d+ to \d+\)", shown) == [f"({k} to {k + 1})" for k in range(count)]
    parts = shown.count("a column")
    assert grid.fits(layout) == (parts == 1)
    assert shown.count("=" * 60) == parts + 1
    assert any("1.5 (1 to 2)" in line for line in shown.splitlines()) == (count > 1 and not under)


def test_a_row_that_is_empty_in_a_part_is_left_out():
    empty = (GridCell(), GridCell("1"))
    grid = Grid(("", "a", "b"), (GridRow("head"), GridRow("x", empty), GridRow.of("y", ["2", "3"])))
    first, second = grid.text(TextLayout(width=35, split=True)).split("=" * 35)[1:3]
    assert "x" not in first
    assert "x" in second
    for part in (first, second):
        assert "head" in part
        assert "y" in part


def test_every_format_escapes_names_and_notes():
    grid = Grid(("<a>", "b_c"), (GridRow.of("x|y & z", ["1 < 2"]), GridRow("head")))
    page = html_page(grid, "<caption>", ["<note>"])
    assert "&lt;a&gt;" in page
    assert "<p>&lt;note&gt;</p>" in page
    assert grid.markdown()[2] == r"| x\|y & z | 1 < 2 |"
    assert grid.markdown()[3] == "| head |  |"
    latex = latex_page(grid, ["100%"])
    assert r"x|y \& z & 1 $<$ 2 \\" in latex
    assert r"100\%" in latex
