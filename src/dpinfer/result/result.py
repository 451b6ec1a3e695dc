"""The published outcome of a fit: numbers only, never data."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpinfer import codec
from dpinfer.data.unit import Unit
from dpinfer.errors import InputError
from dpinfer.maths import error as laws_of_error
from dpinfer.maths import laws
from dpinfer.maths.allowed import AllowedLaw
from dpinfer.maths.arrays import Array
from dpinfer.maths.error import ErrorLaw, LawOfError
from dpinfer.neighbours import of_sentence
from dpinfer.privacy import book
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result import text
from dpinfer.result.statements import REPORTED, Band, Geometry, Model, Privacy

if TYPE_CHECKING:
    import pandas as pd

FORMAT, VERSION = "dpinfer.FitResult", 3
_ALIKE = 0.05  # of the weight of a column: so near a contrast must be to the one that is identified


@dataclass(frozen=True)
class WaldTest:
    """A test of linear restrictions."""

    statistic: float
    df: int
    p_value: float


@dataclass(frozen=True)
class Contrast:
    """One linear combination of coefficients."""

    estimate: float
    std_error: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, eq=False)
class FitResult:
    """Coefficients with the law of their error.  Everything here is released; every method is post-processing.

    ``names`` and ``estimate`` have one entry a coefficient; ``hessian`` and ``score_cov`` are the released matrices;
    ``model`` says what was estimated, ``privacy`` what was promised, ``geometry`` what a fit in one publishes beside,
    ``band`` what least squares does.

    ``status`` has a word for each coefficient, and is empty where all are reported.  A coefficient whose status is not
    `REPORTED` was set aside: its interval is infinite, its ``estimate`` a working value for predictions only, and
    ``error`` is the law of the others.
    """

    names: tuple[str, ...]
    estimate: Array
    error: LawOfError
    hessian: Array
    score_cov: Array
    model: Model
    privacy: Privacy
    status: tuple[str, ...] = ()
    geometry: Geometry | None = None
    band: Band | None = None

    @property
    def reported(self) -> npt.NDArray[np.bool_]:
        """Whether each coefficient has a finite interval."""
        return np.array([word == REPORTED for word in self.status or [REPORTED] * len(self.names)])

    @property
    def records(self) -> str:
        """The number of records or, with ids, of units where it is public, else the released one."""
        if self.model.n is not None or self.geometry is None:
            return f"{self.model.n:,}"
        full = "" if self.model.whom.whole else ", counted as full ones"
        return f"about {self.geometry.records:,.0f} (noisy{full})"

    @property
    def size(self) -> dict[str, str]:
        """The same under its name, for a list of facts."""
        if not self.model.whom.many:
            return {"Records": self.records}
        return {"Units": f"{self.records}, {self.privacy.unit} each"}

    @property
    def covariance(self) -> Array:
        """Covariance of the estimate, sampling and privacy noise together; infinite for what is set aside."""
        kept = self.reported
        matrix = np.where(np.eye(len(kept), dtype=bool), np.inf, np.nan)
        matrix[np.ix_(kept, kept)] = self.error.covariance()
        return matrix

    @property
    def noise_share(self) -> Array:
        """The part of each variance that is privacy noise, from 0 to 1; NaN for what is set aside."""
        return self._whole(self.error.noise_share(), np.nan)

    @property
    def std_error(self) -> Array:
        """Standard errors: sampling and privacy noise together."""
        return np.sqrt(np.diag(self.covariance))

    def conf_int(self, level: float = 0.95) -> Array:
        """Confidence intervals of a ``level`` between 0 and 1, one row (low, high) a coefficient."""
        kept = self.reported
        return self._whole(self.error.interval(self.estimate[kept], _level(level)), [-np.inf, np.inf])

    def simultaneous(self, level: float = 0.95) -> Array:
        """Intervals that cover all reported coefficients together with probability ``level``."""
        _level(level)
        if not self.reported.any():
            return self.conf_int(level)
        estimate, law = self.estimate[self.reported], self.error
        band = (
            law.band(estimate, level)
            if isinstance(law, AllowedLaw)
            else laws_of_error.simultaneous(estimate, law, level)
        )
        return self._whole(band, [-np.inf, np.inf])

    def contrast(self, vector: npt.ArrayLike, level: float = 0.95) -> Contrast:
        """Estimate and interval, of the given ``level``, of vector · target; ``vector`` has a number a coefficient."""
        row = self._restrictions(np.atleast_2d(np.asarray(vector, dtype=float)))
        if len(row) != 1:
            raise InputError("a contrast is one vector; use wald for several at once")
        value, error = row @ self.estimate[self.reported], self.error.mapped(row)
        low, high = error.interval(value, _level(level))[0]
        std_error = float(np.sqrt(error.covariance()[0, 0]))
        p_value = float(error.p_values(value)[0])
        return Contrast(float(value[0]), std_error, float(low), float(high), p_value)

    def wald(self, R: npt.ArrayLike, r: npt.ArrayLike = 0.0) -> WaldTest:
        """Test R target = r."""
        matrix = self._restrictions(np.atleast_2d(np.asarray(R, dtype=float)))
        if np.linalg.matrix_rank(matrix) < len(matrix):
            raise InputError("the rows of R must be linearly independent")
        right = np.asarray(r, dtype=float)
        if right.shape not in ((), (len(matrix),)) or not np.isfinite(right).all():
            raise InputError("r needs one finite number a row of R, or one for all")
        statistic, p_value = laws_of_error.wald(
            matrix @ self.estimate[self.reported] - right, self.error.mapped(matrix)
        )
        return WaldTest(statistic, len(matrix), p_value)

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """One row a coefficient: name, estimate, std_error, z, p_value, low, high, noise_share, status, partners.

        Intervals have the given ``level``.  Every view is made from it.
        What is set aside (by `text.set_aside`) has no estimate and an infinite interval.
        ``partners`` names the columns left out that may matter for a coefficient; it is empty where there are none.
        """
        kept, intervals = self.reported, self.conf_int(level)
        estimate = np.where(kept, self.estimate, np.nan)
        columns = {
            "estimate": estimate,
            "std_error": self.std_error,
            "z": estimate / self.std_error,
            "p_value": self._whole(self.error.p_values(self.estimate[kept]), np.nan),
            "low": intervals[:, 0],
            "high": intervals[:, 1],
            "noise_share": self.noise_share,
        }
        words = self.status or (REPORTED,) * len(self.names)
        others = ((),) * len(self.names) if self.geometry is None else self.geometry.partners
        return [
            {"name": name, **{key: float(column[j]) for key, column in columns.items()}}
            | {"status": words[j], "partners": ", ".join(others[j])}
            for j, name in enumerate(self.names)
        ]

    def notes(self, most: int = 1000) -> list[str]:
        """What the sign † means, by the names of what was left out; at most so many names in a sentence."""
        return [] if self.geometry is None else self.geometry.notes(self.names, most)

    def published(self) -> list[str]:
        """What was released beside the coefficients, in words."""
        centre = [] if self.geometry is None else [self.geometry.at(self.names)]
        return centre if self.band is None else [*centre, *self.band.statements(self.model.target)]

    def to_frame(self, level: float = 0.95) -> "pd.DataFrame":
        """The table as a pandas data frame, indexed by coefficient, with intervals of the given ``level``."""
        import pandas as pd  # noqa: PLC0415  (heavy: loaded when asked for)

        return pd.DataFrame(self.table(level)).set_index("name")

    def summary(self, level: float = 0.95) -> str:
        """The regression table as text, with intervals of the given ``level`` and the privacy statement under it."""
        privacy, model = self.privacy, self.model
        title = "Differentially private regression" if privacy.private else "Regression, NOT PRIVATE"
        facts = {
            "Loss": model.loss,
            **self.size,
            "Target": model.target,
            "Penalty c": f"{model.penalty:.6g}",
            "Recipe": model.recipe,
            "Coefficients": str(len(self.names)),
        }
        table = self.table(level)
        statements = [
            *self.notes(),
            *text.no_estimates(table),
            f"Fitted by {model.mechanism}.",
            f"Estimand: {model.estimand()}.",
            *self.published(),
            f"Privacy: {privacy.budget}.",
            f"Protects {privacy.unit} (neighbours: {privacy.neighbours.sentence}).",
            "Spent on " + ", ".join(f"{event.step}: {event.share.amount}" for event in privacy.events) + ".",
            *([privacy.scope, text.CLUSTERED] if privacy.neighbours.units else []),
            "The intervals count both the sampling error and the privacy noise.",
            *(f"- {caveat}" for caveat in privacy.caveats(model.n, weighted=model.weighted)),
        ]
        return text.page(title, facts, text.coefficients(table, level), statements)

    def to_json(self) -> str:
        """Everything in the result, as one JSON object with a format name and a version."""
        document = {"format": FORMAT, "version": VERSION, **codec.encode(self)}
        return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, document: str) -> "FitResult":
        """The inverse of `to_json`, exact to the last bit; ``document`` is the text."""
        try:
            saved = json.loads(document)
            kind, version = saved.pop("format"), saved.pop("version")
            if kind != FORMAT or version not in (1, 2, VERSION):
                raise KeyError(f"it is not a {FORMAT} of version {VERSION}")
            if version == 1 and saved["geometry"] is not None:
                raise KeyError(
                    "it is of version 1 and was fitted in a private geometry, whose intervals this version no longer "
                    "computes: read it with the version of dpinfer that wrote it"
                )
            result = codec.decode(_renewed(saved, version), _KINDS)
        except (KeyError, TypeError, AttributeError, ValueError) as fault:
            raise InputError(f"this text is not a saved FitResult: {fault}") from None
        if not isinstance(result, cls):
            raise InputError("this text is not a saved FitResult")
        return result

    def _restrictions(self, matrix: Array) -> Array:
        if matrix.ndim != 2 or matrix.shape[1] != len(self.names) or not np.isfinite(matrix).all():
            raise InputError(f"restrictions need one finite number a coefficient, {len(self.names)} in a row")
        matrix = self._told_together(matrix)
        used = np.any(matrix != 0, axis=0) & ~self.reported
        aside = [name for name, wanted in zip(self.names, used, strict=True) if wanted]
        if aside:
            known = [] if self.geometry is None else [self.geometry.together(name) for name in aside]
            raise InputError(
                "; ".join([f"{', '.join(aside)} was set aside at this budget: leave it out", *filter(None, known)])
            )
        return matrix[:, self.reported]

    def _told_together(self, matrix: Array) -> Array:
        """Restrictions in which b + s a, of two columns that cannot be told apart, is replaced by the line about it."""
        matrix = matrix.copy()
        for lost, kept, slope in () if self.geometry is None else self.geometry.twins:
            a, b = matrix[:, self.names.index(lost)], matrix[:, self.names.index(kept)]
            a[np.abs(a - slope * b) <= _ALIKE * np.abs(b)] = 0.0
        return matrix

    def _whole(self, values: Array, otherwise: npt.ArrayLike) -> Array:
        """Numbers of the reported coefficients, with ``otherwise`` in the place of the others."""
        whole = np.empty((len(self.names), *values.shape[1:]))
        whole[:] = otherwise
        whole[self.reported] = values
        return whole


_KINDS: dict[str, type] = book.KINDS | {
    kind.__name__: kind
    for kind in (
        FitResult, ErrorLaw, AllowedLaw, Band, Geometry, Model, Unit, Privacy, NoPrivacy,
        laws.Gaussian, laws.SphericalLaplace,
    )
}  # fmt: skip


def _renewed(saved: dict[str, Any], version: int) -> dict[str, Any]:
    """A document of an earlier version in the present form.

    Before version 3 there was no band, and a row counted 1; version 1 had events with flags and neighbours in words.
    """
    if version < VERSION:
        saved = {**saved, "band": None}
    if version > 1:
        return saved
    privacy = saved["privacy"]
    events = [codec.encode(book.past_event(event)) for event in privacy["events"]]
    privacy |= {"events": events, "neighbours": of_sentence(privacy["neighbours"]).value}
    return saved


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise InputError(f"a confidence level lies strictly between 0 and 1, not {level}")
    return level
