"""The geometry of a moment release: its price, the radius, and how far one column may reach.

| symbol | meaning                                                                | name in code |
| ------ | ---------------------------------------------------------------------- | ------------ |
| p      | number of features, the intercept included                             | `features`   |
| s      | noise sd of the second moments                                         | `noise`      |
| R²     | squared radius: a typical row u has ‖u‖² = p/R²                        | `radius2`    |
| π      | price: noise variance over sampling variance of any slope, s²R⁴/(2n)   | `price`      |
| n_e    | number of records that answers are worth, n/(1 + π)                    | `effective`  |

**The price is the same for all questions.** Let A whiten the rows, Σ u uᵀ = (n/R²) I, with all weights 1.
The part of a column that others do not explain is b·u, the residual a·u, and b ⟂ a.  The slope errs by
bᵀE a/D, E the noise and D = ‖b‖² n/R², so that its noise variance is s²‖a‖²‖b‖²/(2D²); its sampling
variance is ‖a‖²/(R² D).  The ratio is s²R⁴/(2n), whatever the outcome and the columns are.
"""

import math
from dataclasses import dataclass

from dpinfer.numerics.reasons import Constant, Numerical

_STUDY = "simulation over 16 tables (python -m studies.moments): "
RADIUS_EXCESS = Constant(
    20.0,
    name="RADIUS_EXCESS",
    decides="the squared radius of a moment release beyond the number of features, at 6,000 effective records",
    reason="rows are weighted by all features, outcomes included, so that a weight can see a residual: the radius must "
    "let in rows of twice the typical leverage",
    source=_STUDY
    + "12 instead of 20 has slopes that cover .77 at 60,000 records; 1.4 p + 24 is 10 to 20 % longer",
)
RADIUS_GROWTH = Constant(
    0.25,
    name="RADIUS_GROWTH",
    decides="the power of the number of effective records by which that excess grows",
    reason="the bias of weights grows like sqrt n against the standard error and falls with the radius, while noise "
    "variance grows like R⁴: any power from 0 to 1/2 is consistent, and the middle is taken",
    source="derivation of the limits; the power is a convention",
)
REFERENCE_RECORDS: Numerical[float] = 6000.0
"""The number of effective records at which `RADIUS_EXCESS` and `COLUMN_SHARE` are stated."""
MAX_RADIUS_FACTOR = Constant(
    6.0,
    name="MAX_RADIUS_FACTOR",
    decides="the squared radius of a moment release, per feature, beyond which it grows more slowly",
    reason="rows with six times the typical leverage have full weight: of normal columns fewer than one row in 10,000 "
    "is farther",
    source="derivation (chi-square with 10 degrees of freedom or more)",
)
COLUMN_SHARE = Constant(
    0.5,
    name="COLUMN_SHARE",
    decides="the share of the squared radius that the farthest value of a column may take, at 6,000 effective records",
    reason="a value at the end of its column then still has full weight in a row that is otherwise typical; farther "
    "columns are scaled down, and pay for their own tail by their own noise",
    source=_STUDY
    + "with 1 the second power of a number covers .20, with .35 intervals are 15 % longer",
)
COLUMN_SHARE_DECAY = Constant(
    0.18,
    name="COLUMN_SHARE_DECAY",
    decides="the power of the number of effective records by which that share falls",
    reason="as for the radius: weights have to go as the standard error falls",
    source=_STUDY + "a convention between 0 and 1/2",
)
RIDGE = Constant(
    0.1,
    name="RIDGE",
    decides="the share of its variance that is added to every column before rows are whitened",
    reason="without it a combination of collinear columns is blown up until records that are rare in it lose weight; "
    "it costs no bias, as answers do not depend on the preconditioner where weights are 1",
    source=_STUDY
    + "without it the bias of products of columns is 1.3 standard errors instead of .8",
)
CHEAP_PRICE = Constant(
    0.1,
    name="CHEAP_PRICE",
    decides="the price up to which the radius of a moment release grows, so that fewer rows lose weight",
    reason="sqrt(1 + .1) = 1.05: noise then makes an interval at most five per cent longer",
    source="derivation of the length; the threshold is a convention",
)
_ROUNDS: Numerical[int] = 6
_FAINT: Numerical[float] = 1e-9  # without noise the radius lets every row in
_COLUMN_SHARES: Numerical[tuple[float, float]] = (0.2, 0.6)
MAX_PRICE = Constant(
    5.0,
    name="MAX_PRICE",
    decides="the price above which a release is refused before anything is spent",
    reason="noise would make every interval more than sqrt(1 + 5) = 2.4 times as long: fewer features serve better",
    source="derivation",
)


@dataclass(frozen=True)
class MomentGeometry:
    """The squared radius of a release of ``features`` from ``records``, with the noise sd of its moments."""

    features: int
    records: float
    noise: float
    radius2: float

    @classmethod
    def of(cls, features: int, records: float, noise: float) -> "MomentGeometry":
        """Return the geometry whose radius grows with what the answers are worth in records.

        It is larger where the price stays below `CHEAP_PRICE`: weights cost bias, and noise little there.
        Above `MAX_RADIUS_FACTOR` per feature it grows as the square root of what that allows, so that with
        many records both go: the weights and the price.
        """
        effective = records
        radius2 = float(features)
        for _ in range(_ROUNDS):
            radius2 = features + RADIUS_EXCESS * (effective / REFERENCE_RECORDS) ** RADIUS_GROWTH
            effective = records / (1 + (noise * radius2) ** 2 / (2 * records))
        cheap = math.sqrt(2 * records * CHEAP_PRICE) / max(noise, _FAINT)
        ample = max(MAX_RADIUS_FACTOR * features, radius2)
        return cls(features, records, noise, max(radius2, min(cheap, math.sqrt(ample * cheap))))

    @property
    def price(self) -> float:
        """Return π: the noise variance of any slope over its sampling variance."""
        return float((self.noise * self.radius2) ** 2 / (2 * self.records))

    @property
    def effective(self) -> float:
        """Return the number of records without noise whose intervals are as long."""
        return self.records / (1 + self.price)

    @property
    def column_share(self) -> float:
        """Return θ: a column takes at most θR² of the squared radius alone."""
        lowest, highest = _COLUMN_SHARES
        grown = COLUMN_SHARE * (self.effective / REFERENCE_RECORDS) ** -COLUMN_SHARE_DECAY
        return float(min(max(grown, lowest), highest))
