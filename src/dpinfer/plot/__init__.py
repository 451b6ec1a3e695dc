"""Pictures of results and studies.  Each function gives a matplotlib figure and touches no global state."""

from dpinfer.errors import installed, missing

if not installed("matplotlib"):
    raise missing("dp.plot", "report", "matplotlib")

from dpinfer.plot.forests import forest
from dpinfer.plot.studies import coverage

__all__ = ["coverage", "forest"]
