"""The findings of section 5 as checks of numbers: each is confirmed, partly confirmed or not."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from studies.paper import cells
from studies.paper.cells import Chart, Line

Check = dict[str, Any]
Look = Callable[[Chart, Line, float, str], float | None]
"""The measure of that name at one value of a line; None where there is no result."""


@dataclass(frozen=True)
class Point:
    """One place where a finding can hold."""

    holds: bool
    number: float
    place: str


@dataclass(frozen=True)
class Verdict:
    """A finding and the points behind it.  Confirmed if the share asked for holds, partly if half
    of them do.
    """

    finding: dict[str, Any]
    points: tuple[Point, ...]

    @property
    def word(self) -> str:
        """Confirmed, partly, not confirmed, or no results."""
        if not self.points:
            return "no results"
        share = self.holding / len(self.points)
        needed = float(self.finding["check"].get("share", 1.0))
        if share >= needed:
            return "confirmed"
        return "partly" if share >= 0.5 else "not confirmed"

    @property
    def holding(self) -> int:
        """How many points hold."""
        return sum(point.holds for point in self.points)

    def numbers(self) -> str:
        """The evidence in one line: how many points hold, the range, where the extremes that fail
        are.
        """
        if not self.points:
            return "–"
        lowest, highest = min(self.points, key=_number), max(self.points, key=_number)
        span = f"{lowest.number:.3f}" + (
            f" to {highest.number:.3f}" if len(self.points) > 1 else ""
        )
        text = f"{self.holding} of {len(self.points)} hold; {self.measured} {span}"
        failing = [point for point in (lowest, highest) if not point.holds]
        if not failing:
            failing = [point for point in self.points if not point.holds][:1]
        places = dict.fromkeys(f"{point.number:.3f} at {point.place}" for point in failing)
        return text + (f" (fails: {'; '.join(places)})" if places else "")

    @property
    def measured(self) -> str:
        """What the numbers are."""
        check = self.finding["check"]
        words = {"ratio": "CI/VI", "length_sd": "sd of the length"}
        name = words.get(check["measure"], str(check["measure"]))
        forms = {
            "range": name,
            "compare": f"ratio of {name}, {_side(check, 'left')} to {_side(check, 'right')},",
            "similar": f"ratio of {name}, {_side(check, 'left')} to {_side(check, 'right')},",
            "trend": f"{name}, last over first,",
            "gap": "change of the gap, last minus first,",
            "crossing": f"ratio of {name}, {_side(check, 'shorter_first')} to {_side(check, 'shorter_last')},",
        }
        return forms[check["kind"]]


def verdicts(look: Look, *, only_tables: bool = False) -> list[Verdict]:
    """Every finding, in the order of the file."""
    document = json.loads((cells.HERE / "findings.json").read_text(encoding="utf-8"))
    found = [
        Verdict(
            finding,
            tuple(p for chart in _charts(finding) for p in _points(chart, finding["check"], look)),
        )
        for finding in document["findings"]
    ]
    return [v for v in found if not only_tables or "tables" in v.finding["where"][0]]


def printed(chart: Chart, line: Line, value: float, measure: str) -> float | None:
    """The paper's own number."""
    if chart.printed is None or measure != "coverage":
        return None
    return chart.printed[line][chart.values.index(value)]


def _charts(finding: dict[str, Any]) -> Iterator[Chart]:
    for where in finding["where"]:
        if "tables" in where:
            yield from (chart for chart in cells.tables() if chart.name in where["tables"])
        else:
            yield from (
                c
                for c in cells.panels()
                if c.name == where["figure"] and c.panel in where["panels"]
            )


def _points(chart: Chart, check: Check, look: Look) -> list[Point]:
    def at(line: Line, value: float) -> float | None:
        return look(chart, line, value, check["measure"])

    return [point for point in _KINDS[check["kind"]](chart, check, at) if point is not None]


At = Callable[[Line, float], float | None]
Found = Iterator[Point | None]


def _range(chart: Chart, check: Check, at: At) -> Found:
    low, high = check["low"], check["high"]
    for line in _lines(chart, check):
        for value in _values(chart, check):
            number = at(line, value)
            if number is not None:
                inside = (low is None or number >= low) and (high is None or number <= high)
                yield Point(inside, number, _place(chart, value, line))


def _compare(chart: Chart, check: Check, at: At) -> Found:
    for value in _values(chart, check):
        ratio = _ratio(at(_line(check["left"]), value), at(_line(check["right"]), value))
        if ratio is not None:
            yield Point(ratio < check["factor"], ratio, _place(chart, value))


def _similar(chart: Chart, check: Check, at: At) -> Found:
    for value in _values(chart, check):
        ratio = _ratio(at(_line(check["left"]), value), at(_line(check["right"]), value))
        if ratio is not None:
            yield Point(abs(ratio - 1) <= check["within"], ratio, _place(chart, value))


def _trend(chart: Chart, check: Check, at: At) -> Found:
    for line in _lines(chart, check):
        ratio = _ratio(at(line, chart.values[-1]), at(line, chart.values[0]))
        if ratio is None:
            continue
        if check["direction"] == "flat":
            holds = abs(ratio - 1) <= check["within"]
        else:
            holds = (
                ratio >= check["at_least"]
                if check["direction"] == "up"
                else ratio <= 1 / check["at_least"]
            )
        yield Point(holds, ratio, _place(chart, None, line))


def _gap(chart: Chart, check: Check, at: At) -> Found:
    left, right = _line(check["left"]), _line(check["right"])
    first, last = (
        _ratio(at(left, value), at(right, value)) for value in (chart.values[0], chart.values[-1])
    )
    if first is not None and last is not None:
        change = abs(last - 1) - abs(first - 1)
        yield Point(change < 0, change, _place(chart, None))


def _crossing(chart: Chart, check: Check, at: At) -> Found:
    """The smaller ratio must be below 1 at the first value and above 1 at the last."""
    left, right = _line(check["shorter_first"]), _line(check["shorter_last"])
    for value, sign in ((chart.values[0], -1), (chart.values[-1], 1)):
        ratio = _ratio(at(left, value), at(right, value))
        if ratio is not None:
            yield Point(sign * (ratio - 1) > 0, ratio, _place(chart, value))


_KINDS: dict[str, Callable[[Chart, Check, At], Found]] = {
    "range": _range,
    "compare": _compare,
    "similar": _similar,
    "trend": _trend,
    "gap": _gap,
    "crossing": _crossing,
}


def _lines(chart: Chart, check: Check) -> list[Line]:
    wanted = check["lines"]
    return [
        line
        for line in chart.lines
        if wanted == "all" or line in [_line(entry) for entry in wanted]
    ]


def _values(chart: Chart, check: Check) -> list[float]:
    wanted = check["values"]
    if isinstance(wanted, str):
        return list(chart.values[1 if wanted == "all but first" else 0 :])
    return [value for value in chart.values if value in wanted]


def _line(entry: dict[str, str]) -> Line:
    return entry["privacy"], entry["mechanism"]


def _ratio(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left / right


def _side(check: Check, name: str) -> str:
    return " ".join(_line(check[name])) if name in check else ""


def _number(point: Point) -> float:
    return point.number


def _place(chart: Chart, value: float | None, line: Line | None = None) -> str:
    parts = [chart.name, chart.panel or chart.loss]
    if line is not None:
        parts += line
    if value is not None:
        parts.append(
            f"{chart.parameter}={value:g}" if value < 1000 else f"{chart.parameter}={value:,.0f}"
        )
    return " ".join(parts)
