"""`dpinfer desk`: questions of analysts who must not see the data, as files: ask, decide, run, answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.adjacency import Adjacency
from dpinfer.asking.from_spec import budget_of
from dpinfer.asking.questions import AnalystQuestion, read_question
from dpinfer.asking.spec import of_options
from dpinfer.cli import screen
from dpinfer.cli.screen import AsJson, Quiet, Screen
from dpinfer.errors import InputError, LedgerError, require

if TYPE_CHECKING:
    from dpinfer.privacy.shares import TotalShares
    from dpinfer_desk.desk import Desk, QuestionCheck
    from dpinfer_desk.store.roles import Analyst
    from dpinfer_desk.store.tables import RegisteredTable
    from dpinfer_desk.store.tickets import Ticket

app = typer.Typer(
    help="A steward keeps a desk in a folder.  Analysts send question files.  Each question costs a part of the "
    "table's total, within the allowance of its analyst.  The answer is shown at a public time.  If it is lost, the "
    "cost is not refunded.",
    add_completion=False,
    rich_markup_mode="rich",
)
table_app = typer.Typer(help="Registered tables: add, show, policy, publish, pause, resume.")
person_app = typer.Typer(help="Persons who may ask.")
app.add_typer(table_app, name="table")
app.add_typer(person_app, name="person")

Title = Annotated[str, typer.Option(help="The name of the desk.")]
ResponseTimes = Annotated[
    str,
    typer.Option(
        "--response-times",
        "--ladder",
        help="Possible seconds from booking to answer; each question gets one of them.",
        metavar="LIST",
    ),
]
_Folder = Annotated[Path, typer.Argument(help="The folder of the desk.", metavar="DIR")]
_Table = Annotated[str, typer.Argument(help="The name of the table.", metavar="TABLE")]
_Person = Annotated[str, typer.Argument(help="The name of the person.", metavar="PERSON")]
_Id = Annotated[str, typer.Argument(help="The id of a question, or its key.", metavar="QUESTION")]
_Reason = Annotated[str, typer.Option("--reason", help="The reason (recorded in the journal).")]
Description = Annotated[
    str,
    typer.Option(
        "--description", "--words", help="Full name or department (only stewards see this)."
    ),
]
Allowance = Annotated[
    str, typer.Option("--allowance", help="Allowance: 10% of the total, or 'ε = 0.5'.")
]
Epsilon = Annotated[float | None, typer.Option(help="Allowance as an ε: a question asked at it.")]
Rho = Annotated[float | None, typer.Option(help="Allowance in zCDP.")]
_Approval = Annotated[
    str, typer.Option(help="Which questions need an approval: each, above (a cost), none.")
]
_UpTo = Annotated[
    str, typer.Option("--up-to", help="With --approval above: that cost, 5% or 'ε = 0.5'.")
]
_Own = Annotated[
    bool, typer.Option("--own-answers", help="Each analyst reads only his own answers.")
]
_MaxRows = Annotated[
    int | None,
    typer.Option(
        help="Rows of the table at most, a public number, where the number of records is private."
    ),
]
_MaxUnitRows = Annotated[
    int | None, typer.Option(help="Rows of one unit at most, a public number, where there are ids.")
]


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
    response_times: ResponseTimes = "5,15,60,300,900,3600",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a desk in a new folder."""
    from dpinfer_desk.desk import Desk  # noqa: PLC0415  (loads pandas and formulaic)

    desk = Desk.create(folder, title, numbers(response_times))
    console = Screen(quiet, as_json)
    console.show(
        Text(f"A desk in {folder}. Next, add a table and a person:"),
        f"$ dpinfer desk table add {folder} visits --data visits.parquet --schema schema.toml --ledger ledger.db",
        f"$ dpinfer desk person add {folder} a.meier --table visits --allowance 10%",
    )
    console.emit({"desk": str(desk.folder.path), "id": desk.settings.id})


