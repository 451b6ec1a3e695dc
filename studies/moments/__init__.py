"""Coverage and length of answers from one moment release."""
