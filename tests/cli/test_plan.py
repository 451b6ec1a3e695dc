"""`dpinfer plan`: a forecast from a spec, with and without a table."""

import json

import numpy as np
import pytest

import dpinfer as dp
from helpers.terminal import fails, files_in, run_here, succeeds, table

PUBLIC = '[data]\nschema = "schema.toml"\nformula = "y ~ a + b"\n'
TABLE = PUBLIC + 'path = "table.csv"\n'
PRIVACY = "[privacy]\nrho = 0.5\n"


@pytest.fixture
def folder(tmp_path):
    return files_in(tmp_path)


def plan(folder, text, *options):
    (folder / "spec.toml").write_text(text, encoding="utf-8")
    return run_here("plan", "spec.toml", "--replicates", "3", *options, cwd=folder)


def expected(folder, records, **options):
    model = dp.LogisticRegression(
        "y ~ a + b", schema=dp.Schema.read(folder / "schema.toml"), budget=dp.ZCDP(0.5)
    )
    return dp.simulate.forecast(model, records=records, **{"replicates": 3} | options)


def test_the_forecast_of_the_library(folder):
    shown = succeeds(plan(folder, PUBLIC + PRIVACY, "--records", "3000"))
    assert shown.strip() == expected(folder, 3000).summary()
    shown = succeeds(plan(folder, PUBLIC + PRIVACY, "--records", "3000", "--json"))
    assert shown.strip() == expected(folder, 3000).to_json()
    assert succeeds(plan(folder, PUBLIC + PRIVACY, "--records", "3000", "--quiet")) == ""


def test_guarantee_plans_read_no_value(folder):
    """Tables with the same shape and other values give the same lines; those of another length do
    not.
    """
    first = succeeds(plan(folder, TABLE + PRIVACY))
    assert f"{len(table())} records" in first
    table().iloc[::-1].assign(a="x", y="0").to_csv(folder / "table.csv", index=False)
    assert succeeds(plan(folder, TABLE + PRIVACY)) == first
    table().iloc[:-9].to_csv(folder / "table.csv", index=False)
    assert succeeds(plan(folder, TABLE + PRIVACY)) != first


def test_what_is_typical_counts(folder):
    plain = succeeds(plan(folder, PUBLIC + PRIVACY, "--records", "3000"))
    schema = dp.Schema.read(folder / "schema.toml").guess({"a": {"mean": 2, "sd": 0.5}})
    schema.write(folder / "schema.toml")
    told = succeeds(plan(folder, PUBLIC + PRIVACY, "--records", "3000"))
    assert told != plain
    assert told.strip() == expected(folder, 3000).summary()


def test_several_budgets(folder):
    asked = ("--records", "3000", "--json", "--budgets", "0.1, 2")
    found = dp.simulate.Forecast.from_json(succeeds(plan(folder, PUBLIC + PRIVACY, *asked)))
    assert found.budgets == (dp.ZCDP(0.1), dp.ZCDP(2.0))
    found = dp.simulate.Forecast.from_json(succeeds(plan(folder, PUBLIC, *asked)))
    assert found.budgets == (dp.ApproxDP(0.1, 1e-6), dp.ApproxDP(2.0, 1e-6))
    pure = PUBLIC + "[privacy]\nepsilon = 1.0\n"
    found = dp.simulate.Forecast.from_json(succeeds(plan(folder, pure, *asked)))
    assert found.budgets == (dp.PureDP(0.1), dp.PureDP(2.0))


def test_the_least_budget(folder):
    asked = ("--records", "3000", "--half-width", "0.08", "--coefficient", "a")
    shown = succeeds(plan(folder, PUBLIC + PRIVACY, *asked))
    found = expected(folder, 3000, half_width=0.08, coefficient="a", budgets=[dp.ZCDP(0.5)])
    assert shown.startswith(
        f"On records as assumed, ±0.08 for a takes {found.budgets[0]}. Real intervals were 0.9 to 2.3 times as long.\n"
    )
    assert found.summary() in shown
    assert found.within[0, 1] <= 0.08


def test_a_public_table_that_is_alike(folder):
    table().to_csv(folder / "like.csv", index=False)
    shown = succeeds(plan(folder, PUBLIC + PRIVACY, "--like", "like.csv", "--json"))
    found = dp.simulate.Forecast.from_json(shown)
    assert found.records == len(table())
    assert np.array_equal(
        found.half_width, expected(folder, None, like=table()).half_width, equal_nan=True
    )
    assert "look-alike table" in found.assumed[0]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (PUBLIC + PRIVACY, (), ("how many records", "--records")),
        (PUBLIC, ("--records", "100"), ("[privacy]", "epsilon")),
        (PRIVACY, ("--records", "100"), ("[data] needs schema",)),
        (PUBLIC + PRIVACY, ("--records", "0"), ("records=",)),
        (PUBLIC + PRIVACY, ("--records", "100", "--budgets", "many"), ("--budgets",)),
        (PUBLIC + PRIVACY, ("--records", "100", "--budgets", ""), ("--budgets",)),
        (PUBLIC + PRIVACY, ("--records", "100", "--budgets", "-1"), ("rho must be a positive",)),
        (PUBLIC + PRIVACY, ("--records", "100", "--coefficient", "a"), ("half_width",)),
        (PUBLIC + PRIVACY + 'neighbours = "add-remove"\n', ("--like", "none.csv"), ("none.csv",)),
        (TABLE + PRIVACY + 'neighbours = "add-remove"\n', (), ("private", "--records")),
    ],
)
def test_one_line_with_a_remedy(folder, text, options, words):
    fails(plan(folder, text, *options), *words)


def test_a_dry_run_has_a_forecast(folder):
    (folder / "spec.toml").write_text(TABLE + PRIVACY, encoding="utf-8")
    shown = " ".join(succeeds(run_here("fit", "spec.toml", "--dry-run", cwd=folder)).split())
    found = expected(folder, len(table()), replicates=10)
    low, high = found.range()
    plain = found.median()[1]
    assert (
        f"95% intervals of ±{low:.2g} to {high:.2g} in the middle, about ±{plain:.2g} without"
        in shown
    )
    told = json.loads(succeeds(run_here("fit", "spec.toml", "--dry-run", "--json", cwd=folder)))
    assert [row["name"] for row in told["forecast"]] == list(found.names)
    assert [row["reported"] for row in told["forecast"]] == found.reported[0].tolist()
    asked = ("fit", "spec.toml", "--neighbours", "add-remove", "--dry-run", "--json")
    assert json.loads(succeeds(run_here(*asked, cwd=folder)))["forecast"] is None
    little = " ".join(
        succeeds(run_here("fit", "spec.toml", "--rho", "1e-6", "--dry-run", cwd=folder)).split()
    )
    assert "no coefficient is likely to be reported" in little
