"""What may differ between two data sets that nobody can tell apart.

Everything else imports it: how far one record or person moves a sum depends on it, and so does what
ledgers and results say.
"""

from enum import StrEnum

from dpinfer.errors import InputError


class Neighbours(StrEnum):
    """The notions of neighbouring data sets.  The value is the code in files; `sentence` is for
    people.

    A unit has all the rows with its id, in any number; without ids one record is one row.
    """

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"
    REPLACE_UNIT = "replace-unit"
    ADD_REMOVE_UNIT = "add-remove-unit"

    @classmethod
    def of(cls, code: "str | Neighbours", *, units: bool = False) -> "Neighbours":
        """The notion of a code, or an error that lists them; with ``units`` that of all rows with
        an id.
        """
        try:
            notion = cls(code)
        except ValueError:
            raise InputError(
                f"neighbours must be 'replace' or 'add-remove', not {code!r}"
            ) from None
        if units and not notion.units:
            return cls(f"{notion}-unit")
        return notion

    @property
    def sentence(self) -> str:
        """What differs, and which numbers are public."""
        return _SENTENCES[self]

    @property
    def units(self) -> bool:
        """Whether all rows with one id differ together."""
        return self in (Neighbours.REPLACE_UNIT, Neighbours.ADD_REMOVE_UNIT)

    @property
    def counted(self) -> bool:
        """Whether the number of records, or of units, is public."""
        return self in (Neighbours.REPLACE, Neighbours.REPLACE_UNIT)

    @property
    def in_place(self) -> bool:
        """Whether every other row keeps its place, so that what is computed of it may depend on
        that.
        """
        return self is Neighbours.REPLACE

    def pick(self, replace: float, one: float) -> float:
        """The bound for one record or unit replaced, or for one added or removed."""
        return replace if self.counted else one


_SENTENCES = {
    Neighbours.REPLACE: "one record replaced, number of records public",
    Neighbours.ADD_REMOVE: "one record added or removed, number of records private",
    Neighbours.REPLACE_UNIT: "all rows of one unit replaced, number of units public, number of rows private",
    Neighbours.ADD_REMOVE_UNIT: "all rows of one unit added or removed, number of units and of rows private",
}
