"""Derived columns from the command line, in a CSV file: checked, priced, fitted, reported."""

import json

import pytest

import dpinfer as dp
from helpers import derived
from helpers.terminal import fails, run_here, succeeds

FORMULA = "any_claim ~ senior + group + month(admitted) + region == 'north'"
OPTIONS = ("table.csv", "--schema", "schema.toml", "--rho", "0.5", "--ledger", "ledger.db")


SPEC = f"""
[data]
path = "table.csv"
schema = "schema.toml"
formula = '''{FORMULA}'''
[privacy]
rho = 0.5
ledger = "ledger.db"
[output]
folder = "release"
"""


@pytest.fixture
def folder(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0), unit="one person")
    derived.table(4000).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.toml").write_text(derived.TEXT, encoding="utf-8")
    return tmp_path


def test_a_check_knows_derived_columns(folder):
    given = ("schema", "check", "schema.toml", "--data", "table.csv")
    shown = succeeds(run_here(*given, cwd=folder))
    for words in ("derived: age >= 65", "2019-03-05 to 2022-12-31", "date"):
        assert words in shown
    told = json.loads(succeeds(run_here(*given, "--formula", FORMULA, "--json", cwd=folder)))
    assert list(told["derived"]) == ["senior", "group", "any_claim"]
    assert "region == north" in told["coefficients"]
    assert not any(column["fault"] for column in told["columns"])
    peeked = json.loads(succeeds(run_here(*given, "--peek", "--json", cwd=folder)))
    assert peeked["peek"]["usable"] == 4000


def test_a_draft_of_a_formula_with_comparisons(folder):
    asked = ("schema", "init", "table.csv", "-o", "new.toml", "--peek", "--json")
    told = json.loads(
        succeeds(run_here(*asked, "--formula", "claims > 0 ~ cut(age, 30) + admitted", cwd=folder))
    )
    assert told["columns"] == ["claims", "age", "admitted"]
    assert 'type = "date"' in (folder / "new.toml").read_text(encoding="utf-8")


def test_a_fit(folder):
    asked = ("fit", *OPTIONS, "--formula", FORMULA, "--out", "release")
    assert "senior" in succeeds(run_here(*asked, "--dry-run", cwd=folder))
    succeeds(run_here(*asked, "--spend-anyway", cwd=folder))
    result = dp.FitResult.load(folder / "release" / "result.json")
    assert result.names[:3] == ("(Intercept)", "senior", "group[30 to under 50]")
    page = (folder / "release" / "report.html").read_text(encoding="utf-8")
    assert "<td>age &gt;= 65</td>" in page


def test_a_plan(folder):
    (folder / "fit.toml").write_text(SPEC, encoding="utf-8")
    assert "senior" in succeeds(run_here("plan", "fit.toml", "--records", "4000", cwd=folder))


def test_errors_have_a_remedy(folder):
    asked = ("fit", *OPTIONS, "--formula", "claims > 99 ~ age", "--dry-run")
    fails(run_here(*asked, cwd=folder), "claims goes from 0 to 40")


def test_columns_named_like_words_of_python(folder):
    """The same fit, whatever the columns are called: checked, priced, fitted, described, drawn."""
    names = {"age": "lambda", "region": "class", "admitted": "from", "claims": "import"}
    derived.table(4000).rename(columns=names).to_csv(folder / "table.csv", index=False)
    (folder / "schema.toml").write_text(
        'unit = "one person"\n[columns.lambda]\ntype = "integer"\nlow = 18\nhigh = 100\n'
        '[columns.class]\ntype = "category"\nlevels = ["north", "south", "east", "West Side"]\n'
        '[columns.from]\ntype = "date"\nlow = "2019-03-05"\nhigh = "2022-12-31"\n'
        '[columns.import]\ntype = "integer"\nlow = 0\nhigh = 40\n'
        '[columns.is]\nfrom = "clip(`lambda`, 20, 60)"\n',
        encoding="utf-8",
    )
    formula = "`import` > 0 ~ `class`:`is` + month(`from`) + `lambda` >= 65"
    given = ("schema", "check", "schema.toml", "--data", "table.csv", "--formula", formula)
    assert "lambda >= 65" in succeeds(run_here(*given, cwd=folder))
    asked = ("fit", *OPTIONS, "--formula", formula, "--out", "release", "--spend-anyway")
    succeeds(run_here(*asked, cwd=folder))
    result = dp.FitResult.load(folder / "release" / "result.json")
    assert result.wald("`lambda` >= 65 = 0").df == 1
    assert (folder / "release" / "forest.png").exists()
    about = ("--schema", "schema.toml", "--rho", "0.5", "--columns", "class,`lambda`")
    described = ("describe", "table.csv", *about, "--by", "`import` > 0", "--out", "d", "--json")
    told = json.loads(succeeds(run_here(*described, cwd=folder)))
    assert told["booked"] is False
