"""When two texts are the same level: up to white space around them and to how accents are stored, and no further."""

from typing import Any
from unicodedata import normalize


def tidy(words: str) -> str:
    """A text as it is compared: without white space around it, accents in one form (NFC).

    ``é`` may be stored as one letter or as two, and looks the same.  Small and large letters are told apart.
    """
    return normalize("NFC", words.strip())


def tidied(value: Any) -> Any:
    """The same of all texts of a tuple; what is no text stays as it is."""
    return tuple(map(tidied, value)) if isinstance(value, tuple) else tidy(value) if isinstance(value, str) else value


def alike(words: str) -> str:
    """What two texts share that differ in large and small letters alone, for reports of near misses."""
    return tidy(words).casefold()
