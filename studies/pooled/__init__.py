"""Coverage and length of pooled regressions in which every row counts once and a person is one record."""
