"""All commands, and the program that runs one of them.

Another package adds commands by entry points of the group ``dpinfer.commands``: each names a Typer
application, and its own name is that of the command.
"""

import os
import sys
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer.cli import (
    audit,
    budget,
    coverage,
    demo,
    describe,
    fit,
    moments,
    plan,
    report,
    schema,
)
from dpinfer.cli.errors import CODES, DONE, INTERRUPTED, NO_READER, complain, failed
from dpinfer.result.text import PLAIN

_EPILOG = "Exit codes: " + "; ".join(f"{code} {words}" for code, words in CODES.items()) + "."

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
app.add_typer(schema.app, name="schema")
app.add_typer(budget.app, name="budget")
app.add_typer(moments.app, name="moments")
app.command(help=demo.HELP)(demo.demo)
app.command(help=plan.HELP)(plan.plan)
app.command(help=describe.HELP)(describe.describe)
app.command(help=fit.HELP)(fit.fit)
app.command(help=report.HELP)(report.report)
app.command(help=coverage.HELP)(coverage.coverage)
app.command(help=audit.HELP)(audit.audit)
for command in entry_points(group="dpinfer.commands"):
    app.add_typer(command.load(), name=command.name)


@app.callback(invoke_without_command=True, epilog=_EPILOG)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Differentially private regression with honest confidence intervals.

    Start with `dpinfer demo`, then `dpinfer schema init` on a table of your own.
    """
    if version:
        print(f"dpinfer {dp.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the program and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        # a terminal without some letter must not cost a result that was paid for
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN)
    sys.exit(_run())


def _run() -> int:
    try:
        code: Any = app(prog_name="dpinfer", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # or Python complains when it ends
        return NO_READER
    except Exception as fault:
        return failed(fault)
    if code == INTERRUPTED:  # typer may have turned the interrupt into its code
        complain("interrupted", INTERRUPTED, sign="")
    if isinstance(code, int):
        return code
    return DONE
