"""Models side by side as pictures and documents: what is drawn where, and what the page says."""

import csv
import dataclasses
import io
import re
from html import unescape
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

import dpinfer as dp
from dpinfer.result.comparison import MAX_MODELS
from dpinfer.views.forest import (
    MODEL_STYLES,
    NO_DIFFERENCE,
    NO_INTERCEPTS,
    SCALES,
    model_notes,
    model_rows,
)
from dpinfer.views.forest_page import (
    MODELS_NARROW,
    MODELS_WIDE,
    RESULT_NARROW,
    RESULT_WIDE,
    model_picture,
)
from helpers.partial_results import partly_reported

LOGIT = partly_reported()
SHORT = partly_reported(income=False)
SQUARES = partly_reported(squares=True)
COMPARISON = dp.compare({"all columns": LOGIT, "without income": SHORT})


def test_rows_are_the_slopes_with_one_place_per_model():
    rows = model_rows(COMPARISON)
    assert [row.name for row in rows] == list(LOGIT.names[1:])
    assert rows[-1].bars[1] is None
    for row in rows[:-1]:
        for bar, result in zip(row.bars, COMPARISON.results, strict=True):
            assert bar.reported == result.reported[result.names.index(row.name)]


def test_where_there_is_nothing_else_intercepts_are_drawn():
    alone = dataclasses.replace(
        LOGIT,
        names=LOGIT.names[:1],
        estimate=LOGIT.estimate[:1],
        error=LOGIT.error.mapped(np.eye(int(LOGIT.reported.sum()))[:1]),
        status=LOGIT.status[:1],
    )
    assert [row.name for row in model_rows(dp.compare([alone, alone]))] == ["(Intercept)"]


