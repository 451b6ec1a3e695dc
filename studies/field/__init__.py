"""dpinfer beside other published methods, on the same samples: coverage, length, time."""
