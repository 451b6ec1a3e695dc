"""Coverage and length of the figures of a description."""
