"""The desk by mail, as a steward types it."""

import json

import pytest

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer_desk.desk import Desk
from helpers import panels
from helpers.desks import hasten, later, work
from helpers.terminal import SECRET, fails, files_in, run, run_here, succeeds, table

HOSTILE = [
    "<script>alert(1)</script>",
    "'; DROP TABLE people;--",
    "[red]markup[/red]",
    "$(touch x)",
    "../../etc",
]
QUESTION = 'table = "visits"\nformula = "y ~ a + b"\nrho = 50.0\ntitle = "{title}"\n'


@pytest.fixture
def folder(tmp_path):
    files_in(tmp_path)
    succeeds(run_here("desk", "init", tmp_path / "desk", "--ladder", "600"))
    add = ["desk", "table", "add", tmp_path / "desk", "visits", "--data", tmp_path / "table.csv"]
    files = ["--schema", tmp_path / "schema.toml", "--ledger", tmp_path / "ledger.db"]
    succeeds(run_here(*add, *files, "--rho", "100"))
    person = ["desk", "person", "add", tmp_path / "desk", "meier", "--table", "visits"]
    assert "all allowances together fit" in succeeds(run_here(*person, "--rho", "60")).replace(
        "\n", " "
    )
    (tmp_path / "q.toml").write_text(QUESTION.format(title="First"), encoding="utf-8")
    return tmp_path


def desk_of(folder, *arguments):
    command, *rest = arguments
    return run_here("desk", *command.split(), folder / "desk", *rest)


def given(done):
    return json.loads(succeeds(done))


def test_help_is_there():
    shown = succeeds(run("desk", "--help"))
    for command in ("init", "table", "person", "ask", "run", "verify", "approve", "journal"):
        assert f" {command} " in shown
    for command in ("ask", "run", "answer", "table add", "person add"):
        assert "Usage" in succeeds(run_here("desk", *command.split(), "--help"))


def test_by_mail_from_question_to_answer(folder):
    tried = succeeds(desk_of(folder, "ask", folder / "q.toml", "--by", "meier", "--dry-run"))
    assert "Nothing was asked" in tried
    assert "Forecast" in tried
    asked = given(desk_of(folder, "ask", folder / "q.toml", "--by", "meier", "--json"))
    assert asked["state"] == "waiting"
    ident = asked["question"]
    assert given(desk_of(folder, "ask", folder / "q.toml", "--by", "meier", "--json")) == asked
    fails(desk_of(folder, "answer", ident), "no answer yet: it waits for the steward")
    assert "queued" in succeeds(desk_of(folder, "approve", ident, "--reason", "of use"))
    desk = Desk.open(folder / "desk")
    work(hasten(desk))
    with desk.register.change("test") as change:  # its slot has ended
        change("UPDATE questions SET slot = 0.001 WHERE id = ?", ident)
    shown = succeeds(desk_of(folder, "answer", ident, "--out", folder / "answer"))
    assert "(Intercept)" in shown
    written = {path.name for path in (folder / "answer").iterdir()}
    assert written == {"result.json", "coefficients.csv", "report.html", "forest.png"}
    fails(desk_of(folder, "answer", ident, "--out", folder / "answer"), "is there already")
    succeeds(run_here("budget", "verify", folder / "ledger.db", folder / "answer/result.json"))
    assert "answered" in succeeds(desk_of(folder, "list"))
    fails(desk_of(folder, "withdraw", ident), "cannot be withdrawn any more")
    verdict = given(desk_of(folder, "verify", "--thorough", "--json"))
    assert verdict["ok"]
    assert set(verdict["heads"]) == {"journal", "ledger of visits"}
    succeeds(desk_of(folder, "journal", "--out", folder / "journal.jsonl"))
    lines = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == verdict["events"] + 1
    assert "meier" in succeeds(desk_of(folder, "table show", "visits"))
    account = given(desk_of(folder, "table show", "visits", "--json"))
    assert account["spent"][0]["by"] == "meier"


def test_the_worker_as_it_is_started(folder):
    """The real program, with its own server of processes; a ladder of one short slot."""
    settings = folder / "desk/desk.toml"
    settings.write_text(
        settings.read_text(encoding="utf-8").replace("600.0", "4.0"), encoding="utf-8"
    )
    succeeds(desk_of(folder, "table policy", "visits", "--approval", "none"))
    succeeds(desk_of(folder, "ask", folder / "q.toml", "--by", "meier"))
    done = run("desk", "run", folder / "desk", "--once", "--json")
    (ended,) = json.loads(succeeds(done))["ended"]
    assert ended["state"] in ("answered", "lost")  # a busy machine may take more than a slot
    assert len(dp.Ledger.open(folder / "ledger.db").entries()) == 1
    assert given(desk_of(folder, "verify", "--json"))["ok"]


