"""What can go wrong, as one small tree.

    DpinferError
    ├── InputError     a public fact is missing or wrong: a shape, a type, a name, a bound, a loss
    │   ├── MissingError   it needs a package that is not installed; an ImportError as well
    │   └── NoAnswerError  a question at a desk was booked and has no result
    ├── BudgetError    a budget, share or penalty cannot give the promise that was asked for
    ├── LedgerError    the book refuses the spend
    ├── PrivacyError   a step tried to release something that was not booked, or cannot be proved
    └── ServerError    a server of a desk cannot be reached, or cannot answer now; an OSError as well

`LowBudgetWarning` is no error: the fit goes on, and its cost is spent.
No message ever contains a value of the data.  Each names the fault and the remedy.
"""

from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")

NO_ANSWER = (
    "The answer to this question is lost. It was booked, so it is paid for: it is neither refunded nor run again, "
    "because a second run would be a second look at the data. Why it was lost is not told, as that could tell of the "
    "data. To know the answer, ask, and pay, again."
)
"""The only text for a question at a desk that was booked and has no result."""


class DpinferError(Exception):
    """The base of every error that dpinfer raises on purpose.

    Examples
    --------
    >>> import dpinfer as dp
    >>> try:
    ...     budget = dp.ApproxDP(epsilon=1.0, delta=2.0)
    ... except dp.DpinferError as error:
    ...     print(type(error).__name__)
    BudgetError
    """


class InputError(DpinferError, ValueError):
    """A public fact about the input is missing or wrong; nothing was booked.

    It is a ``ValueError`` as well.
    """


class MissingError(InputError, ImportError):
    """What was asked for needs a package that is not installed."""


class NoAnswerError(InputError):
    """A question at a desk was booked and has no result; the text is always `NO_ANSWER`."""

    def __init__(self) -> None:
        super().__init__(NO_ANSWER)


class BudgetError(DpinferError, ValueError):
    """The privacy parameters cannot give the guarantee that was asked for; nothing was booked.

    It is a ``ValueError`` as well.
    """


class LedgerError(DpinferError, RuntimeError):
    """The ledger refuses the cost; nothing was computed.

    It is a ``RuntimeError`` as well.
    """


class PrivacyError(DpinferError, RuntimeError):
    """A release was attempted that nobody booked, or whose privacy is not proved.

    It is a ``RuntimeError`` as well.  It guards against mistakes in dpinfer itself: nothing is
    released.
    """


class ServerError(DpinferError, OSError):
    """The server of a desk cannot be reached, or cannot answer now.

    It is an ``OSError`` as well.
    """


class LowBudgetWarning(UserWarning):
    """The budget is too small for this fit: fewer than one coefficient in ten is expected to be
    reported, whatever the data hold or by what the schema says is typical of every column.

    It comes before anything is booked, from public facts alone, so that
    ``warnings.simplefilter("error", dp.LowBudgetWarning)`` stops such a fit in time.  The command
    line stops in the same cases.
    """


def one_of_two(name: str, value: T | None, alias: str, other: T | None) -> T | None:
    """Return the value of a parameter that has two names; two different values are an error."""
    if value is None:
        return other
    if other is None or other == value:
        return value
    raise InputError(f"{name} and {alias} are two names of one parameter: give {name} alone")


def installed(*packages: str) -> bool:
    """Return whether all these packages are here; none of them is loaded."""
    try:
        return all(find_spec(package) is not None for package in packages)
    except (ImportError, ValueError):
        return False


def require(feature: str, extra: str, *packages: str) -> None:
    """Raise the error of `missing` where one of these packages is not installed."""
    if not installed(*packages):
        raise missing(feature, extra, *packages)


def missing(feature: str, extra: str, *packages: str, otherwise: str = "") -> MissingError:
    """Return the error for packages that an extra of dpinfer brings; ``otherwise`` is a second
    remedy.
    """
    remedies = [f"pip install 'dpinfer[{extra}]'"]
    if otherwise:
        remedies.append(otherwise)
    return MissingError(f"{feature} needs {' and '.join(packages)}: {', or '.join(remedies)}")
