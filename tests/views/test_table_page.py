"""The page of a description: what it says, what it draws, and the files beside it."""

import csv
import dataclasses
import io
import re

import pytest

import dpinfer as dp
from dpinfer.result import table_one
from dpinfer.result.description import Description, Figure
from dpinfer.schema.columns import Category
from helpers.described import AGE, COLUMNS, grouped, plain, privacy
from helpers.pages import Tree

FOUR = grouped(("a", "b", "c", "d"))
ALL = {"plain": plain(), "two groups": grouped(), "four groups": FOUR}


def tree(described, **options):
    return Tree(dp.report.html(described, **options)).root


@pytest.fixture(params=ALL, scope="module")
def page(request):
    return tree(ALL[request.param])


def test_the_page_stands_alone(page):
    assert not page.all("script", "link", "iframe", "object", "embed", "img")
    for node in page.all():
        assert not {"src", "href", "xlink:href", "style"} & set(node.attributes)
        assert not [name for name in node.attributes if name.startswith("on")]
    (style,) = page.all("style")
    for word in ("http:", "https:", "url(", "@import"):
        assert word not in style.words()
    assert "http" not in page.words()
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in page.all():
        assert set(node.attributes.get("aria-labelledby", "").split()) <= set(ids)
    for landmark in ("header", "main", "footer", "h1"):
        assert len(page.all(landmark)) == 1


def test_the_tables_can_be_read_aloud(page):
    compact, full, declared = page.all("table")
    for table in (compact, full, declared):
        columns = table.all("thead")[0].all("th")
        assert {node.attributes["scope"] for node in columns} == {"col"}
        assert all(node.words() for node in columns)
        for row in table.all("tbody")[0].all("tr"):
            first, *others = row.all("th", "td")
            assert first.attributes["scope"] in ("row", "rowgroup")
            assert {node.tag for node in others} <= {"td"}
            spanned = int(first.attributes.get("colspan", 1))
            assert spanned + len(others) == len(columns)
    for body in compact.all("tbody"):
        first, *others = body.all("tr")
        assert first.all("th")[0].attributes["scope"] == ("rowgroup" if others else "row")
    for drawing in page.all("svg"):  # every number of a picture stands beside it
        assert drawing.attributes["aria-hidden"] == "true"


@pytest.mark.parametrize("described", ALL.values(), ids=ALL)
def test_every_cell_is_there(described):
    compact, full, _ = tree(described).all("table")
    for table, rows in (
        (compact, table_one.grid(described).rows),
        (full, table_one.grid(described, full=True).rows),
    ):
        shown = [row for body in table.all("tbody") for row in body.all("tr")]
        for row, expected in zip(shown, rows, strict=True):
            assert row.all("th")[0].words().startswith(expected.name)
            assert [cell.words() for cell in row.all("td")] == list(map(str, expected.cells))


def test_labels_meanings_and_units_are_on_the_page_and_in_the_files():
    age = dataclasses.replace(AGE, label="Age at entry", description="in completed years")
    described = plain(columns=(age, *COLUMNS[1:]))
    *_, declared = tree(described).all("table")
    (row,) = [row for row in declared.all("tr") if row.all("th")[0].words() == "age"]
    assert [cell.words() for cell in row.all("td")] == [
        "Age at entry: in completed years",
        "from 18 to 95 years",
    ]
    assert "| age | Age at entry: in completed years | from 18 to 95 years |" in dp.report.markdown(
        described
    )
    assert [head.words() for head in tree(plain()).all("table")[-1].all("thead")[0].all("th")] == [
        "Name",
        "Bounds or levels",
    ]
    first, *_ = csv.DictReader(io.StringIO(dp.report.csv(described)))
    assert first["label"] == "Age at entry (years)"
    grouped_by = grouped(by_label="Sex at birth")
    assert "Sex at birth = women" in tree(grouped_by).words()


def spans(drawing):
    """From where to where the interval of a picture goes."""
    path = next(node for node in drawing.all("path") if node.attributes["class"] == "whole")
    return tuple(map(float, re.match(r"M(\S+) 6H([\d.]+)", path.attributes["d"]).groups()))


def pictures(described, label):
    (row,) = [
        row
        for row in tree(described).all("tr")
        if row.all("th") and row.all("th")[0].words() == label and row.all("td")
    ][:1]
    return row.all("td")[0].all("svg")


