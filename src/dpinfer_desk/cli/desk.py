"""`dpinfer desk`: questions from people who must never see the data, by mail: take, decide, run, answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.asking.allowed import Question, read_question
from dpinfer.asking.asked import budget_of
from dpinfer.asking.spec import of_options
from dpinfer.cli import screen
from dpinfer.cli.screen import AsJson, Quiet, Screen
from dpinfer.errors import InputError, LedgerError, require
from dpinfer.neighbours import Neighbours
from dpinfer.privacy import accountant

if TYPE_CHECKING:
    from dpinfer_desk.desk import Check, Desk
    from dpinfer_desk.store.roles import Analyst
    from dpinfer_desk.store.tickets import Ticket

app = typer.Typer(
    help="Questions from people who must never see the data: take, decide, run, answer, verify.\n\n"
    "A steward keeps a desk in a folder.  Analysts send question files; each costs a part of the table's total, "
    "inside the allowance of who asks.  The answer is shown at a public time, or lost, and never refunded.",
    rich_markup_mode="rich",
)
table_app = typer.Typer(help="Tables that may be asked: add, show, policy, pause, resume.")
person_app = typer.Typer(help="People who may ask.")
app.add_typer(table_app, name="table")
app.add_typer(person_app, name="person")

Title = Annotated[str, typer.Option(help="What the desk is called.")]
Ladder = Annotated[
    str, typer.Option(help="Seconds from booking to answer that there are.", metavar="LIST")
]
_Folder = Annotated[Path, typer.Argument(help="The folder of the desk.", metavar="DIR")]
_Table = Annotated[str, typer.Argument(help="The name of the table.", metavar="TABLE")]
_Person = Annotated[str, typer.Argument(help="The name of the person.", metavar="PERSON")]
_Id = Annotated[str, typer.Argument(help="The id of a question, or its key.", metavar="QUESTION")]
_Reason = Annotated[str, typer.Option("--reason", help="Why, in words that are kept.")]
Epsilon = Annotated[float | None, typer.Option(help="Of a pure or an (epsilon, delta) total.")]
Rho = Annotated[float | None, typer.Option(help="In zCDP, instead of --epsilon.")]
_Approval = Annotated[
    str, typer.Option(help="Which questions wait for the steward: each, above (a cost), none.")
]
_UpTo = Annotated[float, typer.Option("--up-to", help="With --approval above: that cost.")]
_Own = Annotated[bool, typer.Option("--own-answers", help="Analysts read their own answers alone.")]


@app.callback(invoke_without_command=True)
def desk(context: typer.Context) -> None:
    """Require the extra before any command of a desk."""
    require_extra(context)


def require_extra(context: typer.Context) -> None:
    """Refuse a group of commands where the packages of the extra are not installed; without a
    command, print its help.
    """
    require(context.command_path, "desk", "starlette", "uvicorn")
    if context.invoked_subcommand is None:
        print(context.get_help())


# The desk


@app.command()
def init(
    folder: _Folder,
    *,
    title: Title = "",
    ladder: Ladder = "5,15,60,300,900,3600",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a desk in a new folder."""
    from dpinfer_desk.desk import Desk  # noqa: PLC0415  (loads pandas and formulaic)

    desk = Desk.create(folder, title, numbers(ladder))
    talk = Screen(quiet, as_json)
    talk.show(
        Text(f"A desk in {folder}. Next, a table and a person:"),
        f"$ dpinfer desk table add {folder} visits --data visits.parquet --schema schema.toml --ledger ledger.db",
        f"$ dpinfer desk person add {folder} a.meier --table visits --rho 0.05",
    )
    talk.emit({"desk": str(desk.folder.path), "id": desk.settings.id})


