"""Odd specs and odd bytes: never a fault of ours, never a traceback, never a value of the data."""

import json
import string

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.asking.spec import RULES
from helpers.searches import examples
from helpers.terminal import SCHEMA, SECRET, files_in, run_here

shared = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}
plain = st.text(string.printable, max_size=12)
values = st.one_of(
    st.sampled_from(["table.csv", "schema.toml", "ledger.db", "out", "y ~ a", "y ~ a:b", "logistic", "svm", "output"]),
    st.floats(), st.integers(-3, 10**30), st.booleans(), plain, st.lists(st.floats(0, 9), max_size=4),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1e6))
    return files_in(tmp_path, 40)


def harmless(done):
    """Done, or one line of a user's error."""
    assert done.returncode in (0, 2, 3), done.stderr
    assert str(SECRET) not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1


def toml(sections):
    """TOML text; JSON writes all these values as TOML does, but for numbers that are none."""
    lines = []
    for section, entries in sections.items():
        lines += [
            f"[{section}]",
            *(f"{key} = {json.dumps(value)}" for key, value in entries.items()),
        ]
    return "\n".join(lines).replace("NaN", "nan").replace("Infinity", "inf")


GOOD = {
    "data": {"path": "table.csv", "schema": "schema.toml", "formula": "y ~ a + b"},
    "model": {"loss": "logistic"},
    "privacy": {"rho": 1.0, "ledger": "ledger.db"},
    "output": {"folder": "out"},
}
KEYS = [(section, key) for section, rules in RULES.items() for key in rules]


@examples(20, **shared)
@given(st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=3))
def test_odd_values_in_a_spec(folder, odd):
    sections = {section: dict(entries) for section, entries in GOOD.items()}
    for (section, key), value in odd.items():
        if key not in ("folder", "ledger") or not isinstance(
            value, str
        ):  # a text there names a place to write to
            sections.setdefault(section, {})[key] = value
    (folder / "fit.toml").write_text(toml(sections), encoding="utf-8")
    harmless(run_here("fit", "fit.toml", "--dry-run", cwd=folder))


@examples(20, **shared)
@given(st.binary(max_size=60) | plain.map(str.encode))
def test_odd_bytes_in_a_spec_and_a_schema(folder, odd):
    for name in ("fit.toml", "schema.toml"):
        (folder / "fit.toml").write_text(toml(GOOD), encoding="utf-8")
        (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
        text = (folder / name).read_bytes()
        (folder / name).write_bytes(text[: len(text) // 2] + odd + text[len(text) // 2 :])
        harmless(run_here("fit", "fit.toml", "--dry-run", cwd=folder))


cells = st.sampled_from(
    ["0", "NA", "p", "q", str(SECRET), "", "1e999", '"', "nan", "\x00", "é", "a\nb", "5", "-"]
)


@examples(6, **shared)
@given(
    st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=5),
    st.binary(max_size=4) | st.just(b""),
    st.integers(0, 60),
)
def test_odd_bytes_in_a_table(folder, rows, odd, at):
    (folder / "fit.toml").write_text(toml(GOOD), encoding="utf-8")
    text = "\n".join(["y,a,b", *(",".join(row) for row in rows)]).encode()
    (folder / "table.csv").write_bytes(text[:at] + odd + text[at:])
    before = len(dp.Ledger.open(folder / "ledger.db").entries())
    told = run_here("fit", "fit.toml", "--dry-run", cwd=folder)
    done = run_here("fit", "fit.toml", "--force", "--spend-anyway", "-q", cwd=folder)
    harmless(told)
    harmless(done)
    assert told.returncode == done.returncode
    booked = len(dp.Ledger.open(folder / "ledger.db").entries()) - before
    assert booked == (done.returncode == 0)
