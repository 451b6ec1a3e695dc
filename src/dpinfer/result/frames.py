"""Data frames that print all of their words, and numbers as the tables of a result do."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from dpinfer.result import text

# pandas cuts texts at 50 letters, and half of a status says something else than all of it.
_UNCUT = ("display.max_columns", None, "display.max_colwidth", None)
_P_VALUE = "p_value"


class UncutFrame(pd.DataFrame):
    """A pandas data frame that prints every column and every letter.

    A p-value is printed as in all tables, "< .001" and not 0.0000, and a number that is missing as a
    dash.  The numbers themselves are those of a plain data frame; so are those of frames made of it,
    which print in the same way.
    """

    @property
    def _constructor(self) -> Callable[..., "UncutFrame"]:
        return UncutFrame

    def __repr__(self) -> str:
        with pd.option_context(*_UNCUT):
            return super().__repr__()

    def _repr_html_(self) -> str | None:
        if not pd.get_option("display.notebook_repr_html"):
            return None
        with pd.option_context(*_UNCUT):
            html: str = self.to_html(notebook=True, max_rows=pd.get_option("display.max_rows"))
            return html

    def to_string(self, *arguments: Any, **options: Any) -> Any:
        """Return the frame as text, as pandas does, with p-values and dashes for people."""
        return super().to_string(*arguments, **(self._formats() | options))

    def to_html(self, *arguments: Any, **options: Any) -> Any:
        """Return the frame as HTML, as pandas does, with p-values and dashes for people."""
        return super().to_html(*arguments, **(self._formats() | options))

    def _formats(self) -> dict[str, Any]:
        """Return how numbers are written, where nobody asks for another way."""
        written = {_P_VALUE: text.p_value} if _P_VALUE in self.columns else None
        return {"formatters": written, "na_rep": text.NO_NUMBER}


def frame_of(
    rows: Sequence[dict[str, Any]], index: str | None = None, columns: list[str] | None = None
) -> UncutFrame:
    """Return rows as a data frame, indexed by a column where one is named."""
    frame = UncutFrame(list(rows), columns=columns)
    if index is None:
        return frame
    return UncutFrame(frame.set_index(index))
