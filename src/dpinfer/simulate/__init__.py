"""The laboratory: do these intervals cover, and how long are they?  Seeded, not private, and says so."""

from dpinfer.simulate.findings import Study
from dpinfer.simulate.study import coverage, variability

__all__ = ["Study", "coverage", "variability"]
