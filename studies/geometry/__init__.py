"""Coverage and length of fits in a private geometry, on real and synthetic designs."""
