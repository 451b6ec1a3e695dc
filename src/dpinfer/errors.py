"""What can go wrong, as one small tree.

    DpinferError
    ├── InputError     a public fact is missing or wrong: a shape, a type, a name, a bound, a loss
    ├── BudgetError    a budget, share or penalty cannot give the promise that was asked for
    ├── LedgerError    the book refuses the spend
    └── PrivacyError   a step tried to release something that was not booked

No message ever contains a value of the data.  Each names the fault and the remedy.
"""


class DpinferError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(DpinferError, ValueError):
    """A public fact about the input is missing or wrong."""


class BudgetError(DpinferError, ValueError):
    """The privacy parameters cannot give the promise that was asked for."""


class LedgerError(DpinferError, RuntimeError):
    """The ledger refuses the spend; nothing was computed."""


class PrivacyError(DpinferError, RuntimeError):
    """A release was attempted that nobody booked."""