def test_bars_are_to_scale():
    (drawing,) = pictures(plain(), "good")
    track, bar = drawing.all("rect")
    assert float(track.attributes["width"]) == 100
    assert float(bar.attributes["width"]) == pytest.approx(69.36)
    assert spans(drawing) == pytest.approx((68.69, 70.03))
    (rare,) = pictures(plain(), "poor")
    assert float(rare.all("rect")[1].attributes["width"]) == 0  # nobody may be there
    assert spans(rare) == pytest.approx((0, 0.17))


def test_boxes_are_on_the_declared_range():
    (drawing,) = pictures(plain(), "median")
    (box,) = drawing.all("rect")
    left = float(box.attributes["x"])
    right = left + float(box.attributes["width"])
    assert (left, right) == pytest.approx((100 * 14 / 77, 100 * 42 / 77), abs=0.02)
    assert spans(drawing) == pytest.approx((100 * 26 / 77, 100 * 28 / 77), abs=0.02)
    quartile_not_reported = plain(
        figures=tuple(one for one in plain().figures if one.column == "income")
    )
    assert pictures(quartile_not_reported, "median") == []


def test_user_names_are_escaped():
    odd = Category("<script>x</script>", ("<img src=x onerror=a()>", "b"), "b")
    figures = tuple(Figure(odd.name, level, "share", 0.5, 0.4, 0.6) for level in odd.levels)
    text = dp.report.html(plain(figures=figures, columns=(odd,)), title="</title><script>")
    assert "<script" not in text
    assert "<img" not in text
    assert odd.levels[0] in Tree(text).root.words()


def test_what_is_not_private_says_so_loudly():
    described = plain(privacy=privacy(private=False))
    page = tree(described, title="T")
    assert page.all("title")[0].words() == "NOT PRIVATE: T"
    assert "NOT PRIVATE" in page.all("footer")[0].words()
    assert "NOT PRIVATE" in dp.report.markdown(described)
    assert "NOT PRIVATE" not in tree(plain()).words()


def test_statements():
    shown = tree(grouped()).words()
    said = dp.report.markdown(grouped())
    for words in (*grouped().meanings(), *grouped().caveats(), "0123456789abcdef", "How to cite"):
        assert words in shown
        assert words.replace("_", r"\_") in said
    assert "right in at most" in shown


def test_csv_has_every_figure_with_all_digits():
    rows = list(csv.DictReader(io.StringIO(dp.report.csv(grouped()))))
    assert len(rows) == len(grouped().figures)
    for row, one in zip(rows, grouped().figures, strict=True):
        assert (row["column"], row["figure"], row["group"]) == (one.column, one.figure, one.group)
        assert repr(float(row["estimate"])) == repr(one.estimate)
        assert row["unit"] == "one person"
    odd = Category("=1+1", ("@a", "b"), "b")
    figures = (Figure(odd.name, "@a", "share", 0.5, 0.4, 0.6),)
    (row,) = csv.DictReader(io.StringIO(dp.report.csv(plain(figures=figures, columns=(odd,)))))
    assert (row["column"], row["level"]) == ("'=1+1", "'@a")


def test_files(tmp_path):
    paths = dp.report.write(grouped(), tmp_path / "new", title="Who took part?")
    assert [path.name for path in paths] == [
        "description.json",
        "table1.csv",
        "table1.html",
        "table1.md",
        "table1.tex",
    ]
    assert Description.load(paths[0]).to_json() == grouped().to_json()
    assert "Who took part?" in paths[2].read_text(encoding="utf-8")
    with pytest.raises(dp.InputError, match="name a folder you may write to"):
        dp.report.write(plain(), paths[0])


def test_the_level_is_the_one_that_was_released():
    page = dp.report.html(plain(), level=0.95)
    assert page == dp.report.html(plain())
    with pytest.raises(dp.InputError, match="leave level out"):
        dp.report.html(plain(), level=0.9)
    ninety = dataclasses.replace(plain(), confidence=0.9)
    assert "90% interval" in dp.report.html(ninety)


def test_columns_without_figures_are_a_page_too():
    assert all(column.name in tree(plain(figures=())).words() for column in COLUMNS)
    assert dp.report.csv(plain(figures=()))
