"""The laboratory: do these intervals cover, and how long will they be?  Seeded; what reads records is not private."""

from dpinfer.simulate.findings import Study
from dpinfer.simulate.forecasting import forecast
from dpinfer.simulate.foreseen import Forecast
from dpinfer.simulate.study import coverage, variability

__all__ = ["Forecast", "Study", "coverage", "forecast", "variability"]
