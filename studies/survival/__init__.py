"""Coverage and length of hazard ratios, and their distance from those of Cox regression."""
