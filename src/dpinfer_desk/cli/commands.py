"""The commands `dpinfer desk` and `dpinfer serve`, which the entry points of this package name."""

from dpinfer.cli.commands import Command

DESK = Command(
    "Answer questions of analysts who must not see the data: ask, decide, run, answer, verify.",
    "dpinfer_desk.cli.desk",
)
SERVE = Command(
    "Run a desk on a network: analysts sign in, ask and read answers, without seeing the data.",
    "dpinfer_desk.cli.serve",
)
