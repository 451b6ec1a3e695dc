"""`dpinfer schema learn`: ranges and levels by a private release, booked, and written into a
schema.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli import screen
from dpinfer.cli.budget import Account, Counter, after_booking, listed, open_ledger
from dpinfer.cli.screen import AsJson, Quiet, Screen
from dpinfer.cli.spec import budget_of, of_options
from dpinfer.errors import InputError
from dpinfer.fit.bounds import Learning, learning
from dpinfer.privacy.budget import weak_delta
from dpinfer.result.learned import LearnedBounds

HELP = """Learn ranges of numbers and levels of texts privately, where nobody can state them.

It costs budget, shared alike among the columns: name those that a formula needs.  Ranges hold about 99 of 100 units; \
the exact minimum and maximum are never told.  Levels that few units have do not show, and need --delta beside \
--epsilon.
"""


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
    epsilon: Annotated[float | None, typer.Option(help="Budget; alone it is pure.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon: (epsilon, delta).")] = None,
    rho: Annotated[float | None, typer.Option(help="Budget in zCDP, instead of --epsilon.")] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="replace (the default) or add-remove.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Where the spend is booked.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the schema goes.")] = Path(
        "schema.toml"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the cost; read, book and write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn what a schema leaves open."""
    asked = {"epsilon": epsilon, "delta": delta, "rho": rho, "neighbours": neighbours}
    spec = of_options({("privacy", key): value for key, value in asked.items()})
    budget, opened = budget_of(spec), None if ledger is None else open_ledger(ledger)
    unit = "one record" if opened is None else opened.unit
    names = (
        None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    )
    what = learning(table, schema, budget, names, neighbours, unit)
    talk = Screen(quiet, as_json)
    if dry_run:
        _preview(what, opened, out, talk)
    else:
        _release(what, opened, out, talk, force)


def _preview(what: Learning, ledger: "dp.Ledger | None", out: Path, talk: Screen) -> None:
    """The cost, what would show, and what the ledger would have left; raises what `learn` would
    raise.
    """
    entry, booked, whom = what.entry, what.plan.releases(), what.draft.unit
    counted = what.n is not None or not what.neighbours.counted
    facts = {
        "Table": f"{what.table}, {whom.size(what.n) if counted else 'whose units are not counted'}",
        "Ranges": ", ".join(what.plan.ranges) or "none",
        "Levels": ", ".join(what.plan.levels) or "none",
        "Protects": f"{entry.unit} ({entry.neighbours.sentence})",
        "Cost": str(what.plan.budget),
        "Spent on": "; ".join(
            f"{event.step} ({event.mechanism}): {event.share.amount}" for event in entry.events
        ),
        "Shows": "; ".join(_shows(what)),
    }
    if what.skipped:
        facts["Left open"] = f"{', '.join(what.skipped)}: levels need --delta"
    if weak := weak_delta(what.plan.budget, what.n):
        facts["Note"] = weak
    account, after, told = after_booking(ledger, entry)
    facts |= told
    facts["Output"] = (
        f"{out} is there already: name another file, or give --force" if out.exists() else str(out)
    )
    talk.show(screen.title("Dry run: no value was read"), screen.facts(facts))
    talk.give(
        {
            "dry_run": True,
            "records": what.n,
            "ranges": list(booked.ranges),
            "levels": list(booked.levels),
        }
        | {"skipped": list(what.skipped), "entry": listed(entry)}
        | {"ledger": account and account.state(), "after": after}
    )
    if after["allowed"] is False:
        raise dp.LedgerError(after["reason"])


def _shows(what: Learning) -> list[str]:
    """From how many units on something is seen, by the noise alone."""
    booked = what.plan.releases()
    ranges = [steps[0] for steps in booked.ranges.values()][:1]
    levels = list(booked.levels.values())[:1]
    return [f"a magnitude that about {what.least(one):.3g} units have" for one in ranges] + [
        f"a level that about {what.least(one):.3g} units have" for one in levels
    ]


def _release(
    what: Learning, ledger: "dp.Ledger | None", out: Path, talk: Screen, force: bool
) -> None:
    """Book, read, release, write."""
    persistence.vacant(out, force, "name another file with -o, or give --force to replace it")
    persistence.prepare(out.parent)
    counter = None if ledger is None else Counter(ledger)
    try:
        with talk.work(f"learning from {what.table}"):
            found = what.run(counter)
    except BaseException:
        if counter and counter.releases:
            Screen().note(
                f"note: the spend was booked as release {counter.releases[0]} before this happened"
            )
        raise
    _keep(out, found)
    account = None if ledger is None else Account.of(ledger)
    talk.show(*_shown(what, found, account, out))
    talk.give(_receipt(what, found, account, out))


def _keep(out: Path, found: LearnedBounds) -> None:
    """The schema was paid for: where the folder fails after all, it goes to stdout."""
    try:
        persistence.write(out, found.text.encode())
    except OSError as fault:
        print(found.text)
        raise InputError(
            f"{out} cannot be written any more ({fault.strerror}): the schema was printed to stdout instead, save it"
        ) from None


def _shown(what: Learning, found: LearnedBounds, account: Account | None, out: Path) -> list[Any]:
    booked = (
        "nothing was booked: no ledger was given, so other releases from these data are not counted"
    )
    if account is not None:
        booked = f"{account.statement()}; booked as release {found.release}"
    rows = [[one.name, _told(one.keys), one.words] for one in found.columns]
    rows += [[name, "?", "levels need --delta"] for name in what.skipped]
    facts = {
        "Privacy": f"{found.budget}; protects {found.entry.unit}",
        "Ledger": booked,
        "Written": str(out),
    }
    if found.gaps:
        facts["To do"] = (
            f'{found.gaps} times "?": replace it by what is known without the table, or delete the column'
        )
    sheet = screen.sheet(("Column", "Learnt", "How well"), rows, left=3)
    last = Text(f"Then: dpinfer schema check {out} --data {what.table}")
    return [screen.title("Bounds by a private release"), sheet, "", screen.facts(facts), "", last]


def _told(keys: Any) -> str:
    if not keys:
        return "?"
    return (
        ", ".join(keys["levels"])
        if "levels" in keys
        else ", ".join(f"{key} {end:g}" for key, end in keys.items())
    )


def _receipt(
    what: Learning, found: LearnedBounds, account: Account | None, out: Path
) -> dict[str, Any]:
    told = [
        {
            "name": one.name,
            **one.keys,
            "words": one.words,
            "clipped": one.clipped,
            "least": one.least,
        }
        | {"counts": None if one.counts is None else dict(one.counts)}
        for one in found.columns
    ]
    return {
        "booked": found.release is not None,
        "release": found.release,
        "budget": found.budget,
        "unit": found.entry.unit,
        "columns": told,
        "skipped": list(what.skipped),
        "gaps": found.gaps,
        "path": str(out),
        "ledger": account and account.state(),
    }
