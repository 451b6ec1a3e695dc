"""Whatever is wrong with a fit, it is one line with a remedy, and the ledger stays as it was."""

import os

import pytest

import dpinfer as dp
from helpers.terminal import SECRET, fails, files_in, run, run_here, table

DATA = '[data]\npath = "table.csv"\nschema = "schema.toml"\nformula = "y ~ a + b"\n'
PRIVACY = '[privacy]\nrho = 0.5\nledger = "ledger.db"\n'
OUTPUT = '[output]\nfolder = "release"\n'
GOOD = DATA + PRIVACY + OUTPUT


def other(**replaced):
    text = GOOD
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    return text


BAD_SPECS = {
    "syntax": (GOOD + "level = = 1\n", "not valid TOML", "line 10"),
    "empty": ("", "[data]", "for example"),
    "a schema": ('[columns.a]\ntype = "number"\n', "no section 'columns'", "it has 'data'"),
    "section": (GOOD + "[outputs]\n", "did you mean 'output'?"),
    "key": (GOOD + 'fodler = "x"\n', "[output]", "did you mean 'folder'?"),
    "no schema": (other(schema="#"), "[data] path", 'schema = "schema.toml"'),
    "no formula": (other(formula="#"), "[data] path", 'formula = "y ~ a + b"'),
    "no file": (other(**{"table.csv": "none.csv"}), "[data] path", "'none.csv'", "relative"),
    "no schema file": (
        other(**{"schema.toml": "none.toml"}),
        "[data] schema",
        "dpinfer schema init",
    ),
    "a draft": (
        other(**{"schema.toml": "draft.toml"}),
        "draft.toml, line 2",
        "low is not filled in",
    ),
    "unknown level": (
        other(**{"schema.toml": "levels.toml"}),
        "levels.toml, line 7",
        "it has 'p', 'q'",
    ),
    "one level": (
        other(**{"schema.toml": "one.toml"}),
        "one.toml, line 3",
        "two or more different levels",
    ),
    "suffix": (other(**{"table.csv": "table.txt"}), ".csv or .parquet"),
    "not Parquet": (other(**{"table.csv": "fake.parquet"}), "'fake.parquet'", "write it again"),
    "no header": (other(**{"table.csv": "bare.csv"}), "'bare.csv'", "header"),
    "no rows": (other(**{"table.csv": "header.csv"}), "at least one record"),
    "a missing column": (other(**{"table.csv": "narrow.csv"}), "no column 'b'", "it has"),
    "a column twice": (other(**{"table.csv": "twice.csv"}), "more than one column 'a'", "rename"),
    "wrong type": (
        other(**{"table.csv": "text.parquet"}),
        "column 'a'",
        "change its type in the schema",
    ),
    "wrong levels": (
        other(**{"table.csv": "numbers.parquet"}),
        "column 'b'",
        "write the levels as they are",
    ),
    "formula typo": (other(**{"y ~ a + b": "y ~ a + c"}), "no column 'c'", "it has"),
    "formula syntax": (other(**{"y ~ a + b": "y ~ a +"}), "the formula cannot be read"),
    "no outcome": (other(**{"y ~ a + b": "a + b"}), "write 'outcome ~ terms'"),
    "not an outcome": (other(**{"y ~ a + b": "b ~ a"}), 'give it type = "outcome"'),
    "a number": (other(**{"y ~ a + b": "a ~ b"}), "'a' is a number", 'type = "outcome" and levels'),
    "learned": (other(**{"y ~ a + b": "y ~ center(a)"}), "use a public transform"),
    "numeric outcome": (
        GOOD + '[model]\nloss = "huber"\n',
        "'y'",
        "needs low and high in the schema",
    ),
    "loss": (GOOD + '[model]\nloss = "logistics"\n', "[model] loss", '"quantile"'),
    "another name": (
        GOOD + '[model]\nloss = "ols"\n',
        "[model] loss",
        'use loss = "linear"',
        "docs/models.md",
    ),
    "not here": (
        GOOD + '[model]\nloss = "Probit"\n',
        "[model] loss",
        "not here",
        'loss = "logistic"',
    ),
    "model a text": ('model = "linear"\n' + GOOD, "model is a section"),
    "model a number": ("model = 1\n" + GOOD, "model is a section"),
    "tail of another": (
        GOOD + '[model]\ntail = "all"\n',
        "[model] tail belongs to the loss linear, not to logistic",
    ),
    "tail": (GOOD + '[model]\nloss = "linear"\ntail = "long"\n', "[model] tail", '"cautious"'),
    "target of linear": (
        GOOD + '[model]\ntarget = "robust"\n',
        '"robust" belongs to the loss linear, not to logistic',
    ),
    "no such target": (
        GOOD + '[model]\ntarget = "unweighted"\n',
        "[model] target",
        '"ordinary" or "robust"',
    ),
    "two adjacencies": (
        other(**{"rho = 0.5": 'rho = 1\nadjacency = "replace"\nneighbours = "add-remove"\n'}),
        "[privacy] adjacency and [privacy] neighbours are two names",
    ),
    "pure target": (
        other(**{"rho = 0.5": "epsilon = 1"}) + '[model]\ntarget = "ordinary"\n',
        "delta beside it",
    ),
    "target of the others": (
        GOOD + '[model]\nloss = "linear"\ntarget = "penalised"\n',
        "logistic or svm or huber or",
    ),
    "penalty of linear": (
        GOOD + '[model]\nloss = "linear"\npenalty = 1\n',
        "[model] penalty belongs to",
        "not to linear",
    ),
    "shares of linear": (
        other(**{"rho = 0.5": "rho = 1\nshares = [2, 1, 1]\n"}) + '[model]\nloss = "linear"\n',
        "[privacy] shares is for losses with a penalty",
    ),
    "pure linear": (
        other(**{"rho = 0.5": "epsilon = 1"}) + '[model]\nloss = "linear"\n',
        "epsilon with delta",
    ),
    "knee of another": (GOOD + "[model]\nknee = 1\n", "[model] knee", "svm or huber"),
    "quantile of another": (
        GOOD + "[model]\nquantile = 0.5\n",
        "[model] quantile",
        "the loss quantile",
    ),
    "quantile": (
        GOOD + '[model]\nloss = "quantile"\nquantile = 50\n',
        "[model] quantile",
        "between 0 and 1",
    ),
    "penalty": (GOOD + '[model]\npenalty = "small"\n', "[model] penalty", "0 or a number above"),
    "tiny penalty": (GOOD + "[model]\npenalty = 1e-15\n", "penalty of at least"),
    "target type": (GOOD + "[model]\ntarget = 1\n", "[model] target", '"ordinary" or "robust"'),
    "svm target": (
        GOOD + '[model]\nloss = "svm"\ntarget = "ordinary"\n',
        "hazard regression only",
        "penalised",
    ),
    "no budget": (other(**{"rho = 0.5": ""}), "[privacy]", "epsilon = 1.0"),
    "two budgets": (
        other(**{"rho = 0.5": "rho = 1\nepsilon = 1"}),
        "exactly one of epsilon, rho, none",
    ),
    "noise off": (other(**{"rho = 0.5": "none = true"}), "for studies", "epsilon or rho"),
    "delta": (other(**{"rho = 0.5": "rho = 1\ndelta = 0.1"}), "[privacy] delta", "drop delta"),
    "rho": (other(**{"rho = 0.5": "rho = inf"}), "[privacy] rho", "above 0"),
    "no ledger": (other(**{"ledger.db": "none.db"}), "none.db", "dpinfer budget init"),
    "no output": (DATA + PRIVACY, "--out DIR"),
    "output a file": (other(release="table.csv"), "'table.csv", "name another"),
    "output below a file": (other(release="table.csv/x"), "name another"),
    "output a device": (other(release="/proc/nothing"), "'/proc/nothing'", "name another"),
    "level": (GOOD + "level = 95\n", "[output] level", "between 0 and 1"),
    "level below a half": (GOOD + "level = 0.05\n", "[output] level", "at least 0.5"),
}
REFUSED = {
    "overspent": (
        other(**{"rho = 0.5": "rho = 5"}),
        "up to ρ = 1 of the total",
        "lower its budget",
    ),
    "another unit": (
        other(**{"schema.toml": "person.toml"}),
        "unit is 'one record'",
        "use a ledger made with unit=",
    ),
    "a damaged ledger": (other(**{"ledger.db": "damaged.db"}), "not a ledger", "last good copy"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = files_in(tmp_path_factory.mktemp("bad"))
    text, head = (
        (here / "schema.toml").read_text(encoding="utf-8"),
        f"y,a,b\n0,1,p\n{SECRET},{SECRET},{SECRET}\n",
    )
    written = {
        "draft.toml": '[columns.a]\nlow = "?"\ntype = "number"\nhigh = 1\n',
        "levels.toml": '[columns.y]\ntype = "outcome"\nlevels = ["0", "NA"]\n[columns.b]\ntype = "category"\n'
        'levels = ["p", "q"]\nreference = "Q"\n',
        "one.toml": '[columns.y]\ntype = "outcome"\nlevels = ["0"]\n',
        "person.toml": 'unit = "one person"\n' + text,
        "table.txt": head,
        "fake.parquet": head,
        "bare.csv": head.partition("\n")[2],
        "header.csv": "y,a,b\n",
        "narrow.csv": f"y,a\n0,{SECRET}\n",
        "twice.csv": f"y,a,a,b\n0,1,{SECRET},p\n",
        "damaged.db": "no ledger",
    }
    for name, content in written.items():
        (here / name).write_text(content, encoding="utf-8")
    table().assign(a=str(SECRET)).to_parquet(here / "text.parquet")
    table().assign(b=SECRET).to_parquet(here / "numbers.parquet")
    dp.Ledger.create(here / "ledger.db", dp.ZCDP(1.0))
    return here


def failing(folder, program, text, *words, code):
    (folder / "fit.toml").write_text(text, encoding="utf-8")
    fails(program("fit", "fit.toml", cwd=folder), *words, code=code)
    assert not dp.Ledger.open(folder / "ledger.db").entries()
    assert not (folder / "release" / "result.json").exists()


@pytest.mark.parametrize("case", BAD_SPECS)
def test_bad_specs(folder, case):
    text, *words = BAD_SPECS[case]
    failing(folder, run_here, text, *words, code=2)
    if "output" not in case:
        fails(run_here("fit", "fit.toml", "--dry-run", cwd=folder), *words)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_the_ledger(folder, case):
    text, *words = REFUSED[case]
    failing(folder, run_here, text, *words, code=3)


def test_bad_specs_of_the_executable(folder):
    text, *words = REFUSED["overspent"]
    failing(folder, run, text, *words, code=3)


TABLE = ["fit", "table.csv", "--schema", "schema.toml", "--formula", "y ~ a + b"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit"], ["SOURCE", "dpinfer fit --help"]),
        (["fit", "none.toml"], ["'none.toml'", "check the path"]),
        (
            ["fit", "none.csv", *TABLE[2:], "--rho", "1", "--out", "o"],
            ["DATA", "'none.csv'", "check the path"],
        ),
        (["fit", "table.csv", "--rho", "1"], ["--schema"]),
        (
            ["fit", "table.csv", "--schema", "none.toml", "--formula", "y ~ a"],
            ["--schema", "dpinfer schema init"],
        ),
        (TABLE, ["--epsilon, --rho", "--delta 1e-6"]),
        ([*TABLE, "--rho", "1"], ["--out DIR"]),
        ([*TABLE, "--rho", "1", "--epsilon", "1"], ["exactly one"]),
        ([*TABLE, "--rho", "0"], ["--rho must be a number above 0"]),
        ([*TABLE, "--rho", "much"], ["--rho", "number"]),
        ([*TABLE, "--rho", "1", "--loss", "logistics"], ["--loss must be", "svm"]),
        ([*TABLE, "--rho", "1", "--loss", "ols"], ["--loss has no 'ols'", "use --loss linear"]),
        ([*TABLE, "--rho", "1", "--model", "Cox"], ["not here", "risk sets", "--loss hazard"]),
        ([*TABLE, "--rho", "1", "--tail", "all"], ["--tail belongs to the loss linear"]),
        ([*TABLE, "--epsilon", "1", "--loss", "linear"], ["epsilon with delta"]),
        ([*TABLE, "--rho", "1", "--knee", "1"], ["--knee belongs to the loss svm or huber"]),
        ([*TABLE, "--rho", "1", "--loss", "svm", "--target", "x"], ["--target", "unpenalised"]),
        ([*TABLE, "--rho", "1", "--level", "95"], ["--level must be"]),
        ([*TABLE, "--rho", "1", "--ledger", "none.db"], ["dpinfer budget init none.db"]),
        ([*TABLE, "--rho", "1", "--out", "o", "--wrong"], ["--wrong", "--help"]),
        (["report", "none.json"], ["'none.json'", "check the path"]),
        (["report", "table.csv"], ["'table.csv'", "dpinfer fit"]),
        (["report", "table.parquet"], ["'table.parquet'", "dpinfer fit"]),
        (["report", "table.csv", "--level", "2"], ["--level"]),
        (["schema", "init", "none.csv", "-o", "new.toml"], ["'none.csv'", "check the path"]),
        (["schema", "init", "table.txt", "-o", "new.toml"], [".csv or .parquet"]),
        (
            ["schema", "check", "none.toml"],
            ["'none.toml'", "dpinfer schema init TABLE -o none.toml"],
        ),
        (["schema", "check", "schema.toml", "--formula", "y ~ z"], ["no column 'z'", "it has"]),
        (["schema", "check", "schema.toml", "--data", "none.csv"], ["'none.csv'"]),
    ],
)
def test_bad_command_lines(folder, arguments, words):
    fails(run_here(*arguments, cwd=folder), *words)
    assert not (folder / "o").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights(folder, tmp_path):
    tmp_path.chmod(0o500)
    fails(run_here(*TABLE, "--rho", "1", "--out", tmp_path / "o", cwd=folder), "change its rights")
