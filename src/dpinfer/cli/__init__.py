"""The command line: `dpinfer`, or `python -m dpinfer`."""

import sys

from dpinfer.cli.errors import INPUT, complain
from dpinfer.errors import installed, missing

__all__ = ["main"]


def main() -> None:
    """Run the program and exit with its code.

    A fit writes a report, so what a report needs is asked for here as well, before anything can be
    spent.
    """
    for packages in (("typer", "rich"), ("jinja2", "matplotlib")):
        if not installed(*packages):
            complain(str(missing("the command line", "cli", *packages)), INPUT)
            sys.exit(INPUT)
    from dpinfer.cli.app import main as run  # noqa: PLC0415  (loads typer and rich)

    run()