@app.command("list")
def list_(
    folder: _Folder,
    *,
    table: Annotated[str, typer.Option(help="Of one table.")] = "",
    by: Annotated[str, typer.Option(help="Of one person.")] = "",
    state: Annotated[str, typer.Option(help="In one state, such as waiting.")] = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Tables and questions of a desk."""
    desk = opened(folder)
    found = desk.tickets(table, by, (state,) if state else ())
    talk = Screen(quiet, as_json)
    rows = [
        [one.name, one.title, _number_of(one.records), one.policy.approval, one.state]
        for one in desk.tables()
    ]
    talk.show(screen.title(desk.settings.title or str(folder)))
    if rows:
        talk.show(screen.table(("Table", "Title", "Records", "Approval", "State"), rows, left=5))
    if found:
        heads = ("Question", "Table", "By", "Asks", "State")
        talk.show(
            "",
            screen.table(
                heads,
                [[t.id[:12], t.table, t.by, t.question.formula, t.state] for t in found],
                left=5,
            ),
        )
    else:
        talk.show(Text("No questions."))
    talk.emit(
        {"tables": [one.name for one in desk.tables()], "questions": [_listed(t) for t in found]}
    )


@app.command()
def run(
    folder: _Folder,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when the queue is empty; else go on for ever.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit the questions in the queue, one after the other, each at its public time.

    What a crash left is settled first.  Ctrl-C is safe: a fit that was booked goes on and is taken
    up by the next run.
    """
    from dpinfer_desk.worker.worker import Worker  # noqa: PLC0415  (loads what a fit needs)

    desk = opened(folder)
    before = {ticket.id for ticket in desk.tickets() if ticket.ended}
    talk = Screen(quiet, as_json)
    with talk.work("at work"):
        Worker(desk).run(until_idle=once)
    done = [ticket for ticket in desk.tickets() if ticket.ended and ticket.id not in before]
    for ticket in done:
        talk.show(f"{ticket.id[:12]} {ticket.by}: {ticket.state}")
    waiting = desk.tickets(states=("waiting",))
    if waiting:
        talk.show(f"{len(waiting)} wait for a decision: dpinfer desk approve {folder} QUESTION")
    talk.emit({"ended": [_listed(ticket) for ticket in done]})


@app.command("open")
def open_(
    folder: _Folder,
    *,
    port: Annotated[
        int | None, typer.Option(help="Of 127.0.0.1; by default 8765 or one that is free.")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, and open no browser.")
    ] = False,
) -> None:
    """Open the page of a desk: a browser on this machine, for one steward, without accounts.

    Page and worker run until Ctrl-C.  The address has a token; keep it to yourself.
    """
    from dpinfer_desk.web.server import serve  # noqa: PLC0415  (an extra)

    talk = Screen()
    serve(
        opened(folder),
        port,
        not no_browser,
        lambda address: talk.show(
            Text("The desk is open, with its worker; Ctrl-C closes it. For you alone:"), address
        ),
    )


@app.command()
def verify(
    folder: _Folder,
    *,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Compare the bytes of the tables, too.")
    ] = False,
    accept_old_copy: Annotated[
        bool, typer.Option("--accept-old-copy", help="Go on with a desk.db that was put back.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check that journal, questions, ledgers and results fit together; offline, for an auditor."""
    desk = opened(folder, old_copy=accept_old_copy)
    verdict = desk.verify(thorough=thorough)
    talk = Screen(quiet, as_json)
    facts = {"Events": str(verdict.events), "Questions": str(verdict.questions)}
    talk.show(screen.facts(facts | {f"Head, {name}": head for name, head in verdict.heads.items()}))
    talk.emit(
        {
            "ok": verdict.ok,
            "faults": list(verdict.faults),
            "heads": verdict.heads,
            "events": verdict.events,
            "questions": verdict.questions,
        }
    )
    if not verdict.ok:
        more = f" (and {len(verdict.faults) - 1} more)" if len(verdict.faults) > 1 else ""
        raise LedgerError(f"{verdict.faults[0]}{more}: look into it before anything else is booked")
    talk.show(Text("Whole. Keep the heads elsewhere: they tell whether an old copy was put back."))


@app.command()
def journal(
    folder: _Folder,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSON lines, with hashes.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Who did what: shown, or written to a file for an auditor."""
    desk = opened(folder)
    talk = Screen(quiet, as_json)
    if out is not None:
        persistence.vacant(out, False, "name another file")
        persistence.write(out, desk.export_journal().encode())
        talk.show(Text(f"{len(desk.journal())} events in {out}."))
    else:
        rows = [
            [str(e.number), e.time[:19].replace("T", " "), e.who, e.what, _told_facts(e.facts)]
            for e in desk.journal()
        ]
        talk.show(screen.table(("#", "Time (UTC)", "Who", "What", "Of"), rows, left=5))
    talk.emit({"events": [vars(event) for event in desk.journal()]})


# Tables


@table_app.command("add")
def add_table(  # noqa: PLR0913  (the public face)
    folder: _Folder,
    table: _Table,
    *,
    data: Annotated[Path, typer.Option(help="The table: a file, folder or pattern.")],
    schema: Annotated[Path, typer.Option(help="What is public about it.")],
    ledger: Annotated[Path, typer.Option(help="Its ledger; made here where a total is given.")],
    epsilon: Annotated[float | None, typer.Option(help="Total of a new ledger.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon: (epsilon, delta).")] = None,
    rho: Annotated[float | None, typer.Option(help="Total of a new ledger in zCDP.")] = None,
    approval: _Approval = "each",
    up_to: _UpTo = 0.0,
    own_answers: _Own = False,
    records: Annotated[
        int | None, typer.Option(help="A public guess of their number where it is private.")
    ] = None,
    although: Annotated[
        str, typer.Option(help="Why files of a table with another ledger may be added; kept.")
    ] = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Register a table: where it is, what is public about it, the ledger that pays, who decides."""
    from dpinfer_desk.store.tables import Policy  # noqa: PLC0415

    desk = opened(folder)
    policy = Policy(approval, up_to, not own_answers)
    made = _new_ledger(ledger, schema, {"epsilon": epsilon, "delta": delta, "rho": rho})
    try:
        added = desk.add_table(table, data, schema, ledger, policy, records, although)
    except BaseException:
        if made and not any(one.book == str(ledger.resolve()) for one in desk.tables()):
            ledger.unlink(missing_ok=True)
        raise
    talk = Screen(quiet, as_json)
    talk.show(
        Text(
            f"{table} is registered: {added.title}, {_number_of(added.records)} records, total {added.ledger().total}."
        )
    )
    talk.emit({"table": table, "records": added.records, "schema": added.schema.digest()})


@table_app.command("show")
def show_table(
    folder: _Folder, table: _Table, quiet: Quiet = False, as_json: AsJson = False
) -> None:
    """What is public about a table: columns, total, spending, and who may ask."""
    desk = opened(folder)
    found = desk.table(table)
    talk = Screen(quiet, as_json)
    account = desk.account(table)
    analysts = desk.analysts(table)
    total = account.ledger.total
    share = "reserved" if desk.reserved(table) else "first come, first served"
    facts = {
        "Protects": f"{account.ledger.unit} ({account.ledger.neighbours.sentence})",
        "Records": _number_of(found.records),
        "Total": str(total),
        "Left": account.statement(),
        "Approval": found.policy.approval,
        "Allowances": share,
        "State": f"{found.state} {found.reason}".strip(),
    }
    talk.show(screen.title(found.title), screen.facts(facts), "")
    columns = found.schema.document()["columns"]
    rows = [
        [name, str(entry.get("type", "derived")), _bounds(entry)] for name, entry in columns.items()
    ]
    talk.show(screen.table(("Column", "Type", "Values"), rows, left=3), "")
    if analysts:
        people = [
            [one.person, f"{one.amount:.4g}", f"{one.spent:.4g}", one.state] for one in analysts
        ]
        measure = accountant.counted_in(total)
        talk.show(
            screen.table(("Analyst", f"Allowance ({measure})", "Spent", "State"), people, left=1)
        )
    spends = desk.burn_down(table)
    talk.emit(
        {
            "table": table,
            "title": found.title,
            "schema": found.text,
            "records": found.records,
            "account": account.state(),
            "analysts": [vars(one) for one in analysts],
            "spent": [vars(one) for one in spends],
            "state": found.state,
            "reason": found.reason,
        }
    )


@table_app.command("policy")
def set_policy(
    folder: _Folder,
    table: _Table,
    *,
    approval: _Approval = "each",
    up_to: _UpTo = 0.0,
    own_answers: _Own = False,
) -> None:
    """Which questions wait for the steward from now on, and who reads answers."""
    from dpinfer_desk.store.tables import Policy  # noqa: PLC0415

    opened(folder).set_policy(table, Policy(approval, up_to, not own_answers))


@table_app.command("pause")
def pause_table(folder: _Folder, table: _Table, *, reason: _Reason = "") -> None:
    """Take and book nothing at a table until it is resumed."""
    opened(folder).pause(table, reason)


@table_app.command("resume")
def resume_table(folder: _Folder, table: _Table, *, reason: _Reason = "") -> None:
    """Open a table again; --reason says why changed files are about the same units."""
    opened(folder).resume(table, reason)


# People


@person_app.command("add")
def add_person(
    folder: _Folder,
    person: _Person,
    *,
    words: Annotated[str, typer.Option(help="Who that is, for the steward.")] = "",
    table: Annotated[str, typer.Option(help="Give an allowance at this table, too.")] = "",
    epsilon: Epsilon = None,
    rho: Rho = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Somebody who may ask, and what that one may spend."""
    desk = opened(folder)
    amount = None
    if table:
        amount = amount_of(desk, table, epsilon, rho)
    added = desk.add_person(person, words)
    talk = Screen(quiet, as_json)
    if amount is None:
        talk.show(Text(f"{added.name} is known here. An allowance: dpinfer desk allow."))
        talk.emit({"person": added.name})
        return
    _shown_analyst(desk.allow(table, added.name, amount), desk, talk)


@app.command()
def allow(
    folder: _Folder,
    table: _Table,
    person: _Person,
    *,
    epsilon: Epsilon = None,
    rho: Rho = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Give a person an allowance at a table, or another one."""
    desk = opened(folder)
    analyst = desk.allow(table, person, amount_of(desk, table, epsilon, rho))
    _shown_analyst(analyst, desk, Screen(quiet, as_json))


@app.command()
def pause(folder: _Folder, table: _Table, person: _Person, *, reason: _Reason = "") -> None:
    """Let a person's questions at a table rest."""
    opened(folder).set_state(table, person, "paused", reason)


@app.command()
def resume(folder: _Folder, table: _Table, person: _Person, *, reason: _Reason = "") -> None:
    """Take a person's questions at a table again."""
    opened(folder).set_state(table, person, "active", reason)


@app.command()
def revoke(folder: _Folder, table: _Table, person: _Person, *, reason: _Reason = "") -> None:
    """Take a person's access to a table away; open questions are declined."""
    opened(folder).set_state(table, person, "revoked", reason)


# Questions


@app.command()
def ask(  # noqa: PLR0913  (the public face)
    folder: _Folder,
    question: Annotated[Path, typer.Argument(help="A question file.", metavar="QUESTION.toml")],
    *,
    by: Annotated[str, typer.Option(help="Who asks: a person of the desk.")],
    table: Annotated[str, typer.Option(help="The table, unless the file names it.")] = "",
    key: Annotated[str, typer.Option(help="The asker's own name of the question.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Pay again for what was asked.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Ask even if hardly a line can be printed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell cost and forecast; ask nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Take a question file: check it, and put it into the queue or before the steward.

    \b
      table = "visits"
      formula = "visit ~ age + health"
      loss = "logistic"          # or "linear", "poisson", "svm", "huber", "quantile"
      epsilon = 1.0              # with delta; or rho
      delta = 1e-6
      title = "Does age matter?"

    Sending a file twice is asking once.  Nothing is booked before the question runs.
    """
    named, asked = read_question(question)
    table = table or named
    if not table:
        raise InputError('name the table: table = "visits" in the question, or --table')
    desk = opened(folder)
    talk = Screen(quiet, as_json)
    if dry_run:
        _tried(desk, table, asked, by, talk)
        return
    ticket = desk.ask(table, asked, by, key, again=again, anyway=anyway)
    _shown(ticket, talk)


@app.command()
def show(folder: _Folder, question: _Id, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Where a question stands, and when its answer is shown."""
    _shown(opened(folder).ticket(question), Screen(quiet, as_json))


@app.command()
def approve(
    folder: _Folder,
    question: _Id,
    *,
    reason: _Reason = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Approve a question that waits: by what it asks and costs, never by what the data hold."""
    _shown(opened(folder).decide(question, True, reason), Screen(quiet, as_json))


@app.command()
def decline(
    folder: _Folder,
    question: _Id,
    *,
    reason: _Reason = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Decline a question that is not booked yet, with a reason that the asker reads."""
    _shown(opened(folder).decide(question, False, reason), Screen(quiet, as_json))


@app.command()
def withdraw(folder: _Folder, question: _Id, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Take a question back before it is booked; that is free."""
    _shown(opened(folder).withdraw(question), Screen(quiet, as_json))


@app.command()
def answer(
    folder: _Folder,
    question: _Id,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for result and report.", metavar="DIR"),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The answer, as a folder to send: result.json, coefficients.csv, report.html, forest.png."""
    desk = opened(folder)
    ticket = desk.ticket(question)
    result = desk.result(ticket.id)
    talk = Screen(quiet, as_json)
    level = ticket.question.level
    files: Sequence[Path] = []
    if out is not None:
        persistence.vacant(out / persistence.RESULT, False, "name another folder")
        persistence.prepare(out)
        persistence.write(out / persistence.RESULT, result.to_json().encode())
        title = ticket.question.title or desk.table(ticket.table).title
        files = dp.report.write(result, out, title=title, level=level)
    talk.show(screen.coefficients(result, level))
    if out is not None:
        talk.show("", Text(f"Written: {', '.join(map(str, files))}"))
    talk.emit(
        {
            **_listed(ticket),
            "coefficients": result.table(level),
            "files": [str(path) for path in files],
        }
    )


@app.command()
def practice(
    folder: _Folder,
    table: _Table,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="A CSV file.", metavar="FILE")],
    records: Annotated[int, typer.Option(help="How many made-up rows.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of what is made up.")] = 0,
) -> None:
    """A table of made-up records with the columns of a table, to practise on, free of charge."""
    persistence.vacant(out, False, "name another file")
    frame = opened(folder).practice(table, records, seed)
    persistence.write(out, frame.to_csv(index=False).encode())


def opened(folder: Path, *, old_copy: bool = False) -> "Desk":
    """The desk in a folder."""
    from dpinfer_desk.desk import Desk  # noqa: PLC0415  (loads pandas and formulaic)

    return Desk.open(folder, old_copy=old_copy)


def _new_ledger(path: Path, schema: Path, total: dict[str, float | None]) -> bool:
    """Make the ledger of a table where a total is given; whether one was made."""
    if not any(total.values()):
        if not path.exists():
            raise InputError(
                f"there is no ledger {str(path)!r}: give its total, --epsilon 1 --delta 1e-6, or make it with "
                "`dpinfer budget init`"
            )
        return False
    if path.exists():
        raise InputError(f"{str(path)!r} is there already: leave out the total, or name a new file")
    budget = budget_of(of_options({("privacy", key): value for key, value in total.items()}))
    assert budget is not None
    public = dp.Schema.read(schema)
    notion = Neighbours.of(Neighbours.REPLACE, units=public.unit.many)
    dp.Ledger.create(path, budget, unit=public.unit.name, neighbours=notion, title=public.title)
    return True


def amount_of(desk: "Desk", table: str, epsilon: float | None, rho: float | None) -> float:
    """An allowance in the terms of a table's total; of an (ε, δ) total ε is taken at its δ."""
    total = desk.table(table).ledger().total
    if (epsilon is None) == (rho is None):
        raise InputError("an allowance is --rho or --epsilon: give one of them")
    if rho is not None:
        if isinstance(total, dp.PureDP):
            raise InputError(f"{table} counts epsilon: give the allowance with --epsilon")
        return rho
    assert epsilon is not None
    if isinstance(total, dp.ZCDP):
        raise InputError(f"{table} counts rho: give the allowance with --rho")
    if isinstance(total, dp.ApproxDP):
        return dp.ApproxDP(epsilon, total.delta).zcdp().rho
    return epsilon


def _shown_analyst(analyst: "Analyst", desk: "Desk", talk: Screen) -> None:
    total = desk.table(analyst.table).ledger().total
    words = f"{accountant.counted_in(total)} = {analyst.amount:.6g}"
    if isinstance(total, dp.ApproxDP):
        words += f" (epsilon = {dp.ZCDP(analyst.amount).approx(total.delta).epsilon:.4g} at the total's delta)"
    share = "all allowances fit into the total"
    if not desk.reserved(analyst.table):
        share = "all allowances together are more than the total: first come, first served"
    may = "may spend"
    if analyst.state != "active":
        may = f"is {analyst.state} (`dpinfer desk resume` changes that) and could else spend"
    talk.show(Text(f"{analyst.person} {may} {words} at {analyst.table}; {share}."))
    talk.emit(vars(analyst) | {"reserved": desk.reserved(analyst.table)})


def _tried(desk: "Desk", table: str, question: Question, by: str, talk: Screen) -> None:
    """Cost and forecast of a question that is not asked."""
    found = desk.check(table, question, by)
    forecast = None
    words = "none: the number of records is private"
    if desk.table(table).records is not None:
        with talk.work("simulating"):
            forecast = desk.forecast(table, question)
        low, high = forecast.range()
        words = f"{100 * question.level:.4g}% intervals of ±{low:.2g} to {high:.2g} in the middle"
    facts = {
        "Asks": found.entry.purpose,
        "Estimates": f"{len(found.names)} coefficients: {', '.join(found.names)}",
        "Cost": f"{question.budget}; {found.measure} = {found.cost:.4g} of the allowance",
        "Allowance": f"{found.measure} = {found.analyst.left:.4g} left of {found.analyst.amount:.4g}",
        "Forecast": words,
        "Paid for": "yes" if found.allowed else f"no: {found.reason}",
        "Approval": "the steward decides" if found.waits else "none needed",
    }
    for name, text in (("Warning", found.warning), ("Hopeless", found.hopeless)):
        if text:
            facts[name] = text
    if found.answered:
        facts["Answered"] = f"already, as {found.answered[0].id[:12]}: free to read"
    talk.show(screen.title("Nothing was asked"), screen.facts(facts))
    talk.emit(_checked(found) | {"forecast": forecast and forecast.table()})


def _checked(found: "Check") -> dict[str, Any]:
    return {
        "coefficients": list(found.names),
        "cost": found.cost,
        "measure": found.measure,
        "allowed": found.allowed,
        "reason": found.reason,
        "waits": found.waits,
        "warning": found.warning or None,
        "hopeless": found.hopeless or None,
        "answered": [ticket.id for ticket in found.answered],
    }


def _shown(ticket: "Ticket", talk: Screen) -> None:
    from dpinfer_desk.desk import told  # noqa: PLC0415

    facts = {
        "Question": ticket.id,
        "Asks": f"{ticket.question.formula} ({ticket.question.loss}), of {ticket.table}",
        "By": ticket.by,
        "Cost": str(ticket.question.budget),
        "State": f"{ticket.state}: {told(ticket)}",
    }
    if ticket.question.title:
        facts["Title"] = ticket.question.title
    talk.show(screen.facts(facts))
    talk.emit(_listed(ticket))


def _listed(ticket: "Ticket") -> dict[str, Any]:
    from dpinfer_desk.desk import told  # noqa: PLC0415

    return {
        "question": ticket.id,
        "table": ticket.table,
        "by": ticket.by,
        "keys": ticket.question.keys(),
        "cost": ticket.cost,
        "state": ticket.state,
        "told": told(ticket),
        "asked": ticket.asked,
        "reason": ticket.reason,
        "booked": ticket.booked or None,
        "due": ticket.due.isoformat() if ticket.due else None,
        "release": ticket.release or None,
    }


def _number_of(records: int | None) -> str:
    return "a private number of" if records is None else f"{records:,}"


def _bounds(entry: dict[str, Any]) -> str:
    if "levels" in entry:
        return ", ".join(map(str, entry["levels"]))
    if "low" in entry:
        return f"{entry['low']} to {entry['high']}"
    return str(entry.get("from", ""))


def _told_facts(facts: dict[str, Any]) -> str:
    shown = ("table", "question", "person", "reason", "amount")
    words = [str(facts[key])[:60] for key in shown if facts.get(key) not in (None, "")]
    return ", ".join(words)


def numbers(listed: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(number) for number in listed.replace(",", " ").split()]
    except ValueError:
        raise InputError(
            "--ladder takes seconds with commas between them, such as 5,15,60"
        ) from None
