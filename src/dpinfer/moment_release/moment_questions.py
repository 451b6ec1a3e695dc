"""Questions of a moment release as one text: a formula, or the name of a figure with its columns."""

import re
from collections.abc import Callable, Mapping

from dpinfer.errors import InputError
from dpinfer.moment_release.released_moments import MomentFigure, MomentRelease
from dpinfer.result.result import FitResult
from dpinfer.schema.columns import did_you_mean

_CALL = re.compile(r"\s*(\w+)\((.*)\)\s*", re.DOTALL)
_Figure = Callable[[MomentRelease, str, float], MomentFigure]
FORMS = (
    '"y ~ x + z"',
    '"mean(x)"',
    '"correlation(x, y)"',
    '"correlation(x, y | z)"',
    '"covariance(x, y)"',
    '"r_squared(y ~ x + z)"',
    '"iv(y ~ x + w | z + w)"',
)
"""Questions of each kind, as examples in messages."""


def answer(release: MomentRelease, question: str, level: float = 0.95) -> FitResult | MomentFigure:
    """Return the answer to a question: a regression, or one figure.

    Parameters
    ----------
    release : MomentRelease
        The release that is asked.
    question : str
        A formula, as ``"hours ~ age + sex"``, or ``"mean(hours)"``, ``"correlation(hours, age)"``,
        ``"correlation(hours, age | sex)"``, ``"covariance(hours, age)"``, ``"r_squared(hours ~ age)"``,
        ``"iv(wage ~ schooling + age | distance + age)"``.
    level : float
        The confidence level of a figure; 0.95 by default.

    Returns
    -------
    FitResult or MomentFigure
        A regression has its levels asked later.

    Raises
    ------
    InputError
        If the question is none of these, or asks for what is no declared column.
    """
    called = _CALL.fullmatch(question)
    # log(y) ~ exp(x) begins and ends like a call, too
    if called is None or (called[1] not in _FIGURES and "~" in question):
        if "~" not in question:
            raise InputError(f"{question!r} is no question: ask {' or '.join(FORMS)}")
        return release.ols(question)
    name, inside = called.groups()
    if name not in _FIGURES:
        raise InputError(f"there is no figure {name!r}: {did_you_mean(name, list(_FIGURES))}")
    return _FIGURES[name](release, inside.strip(), level)


def _two(inside: str) -> tuple[str, str]:
    """Split two names at the one comma outside brackets."""
    parts = re.split(r",(?![^\[(]*[\])])", inside)
    if len(parts) != 2 or not all(part.strip() for part in parts):
        raise InputError(f"{inside!r} must be two columns with a comma between them, as in 'x, y'")
    return parts[0].strip(), parts[1].strip()


def _correlation(release: MomentRelease, inside: str, level: float) -> MomentFigure:
    pair, bar, given = inside.partition("|")
    if bar:
        return release.partial_correlation(*_two(pair), given.strip(), level)
    return release.correlation(*_two(pair), level)


_FIGURES: Mapping[str, _Figure] = {
    "mean": MomentRelease.mean,
    "covariance": lambda release, inside, level: release.covariance(*_two(inside), level),
    "correlation": _correlation,
    "r_squared": MomentRelease.r_squared,
    "iv": MomentRelease.iv,
}
