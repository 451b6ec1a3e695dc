"""Each guarantee in a docstring has a test of its name and a row in docs/promises.md, and nothing
else has.
"""

import re
from pathlib import Path

import dpinfer

ROOT = Path(__file__).parent.parent
SOURCE = "\n".join(
    p.read_text(encoding="utf-8") for p in Path(dpinfer.__file__).parents[1].rglob("*.py")
)
TESTS = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("test_*.py"))
PROMISES = (ROOT / "docs/promises.md").read_text(encoding="utf-8")


def test_guarantees_have_tests_and_rows():
    stated = re.findall(r"Guarantee \[(\w+)\]", SOURCE)
    tested = re.findall(r"def test_guarantee_(\w+)", TESTS)
    listed = re.findall(r"^\| `(\w+)`", PROMISES, re.MULTILINE)
    assert len(stated) > 15
    assert sorted(stated) == sorted(tested) == sorted(listed)
    assert SOURCE.count("Guarantee") == len(stated)


def test_rows_name_real_places():
    for place in re.findall(r"`((?:src|tests)/[\w/.]+)`", PROMISES):
        assert (ROOT / place).exists(), place
