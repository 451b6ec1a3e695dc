"""Data frames that are printed whole: a status is a sentence, and half of one says something else."""

import pandas as pd

_WHOLE = ("display.max_columns", None, "display.max_colwidth", None)


class Frame(pd.DataFrame):
    """A pandas data frame whose every column and word is shown; what is made of it is a plain one."""

    def __repr__(self) -> str:
        with pd.option_context(*_WHOLE):
            return super().__repr__()

    def _repr_html_(self) -> str | None:
        with pd.option_context(*_WHOLE):
            html: str | None = super()._repr_html_()  # type: ignore[misc]
            return html
