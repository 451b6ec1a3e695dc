"""All commands, and the program that runs one of them.

Another package adds commands by entry points of the group ``dpinfer.commands``: each names a
`commands.Command`, and its own name is that of the command.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import dpinfer as dp
from dpinfer.cli.commands import COMMANDS, Command
from dpinfer.cli.errors import CODES, DONE, INTERRUPTED, NO_READER, complain, failed
from dpinfer.result.text import PLAIN

_EPILOG = "Exit codes: " + "; ".join(f"{code} {words}" for code, words in CODES.items()) + "."
_COMMANDS: dict[str, Command] = COMMANDS | {
    entry.name: entry.load() for entry in entry_points(group="dpinfer.commands")
}


class _Commands(TyperGroup):
    """A group of which a command is imported when it runs, and known by its summary before."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None
        return name, _imported(name), rest


def _imported(name: str) -> Any:
    """Return a command whose module is imported, with its summary as the first paragraph of its help."""
    command = _COMMANDS[name]
    found = typer.main.get_command(import_module(command.module).app)
    found.name = name
    found.help = "\n\n".join(part for part in (command.summary, found.help) if part)
    return found


def _not_imported() -> None:
    """Stand for a command in the list of all commands."""


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _name, _command in _COMMANDS.items():
    app.command(_name, help=_command.summary)(_not_imported)


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
