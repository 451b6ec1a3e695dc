"""A figure of matplotlib that notebooks show without pyplot, which would be global state."""

import io

from dpinfer.errors import installed, missing

if not installed("matplotlib"):
    raise missing("dp.plot", "report", "matplotlib")

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure that a notebook shows as a picture."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()
