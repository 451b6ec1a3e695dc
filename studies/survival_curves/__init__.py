"""Coverage and length of survival curves, their medians and means, and size and power of the log-rank test."""
