"""Adjacency: which data sets are neighbours, so that no release can tell them apart.

Everything else imports it: the sensitivity of a sum depends on it, and so does what ledgers and
results state.
"""

from enum import StrEnum

from dpinfer.errors import InputError


class Adjacency(StrEnum):
    """The adjacency relations.  The value is the code in files; `sentence` is for people.

    A unit has all the rows with its id, in any number; without ids one record is one row.
    """

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"
    REPLACE_UNIT = "replace-unit"
    ADD_REMOVE_UNIT = "add-remove-unit"

    @classmethod
    def of(cls, code: "str | Adjacency", *, units: bool = False) -> "Adjacency":
        """Return the relation of a code, or raise an error that lists the codes; with ``units`` the
        relation for all rows with an id.
        """
        try:
            adjacency = cls(code)
        except ValueError:
            raise InputError(
                f"neighbours must be 'replace' or 'add-remove', not {code!r}"
            ) from None
        if units and not adjacency.units:
            return cls(f"{adjacency}-unit")
        return adjacency

    @property
    def sentence(self) -> str:
        """Return what differs between neighbours, and which numbers are public."""
        return _SENTENCES[self]

    @property
    def units(self) -> bool:
        """Whether all rows with one id differ together."""
        return self in (Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT)

    @property
    def counted(self) -> bool:
        """Whether the number of records, or of units, is public."""
        return self in (Adjacency.REPLACE, Adjacency.REPLACE_UNIT)

    @property
    def keeps_positions(self) -> bool:
        """Whether every other row keeps its position, on which the rounding of a sum may then depend."""
        return self is Adjacency.REPLACE

    def pick(self, replace: float, one: float) -> float:
        """Return the bound for one record or unit replaced, or for one added or removed."""
        return replace if self.counted else one


_SENTENCES = {
    Adjacency.REPLACE: "one record replaced, number of records public",
    Adjacency.ADD_REMOVE: "one record added or removed, number of records private",
    Adjacency.REPLACE_UNIT: "all rows of one unit replaced, number of units public, number of rows private",
    Adjacency.ADD_REMOVE_UNIT: "all rows of one unit added or removed, number of units and of rows private",
}
