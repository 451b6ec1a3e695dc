"""Coverage and length of least-squares fits in a private geometry, beside rivals on the same
samples.
"""
