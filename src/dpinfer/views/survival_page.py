"""Survival curves as a document: plots with numbers at risk, tables and tests, in HTML, Markdown and CSV."""

import csv as _csv
import io
from base64 import b64encode
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from markupsafe import escape

from dpinfer import persistence
from dpinfer.result.grid import Grid, GridRow, markdown_text
from dpinfer.result.statements import errors_counted
from dpinfer.result.survival_curves import SurvivalCurves
from dpinfer.views.page import NOT_PRIVATE, Section, markdown_sections, no_formula, rendered
from dpinfer.views.promise import privacy_sections
from dpinfer.views.survival_plot import png

_TITLE = "Survival curves"
_STEPS = {"running sums": "how many had an event, and how many were censored, up to each time"}


def html(curves: SurvivalCurves, title: str | None) -> str:
    """Write a page that stands alone: plots, tables, how to read them, privacy, limits, citation."""
    heading = title or _TITLE
    parts = {
        "title": heading,
        "warning": None if curves.privacy.private else NOT_PRIVATE,
        "careful": [],
        "facts": _facts(curves),
        "sections": list(sections(curves, heading, pictures=True)),
    }
    return rendered("survival.html.j2", parts)


def sections(curves: SurvivalCurves, title: str, *, pictures: bool = False) -> Iterator[Section]:
    """Yield all statements of the page, in the order in which they are read."""
    level = f"{100 * curves.confidence:.4g}%"
    about = f"Estimates with {level} intervals in brackets. {errors_counted(curves.privacy.budget)}"
    picture = _picture(curves, None) if pictures else ""
    yield Section("Survival", (about,), picture=picture, table=curves.grid())
    for position, cause in enumerate(curves.causes if len(curves.causes) > 1 else ()):
        picture = _picture(curves, cause) if pictures else ""
        words = f"Cumulative incidence: {cause}"
        yield Section(words, (about,), picture=picture, table=curves.grid(position))
    yield Section("Medians, means and tests", tuple(curves.tests()), table=curves.figures())
    yield Section(
        "Numbers at risk", ("Released numbers, with privacy noise.",), table=_at_risk(curves)
    )
    yield Section("What the curves are", tuple(curves.meanings()))
    yield from privacy_sections(curves.privacy, _STEPS)
    limits = "What the privacy promise and the intervals do not cover:"
    yield Section("Limits", (limits,), curves.caveats())
    yield _citation(curves, title)


def _picture(curves: SurvivalCurves, cause: str | None) -> str:
    """Return a plot as HTML; its numbers are in the table under it."""
    drawn = b64encode(png(curves, cause)).decode("ascii")
    about = "Survival curves" if cause is None else f"Cumulative incidence of {cause}"
    words = escape(f"{about} with intervals and numbers at risk; the table has the numbers.")
    return (
        f'<figure class="curves"><img alt="{words}" src="data:image/png;base64,{drawn}"></figure>'
    )


def _at_risk(curves: SurvivalCurves) -> Grid:
    """Return the numbers at risk at the start and at a few times, one column per group."""
    rows = curves.at_risk_rows()
    groups = curves.groups or (None,)
    length = len(curves.times) + 1
    shown = [0, *(1 + k for k in curves.shown_times())]
    lines = []
    for k in shown:
        cells = [f"{rows[g * length + k]['at_risk']:,.0f}" for g in range(len(groups))]
        lines.append(GridRow.of(f"{rows[k]['time']:g}", cells))
    heads = (curves.names["axis"], *(curves.group_label(group) for group in groups))
    return Grid(heads, tuple(lines))


def _citation(curves: SurvivalCurves, title: str) -> Section:
    privacy = curves.privacy
    kind = f"protected by {privacy.budget}" if privacy.private else "not private"
    if privacy.release:
        kind += f", release {privacy.release}"
    words = f"{title}. Curves with confidence intervals, {kind}. Report by dpinfer {version('dpinfer')}."
    return Section("How to cite", (words,))


def _facts(curves: SurvivalCurves) -> dict[str, str]:
    """Return the facts at the head of the page."""
    names = curves.names
    facts = {"Time": names["axis"], "Event": names["event"]}
    if names["entry"]:
        facts["Entry"] = names["entry"]
    if curves.groups:
        facts["Groups"] = f"{names['by']}: {', '.join(map(curves.group_label, curves.groups))}"
    facts[curves.unit.word.capitalize()] = "number private" if curves.n is None else f"{curves.n:,}"
    facts["Privacy"] = "none"
    facts["Protects"] = "nobody"
    if curves.privacy.private:
        facts["Privacy"] = str(curves.privacy.budget)
        facts["Protects"] = curves.privacy.unit
    return facts


def markdown(curves: SurvivalCurves, title: str | None) -> str:
    """Write tables and all statements as Markdown."""
    heading = title or _TITLE
    lines = [f"# {markdown_text(heading)}", ""]
    if not curves.privacy.private:
        lines += [f"**{NOT_PRIVATE}**", ""]
    lines += [f"- {key}: {markdown_text(fact)}" for key, fact in _facts(curves).items()]
    lines += markdown_sections(sections(curves, heading))
    return "\n".join(lines) + "\n"


def csv(curves: SurvivalCurves) -> str:
    """Write one row per curve, group and time with all digits."""
    shared = {
        "confidence": curves.confidence,
        curves.unit.word: "" if curves.n is None else curves.n,
        "time_column": no_formula(curves.names["time"]),
        "by": no_formula(curves.names["by"]),
        "unit": no_formula(curves.privacy.unit),
    }
    several = curves.causes if len(curves.causes) > 1 else ()
    rows: list[dict[str, Any]] = []
    for curve, position in (("survival", None), *((cause, k) for k, cause in enumerate(several))):
        for row in curves.curve_rows(position):
            kind = "survival" if position is None else "incidence"
            cause = "" if position is None else no_formula(curve)
            group = "" if row["group"] is None else no_formula(curves.group_label(row["group"]))
            rows.append({"curve": kind, "cause": cause} | row | {"group": group} | shared)
    sink = io.StringIO()
    sheet = _csv.DictWriter(sink, fieldnames=list(rows[0]), lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(rows)
    return sink.getvalue()


def contents(curves: SurvivalCurves, title: str | None) -> dict[str, bytes]:
    """Return the files of survival curves, by their names."""
    return {
        persistence.SURVIVAL: curves.to_json().encode(),
        "survival.csv": csv(curves).encode(),
        "survival.html": html(curves, title).encode(),
        "survival.md": markdown(curves, title).encode(),
        "survival.png": png(curves),
    }
