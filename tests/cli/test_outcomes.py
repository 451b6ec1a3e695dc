"""Numbers and their transforms on the left of a formula, from the command line."""

import json

import pytest

import dpinfer as dp
from helpers.terminal import fails, files_in, run_here, succeeds, table


@pytest.fixture
def folder(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0))
    return files_in(tmp_path)


def entries(folder):
    return dp.Ledger.open(folder / "ledger.db").entries()


def given(formula, loss, kind="csv"):
    data = ["fit", f"table.{kind}", "--schema", "schema.toml", "--formula", formula, "--loss", loss]
    return [*data, "--rho", "0.5", "--ledger", "ledger.db", "--out", "out"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("formula", ["log(1 + a) ~ b", "a ~ b"])
def test_a_number_is_explained_as_it_is_or_transformed(folder, kind, formula):
    purpose = f"HuberRegression: {formula}"
    assert purpose in succeeds(run_here(*given(formula, "huber", kind), "--dry-run", cwd=folder))
    assert not entries(folder)
    succeeds(run_here(*given(formula, "huber", kind), cwd=folder))
    assert [entry.purpose for entry in entries(folder)] == [purpose]
    result = dp.FitResult.from_json((folder / "out/result.json").read_text(encoding="utf-8"))
    model = dp.HuberRegression(
        formula, schema=dp.Schema.read(folder / "schema.toml"), budget=dp.ZCDP(0.5)
    )
    assert result.model == model.fit(table()).result_.model
    assert result.names == ("(Intercept)", "b[q]", "b[None]")


@pytest.mark.parametrize(
    ("formula", "loss", "words"),
    [
        ("log(a) ~ b", "huber", ("raise low", "log1p")),
        (
            "b ~ a",
            "quantile",
            ("'b'", "it is a factor: compare it", "low and high for a regression"),
        ),
        ("log1p(a) ~ I(a**2)", "huber", ("'a' stands on both sides",)),
        ("log1p(a) ~ b", "svm", ("'log1p(a)' is a number", "a classifier needs two levels")),
    ],
)
def test_a_left_side_that_does_not_fit_books_nothing(folder, formula, loss, words):
    for more in ([], ["--dry-run"]):
        fails(run_here(*given(formula, loss), *more, cwd=folder), *words)
    assert not entries(folder)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_study_of_a_transformed_outcome(folder, kind):
    (folder / "spec.toml").write_text(
        f'[data]\npath = "table.{kind}"\nschema = "schema.toml"\nformula = "log(1 + a) ~ b"\n[model]\nloss = "huber"\n'
        "[privacy]\nepsilon = 5.0\n[study]\nreplicates = 40\n",
        encoding="utf-8",
    )
    done = run_here("coverage", folder / "spec.toml", "--json")
    assert done.returncode == 0, done.stderr
    schema = dp.Schema.read(folder / "schema.toml")
    model = dp.HuberRegression("log(1 + a) ~ b", schema=schema, budget=dp.PureDP(5.0))
    theirs = dp.simulate.coverage(model, table(), replicates=40)
    assert json.loads(done.stdout) == json.loads(theirs.to_json())
