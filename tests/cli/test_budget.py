"""`dpinfer budget`."""

import json
import re
import sqlite3

import pytest

import dpinfer as dp
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import LaplaceMinimum, NoisySum
from dpinfer.privacy.second_accountant import AccountantComparison
from dpinfer.result import text
from helpers.terminal import fails, files_in, run, run_here, succeeds

TOTALS = {
    ("--epsilon", "2"): dp.PureDP(2.0),
    ("--epsilon", "2", "--delta", "1e-6"): dp.ApproxDP(2.0, 1e-6),
    ("--rho", "0.5"): dp.ZCDP(0.5),
}


@pytest.fixture
def booked(tmp_path):
    """A ledger with one entry."""
    ledger = dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0), title="Claims")
    ledger.book(Entry("a [sum]", "one record", (NoisySum("sum", dp.ZCDP(0.25), 1.0),)))
    return ledger


@pytest.mark.parametrize("options", TOTALS)
def test_totals(tmp_path, options):
    succeeds(
        run_here(
            "budget",
            "init",
            tmp_path / "ledger.db",
            *options,
            "--unit",
            "one visit",
            "--title",
            "T",
        )
    )
    ledger = dp.Ledger.open(tmp_path / "ledger.db")
    assert (ledger.total, ledger.unit, ledger.title) == (TOTALS[options], "one visit", "T")


def test_unit_and_title_of_a_schema(tmp_path):
    files_in(tmp_path)
    text = 'unit = "one person"\ntitle = "Visits"\n' + (tmp_path / "schema.toml").read_text(
        encoding="utf-8"
    )
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    shown = succeeds(
        run_here("budget", "init", "l.db", "--rho", "1", "--schema", "schema.toml", cwd=tmp_path)
    )
    assert "one person" in shown
    assert (dp.Ledger.open(tmp_path / "l.db").unit, dp.Ledger.open(tmp_path / "l.db").title) == (
        "one person",
        "Visits",
    )


def test_the_executable(tmp_path):
    assert "A new ledger" in succeeds(
        run("budget", "init", "l.db", "--epsilon", "1", "--delta", "1e-6", cwd=tmp_path)
    )
    assert "Nothing was booked yet" in succeeds(run("budget", "show", "l.db", cwd=tmp_path))
    assert "0 entries" in succeeds(run("budget", "verify", "l.db", cwd=tmp_path))


def test_show(booked):
    shown = succeeds(run_here("budget", "show", booked.path))
    (entry,) = booked.entries()
    for words in (
        "Claims",
        "a [sum]",
        entry.release[:8],
        "ρ = 0.25",
        "25 %",
        "25 % of the total is used. The next question may cost up to ρ = 0.75.",
    ):
        assert words in shown
    told = json.loads(succeeds(run_here("budget", "show", booked.path, "--json")))
    assert (told["spent"], told["left"], told["releases"][0]["release"]) == (
        0.25,
        0.75,
        entry.release,
    )
    assert succeeds(run_here("budget", "show", booked.path, "-q")) == ""


def test_verify_looks_for_published_results(booked, tmp_path):
    found = booked.verify()
    told = json.loads(succeeds(run_here("budget", "verify", booked.path, "--json")))
    assert (told["entries"], told["head"]) == (1, found.head)
    files_in(tmp_path)
    given = [
        "fit",
        "table.csv",
        "--schema",
        "schema.toml",
        "--formula",
        "y ~ a",
        "--rho",
        "0.5",
        "-q",
    ]
    succeeds(run_here(*given, "--ledger", "ledger.db", "--out", "in", cwd=tmp_path))
    succeeds(run_here(*given, "--out", "out", cwd=tmp_path))
    assert re.search(
        r"in/result.json\s+\w{8}\s+matches",
        succeeds(run_here("budget", "verify", "ledger.db", "in/result.json", cwd=tmp_path)),
    )
    changed = json.loads((tmp_path / "in/result.json").read_text(encoding="utf-8"))
    changed["privacy"]["events"][0]["share"]["rho"] /= 2
    (tmp_path / "changed.json").write_text(json.dumps(changed), encoding="utf-8")
    given = ["budget", "verify", "ledger.db", "in/result.json", "out/result.json", "changed.json"]
    done = run_here(*given, cwd=tmp_path)
    assert done.returncode == 3
    assert re.search(
        r"in/result.json\s+\w{8}\s+matches\s+out/result.json\s+none\s+is not in this ledger",
        done.stdout,
    )
    assert "changed.json" in done.stdout
    assert "names other releases" in done.stdout
    assert done.stderr.startswith(
        "error: the result 'out/result.json' is not in this ledger (and 1 more)"
    )
    assert "find the right copy" in done.stderr
    told = json.loads(run_here(*given, "--json", cwd=tmp_path).stdout)
    assert told["ok"] is False
    assert [one["matches"] for one in told["results"]] == [True, False, False]


