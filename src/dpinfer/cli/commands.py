"""The commands by name: the summaries of a list of them, and the modules that are imported when one runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command: its summary, and the module whose `app` is its Typer application.

    A list of all commands needs the summaries alone, so it does not wait for what a fit imports.
    """

    summary: str
    module: str


COMMANDS = {
    "demo": Command(
        "The whole path on the bundled RAND Health Insurance Experiment: schema, ledger, dry run, fit, report.",
        "dpinfer.cli.demo",
    ),
    "plan": Command(
        "How long will the intervals be, which coefficients are not reported, and which budget makes them short "
        "enough?",
        "dpinfer.cli.plan",
    ),
    "describe": Command(
        "Describe a table privately: Table 1, with intervals, booked in a ledger, written to a folder.",
        "dpinfer.cli.describe",
    ),
    "survival": Command(
        "Release survival curves privately: Kaplan-Meier with intervals and bands, medians, log-rank test.",
        "dpinfer.cli.survival",
    ),
    "fit": Command(
        "A private regression with confidence intervals, booked in a ledger, written to a folder.",
        "dpinfer.cli.fit",
    ),
    "report": Command(
        "Write the report of a saved result again: page, table and picture.  Costs nothing.",
        "dpinfer.cli.report",
    ),
    "coverage": Command(
        "Do the intervals of a fit cover, and how long are they?  A study on bootstrap replicates of a table.",
        "dpinfer.cli.coverage",
    ),
    "audit": Command(
        "Attack this installation: sampler, grid, last bits, floats, and a fit as a black box.",
        "dpinfer.cli.audit",
    ),
    "schema": Command(
        "What is public about a table: draft it, learn it, check it.", "dpinfer.cli.schema"
    ),
    "budget": Command(
        "The ledger: how much may be spent on a data set, and what was.", "dpinfer.cli.budget"
    ),
    "moments": Command(
        "Publish once, answer for ever: one release, then every linear model of its columns free.",
        "dpinfer.cli.moments",
    ),
}
