"""Coverage studies and forecasts: do intervals cover, and how long will they be?

All are seeded.  A study reads records and is not private; a forecast reads none.
"""

from dpinfer.simulate.forecast import Forecast, forecast
from dpinfer.simulate.study import Study, coverage, variability

__all__ = ["Forecast", "Study", "coverage", "forecast", "variability"]
