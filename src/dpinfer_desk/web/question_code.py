"""A question as code, to copy: in Python by `dp.connect`, in R by clients/r/connect.R."""

import re

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.privacy.budget import ZCDP, ApproxDP
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.web.schemas import NAMES

_PYTHON = """\
import dpinfer as dp

site = dp.connect({address})  # your token is in DPINFER_TOKEN
table = site.table({table})
asked = table.ask({arguments})
result = asked.wait()
print(result.summary())
"""
_R = """\
source("dpinfer.R")
source("connect.R")
site <- desk_connect({address}) # your token is in DPINFER_TOKEN
asked <- desk_ask(site, {table}, {arguments})
result <- desk_wait(asked)
tidy(result)
"""
_BUDGET = ("epsilon", "delta", "rho")


def has_key(ticket: Ticket) -> bool:
    """Tell whether a program can name a question by its key."""
    return re.fullmatch(NAMES["key"], ticket.key) is not None


def in_python(ticket: Ticket, address: str, *, own: bool) -> str:
    """Return a question as a program in Python that asks a desk at an address; see `_options`."""
    keys = _options(ticket, own)
    arguments = [_python(ticket.question.formula), _python_budget(ticket.question)]
    arguments += [f"{name}={_python(value)}" for name, value in keys.items()]
    return _PYTHON.format(
        address=_python(address), table=_python(ticket.table), arguments=_joined(arguments, 4)
    )


def in_r(ticket: Ticket, address: str, *, own: bool) -> str:
    """Return a question as a program in R that asks a desk at an address; see `_options`."""
    given = ticket.question.keys()
    budget = {name: given[name] for name in _BUDGET if name in given}
    arguments = [_r(ticket.question.formula)]
    arguments += [
        f"{name} = {_r(value)}" for name, value in (budget | _options(ticket, own)).items()
    ]
    return _R.format(address=_r(address), table=_r(ticket.table), arguments=_joined(arguments, 2))


def _options(ticket: Ticket, own: bool) -> dict[str, str | float]:
    """Return all but formula and budget.

    The program of one's ``own`` question has its key, too, so that it reads the answer and asks nothing
    again.  A key is the analyst's own name of a question, and shown to nobody else.
    """
    given = ticket.question.keys()
    options = {name: value for name, value in given.items() if name not in ("formula", *_BUDGET)}
    if own and has_key(ticket):
        options["key"] = ticket.key
    return options


def _joined(arguments: list[str], indent: int) -> str:
    """Return arguments in one line each."""
    return ",".join(f"\n{' ' * indent}{argument}" for argument in arguments) + "\n"


def _python_budget(question: AnalystQuestion) -> str:
    budget = question.budget
    if isinstance(budget, ZCDP):
        return f"dp.ZCDP({_python(budget.rho)})"
    if isinstance(budget, ApproxDP):
        return f"dp.ApproxDP({_python(budget.epsilon)}, {_python(budget.delta)})"
    return f"dp.PureDP({_python(budget.epsilon)})"


def _python(value: str | float) -> str:
    """Return a value as Python reads it, in double quotes where that is the plainer way."""
    if isinstance(value, str) and '"' not in value and repr(value) == f"'{value}'":
        return f'"{value}"'
    return repr(value)


def _r(value: str | float) -> str:
    """Return a value as R reads it."""
    if isinstance(value, str):
        return '"' + "".join(map(_r_letter, value)) + '"'
    return repr(value)


def _r_letter(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return f"\\U{{{ord(letter):x}}}"