def test_marks_can_be_told_apart_and_seen():
    assert len(MODEL_STYLES) == MAX_MODELS
    assert len({(mark.shape, mark.filled) for mark in MODEL_STYLES}) == MAX_MODELS
    assert len({mark.path for mark in MODEL_STYLES}) == MAX_MODELS / 2
    for mark in MODEL_STYLES:
        parts = np.array([int(mark.colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        luminance = linear @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (luminance + 0.05) > 3  # what WCAG asks of graphics on white


@pytest.mark.parametrize("layout", [MODELS_WIDE, MODELS_NARROW])
def test_bars_stand_where_the_numbers_are(layout):
    """On each panel a place is a linear function of a number."""
    terms = {term.name: term for term in model_rows(COMPARISON)}
    drawing = model_picture(COMPARISON, layout)
    drawn = [row for panel in drawing.panels for row in panel.rows]
    assert sorted(row.name[0] for row in drawn) == sorted(terms)
    for panel in drawing.panels:
        numbers, places = [0.0], [panel.zero]
        for row in panel.rows:
            for bar, placed in zip(terms[row.name[0]].bars, row.bars, strict=True):
                assert bool(placed.ends) == (bar is not None and bar.reported)
                assert row.clear < placed.middle < row.top + row.height
                if placed.ends:
                    numbers += [bar.low, bar.estimate, bar.high]
                    places += [placed.ends[end] for end in ("low", "estimate", "high")]
        assert np.allclose(np.polyval(np.polyfit(numbers, places, 1), numbers), places, atol=0.02)
        assert min(places) >= layout.left
        assert max(places) <= layout.right
    for before, after in pairwise(drawn):
        assert after.top >= before.top + before.height
    assert drawing.height > drawn[-1].top + drawn[-1].height


@pytest.mark.parametrize("layout", [MODELS_WIDE, MODELS_NARROW, RESULT_WIDE, RESULT_NARROW])
def test_a_number_under_the_end_of_an_axis_is_on_the_sheet(layout):
    """One of seven letters with its minus sign: half of it stands beyond the end."""
    half = 7 * 12 * 0.6 / 2  # letters of 12 pixels
    assert half <= layout.left
    assert layout.right + half <= layout.width


def test_what_is_not_reported_names_its_model():
    words = [
        " ".join(placed.status)
        for panel in model_picture(COMPARISON, MODELS_WIDE).panels
        for row in panel.rows
        for placed in row.bars
        if placed.status
    ]
    assert words.count("all columns: not reported") == 4
    assert words.count("without income: not reported") == 3


def test_the_figure_has_the_numbers():
    figure = dp.plot.compare(COMPARISON)
    drawn = []
    for axes in figure.axes:
        for container in axes.containers:
            assert isinstance(container, ErrorbarContainer)
            drawn += list(container.lines[0].get_xdata())
    kept = [bar.estimate for term in model_rows(COMPARISON) for bar in term.reported]
    assert sorted(drawn) == pytest.approx(sorted(kept))
    (legend,) = figure.legends
    assert [words.get_text() for words in legend.get_texts()] == list(COMPARISON.names)
    note = figure.get_supxlabel()
    for words in (NO_INTERCEPTS, NO_DIFFERENCE, "ρ = 0.1; protects one person"):
        assert words in " ".join(note.split())
    assert "NOT PRIVATE" not in note


def test_the_figure_says_what_is_not_private():
    mixed = dp.compare({"a": LOGIT, "b$x$": partly_reported(private=False)})
    figure = dp.plot.compare(mixed)
    assert "b$x$: NOT PRIVATE" in figure.get_supxlabel()
    figure.savefig(io.BytesIO(), format="png")  # dollars are no mathematics


def test_different_kinds_are_said_under_the_picture():
    kinds = " ".join(model_notes(dp.compare([LOGIT, SQUARES]), 1))
    assert "answer different questions" in kinds
    assert "answer different questions" not in " ".join(model_notes(COMPARISON, 1))
    assert SCALES in model_notes(COMPARISON, 2)
    ratios = dp.compare([LOGIT, SHORT], ratios=True)
    assert "Ratios are drawn on a logarithmic scale." in model_notes(ratios, 1)


def test_the_page_has_the_table_the_picture_and_what_differs():
    page = dp.report.side_by_side(COMPARISON, title="Two <models>")
    assert "<h1>Two &lt;models&gt;</h1>" in page
    words = " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
    for row in COMPARISON.rows():
        for cell in row.cells:
            assert f"{cell.estimate} {cell.interval}".strip() in words
    for note in COMPARISON.notes():
        assert note in words
    assert page.count("<svg class=") == 2
    assert "NOT PRIVATE" not in page
    assert "http" not in page
    assert "<script" not in page


def test_the_page_of_what_is_not_private_has_its_banner():
    page = dp.report.side_by_side(dp.compare({"a": LOGIT, "b": partly_reported(private=False)}))
    assert 'role="alert"' in page
    assert "<li>b: NOT PRIVATE" in page  # the limit of one model
    assert "NOT PRIVATE, do not publish: b." in page


def test_ratios_on_the_page():
    page = dp.report.side_by_side(dp.compare([LOGIT, SHORT], ratios=True))
    assert "Odds ratios with 95% confidence intervals." in page
    assert "Ratios with 95% intervals, one bar per model; the line marks 1." in page
    assert "the line marks 0." in dp.report.side_by_side(COMPARISON)


def test_the_folder_has_every_form(tmp_path):
    paths = dp.report.write_side_by_side(COMPARISON, tmp_path / "new", title="Title")
    assert [path.name for path in paths] == [
        f"comparison.{kind}" for kind in ("html", "md", "tex", "csv", "png")
    ]
    page, markdown, latex, table, picture = (path.read_bytes() for path in paths)
    assert b"<h1>Title</h1>" in page
    assert markdown.decode() == COMPARISON.to_markdown() + "\n"
    assert latex.decode() == COMPARISON.to_latex() + "\n"
    assert picture.startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    frame = COMPARISON.to_frame()
    assert [row["term"] for row in rows] == list(frame["term"])
    assert np.array_equal([float(row["low"]) for row in rows], frame["low"])


def test_no_spreadsheet_runs_a_name(tmp_path):
    odd = dp.compare({"=1+1": LOGIT, "b": SHORT})
    table = dp.report.write_side_by_side(odd, tmp_path)[3].read_text(encoding="utf-8")
    assert "\n'=1+1," in table


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(dp.InputError, match="name a folder you may write to"):
        dp.report.write_side_by_side(COMPARISON, tmp_path / "file")
