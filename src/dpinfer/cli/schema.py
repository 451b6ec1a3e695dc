"""`dpinfer schema`: draft a schema, learn what nobody can state, and check one."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.asking.from_spec import adjacency_of, budget_of
from dpinfer.asking.spec import of_options
from dpinfer.cli import screen
from dpinfer.cli.budget import UNBOOKED, Counter, after_booking, listed, open_ledger
from dpinfer.cli.errors import remark
from dpinfer.cli.options import (
    AdjacencyOption,
    AllowLargerDelta,
    DeltaOption,
    EpsilonOption,
    LedgerOption,
    NeighboursOption,
    RhoOption,
    privacy_section,
)
from dpinfer.cli.screen import AsJson, Quiet, Screen, Verbose
from dpinfer.errors import InputError
from dpinfer.fit.bounds import LearnedBounds, Learning, learning
from dpinfer.privacy.account import Account
from dpinfer.privacy.budget import weak_delta
from dpinfer.schema.columns import Category, Ids, Level, Number, Outcome, Wanted, entry_of
from dpinfer.schema.design import Design
from dpinfer.schema.follow_up import SurvivalResponse
from dpinfer.schema.formula import names_of, parse
from dpinfer.schema.schema import READ_NOTHING
from dpinfer.schema.terms import Response
from dpinfer.schema.unit import AVERAGE, EVERY, ROW, Unit
from dpinfer.tables import data_check as peeks
from dpinfer.tables.arrow_files import Files
from dpinfer.tables.memory import misfit

app = typer.Typer(add_completion=False, rich_markup_mode="rich")

_VACANT = "name another file with -o, or give --force to replace it"
_UNREAD = "Values were not read. --peek counts those that do not match the schema, for the holder of the data alone."
_UNREAD_CSV = f"A CSV file has no types. {_UNREAD}"
_UNUSED = "row not used"
_FORMS = {
    peeks.THOUSANDS: "have commas between thousands, as 12,345: write 12345",
    peeks.DECIMAL_COMMAS: "have commas for decimal points, as 1,5: write 1.5",
    peeks.OTHER_DATES: "are dates in another form: write them as 2024-05-31",
    peeks.ZERO_ONE: 'are 0 and 1: write levels = [0, 1] in the schema, or type = "boolean" without levels',
}
"""The remedy where most cells that are not read are written in one form."""
_GUESSED = f"The guess is from values\n# of the first {peeks.FIRST:,} records, which is NOT PRIVATE: check each type"
_LEARN = """Learn ranges of numbers and levels of texts privately, where nobody can state them.

It costs budget, shared alike among the columns: name those that a formula needs.  Ranges hold about 99 of 100 units; \
the exact minimum and maximum are never told.  Levels that few units have do not show, and need --delta beside \
--epsilon.
"""


@app.command()
def init(
    table: Annotated[
        Path, typer.Argument(help="A .csv, .parquet or .arrow file.", metavar="TABLE")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the draft goes.")] = Path(
        "schema.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    formula: Annotated[
        str | None, typer.Option(help="Draft the columns of this formula alone.")
    ] = None,
    peek: Annotated[
        bool, typer.Option("--peek", help="Guess types of a CSV file from its values: not private.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draft a schema from the names and types of the columns.

    No value is read, unless --peek asks for a guess of the types of a CSV file: bounds and levels
    are for you.
    """
    persistence.vacant(out, force, _VACANT)
    columns = None if formula is None else names_of(formula)
    text = _guessed(table, columns) if peek else dp.Schema.draft(table, columns)
    persistence.write(out, text.encode())
    console = Screen(quiet, as_json)
    gaps = text.count('= "?"')
    if peek:
        console.show(Text(peeks.NOT_PRIVATE, style="bold red"))
    delete = "delete the columns that no formula needs, " if formula is None else ""
    check = f"  dpinfer schema check {out} --data {table}"
    if formula is not None:
        check += f" --formula {shlex.quote(formula)}"
    console.show(
        Text(
            f'Wrote {out}. Replace every "?" ({gaps} of them) by what is known without the table, {delete}declare the '
            "outcome. Then:"
        ),
        check,
    )
    document: dict[str, Any] = {
        "path": str(out),
        "gaps": gaps,
        "columns": columns or [name for name, _ in Files(table).types()],
    }
    if peek:
        document["not_private"] = peeks.NOT_PRIVATE
    console.emit(document)


