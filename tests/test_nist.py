"""docs/nist-800-226.md: each row names code or tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/nist-800-226.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| question"))
]
SECTIONS = [
    "Privacy parameters", "Unit of privacy", "Mechanisms and composition", "Utility", "Bias", "Query model",
    "Threat model and trust", "Side channels", "Security and access", "Data collection",
]  # fmt: skip


def test_the_sections_are_those_of_the_pyramid_in_its_order():
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == SECTIONS
    assert "not checked against the text" in PAGE
    assert len(ROWS) > 40


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_row_names_code_or_a_test_that_is_there(row):
    assert len(row) == 3
    _, answer, where = row
    paths = re.findall(r"`((?:src|tests)/[\w/]+(?:\.py)?)`", where)
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path
    if "**Not covered**" not in answer:
        assert any(path.startswith("tests/") for path in paths)
    # names stand before the file that defines them
    for part in where.split(";"):
        names, _, path = part.partition("`src/")
        if path:
            place = ROOT / "src" / path.rstrip("`").strip().split("`")[0]
            files = [place] if place.is_file() else sorted(place.rglob("*.py"))
            source = "\n".join(file.read_text(encoding="utf-8") for file in files)
            for name in re.findall(r"`([\w.]+)`", names):
                defined = rf"(?:def|class) {name.split('.')[-1]}\b|^{name}\b.*="
                assert re.search(defined, source, re.MULTILINE), (name, path)


def test_what_is_not_covered_is_said_where():
    missing = [row for row in ROWS if "**Not covered**" in row[1]]
    assert len(missing) >= 8
    assert all("](" in answer for _, answer, _ in missing)
