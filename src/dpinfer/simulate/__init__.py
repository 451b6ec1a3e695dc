"""The laboratory: do these intervals cover, and how long will they be?

Everything is seeded, and what reads records is not private.
"""

from dpinfer.simulate.forecast import Forecast, forecast
from dpinfer.simulate.study import Study, coverage, variability

__all__ = ["Forecast", "Study", "coverage", "forecast", "variability"]
