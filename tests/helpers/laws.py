"""Laws that the committed cells of the studies keep, whatever the method; exceptions are named
where they are made.
"""

import numpy as np

MANY = 100  # lines: fewer have too large a Monte Carlo error for a law
OFTEN = 0.5


def error(coverage, number):
    """Monte Carlo standard error of a share."""
    return np.sqrt(coverage * (1 - coverage) / number)


def covers_what_was_asked(cell, least=0.93):
    """On average over all printed lines."""
    return cell["lines"] < MANY or cell["asked"] >= least


def near_the_ceiling(cell, allowed=()):
    """Names of coefficients, often printed, that are covered clearly less than without noise, and
    than nine in ten.
    """
    columns = cell["coefficients"]
    rows = zip(
        columns["names"], columns["asked"], columns["ceiling"], columns["printed"], strict=True
    )
    low = []
    for name, asked, ceiling, printed in rows:
        if printed >= OFTEN and name not in allowed:
            least = min(0.9, ceiling - 0.05)
            if asked < least - 2 * error(0.9, printed * cell["replicates"]):
                low.append(name)
    return low


def lines_instead_cover(cell, least=0.9):
    """What stands for coefficients not reported holds its own estimand."""
    return cell["instead_lines"] < MANY or cell["instead"] >= least


def keeps_its_level(cell, most=0.05):
    """A coefficient that is 0 is seldom found to be another."""
    many = cell["rejected_of"]
    return many < MANY or cell["rejected"] <= most + 3 * error(0.05, many)


def is_in_order(cell, shortest=0.97):
    """Nothing is shorter than without noise but by chance, and what is printed is answered."""
    long_enough = cell["length"] is None or cell["length"] >= shortest
    return (
        long_enough
        and cell["printed"] <= cell["answered"] <= 1
        and len(cell["coefficients"]["names"]) == cell["d"]
    )