def test_a_changed_ledger_is_refused(booked):
    with sqlite3.connect(booked.path) as file:
        file.execute("DROP TRIGGER rows_keep")
        file.execute("UPDATE chain SET body = replace(body, '0.25', '0.01')")
    file.close()
    for command in ("show", "verify"):
        fails(run_here("budget", command, booked.path), "broken", "last good copy", code=3)


def test_a_ledger_is_never_replaced(booked):
    before = booked.path.read_bytes()
    fails(run_here("budget", "init", booked.path, "--rho", "9"), "never replaced", "budget show")
    assert booked.path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init", "l.db"], ["exactly one of --epsilon, --rho", "--delta 1e-6"]),
        (["init", "l.db", "--rho", "1", "--epsilon", "1"], ["exactly one"]),
        (["init", "l.db", "--rho", "1", "--delta", "0.1"], ["--delta goes with epsilon"]),
        (["init", "l.db", "--rho", "-1"], ["--rho must be a number above 0"]),
        (
            ["init", "l.db", "--epsilon", "1", "--delta", "2"],
            ["--delta must be", "between 0 and 1"],
        ),
        (["init", "l.db", "--epsilon", "nan"], ["--epsilon must be"]),
        (["init", "none/l.db", "--rho", "1"], ["'none'", "make it first"]),
        (["init", "l.db", "--rho", "1", "--schema", "none.toml"], ["none.toml"]),
        (["show", "l.db"], ["'l.db'", "dpinfer budget init l.db"]),
        (["verify", "l.db"], ["'l.db'", "dpinfer budget init l.db"]),
        (["show"], ["LEDGER", "dpinfer budget show --help"]),
        ([], ["dpinfer budget --help"]),
    ],
)
def test_bad_command_lines(tmp_path, arguments, words):
    fails(run_here("budget", *arguments, cwd=tmp_path), *words)
    assert not (tmp_path / "l.db").exists()


def test_not_a_ledger(tmp_path):
    (tmp_path / "l.db").write_text("hello", encoding="utf-8")
    fails(run_here("budget", "show", "l.db", cwd=tmp_path), "not a ledger", code=3)


def test_show_says_which_rule_judged_what(tmp_path):
    ledger = dp.Ledger.create(tmp_path / "l.db", dp.ApproxDP(1.0, 1e-6))
    for _ in range(2):
        ledger.book(Entry("sum", "one record", (NoisySum("sum", dp.ZCDP(1e-3), 1.0),)))
    told = json.loads(succeeds(run_here("budget", "show", ledger.path, "--json")))
    assert [each["rule"] for each in told["releases"]] == ["exact, first entry", "Gaussian filter"]
    assert (told["spent"], told["left"]) == (ledger.spent(), ledger.left())
    plain = succeeds(run_here("budget", "show", ledger.path))
    assert "Gaussian" not in plain
    assert f"budget show {ledger.path} --details" in " ".join(plain.split())
    shown = " ".join(succeeds(run_here("budget", "show", ledger.path, "--details")).split())
    for words in (
        "Judged by",
        "Gaussian",
        f"All releases so far together have ε = {ledger.spent():.4g}",
    ):
        assert words in shown


def test_terminals_show_and_do_not_obey(tmp_path):
    escape = "\x1b[2J\x9b31m\u202e"
    ledger = dp.Ledger.create(
        tmp_path / "l.db", dp.ZCDP(1.0), title=f"T{escape}", unit=f"one{escape}"
    )
    ledger.book(
        Entry(f"line{escape}\nline", f"one{escape}", (NoisySum("sum", dp.ZCDP(0.25), 1.0),))
    )
    shown = succeeds(run_here("budget", "show", ledger.path))
    assert not set(escape) - set("[2J31m") & set(shown)
    assert "\\x1b[2J" in shown
    assert text.escape_controls("naïve ‘x’ – ü 日本") == "naïve ‘x’ – ü 日本"
    assert text.escape_controls("a\nb\tc") == "a\\x0ab\\x09c"


