"""What a result says of itself: what was estimated, and what was promised about whom."""

from dataclasses import dataclass

from dpinfer import geometry
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.ledger import Event


@dataclass(frozen=True)
class Model:
    """What was estimated.

    ``of`` is what the loss is a function of, the margin or the residual.  A residual is in the units of the outcome:
    ``centre`` is the middle of its declared range, and the penalty c‖θ‖², with c for an outcome scaled to [-1, 1], is
    c‖θ‖²/``unit`` in the same objective in those units.
    """

    loss: str
    penalty: float
    n: int | None
    target: str
    mechanism: str
    recipe: str
    of: str = "margin"
    centre: float = 0.0
    unit: float = 1.0

    def estimand(self) -> str:
        """The number that the intervals are about, in words."""
        if self.target in ("weighted", "unweighted"):
            return geometry.estimand(self.target)
        risk = f"E[f({'y θ·x' if self.of == 'margin' else 'y - θ·x'})] with f = {self.loss}"
        where = "x the bounded row" + (f", y the outcome less {self.centre:.6g}" if self.centre else "")
        if self.target == "unpenalised":
            return f"the minimiser of the population risk {risk}, {where}"
        size = "c‖θ‖²" + (f"/{self.unit:.6g}" if self.unit != 1 else "")
        return (
            f"the minimiser of the penalised population risk {risk} plus {size}, c = {self.penalty:.6g}, {where}; "
            "a penalty pulls coefficients towards 0, so this is not the unpenalised coefficient"
        )


@dataclass(frozen=True)
class Privacy:
    """What was promised, about whom, and what was spent; ``release`` is the ledger's name for it."""

    budget: Budget
    unit: str
    events: tuple[Event, ...]
    booked: bool
    private: bool
    neighbours: str = "one record replaced, number of records public"
    release: str | None = None

    def caveats(self) -> tuple[str, ...]:
        """What the promise does not cover."""
        notes = []
        if not self.private:
            notes.append("NOT PRIVATE: the noise was off or came from a known seed. Do not publish.")
        if not self.booked:
            notes.append("Nothing was booked: no ledger was given, so other releases from these data are not counted.")
        notes.append(
            "Noise is drawn and minima are found in double precision; an attacker who exploits the last bits of the "
            "published numbers is not covered."
        )
        notes.append("Intervals rest on a large-sample approximation; they say nothing about bias in the data.")
        return tuple(notes)
