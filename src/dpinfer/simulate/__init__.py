"""The laboratory: do these intervals cover, and how long are they?  Seeded, not private, and says so."""

from dpinfer.simulate.study import Study, coverage, variability

__all__ = ["Study", "coverage", "variability"]
