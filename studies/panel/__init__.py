"""Coverage and length of regressions with effects of persons, of event studies and differences in differences."""
