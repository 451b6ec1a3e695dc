"""Data frames that print all of their words."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

# pandas cuts texts at 50 letters, and half of a status says something else than all of it.
_UNCUT = ("display.max_columns", None, "display.max_colwidth", None)


class UncutFrame(pd.DataFrame):
    """A pandas data frame that prints every column and every letter; frames made of it are plain."""

    def __repr__(self) -> str:
        with pd.option_context(*_UNCUT):
            return super().__repr__()

    def _repr_html_(self) -> str | None:
        with pd.option_context(*_UNCUT):
            html: str | None = super()._repr_html_()  # type: ignore[misc]
            return html


def frame_of(
    rows: Sequence[dict[str, Any]], index: str | None = None, columns: list[str] | None = None
) -> UncutFrame:
    """Return rows as a data frame, indexed by a column where one is named."""
    frame = UncutFrame(list(rows), columns=columns)
    if index is None:
        return frame
    return UncutFrame(frame.set_index(index))
