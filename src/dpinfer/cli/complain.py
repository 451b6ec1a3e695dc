"""What goes wrong, on stderr: a line for people or, with ``--json``, one JSON object a line."""

import json
import sys

from dpinfer.result.text import harmless


def complain(message: str, code: int, sign: str = "error: ") -> None:
    """One error with its exit code."""
    _say(f"{sign}{harmless(' '.join(message.split()))}", {"error": " ".join(message.split()), "code": code})


def remark(words: str) -> None:
    """A note that matters whatever was asked for, such as where a result is that was paid for."""
    _say(f"note: {harmless(words)}", {"note": words})


def _say(line: str, document: dict[str, str | int]) -> None:
    """The command line is asked itself: its options may be what is wrong."""
    print(json.dumps(document, ensure_ascii=False) if "--json" in sys.argv[1:] else line, file=sys.stderr)
