"""What may differ between two data sets that nobody can tell apart.

It stands at the bottom of the house: how far one record moves a sum depends on it, and so do ledgers and sentences.
"""

from enum import StrEnum

from dpinfer.errors import InputError


class Neighbours(StrEnum):
    """The two notions of neighbouring data sets.  The value is the code in files; `sentence` is for people."""

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"

    @classmethod
    def of(cls, code: "str | Neighbours") -> "Neighbours":
        """The notion of a code, or an error that lists them."""
        try:
            return cls(code)
        except ValueError:
            raise InputError(f"neighbours must be 'replace' or 'add-remove', not {code!r}") from None

    @property
    def sentence(self) -> str:
        """What differs, and whether the number of records is public."""
        return _SENTENCES[self]

    def pick(self, replace: float, one: float) -> float:
        """The bound for one record replaced, or for one added or removed."""
        return replace if self is Neighbours.REPLACE else one


_SENTENCES = {
    Neighbours.REPLACE: "one record replaced, number of records public",
    Neighbours.ADD_REMOVE: "one record added or removed, number of records private",
}


def of_sentence(sentence: str) -> Neighbours:
    """The notion that an old file states in words."""
    return {words: notion for notion, words in _SENTENCES.items()}[sentence]
