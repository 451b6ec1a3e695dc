"""Coverage and length of regressions of counts, rates and costs, beside a rival on the same samples."""
