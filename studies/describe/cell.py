"""One replicate: a bootstrap sample of records or persons, its private description and the same
without noise, both held against the figures of the population.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from threadpoolctl import threadpool_limits

from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result import description
from dpinfer.result.description import Description
from dpinfer.result.statements import REPORTED
from dpinfer.simulate.replicates import noise_seed
from studies.asked import Found, budget
from studies.describe.designs import Key, Population, population

_LEAST = 1e-9
_SLACK = {description.SD: 1e-6}
"""By which an interval may miss a figure through rounding alone, over the figure or 1; others have
the least.  A deviation is the root of a variance: in the column ``one``, where all have the same
number, a variance of 0 comes out as 5e-14 without noise, and the deviation as 2e-7.
"""


@dataclass(frozen=True)
class Cell:
    """A design, a budget as `studies.asked.budget` reads it, and whether groups are described."""

    design: str
    budget: str
    grouped: bool

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}{'-by' if self.grouped else ''}-{self.budget}"


@dataclass(frozen=True, eq=False)
class Setting:
    """The population of a cell, its figures, and the quartiles among them that many share."""

    people: Population
    truth: Mapping[Key, float]
    shared: Collection[Key]


@lru_cache(maxsize=2)
def setting(cell: Cell, folder: Path) -> Setting:
    """Made once for all replicates."""
    people = population(cell.design, folder, grouped=cell.grouped)
    return Setting(people, people.truth(), people.shared(people.asked.z))


def keys(found: Description) -> list[Key]:
    """Column, level, group and figure of every line."""
    return [(one.column, one.level, one.group, one.figure) for one in found.figures]


def replicate(cell: Cell, folder: Path, index: int) -> Found:
    """For each figure whether its interval holds that of the population, its length, and both
    without noise; NaN where a figure is not reported.
    """
    with threadpool_limits(1, "blas"):
        where = setting(cell, folder)
        people = where.people
        seed = noise_seed(0, index)
        private = people.sample(index, budget(cell.budget)).run(insecure_seed=seed)
        plain = people.sample(index, NoPrivacy()).run(insecure_seed=seed)
        ranked = people.ordinary(index, people.asked.z)
        found: Found = {}
        for word, one in (("private", private), ("plain", plain)):
            covered = []
            length = []
            for key, figure in zip(keys(one), one.figures, strict=True):
                ends = (figure.low, figure.high)
                if word == "plain":
                    ends = ranked.get(key, ends)
                value = where.truth[key]
                slack = _SLACK.get(figure.figure, _LEAST) * max(1.0, abs(value))
                inside = ends[0] - slack <= value <= ends[1] + slack
                there = figure.status == REPORTED
                covered.append(float(inside) if there else float("nan"))
                length.append(ends[1] - ends[0] if there else float("nan"))
            found[word] = {"covered": covered, "length": length}
        return found
