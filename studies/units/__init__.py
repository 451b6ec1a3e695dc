"""Coverage and length of fits that protect all rows of a person together, beside group privacy;
sampling weights.
"""