def _guessed(table: Path, columns: list[str] | None) -> str:
    """Draft a schema with types that are guessed from values: not private."""
    text = dp.Schema.draft(peeks.typed(table), columns)
    return text.replace(
        READ_NOTHING, f"from the names of the columns and a guess of their types. {_GUESSED}"
    )


@app.command()
def check(
    schema: Annotated[Path, typer.Argument(help="The schema.", metavar="SCHEMA")],
    data: Annotated[
        Path | None, typer.Option(help="Check names and types of this table as well.")
    ] = None,
    formula: Annotated[
        str | None, typer.Option(help="Check this formula, and only its columns.")
    ] = None,
    peek: Annotated[
        bool, typer.Option("--peek", help="Count the values that do not fit: not private.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Read a schema, and tell whether a table and a formula fit it.  Without --peek values are
    never looked at.
    """
    if not schema.exists():
        raise InputError(
            f"there is no file {str(schema)!r}: draft one with `dpinfer schema init TABLE -o {schema}`"
        )
    if peek and data is None:
        raise InputError("--peek counts values of a table: name it with --data TABLE")
    declared = dp.Schema.read(schema)
    unit = declared.unit
    facts = {"Protects": declared.unit.name, **_rows_of(unit), "Digest": declared.digest()[:16]}
    columns, names = _asked(declared, formula, facts)
    derived = declared.derived_from(declared.derived if formula is None else names_of(formula))
    for one in derived:
        facts[one.name] = f"derived: {one.text}"
    faults = {} if data is None else _faults(data, columns)
    console = Screen(quiet, as_json)
    console.show(
        _heading(declared),
        _columns_table(declared, columns, faults, "found" if _is_csv(data) else "type matches"),
        "",
        screen.facts(facts),
    )
    if data is not None and not peek:
        console.show("", Text(_UNREAD_CSV if _is_csv(data) else _UNREAD))
    document: dict[str, Any] = {
        "unit": declared.unit.name,
        **_counts(unit),
        "digest": declared.digest(),
        "columns": [
            {
                "name": column.name,
                "type": _type(declared, column),
                "fault": faults.get(column.name, ""),
            }
            for column in columns
        ],
        "derived": {one.name: one.text for one in derived},
        "coefficients": names,
    }
    wrong = [fault for fault in faults.values() if fault]
    if peek and not wrong:
        document["peek"] = _peeked(peeks.peek(data, columns), console)
    console.emit(document)
    if len(wrong) > 1:
        raise InputError(f"{wrong[0]} (and {len(wrong) - 1} more)")
    if wrong:
        raise InputError(wrong[0])


def _asked(
    declared: "dp.Schema", formula: str | None, facts: dict[str, str]
) -> tuple[list[Wanted], tuple[str, ...] | None]:
    """Return the columns to check, with ids and weights last, and the coefficients of a formula."""
    unit = declared.unit
    if formula is None:
        unit_names = {column.name for column in unit.columns}
        columns: list[Wanted] = [c for c in declared.columns.values() if c.name not in unit_names]
        return [*columns, *unit.columns], None
    response, terms = parse(formula, declared)
    names = Design.of_terms(terms).names
    facts["Outcome"] = _outcome(response)
    if terms.offset is not None:
        facts["Offset"] = f"{terms.offset.text}, added to a log rate as it is: for counts and rates"
    facts["Formula"] = f"{len(names)} coefficients: {', '.join(names)}"
    return [*response.columns, *terms.columns, *unit.columns], names


def _rows_word(unit: Unit) -> str | None:
    """Return the word for how rows of a unit count, for a program."""
    if not unit.many or unit.weights:
        return None
    return EVERY if unit.every else AVERAGE


def _counts(unit: Unit) -> dict[str, Any]:
    """Return the weight of a row, for a program."""
    return {
        "ids": unit.column or None,
        "rows": _rows_word(unit),
        "units": unit.number,
        "largest_table": unit.largest,
        "weights": unit.weights or None,
        "most_weight": unit.max_weight if unit.weights else None,
    }


def _peeked(peek: peeks.Peek, console: Screen) -> dict[str, Any]:
    """Show the values that do not fit, by columns; return them for a program."""
    heads = (
        "Column",
        "missing",
        "no level or number",
        "of these by case",
        "below low",
        "above high",
    )
    rows = [
        [c.name, *(f"{k:,}" for k in (c.missing, c.unread, c.near, c.below, c.above))]
        for c in peek.columns
    ]
    usable = f"{peek.usable:,} of {peek.rows:,} rows have a value that fits, or a substitute, in every column above"
    if peek.broken:
        usable += f"; broken lines, which count as missing in every column: {peek.broken:,}"
    if peek.no_text:
        usable += f", {peek.no_text:,} of them since they are not UTF-8: save the file as UTF-8"
    console.show("", Text(peeks.NOT_PRIVATE, style="bold red"), "", screen.table(heads, rows))
    console.show("", Text(f"{usable}."))
    if any(column.near for column in peek.columns):
        console.show(
            Text(
                "By case: large and small letters, and the number of blanks inside, are told apart. Write levels as "
                'they are in the table, or spelling = "any" below them.'
            )
        )
    for column in peek.columns:
        if column.form:
            console.show(
                Text(f"{column.name}: most cells that are not read {_FORMS[column.form]}.")
            )
    return {"not_private": peeks.NOT_PRIVATE, **asdict(peek)}


def _rows_of(unit: Unit) -> dict[str, str]:
    """Describe the weight of a row."""
    facts = {}
    if unit.many:
        facts["Whose rows"] = f"all with the same {unit.column} are protected together"
    if unit.many and not unit.weights:
        facts["Rows count"] = "so that every unit counts alike (the average unit)"
        if unit.every:
            facts["Rows count"] = (
                "once each in least squares, logistic and Poisson regression without a penalty; elsewhere so that "
                "every unit counts alike"
            )
    if unit.number is not None:
        facts["Units"] = f"{unit.number:,}, which is believed and public"
    if unit.largest > ROW.largest:
        facts["Largest table"] = f"{unit.largest:,} rows, for which noise is sized"
    if unit.weights:
        facts["Rows count"] = (
            f"by {unit.weights}, trimmed at {unit.max_weight:g} a {_protected(unit)}"
        )
    return facts


def _protected(unit: Unit) -> str:
    return "unit" if unit.many else "row"


def _faults(data: Path, columns: list[Wanted]) -> dict[str, str]:
    """Return the faults of each column of the file, by its name and type; empty where there is
    none.
    """
    there = {name for name, _ in Files(data).types()}
    blank = Files(data).blank([column for column in columns if column.name in there] or columns)
    faults: dict[str, str] = {}
    for column in columns:
        if column.name in there:
            faults[column.name] = misfit(blank, column)
        else:
            faults[column.name] = (
                f"the file {data.name!r} has no column {column.name!r}: correct its name, or delete it from the schema"
            )
    return faults


def _heading(declared: "dp.Schema") -> Text:
    return screen.title(declared.title or "Schema")


def _is_csv(data: Path | None) -> bool:
    return data is not None and Files(data).is_csv


def _columns_table(
    declared: "dp.Schema", columns: list[Wanted], faults: dict[str, str], no_fault: str
) -> Table:
    """Return a table of the declared columns, and of whether a file fits, if one was read."""
    heads = ["Column", "Type", "Public facts", "Missing values"]
    if faults:
        heads.append("File")
    rows: list[list[str | Text]] = []
    for column in columns:
        row: list[str | Text] = [
            column.name,
            _type(declared, column),
            _facts(declared, column),
            _missing(declared, column),
        ]
        if faults.get(column.name):
            row.append(Text("does not match", style="red"))
        elif faults:
            row.append(Text(no_fault))
        rows.append(row)
    return screen.table(heads, rows, left=len(heads))


def _outcome(response: Response) -> str:
    number = response.number
    if isinstance(response, SurvivalResponse):
        return f"{response.name}, a survival time: for a hazard regression"
    if number is None:
        return f"{response.name}, two levels: for a classifier"
    return f"{response.name}, {_range(number.low, number.high, response.unit)}: for a regression"


def _type(declared: "dp.Schema", column: Wanted) -> str:
    if column.name in (declared.unit.column, declared.unit.weights):
        return "id" if isinstance(column, Ids) else "weight"
    entry = declared[column.name]
    if isinstance(entry, Number):
        return entry.kind
    return type(entry).__name__.lower()


def _facts(declared: "dp.Schema", column: Wanted) -> str:
    if not isinstance(column, Ids) and column.learned:
        return f"{_stated(declared, column)} (learned, release {column.learned[:8]})"
    return _stated(declared, column)


def _stated(declared: "dp.Schema", column: Wanted) -> str:
    if isinstance(column, Ids):
        return "any"
    if column.name == declared.unit.weights:
        return f"0 to {declared.unit.max_weight:g} a {_protected(declared.unit)}"
    if column.levels:
        return ", ".join(map(_level, column.levels))
    if isinstance(column, Number) and column.kind == "boolean":
        return "no or yes"
    assert not isinstance(column, Category)
    assert column.low is not None
    assert column.high is not None
    if isinstance(column, Number) and column.kind == "date":
        ends = entry_of(column)
        return f"{ends['low']} to {ends['high']}"
    return _range(column.low, column.high, column.unit)


def _level(level: Level) -> str:
    if isinstance(level, bool):
        return str(level).lower()
    return str(level)


def _range(low: float, high: float, unit: str) -> str:
    return f"{low:g} to {high:g} {unit}".rstrip()


def _missing(declared: "dp.Schema", column: Wanted) -> str:
    if isinstance(column, Ids) or column.name == declared.unit.weights:
        return _UNUSED
    if isinstance(column, Outcome) or column.missing is None:
        return _UNUSED
    return f"read as {entry_of(column)['missing']}"


@app.command(help=_LEARN)
def learn(  # noqa: PLR0913  (the public face)
    table: Annotated[
        Path, typer.Argument(help="A .csv, .parquet or .arrow file.", metavar="TABLE")
    ],
    *,
    schema: Annotated[
        Path | None, typer.Option(help='A schema with gaps ("?"): types, the unit.')
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Which: a,b, in a CSV file a:integer,b:category.")
    ] = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    adjacency: AdjacencyOption = None,
    neighbours: NeighboursOption = None,
    ledger: LedgerOption = None,
    allow_larger_delta: AllowLargerDelta = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the schema goes.")] = Path(
        "schema.toml"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the cost; read, book and write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn what a schema leaves open."""
    spec = of_options(privacy_section(epsilon, delta, rho, adjacency, neighbours))
    budget = budget_of(spec)
    opened = None if ledger is None else open_ledger(ledger, allow_larger_delta=allow_larger_delta)
    unit = "one record" if opened is None else opened.unit
    names = None if columns is None else _names(columns)
    task = learning(table, schema, budget, names, adjacency_of(spec), unit)
    console = Screen(quiet, as_json, verbose)
    if dry_run:
        _preview(task, opened, out, console)
    else:
        _release(task, opened, out, console, force)


def _names(listed: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def _preview(task: Learning, ledger: "dp.Ledger | None", out: Path, console: Screen) -> None:
    """Show the cost, what would show, and what the ledger would have left; raise what `learn` would
    raise.
    """
    entry = task.entry
    booked = task.plan.releases()
    size = task.draft.unit.size(task.n)
    if task.n is None and task.neighbours.counted:
        size = "whose units are not counted"
    facts = {
        "Table": f"{task.table}, {size}",
        "Ranges": ", ".join(task.plan.ranges) or "none",
        "Levels": ", ".join(task.plan.levels) or "none",
        "Protects": f"{entry.unit} ({entry.neighbours.sentence})",
        "Cost": task.plan.budget.amount,
        "Shows": "; ".join(_shows(task)),
    }
    if console.verbose:
        facts["Spent on"] = "; ".join(
            f"{event.step} ({event.mechanism}): {event.share.amount}" for event in entry.events
        )
    if task.skipped:
        facts["Left open"] = f"{', '.join(task.skipped)}: levels need --delta"
    weak = weak_delta(task.plan.budget, task.n)
    if weak:
        facts["Note"] = weak
    account, after, words = after_booking(ledger, entry)
    facts |= words
    facts["Output"] = str(out)
    if out.exists():
        facts["Output"] += " is there already: name another file, or give --force"
    console.show(screen.title("Dry run: no value was read"), screen.facts(facts))
    console.emit(
        {
            "dry_run": True,
            "records": task.n,
            "ranges": list(booked.ranges),
            "levels": list(booked.levels),
            "skipped": list(task.skipped),
            "entry": listed(entry),
            "ledger": account and account.state(),
            "after": after,
        }
    )
    if after["allowed"] is False:
        raise dp.LedgerError(after["reason"])


def _shows(task: Learning) -> list[str]:
    """Say from how many units on something is found, by the noise alone."""
    booked = task.plan.releases()
    ranges = [steps[0] for steps in booked.ranges.values()][:1]
    levels = list(booked.levels.values())[:1]
    return [f"a magnitude that about {task.threshold(one):.3g} units have" for one in ranges] + [
        f"a level that about {task.threshold(one):.3g} units have" for one in levels
    ]


def _release(
    task: Learning, ledger: "dp.Ledger | None", out: Path, console: Screen, force: bool
) -> None:
    """Book, read, release, write."""
    persistence.vacant(out, force, _VACANT)
    persistence.prepare(out.parent)
    counter = None if ledger is None else Counter(ledger)
    try:
        with console.work(f"learning from {task.table}"):
            bounds = task.run(counter)
    except BaseException:
        if counter and counter.releases:
            remark(f"the spend was booked as release {counter.releases[0]} before this happened")
        raise
    _keep(out, bounds)
    account = None if ledger is None else Account.of(ledger)
    console.show(*_learnt(task, bounds, account, out))
    console.emit(_receipt(task, bounds, account, out))


def _keep(out: Path, bounds: LearnedBounds) -> None:
    """Write the schema, which was paid for; if the folder fails after all, print it to stdout."""
    try:
        persistence.write(out, bounds.text.encode())
    except OSError as fault:
        print(bounds.text)
        raise InputError(
            f"{out} cannot be written any more ({fault.strerror}): the schema was printed to stdout instead, save it"
        ) from None


def _learnt(task: Learning, bounds: LearnedBounds, account: Account | None, out: Path) -> list[Any]:
    booked = UNBOOKED
    if account is not None:
        booked = f"{account.statement()} Booked as release {bounds.release}."
    rows = [[one.name, _keys_in_words(one.keys), one.words] for one in bounds.columns]
    rows += [[name, "?", "levels need --delta"] for name in task.skipped]
    facts = {
        "Privacy": f"{bounds.budget}; protects {bounds.entry.unit}",
        "Ledger": booked,
        "Written": str(out),
    }
    if bounds.gaps:
        facts["To do"] = (
            f'{bounds.gaps} times "?": replace it by what is known without the table, or delete the column'
        )
    sheet = screen.table(("Column", "Learnt", "How well"), rows, left=3)
    last = Text(f"Then: dpinfer schema check {out} --data {task.table}")
    return [screen.title("Bounds by a private release"), sheet, "", screen.facts(facts), "", last]


def _keys_in_words(keys: Any) -> str:
    if not keys:
        return "?"
    if "levels" in keys:
        return ", ".join(keys["levels"])
    return ", ".join(f"{key} {end:g}" for key, end in keys.items())


def _receipt(
    task: Learning, bounds: LearnedBounds, account: Account | None, out: Path
) -> dict[str, Any]:
    columns = [
        {
            "name": one.name,
            **one.keys,
            "words": one.words,
            "clipped": one.clipped,
            "least": one.threshold,
            "counts": None if one.counts is None else dict(one.counts),
        }
        for one in bounds.columns
    ]
    return {
        "booked": bounds.release is not None,
        "release": bounds.release,
        "budget": bounds.budget,
        "unit": bounds.entry.unit,
        "columns": columns,
        "skipped": list(task.skipped),
        "gaps": bounds.gaps,
        "path": str(out),
        "ledger": account and account.state(),
    }
