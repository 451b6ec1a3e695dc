"""Errors of commands: one line on stderr, or one JSON object, and an exit code.

The line starts with ``error:`` and names a remedy; with ``--json`` it is one JSON object.  It speaks
of files, keys and columns, never of a value of the data.  This module loads neither typer nor rich,
as it also says that these are not installed.
"""

import json
import sys
import traceback
from pathlib import Path

from dpinfer.errors import DpinferError, LedgerError, PrivacyError, installed
from dpinfer.result.text import escape_controls

DONE = 0
FAULT = 1
INPUT = 2
REFUSED = 3
INTERRUPTED = 130
NO_READER = 141
CODES = {
    DONE: "done",
    FAULT: "a fault of dpinfer itself",
    INPUT: "bad input or usage",
    REFUSED: "the ledger refuses: over budget, another unit, damaged, locked",
    INTERRUPTED: "interrupted",
    NO_READER: "nobody reads the output (as in | head)",
}


def failed(fault: Exception) -> int:
    """Print an error and return its exit code; that of a fault of ours quotes no message, which
    could hold data.
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
    if hasattr(fault, "format_message"):  # of typer: wrong usage
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


def complain(message: str, code: int, sign: str = "error: ") -> None:
    """Print one error."""
    words = " ".join(message.split())
    _say(f"{sign}{escape_controls(words)}", {"error": words, "code": code})


def remark(words: str) -> None:
    """Print a note that matters whatever was asked for, such as where a result is that was paid
    for.
    """
    _say(f"note: {escape_controls(words)}", {"note": words})


def _say(line: str, document: dict[str, str | int]) -> None:
    """Print a line to stderr, as JSON if the command line has --json: its options may be the fault."""
    if "--json" in sys.argv[1:]:
        print(json.dumps(document, ensure_ascii=False), file=sys.stderr)
    elif installed("typer", "rich"):
        from dpinfer.cli.screen import say  # noqa: PLC0415  (loads typer and rich)

        say(line)
    else:
        print(line, file=sys.stderr)
