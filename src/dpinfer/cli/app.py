"""All commands, and what becomes of an error.

An error is one line on stderr that starts with ``error:`` and names a remedy; with ``--json`` it is
one JSON object on stderr.  It speaks of files, keys and columns, never of a value of the data.  The
exit codes are in `CODES`.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer.cli import audit, budget, coverage, demo, fit, learn, plan, report, schema
from dpinfer.cli.screen import complain
from dpinfer.errors import DpinferError, LedgerError, PrivacyError

DONE, FAULT, INPUT, REFUSED, INTERRUPTED, NO_READER = 0, 1, 2, 3, 130, 141
CODES = {
    DONE: "done",
    FAULT: "a fault of dpinfer itself",
    INPUT: "bad input or usage",
    REFUSED: "the ledger refuses: over budget, another unit, damaged, locked",
    INTERRUPTED: "interrupted",
    NO_READER: "nobody reads the output (as in | head)",
}
_EPILOG = "Exit codes: " + "; ".join(f"{code} {words}" for code, words in CODES.items()) + "."

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
schema.app.command(help=learn.HELP)(learn.learn)
app.add_typer(schema.app, name="schema")
app.add_typer(budget.app, name="budget")
app.command(help=demo.HELP)(demo.demo)
app.command(help=plan.HELP)(plan.plan)
app.command(help=fit.HELP)(fit.fit)
app.command(help=report.HELP)(report.report)
app.command(help=coverage.HELP)(coverage.coverage)
app.command(help=audit.HELP)(audit.audit)


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
        if hasattr(
            stream, "reconfigure"
        ):  # a terminal without some letter must not cost a result that was paid for
            stream.reconfigure(errors="replace")
    sys.exit(_run())


def _run() -> int:
    try:
        code: Any = app(prog_name="dpinfer", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or Python complains when it ends
        return NO_READER
    except Exception as fault:
        return _failed(fault)
    if code == INTERRUPTED:  # typer may have turned the interrupt into its code
        complain("interrupted", INTERRUPTED, sign="")
    return code if isinstance(code, int) else DONE


def _failed(fault: Exception) -> int:
    """The line and the code of an error; that of a fault of ours quotes no message, which could
    hold data.
    """
    if isinstance(fault, DpinferError):
        codes = {LedgerError: REFUSED, PrivacyError: FAULT}
        return _fail(str(fault), codes.get(type(fault), INPUT))
    if isinstance(fault, MemoryError):
        return _fail(
            "there is not enough memory: take fewer columns or records, or a machine with more"
        )
    if isinstance(fault, OSError):
        where = "" if fault.filename is None else f" {str(fault.filename)!r}"
        return _fail(
            f"cannot read or write{where} ({fault.strerror}): check the path, its rights and the disk"
        )
    if hasattr(fault, "format_message"):
        command = getattr(getattr(fault, "ctx", None), "command_path", "dpinfer")
        return _fail(f"{fault.format_message().strip().rstrip('.')}; see {command} --help")
    last = traceback.extract_tb(fault.__traceback__)[-1]
    place = f"{type(fault).__name__}, {Path(last.filename).name} line {last.lineno}"
    return _fail(
        f"this is a fault of dpinfer itself ({place}): please report it with this line", FAULT
    )


def _fail(message: str, code: int = INPUT) -> int:
    complain(message, code)
    return code