def test_hostile_texts_are_shown_as_they_are(folder):
    succeeds(desk_of(folder, "table policy", "visits", "--approval", "each"))
    for k, text in enumerate(HOSTILE):
        succeeds(
            desk_of(folder, "person add", text, "--words", text, "--table", "visits", "--rho", 1)
        )
        question = QUESTION.format(title=text).replace("50.0", f"0.{k + 1}")
        (folder / "h.toml").write_text(question, encoding="utf-8")
        asked = given(desk_of(folder, "ask", folder / "h.toml", "--by", text, "--anyway", "--json"))
        assert (asked["by"], asked["keys"]["title"]) == (text, text)
        shown = succeeds(desk_of(folder, "decline", asked["question"], "--reason", text))
        assert text in shown.replace("\n", " ").replace("           ", "")
    listed = succeeds(desk_of(folder, "list"))
    for text in HOSTILE:
        assert text[:8] in listed
    assert given(desk_of(folder, "verify", "--json"))["ok"]
    title = "\\u001b[2Jcleared"
    (folder / "h.toml").write_text(QUESTION.format(title=title), encoding="utf-8")
    fails(desk_of(folder, "ask", folder / "h.toml", "--by", "meier"), "title must be text")


def test_hostile_names_and_levels(tmp_path):
    """Of columns, in the schema: the table is registered, shown, practised on and asked."""
    frame = table(400).rename(columns={"a": HOSTILE[0], "b": HOSTILE[1]})
    frame[HOSTILE[1]] = frame[HOSTILE[1]].replace({"p": HOSTILE[2], "q": HOSTILE[3]})
    frame.to_parquet(tmp_path / "t.parquet")
    name, other, first, second, _ = (json.dumps(text) for text in HOSTILE)
    (tmp_path / "s.toml").write_text(
        f'title = {name}\n[columns.y]\ntype = "outcome"\nlevels = ["0", "NA"]\n'
        f'[columns.{name}]\ntype = "number"\nlow = 0\nhigh = 10\n'
        f'[columns.{other}]\ntype = "category"\nlevels = [{first}, {second}, "None"]\n',
        encoding="utf-8",
    )
    succeeds(run_here("desk", "init", tmp_path / "desk"))
    files = ["--data", tmp_path / "t.parquet", "--schema", tmp_path / "s.toml"]
    ledger = ["--ledger", tmp_path / "l.db", "--rho", 10]
    succeeds(desk_of(tmp_path, "table add", "t", *files, *ledger))
    succeeds(desk_of(tmp_path, "person add", "meier", "--table", "t", "--rho", 1))
    shown = succeeds(desk_of(tmp_path, "table show", "t"))
    assert HOSTILE[0] in shown
    assert HOSTILE[2] in shown
    succeeds(desk_of(tmp_path, "practice", "t", "--out", tmp_path / "p.csv", "--records", 50))
    text = (tmp_path / "p.csv").read_text(encoding="utf-8")
    assert HOSTILE[0] in text
    assert str(SECRET) not in text
    formula = f"y ~ `{HOSTILE[0]}` + `{HOSTILE[1]}`"
    (tmp_path / "q.toml").write_text(
        f"table = 't'\nformula = {json.dumps(formula)}\nrho = 0.5", encoding="utf-8"
    )
    asked = given(
        desk_of(tmp_path, "ask", tmp_path / "q.toml", "--by", "meier", "--anyway", "--json")
    )
    assert asked["keys"]["formula"] == formula


def test_bad_commands(folder):
    fails(run_here("desk", "list", folder / "nowhere"), "there is no desk in")
    fails(run_here("desk", "init", folder), "a desk needs a new or empty folder")
    fails(
        run_here("desk", "init", folder / "x", "--response-times", "a"),
        "--response-times takes seconds",
    )
    fails(desk_of(folder, "ask", folder / "none.toml", "--by", "meier"), "cannot be read")
    fails(desk_of(folder, "ask", folder / "q.toml", "--by", "huber"), "no allowance at visits")
    fails(
        desk_of(folder, "ask", folder / "q.toml", "--by", "meier", "--table", "x"), "no table 'x'"
    )
    (folder / "n.toml").write_text('formula = "y ~ a"\nrho = 1.0', encoding="utf-8")
    fails(desk_of(folder, "ask", folder / "n.toml", "--by", "meier"), "name the table")
    fails(desk_of(folder, "allow", "visits", "meier"), "--allowance 10%", "'ε = 0.5'")
    fails(desk_of(folder, "allow", "visits", "meier", "--epsilon", 1), "counted in ρ and has no δ")
    fails(desk_of(folder, "allow", "visits", "meier", "--rho", -1), "typed as 10 % or ρ = 0.05")
    fails(desk_of(folder, "show", "abcd"), "there is no question 'abcd'")
    fails(desk_of(folder, "table resume", "visits"), "give a reason")
    add = ["table add", "two", "--data", folder / "table.csv", "--schema", folder / "schema.toml"]
    fails(desk_of(folder, *add, "--ledger", folder / "new.db"), "give its total")
    fails(
        desk_of(folder, *add, "--ledger", folder / "ledger.db", "--rho", 1), "leave out the total"
    )
    fails(
        desk_of(folder, *add, "--ledger", folder / "b.db", "--rho", 1, "--approval", "x"),
        "approval must be",
    )
    assert not (folder / "b.db").exists()
    bad = ["table add", "Bad", *add[2:], "--ledger", folder / "c.db", "--rho", 1]
    fails(desk_of(folder, *bad), "name of a table")
    assert not (folder / "c.db").exists()