def with_formulas(path):
    """A ledger of an (ε, δ) total with three entries, one of them of an earlier version."""
    ledger = dp.Ledger.create(path, dp.ApproxDP(3.0, 1e-6), unit="one person", title="Visits")
    purpose = "LogisticRegression: visit ~ lncoins + health + age + income + disease_status"
    for typed, asked in (("ε = 0.5", dp.ApproxDP(0.5, 1e-6)), ("ε = 1", None)):
        noise = (NoisySum("sum", dp.ZCDP(ledger.shares.read(typed)), 1.0),)
        ledger.book(Entry(purpose, "one person", noise, asked=asked))
    return ledger


def test_show_fits_a_narrow_terminal_and_counts_nothing_in_rho(tmp_path):
    narrow = {"COLUMNS": "80"}
    ledger = with_formulas(tmp_path / "l.db")
    shown = succeeds(run("budget", "show", "l.db", cwd=tmp_path, env=narrow))
    assert max(map(len, shown.splitlines())) <= 80
    assert ledger.statement() == (
        "17 % of the total is used. The next question may cost up to ε = 2.68."
    )
    assert ledger.statement() in shown
    for words in ("ε = 3, δ = 10⁻⁶", "ε = 0.5    3.7 %", "ε = 1   13.4 %"):
        assert words in shown
    assert "ρ" not in shown
    assert "rho" not in shown
    details = succeeds(run("budget", "show", "l.db", "--details", cwd=tmp_path, env=narrow))
    assert max(map(len, details.splitlines())) <= 80
    assert "ρ" in details
    told = json.loads(succeeds(run("budget", "show", "l.db", "--json", cwd=tmp_path)))
    assert told["share"] == pytest.approx(sum(one["share"] for one in told["releases"]))
    assert told["releases"][0]["asked"] == {"kind": "ApproxDP", "epsilon": 0.5, "delta": 1e-6}
    assert told["releases"][1]["asked"] is None


def test_a_terminal_without_greek_letters(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with_formulas(tmp_path / "l.db")
    shown = succeeds(run("budget", "show", "l.db", cwd=tmp_path))
    assert shown.isascii()
    assert "epsilon = 3, delta = 10^-6" in shown
    assert "The next question may cost up to epsilon = 2.68." in shown
    assert "####...." in shown
    assert "?" not in shown


def test_a_larger_delta_is_confirmed_on_the_command_line(tmp_path):
    files_in(tmp_path)
    ledger = dp.Ledger.create(tmp_path / "l.db", dp.ApproxDP(30.0, 1e-6))
    fit = ["fit", "table.csv", "--schema", "schema.toml", "--formula", "y ~ a"]
    describe = ["describe", "table.csv", "--schema", "schema.toml", "--columns", "a"]
    for command in (fit, describe):
        budget = ["--epsilon", 5, "--delta", 1e-2, "--ledger", "l.db", "--out", command[0]]
        for more in ([], ["--dry-run"]):
            done = run_here(*command, *budget, *more, cwd=tmp_path)
            assert done.returncode == 3
            for words in (
                "δ = 0.01 is larger than the δ of the total, 10⁻⁶",
                "--allow-larger-delta",
            ):
                assert words in done.stderr
        assert not (tmp_path / command[0] / "result.json").exists()
    assert ledger.entries() == ()
    succeeds(run_here(*describe, *budget, "--allow-larger-delta", cwd=tmp_path))
    (entry,) = ledger.entries()
    assert entry.asked == dp.ApproxDP(5.0, 1e-2)


def test_verify_asks_a_second_accountant(booked, monkeypatch):
    plain = json.loads(succeeds(run_here("budget", "verify", booked.path, "--json")))
    assert plain["second_accountant"] is None
    verify = ["budget", "verify", booked.path, "--second-accountant"]
    second = json.loads(succeeds(run_here(*verify, "--json")))["second_accountant"]
    assert second["ours"] == pytest.approx(second["theirs"], rel=1e-4)
    shown = " ".join(succeeds(run_here(*verify)).split())
    assert f"Two accountants: ε = {second['ours']:.4g} here," in shown
    assert f"ε = {second['theirs']:.4g} by dp_accounting, at δ = 10⁻⁶, for 1 release." in shown

    minimum = LaplaceMinimum("estimate", dp.ZCDP(0.1), rate=0.01, k=0.1)
    booked.book(Entry("svm", "one record", (minimum,)))
    shown = " ".join(succeeds(run_here(*verify)).split())
    assert "Not compared, as dp_accounting has no event for them: svm: estimate." in shown

    monkeypatch.setattr(AccountantComparison, "ok", False)
    done = run_here(*verify)
    assert done.returncode == 3
    assert "dp_accounting counts more than this ledger" in done.stderr
