"""What can go wrong, as one small tree.

    DpinferError
    ├── InputError     a public fact is missing or wrong: a shape, a type, a name, a bound, a loss
    │   └── MissingError   it needs a package that is not installed; an ImportError as well
    ├── BudgetError    a budget, share or penalty cannot give the promise that was asked for
    ├── LedgerError    the book refuses the spend
    ├── PrivacyError   a step tried to release something that was not booked, or cannot be proved
    └── ServerError    a server of a desk cannot be reached, or cannot answer now; an OSError as well

`HopelessFitWarning` is no error: the fit goes on, and spends its budget.
No message ever contains a value of the data.  Each names the fault and the remedy.
"""

from importlib.util import find_spec


class DpinferError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(DpinferError, ValueError):
    """A public fact about the input is missing or wrong."""


class MissingError(InputError, ImportError):
    """What was asked for needs a package that is not installed."""


class BudgetError(DpinferError, ValueError):
    """The privacy parameters cannot give the promise that was asked for."""


class LedgerError(DpinferError, RuntimeError):
    """The ledger refuses the spend; nothing was computed."""


class PrivacyError(DpinferError, RuntimeError):
    """A release was attempted that nobody booked, or whose privacy is not proved."""


class ServerError(DpinferError, OSError):
    """A server of a desk cannot be reached, or cannot answer now."""


class HopelessFitWarning(UserWarning):
    """No data could give this fit more than one line in ten: its budget is about to be spent for
    next to nothing.

    It comes before anything is booked, from public facts alone, so that
    ``warnings.simplefilter("error", dp.HopelessFitWarning)`` stops such a fit in time.
    """


def installed(*packages: str) -> bool:
    """Whether all these packages are here; none of them is loaded."""
    try:
        return all(find_spec(package) is not None for package in packages)
    except (ImportError, ValueError):
        return False


def missing(what: str, extra: str, *packages: str, otherwise: str = "") -> MissingError:
    """The error for packages that an extra of dpinfer brings; ``otherwise`` is a second remedy."""
    remedies = [f"pip install 'dpinfer[{extra}]'"]
    if otherwise:
        remedies.append(otherwise)
    return MissingError(f"{what} needs {' and '.join(packages)}: {', or '.join(remedies)}")
