"""The default recipe against the paper's, on real data."""
