"""`dpinfer schema`: draft a schema, and check one; `dpinfer.cli.learn` fills one in."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli import screen
from dpinfer.cli.screen import AsJson, Quiet, Screen
from dpinfer.errors import InputError
from dpinfer.schema.columns import Category, Ids, Number, Outcome, Wanted
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import READ_NOTHING
from dpinfer.schema.terms import Response
from dpinfer.schema.unit import Unit
from dpinfer.tables import data_check as peeks
from dpinfer.tables.arrow_files import Files
from dpinfer.tables.memory import misfit

app = typer.Typer(
    help="What is public about a table: draft it, learn it, check it.", rich_markup_mode="rich"
)


@app.command()
def init(
    table: Annotated[
        Path, typer.Argument(help="A .csv, .parquet or .arrow file.", metavar="TABLE")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the draft goes.")] = Path(
        "schema.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
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
    persistence.vacant(out, force, "name another file with -o, or give --force to replace it")
    text = dp.Schema.draft(peeks.typed(table) if peek else table)
    if peek:
        text = text.replace(
            READ_NOTHING, f"from the names of the columns and a guess of their types. {_GUESSED}"
        )
    persistence.write(out, text.encode())
    talk = Screen(quiet, as_json)
    gaps = text.count('= "?"')
    talk.show(*([Text(peeks.NOT_PRIVATE, style="bold red")] if peek else []))
    talk.show(
        Text(
            f'Wrote {out}. Replace every "?" ({gaps} of them) by what is known without the table, delete the columns '
            "that no formula needs, declare the outcome. Then:"
        ),
        f"  dpinfer schema check {out} --data {table}",
    )
    told = {
        "path": str(out),
        "gaps": gaps,
        "columns": [name for name, _ in Files(table).types()],
    }
    talk.give(told | ({"not_private": peeks.NOT_PRIVATE} if peek else {}))


_GUESSED = f"The guess is from values\n# of the first {peeks.FIRST:,} records, which is NOT PRIVATE: check each type"


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
    known = dp.Schema.read(schema)
    whom, own = known.unit, {column.name for column in known.unit.columns}
    columns: list[Wanted] = [column for column in known.columns.values() if column.name not in own]
    names, facts = (
        None,
        {"Protects": known.unit.name} | _rows_of(whom) | {"Digest": known.digest()[:16]},
    )
    if formula is not None:
        response, terms = parse(formula, known)
        columns, names = [*response.columns, *terms.columns], Design.of_terms(terms).names
        facts |= {
            "Outcome": _told(response),
            "Formula": f"{len(names)} coefficients: {', '.join(names)}",
        }
    columns += whom.columns
    faults = {} if data is None else _faults(data, columns)
    talk = Screen(quiet, as_json)
    talk.show(*_shown(known, columns, faults if data else None), "", screen.facts(facts))
    listed = [
        {"name": c.name, "type": _type(known, c), "fault": faults.get(c.name, "")} for c in columns
    ]
    counts = {
        "ids": whom.column or None,
        "rows": whom.rows if whom.many and not whom.weights else None,
    }
    counts |= {"units": whom.number, "weights": whom.weights or None}
    counts |= {"most_weight": whom.most_weight if whom.weights else None}
    told: dict[str, Any] = (
        {"unit": known.unit.name}
        | counts
        | {"digest": known.digest(), "columns": listed, "coefficients": names}
    )
    if peek and not any(faults.values()):
        told |= {"peek": _peeked(peeks.peek(data, columns), talk)}
    talk.give(told)
    if any(faults.values()):
        wrong = [fault for fault in faults.values() if fault]
        raise InputError(wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""))


def _peeked(found: peeks.Peek, talk: Screen) -> dict[str, Any]:
    """What does not fit, by columns, on the screen and for a program."""
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
        for c in found.columns
    ]
    usable = f"{found.usable:,} of {found.rows:,} rows have a value that fits, or a substitute, in every column above"
    broken = (
        f"; broken lines, which count as missing in every column: {found.broken:,}"
        if found.broken
        else ""
    )
    talk.show(
        "", Text(peeks.NOT_PRIVATE, style="bold red"), "", screen.sheet(heads, rows), "", Text(f"{usable}{broken}.")
    )  # fmt: skip
    if any(column.near for column in found.columns):
        talk.show(
            Text(
                "By case: large and small letters are told apart. Write levels as they are in the table."
            )
        )
    return {"not_private": peeks.NOT_PRIVATE, **asdict(found)}


def _rows_of(whom: Unit) -> dict[str, str]:
    """What a row counts, in words."""
    facts = (
        {"Whose rows": f"all with the same {whom.column} are protected together"}
        if whom.many
        else {}
    )
    if whom.many and not whom.weights:
        alike = (
            f"alike up to {whom.rows:g} a unit; a unit with more of them counts as {whom.rows:g}"
        )
        facts["Rows count"] = (
            "so that every unit counts alike (the average unit)" if whom.rows == 1 else alike
        )
    if whom.number is not None:
        facts["Units"] = f"{whom.number:,}, which is believed and public"
    if whom.weights:
        facts["Rows count"] = (
            f"by {whom.weights}, trimmed at {whom.most_weight:g} a {'unit' if whom.many else 'row'}"
        )
    return facts


def _faults(data: Path, columns: list[Wanted]) -> dict[str, str]:
    """What is wrong with each column of the file, by its name and type; empty where nothing is."""
    there = {name for name, _ in Files(data).types()}
    found: dict[str, str] = {}
    blank = Files(data).blank([column for column in columns if column.name in there] or columns)
    for column in columns:
        if column.name in there:
            found[column.name] = misfit(blank, column)
        else:
            found[column.name] = (
                f"the file {data.name!r} has no column {column.name!r}: correct its name, or delete it from the schema"
            )
    return found


def _shown(known: "dp.Schema", columns: list[Wanted], faults: dict[str, str] | None) -> list[Any]:
    heads = ["Column", "Type", "Public facts", "Missing values"] + (
        [] if faults is None else ["File"]
    )
    rows: list[list[str | Text]] = []
    for column in columns:
        row: list[str | Text] = [
            column.name,
            _type(known, column),
            _facts(known, column),
            _missing(known, column),
        ]
        if faults is not None:
            wrong = faults[column.name]
            row.append(Text("does not fit", style="red") if wrong else Text("fits", style="green"))
        rows.append(row)
    return [screen.title(known.title or "Schema"), screen.sheet(heads, rows, left=len(heads))]


def _told(response: Response) -> str:
    number = response.number
    if number is None:
        return f"{response.name}, two levels: for a classifier"
    return f"{response.name}, {_range(number.low, number.high, response.unit)}: for a regression"


def _type(known: "dp.Schema", column: Wanted) -> str:
    if column.name in (known.unit.column, known.unit.weights):
        return "id" if isinstance(column, Ids) else "weight"
    declared = known[column.name]
    return declared.kind if isinstance(declared, Number) else type(declared).__name__.lower()


def _facts(known: "dp.Schema", column: Wanted) -> str:
    if not isinstance(column, Ids) and column.learned:
        return f"{_stated(known, column)} (learned, release {column.learned[:8]})"
    return _stated(known, column)


def _stated(known: "dp.Schema", column: Wanted) -> str:
    if isinstance(column, Ids):
        return "any"
    if column.name == known.unit.weights:
        return f"0 to {known.unit.most_weight:g} a {'unit' if known.unit.many else 'row'}"
    if column.levels:
        return ", ".join(
            str(level).lower() if isinstance(level, bool) else str(level) for level in column.levels
        )
    if isinstance(column, Number) and column.kind == "boolean":
        return "no or yes"
    assert not isinstance(column, Category)
    assert column.low is not None
    assert column.high is not None
    return _range(column.low, column.high, column.unit)


def _range(low: float, high: float, unit: str) -> str:
    return f"{low:g} to {high:g} {unit}".rstrip()


def _missing(known: "dp.Schema", column: Wanted) -> str:
    if isinstance(column, Ids) or column.name == known.unit.weights:
        return "the row counts for nothing"
    if isinstance(column, Outcome) or column.missing is None:
        return "a row of zeros"
    return f"read as {column.missing}"