@app.command("list")
def list_(
    folder: _Folder,
    *,
    table: Annotated[str, typer.Option(help="Only those of a table.")] = "",
    by: Annotated[str, typer.Option(help="Only those of an analyst.")] = "",
    state: Annotated[str, typer.Option(help="Only those in a state, such as waiting.")] = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """List the tables and questions of a desk."""
    desk = opened(folder)
    questions = desk.tickets(table, by, (state,) if state else ())
    console = Screen(quiet, as_json)
    rows = [
        [one.name, one.title, _number_of(one.records), one.policy.approval, one.state]
        for one in desk.tables()
    ]
    console.show(screen.title(desk.settings.title or str(folder)))
    if rows:
        console.show(screen.table(("Table", "Title", "Records", "Approval", "State"), rows, left=5))
    if questions:
        heads = ("Question", "Table", "Analyst", "Formula", "State")
        console.show(
            "",
            screen.table(
                heads,
                [[t.id[:12], t.table, t.by, t.question.formula, t.state] for t in questions],
                left=5,
            ),
        )
    else:
        console.show(Text("No questions."))
    console.emit(
        {
            "tables": [one.name for one in desk.tables()],
            "questions": [_listed(t) for t in questions],
        }
    )


@app.command()
def run(
    folder: _Folder,
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop when the queue is empty.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Answer the queued questions, each after its response time.

    Questions that a crash left are settled first.  Ctrl-C is safe: a fit that was booked goes on, and the
    next run takes it over.
    """
    from dpinfer_desk.worker.worker import Worker  # noqa: PLC0415  (loads what a fit needs)

    desk = opened(folder)
    before = {ticket.id for ticket in desk.tickets() if ticket.ended}
    console = Screen(quiet, as_json)
    with console.work("working"):
        Worker(desk).run(until_idle=once)
    done = [ticket for ticket in desk.tickets() if ticket.ended and ticket.id not in before]
    for ticket in done:
        console.show(f"{ticket.id[:12]} {ticket.by}: {ticket.state}")
    waiting = desk.tickets(states=("waiting",))
    if waiting:
        console.show(f"{len(waiting)} need an approval: dpinfer desk approve {folder} QUESTION")
    console.emit({"ended": [_listed(ticket) for ticket in done]})


@app.command("open")
def open_(
    folder: _Folder,
    *,
    port: Annotated[
        int | None, typer.Option(help="The port on 127.0.0.1; by default 8765 or a free one.")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address only.")
    ] = False,
) -> None:
    """Open the pages of a desk in a browser on this machine, for one steward, without accounts.

    Pages and worker run until Ctrl-C.  The address contains a token; keep it to yourself.
    """
    from dpinfer_desk.web.server import serve  # noqa: PLC0415  (an extra)

    console = Screen()
    serve(
        opened(folder),
        port,
        not no_browser,
        lambda address: console.show(
            Text(
                "The desk is open and its worker runs; Ctrl-C ends both. This address is for you alone:"
            ),
            address,
        ),
    )


@app.command()
def verify(
    folder: _Folder,
    *,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Also compare the bytes of the tables.")
    ] = False,
    accept_old_copy: Annotated[
        bool, typer.Option("--accept-old-copy", help="Go on with an old copy of desk.db.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check that journal, questions, ledgers and results are consistent; offline, for an auditor."""
    desk = opened(folder, old_copy=accept_old_copy)
    verdict = desk.verify(thorough=thorough)
    console = Screen(quiet, as_json)
    facts = {"Events": str(verdict.events), "Questions": str(verdict.questions)}
    console.show(
        screen.facts(facts | {f"Head, {name}": head for name, head in verdict.heads.items()})
    )
    console.emit(
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
    console.show(
        Text(
            f"Verified: {verdict.events} events and {verdict.questions} questions are consistent. Store these hashes "
            "elsewhere; they reveal a restored old copy."
        )
    )


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
    """Print the journal, or write it to a file for an auditor."""
    desk = opened(folder)
    console = Screen(quiet, as_json)
    events = desk.journal()
    if out is not None:
        persistence.vacant(out, False, "name another file")
        persistence.write(out, desk.export_journal().encode())
        console.show(Text(f"{len(events)} events in {out}."))
    else:
        rows = [
            [str(event.number), event.time[:19].replace("T", " "), sentence]
            for event, sentence in zip(events, desk.sentences(events), strict=True)
        ]
        console.show(screen.table(("#", "Time (UTC)", "Event"), rows, left=3))
    console.emit({"events": [event.document() for event in events]})


# Tables


@table_app.command("add")
def add_table(  # noqa: PLR0913  (the public face)
    folder: _Folder,
    table: _Table,
    *,
    data: Annotated[Path, typer.Option(help="The table: a file, folder or pattern.")],
    schema: Annotated[Path, typer.Option(help="Its schema.")],
    ledger: Annotated[
        Path, typer.Option(help="Its ledger; a new one is made if a total is given.")
    ],
    epsilon: Annotated[float | None, typer.Option(help="Total of a new ledger.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon: (epsilon, delta).")] = None,
    rho: Annotated[float | None, typer.Option(help="Total of a new ledger in zCDP.")] = None,
    approval: _Approval = "each",
    up_to: _UpTo = "0",
    own_answers: _Own = False,
    records: Annotated[
        int | None, typer.Option(help="A public guess of their number if it is private.")
    ] = None,
    max_rows: _MaxRows = None,
    max_unit_rows: _MaxUnitRows = None,
    although: Annotated[
        str,
        typer.Option(
            help="Why files of a table with another ledger may be added (recorded in the journal)."
        ),
    ] = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Register a table: its data, its schema, the ledger that pays, and which questions need an approval."""
    from dpinfer_desk.store.tables import Policy  # noqa: PLC0415

    desk = opened(folder)
    made = _new_ledger(ledger, schema, {"epsilon": epsilon, "delta": delta, "rho": rho})
    try:
        policy = Policy(approval, _limit(up_to, dp.Ledger.open(ledger).shares), not own_answers)
        added = desk.add_table(
            *(table, data, schema, ledger, policy, records, although),
            max_rows=max_rows,
            max_unit_rows=max_unit_rows,
        )
    except BaseException:
        if made and not any(one.ledger_path == str(ledger.resolve()) for one in desk.tables()):
            ledger.unlink(missing_ok=True)
        raise
    console = Screen(quiet, as_json)
    console.show(
        Text(
            f"{table} is registered: {added.title}, {_number_of(added.records)} records, total "
            f"{added.ledger().total.amount}."
        )
    )
    console.emit({"table": table, "records": added.records, "schema": added.schema.digest()})


@table_app.command("show")
def show_table(
    folder: _Folder, table: _Table, quiet: Quiet = False, as_json: AsJson = False
) -> None:
    """Print the public facts of a table: columns, total, costs and analysts."""
    desk = opened(folder)
    registered = desk.table(table)
    console = Screen(quiet, as_json)
    account = desk.account(table)
    analysts = desk.analysts(table)
    total = account.ledger.total
    share = "reserved" if desk.reserved(table) else "first come, first served"
    facts = {
        "Protects": f"{account.ledger.unit} ({account.ledger.neighbours.sentence})",
        "Records": _number_of(registered.records),
        "Rows at most": _max_rows_text(registered),
        "Total": total.amount,
        "Used": account.statement(),
        "Approval": registered.policy.approval,
        "Allowances": share,
        "State": f"{registered.state} {registered.reason}".strip(),
    }
    console.show(screen.title(registered.title), screen.facts(facts), "")
    columns = registered.schema.document()["columns"]
    rows = [
        [name, str(entry.get("type", "derived")), _bounds(entry)] for name, entry in columns.items()
    ]
    console.show(screen.table(("Column", "Type", "Values"), rows, left=3), "")
    if analysts:
        rows = [
            [
                one.person,
                account.shares.allowance(one.amount),
                account.shares.percent(one.spent),
                one.state,
            ]
            for one in analysts
        ]
        console.show(screen.table(("Analyst", "Allowance", "Used", "State"), rows, left=1))
    spends = desk.burn_down(table)
    console.emit(
        {
            "table": table,
            "title": registered.title,
            "schema": registered.schema_text,
            "records": registered.records,
            "max_rows": registered.max_rows,
            "max_unit_rows": registered.max_unit_rows,
            "account": account.state(),
            "analysts": [vars(one) for one in analysts],
            "spent": [vars(one) for one in spends],
            "state": registered.state,
            "reason": registered.reason,
        }
    )


@table_app.command("policy")
def set_policy(
    folder: _Folder,
    table: _Table,
    *,
    approval: _Approval = "each",
    up_to: _UpTo = "0",
    own_answers: _Own = False,
) -> None:
    """Change which questions need an approval, and who reads answers."""
    from dpinfer_desk.store.tables import Policy  # noqa: PLC0415

    desk = opened(folder)
    desk.set_policy(table, Policy(approval, _limit(up_to, desk.shares(table)), not own_answers))


@table_app.command("pause")
def pause_table(folder: _Folder, table: _Table, *, reason: _Reason = "") -> None:
    """Pause a table: nothing can be asked or booked until it is resumed."""
    opened(folder).pause(table, reason)


@table_app.command("resume")
def resume_table(
    folder: _Folder,
    table: _Table,
    *,
    reason: _Reason = "",
    max_rows: _MaxRows = None,
    max_unit_rows: _MaxUnitRows = None,
) -> None:
    """Open a table again; --reason says why changed files are about the same units."""
    opened(folder).resume(table, reason, max_rows=max_rows, max_unit_rows=max_unit_rows)


@table_app.command("publish")
def publish_moments(
    folder: _Folder,
    table: _Table,
    file: Annotated[
        Path, typer.Argument(help="A file of dpinfer moments release.", metavar="FILE")
    ],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish a moment release of a table, which its analysts then ask for free."""
    release = opened(folder).publish_moments(table, file)
    console = Screen(quiet, as_json)
    console.show(
        f"Published release {release.privacy.release}: analysts of {table} ask it without a ticket, at no cost."
    )
    console.emit({"table": table, "release": release.privacy.release, "columns": release.declared})


# Persons


@person_app.command("add")
def add_person(  # noqa: PLR0913  (the public face)
    folder: _Folder,
    person: _Person,
    *,
    description: Description = "",
    table: Annotated[str, typer.Option(help="Also give an allowance at this table.")] = "",
    allowance: Allowance = "",
    epsilon: Epsilon = None,
    rho: Rho = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add a person, with an allowance if --table is given."""
    desk = opened(folder)
    amount = None
    if table:
        amount = amount_of(desk, table, allowance, epsilon, rho)
    added = desk.add_person(person, description)
    console = Screen(quiet, as_json)
    if amount is None:
        console.show(Text(f"{added.name} was added. Next, give an allowance: dpinfer desk allow."))
        console.emit({"person": added.name})
        return
    _shown_analyst(desk.allow(table, added.name, amount), desk, console)


@app.command()
def allow(
    folder: _Folder,
    table: _Table,
    person: _Person,
    *,
    allowance: Allowance = "",
    epsilon: Epsilon = None,
    rho: Rho = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Give a person an allowance at a table, or change it."""
    desk = opened(folder)
    analyst = desk.allow(table, person, amount_of(desk, table, allowance, epsilon, rho))
    _shown_analyst(analyst, desk, Screen(quiet, as_json))


@app.command()
def pause(folder: _Folder, table: _Table, person: _Person, *, reason: _Reason = "") -> None:
    """Pause the questions of a person at a table."""
    opened(folder).set_state(table, person, "paused", reason)


@app.command()
def resume(folder: _Folder, table: _Table, person: _Person, *, reason: _Reason = "") -> None:
    """Resume the questions of a person at a table."""
    opened(folder).set_state(table, person, "active", reason)


@app.command()
def revoke(folder: _Folder, table: _Table, person: _Person, *, reason: _Reason = "") -> None:
    """Revoke the access of a person to a table; open questions are declined."""
    opened(folder).set_state(table, person, "revoked", reason)


# Questions


@app.command()
def ask(  # noqa: PLR0913  (the public face)
    folder: _Folder,
    question: Annotated[Path, typer.Argument(help="A question file.", metavar="QUESTION.toml")],
    *,
    by: Annotated[str, typer.Option(help="The analyst, a person of the desk.")],
    table: Annotated[str, typer.Option(help="The table, unless the file names it.")] = "",
    key: Annotated[str, typer.Option(help="The analyst's own name of the question.")] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Ask and pay once more for the same question.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Ask even if hardly any coefficient could be reported.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cost and forecast, and ask nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask a question from a file: check it, then queue it or have it wait for an approval.

    \b
      table = "visits"
      formula = "visit ~ age + health"
      loss = "logistic"          # or "linear", "poisson", "hazard", "svm", "huber", "quantile"
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
    console = Screen(quiet, as_json)
    if dry_run:
        _tried(desk, table, asked, by, console)
        return
    from dpinfer_desk.store.tickets import (  # noqa: PLC0415  (commands load what they need)
        ConflictError,
        UnconfirmedError,
    )

    try:
        ticket = desk.ask(table, asked, by, key, again=again, anyway=anyway)
    except UnconfirmedError as fault:
        raise ConflictError(f"{fault} (--{fault.option})") from None
    _show(desk, ticket, console)


@app.command()
def show(folder: _Folder, question: _Id, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Print the state of a question, and when its answer is shown."""
    desk = opened(folder)
    _show(desk, desk.ticket(question), Screen(quiet, as_json))


@app.command()
def approve(
    folder: _Folder,
    question: _Id,
    *,
    reason: _Reason = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Approve a waiting question: by its formula and its cost, never by the data."""
    desk = opened(folder)
    _show(desk, desk.decide(question, True, reason), Screen(quiet, as_json))


@app.command()
def decline(
    folder: _Folder,
    question: _Id,
    *,
    reason: _Reason = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Decline a question that is not booked yet, with a reason for the analyst."""
    desk = opened(folder)
    _show(desk, desk.decide(question, False, reason), Screen(quiet, as_json))


@app.command()
def withdraw(folder: _Folder, question: _Id, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Withdraw a question before it is booked, free of charge."""
    desk = opened(folder)
    _show(desk, desk.withdraw(question), Screen(quiet, as_json))


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
    """Print the answer, or write a folder to send: result.json, coefficients.csv, report.html, forest.png."""
    desk = opened(folder)
    ticket = desk.ticket(question)
    result = desk.result(ticket.id)
    console = Screen(quiet, as_json)
    level = ticket.question.level
    files: Sequence[Path] = []
    if out is not None:
        persistence.vacant(out / persistence.RESULT, False, "name another folder")
        persistence.prepare(out)
        persistence.write(out / persistence.RESULT, result.to_json().encode())
        title = ticket.question.title or desk.table(ticket.table).title
        files = dp.report.write(result, out, title=title, level=level)
    console.show(screen.coefficients(result, level))
    if out is not None:
        console.show("", Text(f"Written: {', '.join(map(str, files))}"))
    console.emit(
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
    records: Annotated[int, typer.Option(help="Number of made-up rows.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the made-up rows.")] = 0,
) -> None:
    """Write made-up records with the columns of a table, to practise on, free of charge."""
    persistence.vacant(out, False, "name another file")
    frame = opened(folder).practice(table, records, seed)
    persistence.write(out, frame.to_csv(index=False).encode())


def opened(folder: Path, *, old_copy: bool = False) -> "Desk":
    """Open the desk in a folder."""
    from dpinfer_desk.desk import Desk  # noqa: PLC0415  (loads pandas and formulaic)

    return Desk.open(folder, old_copy=old_copy)


def _new_ledger(path: Path, schema: Path, total: dict[str, float | None]) -> bool:
    """Make the ledger of a table if a total is given; return whether one was made."""
    if not any(total.values()):
        if not path.exists():
            raise InputError(
                f"there is no ledger {str(path)!r}: give its total, --epsilon 1 --delta 1e-6, or make it with "
                "`dpinfer budget init`"
            )
        return False
    if path.exists():
        raise InputError(f"{str(path)!r} exists already: leave out the total, or name a new file")
    budget = budget_of(of_options({("privacy", key): value for key, value in total.items()}))
    assert budget is not None
    public = dp.Schema.read(schema)
    neighbours = Adjacency.of(Adjacency.REPLACE, units=public.unit.many)
    dp.Ledger.create(path, budget, unit=public.unit.name, neighbours=neighbours, title=public.title)
    return True


def amount_of(
    desk: "Desk", table: str, allowance: str, epsilon: float | None, rho: float | None
) -> float:
    """Return an allowance in the measure of a table's total."""
    given = [allowance] if allowance else []
    given += [
        f"{sign} = {value!r}" for sign, value in (("ε", epsilon), ("ρ", rho)) if value is not None
    ]
    if len(given) != 1:
        raise InputError(
            "an allowance is typed once, for example --allowance 10% or --allowance 'ε = 0.5'; --epsilon and --rho "
            "are other ways"
        )
    return desk.shares(table).read_allowance(given[0])


def _limit(up_to: str, shares: "TotalShares") -> float:
    """Return the cost up to which no approval is needed; a bare number is in the measure of the total."""
    return shares.read(up_to, shares.measure)


def _shown_analyst(analyst: "Analyst", desk: "Desk", console: Screen) -> None:
    allowance = desk.shares(analyst.table).allowance(analyst.amount)
    share = "all allowances together fit into the total, so everyone can spend theirs in full"
    if not desk.reserved(analyst.table):
        share = (
            "all allowances together may be more than the total pays for: first come, first served"
        )
    may = "may spend"
    if analyst.state != "active":
        may = f"is {analyst.state} (resume with `dpinfer desk resume`) and could otherwise spend"
    console.show(Text(f"{analyst.person} {may} {allowance} at {analyst.table}; {share}."))
    console.emit(vars(analyst) | {"reserved": desk.reserved(analyst.table)})


def _tried(desk: "Desk", table: str, question: AnalystQuestion, by: str, console: Screen) -> None:
    """Print cost and forecast of a question, and ask nothing."""
    checked = desk.check(table, question, by)
    forecast = None
    expected = "none: the number of records is private"
    if desk.table(table).records is not None:
        with console.work("simulating"):
            forecast = desk.forecast(table, question)
        low, high = forecast.range()
        expected = (
            f"a typical (median) {100 * question.level:.4g}% interval of ±{low:.2g} to {high:.2g}"
        )
    facts = {
        "Model": checked.entry.purpose,
        "Estimates": f"{len(checked.names)} coefficients: {', '.join(checked.names)}",
        "Cost": checked.shares.cost(question.budget, checked.cost),
        "Allowance": f"{checked.shares.percent(checked.analyst.left)} left of "
        f"{checked.shares.allowance(checked.analyst.amount)}",
        "Forecast": expected,
        "Can be asked": "yes" if checked.permitted else f"no: {checked.reason}",
        "Approval": "needed" if checked.waits else "not needed",
    }
    for name, text in (("Warning", checked.warning), ("Low budget", checked.low_budget)):
        if text:
            facts[name] = text
    if checked.answered:
        facts["Answered"] = f"already, as {checked.answered[0].id[:12]}: free to read"
    console.show(screen.title("Nothing was asked"), screen.facts(facts))
    console.emit(_check_document(checked) | {"forecast": forecast and forecast.table()})


def _check_document(checked: "QuestionCheck") -> dict[str, Any]:
    return {
        "coefficients": list(checked.names),
        "cost": checked.cost,
        "cost_share": checked.shares.of(checked.cost),
        "measure": checked.measure,
        "allowed": checked.permitted,
        "reason": checked.reason,
        "waits": checked.waits,
        "warning": checked.warning or None,
        "hopeless": checked.low_budget or None,
        "answered": [ticket.id for ticket in checked.answered],
    }


def _show(desk: "Desk", ticket: "Ticket", console: Screen) -> None:
    from dpinfer_desk.desk import state_message  # noqa: PLC0415

    facts = {
        "Question": ticket.id,
        "Formula": f"{ticket.question.formula} ({ticket.question.loss}), table {ticket.table}",
        "Analyst": ticket.by,
        "Cost": desk.cost_writer()(ticket),
        "State": f"{ticket.state}: {state_message(ticket)}",
    }
    if ticket.question.title:
        facts["Title"] = ticket.question.title
    console.show(screen.facts(facts))
    console.emit(_listed(ticket))


def _listed(ticket: "Ticket") -> dict[str, Any]:
    from dpinfer_desk.desk import state_message  # noqa: PLC0415

    return {
        "question": ticket.id,
        "table": ticket.table,
        "by": ticket.by,
        "keys": ticket.question.keys(),
        "cost": ticket.cost,
        "state": ticket.state,
        "told": state_message(ticket),
        "asked": ticket.asked,
        "reason": ticket.reason,
        "booked": ticket.booking_time or None,
        "due": ticket.due.isoformat() if ticket.due else None,
        "release": ticket.release or None,
    }


def _number_of(records: int | None) -> str:
    return "a private number of" if records is None else f"{records:,}"


def _max_rows_text(table: "RegisteredTable") -> str:
    """Return the public sizes of a table in words."""
    if table.max_rows is None:
        return "not declared"
    if not table.schema.unit.many:
        return f"{table.max_rows:,}"
    return f"{table.max_rows:,}, and {table.max_unit_rows:,} of {table.schema.unit.name}"


def _bounds(entry: dict[str, Any]) -> str:
    if "levels" in entry:
        return ", ".join(map(str, entry["levels"]))
    if "low" in entry:
        return f"{entry['low']} to {entry['high']}"
    return str(entry.get("from", ""))


def numbers(listed: str) -> list[float]:
    """Parse numbers with commas between them."""
    try:
        return [float(number) for number in listed.replace(",", " ").split()]
    except ValueError:
        raise InputError(
            "--response-times takes seconds with commas between them, such as 5,15,60"
        ) from None