def test_the_rows_of_one_unit_are_declared(tmp_path):
    """With ids a table is registered with the number of rows that one unit has at most, and shown with it."""
    panels.empty_desk(tmp_path)
    data = panels.written(panels.panel(), tmp_path / "table.parquet")
    add = ["table add", "panel", "--data", data, "--schema", tmp_path / "schema.toml"]
    add += ["--ledger", tmp_path / "ledger.db"]
    fails(desk_of(tmp_path, *add), "as --max-unit-rows")
    fails(desk_of(tmp_path, *add, "--max-unit-rows", 3), "a unit has more than 3 rows")
    succeeds(desk_of(tmp_path, *add, "--max-unit-rows", 40))
    shown = succeeds(desk_of(tmp_path, "table show", "panel"))
    assert "2,440, and 40 of one person" in shown
    words = ["--reason", "a longer study", "--max-unit-rows", 50, "--max-rows", 2000]
    succeeds(desk_of(tmp_path, "table resume", "panel", *words))
    assert "2,000, and 50 of one person" in succeeds(desk_of(tmp_path, "table show", "panel"))


def test_an_allowance_at_the_delta_of_the_total(folder):
    add = ["table add", "two", "--data", folder / "table.csv", "--schema", folder / "schema.toml"]
    total = ["--ledger", folder / "b.db", "--epsilon", 2, "--delta", 1e-6]
    fails(desk_of(folder, *add, *total), "protected by two totals")
    assert not (folder / "b.db").exists()
    succeeds(desk_of(folder, *add, *total, "--although", "a test"))
    shown = succeeds(desk_of(folder, "allow", "two", "meier", "--epsilon", 1)).replace("\n", " ")
    assert "may spend 27.9 % of the total (ε = 1)" in shown
    desk = later(Desk.open(folder / "desk"))
    asked = AnalystQuestion.of(
        {"formula": "y ~ a", "epsilon": 1.0, "delta": 1e-6, "target": "ordinary"}
    )
    assert desk.check("two", asked, "meier").permitted  # it pays for a question at this ε
    amount = desk.analyst("two", "meier").amount
    for typed in ("ε = 1", "1 ε", "epsilon = 1,0"):
        succeeds(desk_of(folder, "allow", "two", "meier", "--allowance", typed))
        assert desk.analyst("two", "meier").amount == amount
    succeeds(desk_of(folder, "allow", "two", "meier", "--allowance", "12,5%"))
    share = desk.shares("two").of(desk.analyst("two", "meier").amount)
    assert share <= 0.125 == pytest.approx(share, rel=1e-12)
    wrong = desk_of(folder, "allow", "two", "meier", "--allowance", "0.5")
    fails(wrong, "'0.5' has no unit", "10 % or ε = 0.5")
    fails(desk_of(folder, "allow", "two", "meier", "--allowance", "1%", "--rho", 1), "typed once")
    for command, state in (("pause", "paused"), ("resume", "active"), ("revoke", "revoked")):
        succeeds(desk_of(folder, command, "two", "meier", "--reason", "so"))
        assert Desk.open(folder / "desk").analyst("two", "meier").state == state


def test_a_ledger_of_a_registered_table_stays(folder, monkeypatch):
    """Something fails after the table was written down: its new ledger is not removed."""
    plain = Desk.add_table

    def faulty(*arguments, **keywords):
        plain(*arguments, **keywords)
        raise dp.LedgerError("a fault after the change")

    def stays(name, **options):
        files = ["--data", folder / "table.csv", "--schema", folder / "schema.toml"]
        ledger = folder / name
        words = ["--ledger", ledger, "--rho", "1", "--although", "a test"]
        fails(desk_of(folder, "table add", "two", *files, *words), **options)
        return ledger.exists()

    monkeypatch.setattr(Desk, "add_table", faulty)
    assert stays("two.db", code=3)
    monkeypatch.undo()
    assert not stays("three.db")  # there is a table "two" already


def test_an_allowance_of_somebody_who_is_revoked(folder):
    desk_of(folder, "revoke", "visits", "meier")
    shown = succeeds(desk_of(folder, "allow", "visits", "meier", "--rho", "5"))
    assert "meier is revoked" in shown
    assert "may spend" not in shown
