"""Curves of a formula: ns, bs and poly of a number as columns, by public knots alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dpinfer.errors import InputError
from dpinfer.numerics import splines
from dpinfer.schema.terms import Curve, Expression, apply, constant

EXAMPLES = {"ns": "ns({}, 30, 50, 70)", "bs": "bs({}, 30, 50, 70)", "poly": "poly({}, 3)"}
"""An example of each curve of a column, as a formula has it."""
_OPTIONS = {"ns": ("low", "high"), "bs": ("degree", "low", "high"), "poly": ("degree", "centre")}
_WITH_OPTIONS = {
    "ns": "ns(x, 30, 50, 70, low=20, high=80)",
    "bs": "bs(x, 30, 50, 70, degree=2)",
    "poly": "poly(x, 3, centre=50)",
}
_MAX_KNOTS = 50
_CLOSEST = (
    1e-12  # smallest gap over the distance of the ends: closer knots would be lost in roundings
)
_MAX_DEGREE = 3
_MAX_POWER = 9


def curve_columns(
    written: str, argument: Expression, numbers: Sequence[float], options: Mapping[str, float]
) -> tuple[Expression, ...]:
    """Return the columns of a curve of ``argument``, from its numbers and named options in the
    formula.
    """
    name = written.partition("(")[0]
    for option in options:
        if option not in _OPTIONS[name]:
            raise InputError(
                f"{name} has no {option}=: it has {', '.join(f'{key}=' for key in _OPTIONS[name])}, as in "
                f"{_WITH_OPTIONS[name]}"
            )
    if name == "poly":
        return _poly(written, argument, numbers, options)
    knots = _knots(name, argument, numbers, options)
    if name == "bs":
        return _bs(written, argument, knots, _integer_degree(options.get("degree", 3), _MAX_DEGREE))
    return _ns(written, argument, knots)


def _ns(written: str, argument: Expression, knots: list[float]) -> tuple[Expression, ...]:
    """Return the values at the knots, less the value at the first one that was given."""
    texts = splines.distinct(knots)
    low_end, _reference, *others = splines.natural_splines(*knots)
    basis = (low_end, *others)
    curve = Curve(f"ns({argument.text})", written, texts[1], basis, tuple(knots))
    parameters = [constant(knot) for knot in knots]
    columns = []
    for index, text in enumerate(texts):
        if text != curve.reference:
            name = f"{curve.name}[{text}]"
            column = apply("ns", name, argument, constant(index), *parameters)
            columns.append(replace(column, curve=curve))
    return tuple(columns)


def _bs(
    written: str, argument: Expression, knots: list[float], degree: int
) -> tuple[Expression, ...]:
    """Return all B-splines but the first: they add up to 1."""
    basis = splines.b_splines(degree, *knots)[1:]
    curve = Curve(f"bs({argument.text})", written, "", basis, tuple(knots))
    parameters = [constant(degree), *(constant(knot) for knot in knots)]
    columns = []
    for index in range(1, len(knots) + degree - 1):
        name = f"{curve.name}[{index}]"
        column = apply("bs", name, argument, constant(index), *parameters)
        columns.append(replace(column, curve=curve))
    return tuple(columns)


def _poly(
    written: str, argument: Expression, numbers: Sequence[float], options: Mapping[str, float]
) -> tuple[Expression, ...]:
    """Return the powers of the distance from a public centre, by default the middle of the bounds."""
    degrees = list(numbers)
    if "degree" in options:
        degrees.append(options["degree"])
    if len(degrees) != 1:
        raise InputError(f"poly needs one degree, as in poly(x, 3) or {_WITH_OPTIONS['poly']}")
    degree = _integer_degree(degrees[0], _MAX_POWER)
    centre = options.get("centre", (argument.low + argument.high) / 2)
    curve = Curve(f"poly({argument.text}, centre {centre:g})", written)
    parameters = [constant(centre), constant(degree)]
    columns = []
    for index in range(degree):
        name = f"{curve.name}[{index + 1}]"
        column = apply("poly", name, argument, constant(index), *parameters)
        columns.append(replace(column, curve=curve))
    return tuple(columns)


def _integer_degree(degree: float, highest: int) -> int:
    if degree % 1 != 0 or not 1 <= degree <= highest:
        raise InputError(f"a degree is a whole number from 1 to {highest}")
    return int(degree)


def _knots(
    name: str, argument: Expression, given: Sequence[float], options: Mapping[str, float]
) -> list[float]:
    """Return the knots with the two ends, in order, inside the public range of the argument."""
    low = options.get("low", argument.low)
    high = options.get("high", argument.high)
    between = f"{argument.text} goes from {argument.low:g} to {argument.high:g}"
    if not given:
        raise InputError(
            f"{name} needs knots that are public: {between}, so write some places in between, as in "
            f"{EXAMPLES[name].format('x')}"
        )
    if len(given) > _MAX_KNOTS:
        raise InputError(f"it has {len(given)} knots: give at most {_MAX_KNOTS}")
    if not argument.low <= low < high <= argument.high:
        raise InputError(f"low= and high= must be in order, and {between}: move them inside")
    if not all(low < knot < high for knot in given):
        raise InputError(
            f"a knot is not between {low:g} and {high:g}, the ends of the curve ({between}): move or drop it"
        )
    knots = [low, *given, high]
    if min(after - before for before, after in pairwise(knots)) <= _CLOSEST * (high - low):
        raise InputError(
            f"knots must increase, by more than {_CLOSEST:g} of the whole: write each once, the smallest first"
        )
    return knots
