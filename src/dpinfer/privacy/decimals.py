"""Amounts of a budget as exact decimals, as a ledger stores them; sums of them are not rounded.

A share of 0.1 is stored as the text "0.1" and counted as 1/10, so that ten of them are exactly 1.
The float next to it differs by at most a part in 10¹⁶.  That is far less than what the bound of
every sum is raised by (`dpinfer.mechanisms.sums.SLACK`).
"""

import math
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation

# Digits for the squares of all amounts that a budget accepts, 1e-210 to 1e210, in one sum.
_EXACT = Context(prec=3000, traps=[Inexact, InvalidOperation])


def written(amount: float) -> Decimal:
    """Return the decimal that a float is stored as."""
    return Decimal(repr(float(amount)))


def added(amounts: Iterable[Decimal]) -> Decimal:
    """Return the sum without rounding."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def subtracted(amount: Decimal, other: Decimal) -> Decimal:
    """Return the difference without rounding."""
    return _EXACT.subtract(amount, other)


def multiplied(amount: Decimal, factor: Decimal) -> Decimal:
    """Return the product without rounding."""
    return _EXACT.multiply(amount, factor)


def written_down(amount: Decimal) -> float:
    """Return a float that is stored as at most ``amount``: the largest, or the one before it."""
    found = float(amount)
    while written(found) > amount:
        found = math.nextafter(found, -math.inf)
    return found


def written_up(amount: Decimal) -> float:
    """Return a float that is stored as at least ``amount``: the smallest, or the one after it."""
    found = float(amount)
    while written(found) < amount:
        found = math.nextafter(found, math.inf)
    return found


def float_below(amount: Decimal) -> float:
    """Return the largest float whose value is at most ``amount``."""
    found = float(amount)
    return found if Decimal(found) <= amount else math.nextafter(found, -math.inf)


def float_above(amount: Decimal) -> float:
    """Return the smallest float whose value is at least ``amount``."""
    found = float(amount)
    return found if Decimal(found) >= amount else math.nextafter(found, math.inf)
