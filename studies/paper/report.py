"""Write docs/reproduction.md and its figures from the results: ``python -m studies.paper.report``."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from studies.paper import cells, plots, prose
from studies.paper.cells import Chart, Line
from studies.paper.store import Record, Results
from studies.paper.verdicts import Look, Verdict, printed, verdicts

PAGE = "reproduction.md"
SYMBOLS = {"n": "n", "d": "d", "epsilon1": "ε₁", "epsilon2": "ε₂", "epsilon3": "ε₃"}
NONE = "–"


def write(results: Results, docs: Path) -> None:
    """The page, and a figure for each figure of the paper."""
    look = looker(results)
    for figure in prose.FIGURES:
        plots.draw(_panels(figure), look, docs / "figures" / f"paper_{figure}")
    docs.mkdir(parents=True, exist_ok=True)
    (docs / PAGE).write_text(page(results), encoding="utf-8")


def page(results: Results) -> str:
    """The whole report as Markdown."""
    look = looker(results)
    found = verdicts(look)
    parts = [
        prose.opening(results.settings),
        _short(results, look, found),
        "## Coverage\n\n" + prose.COVERAGE,
        *(_coverage(name, results, look) for name in prose.TABLES),
        "## Lengths\n\n" + prose.LENGTHS,
        *(_figure(name, look) for name in prose.FIGURES),
        _findings(found),
        prose.DIFFERENCES,
        _floor(results, look),
        _other_order(results),
        prose.RAND,
        *(_rand(parameter, results) for parameter in SYMBOLS),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def looker(results: Results) -> Look:
    """How a finding or a figure reads the results."""

    def look(chart: Chart, line: Line, value: float, measure: str) -> float | None:
        cell = chart.cell(line, value)
        first = "first_" if chart.length_of == "first" else ""
        if measure == "ratio":
            length, shortest = (
                look(chart, line, value, name) for name in ("length", "variability")
            )
            return None if length is None or shortest is None else length / shortest
        if measure == "variability":
            return _item(results.get("variability", cell), f"{first}length")
        name = measure if measure == "coverage" else f"{first}{measure}"
        return _item(results.get("cells", cell), name)

    return look


def _short(results: Results, look: Look, found: list[Verdict]) -> str:
    """The whole page in a few lines."""
    gaps = _gaps(cells.tables(), look)
    lines = ["## In short", ""]
    if len(gaps):
        near = int((np.abs(gaps) <= 0.01).sum())
        lines.append(
            f"- Coverage: {len(gaps)} of 376 cells computed. Ours minus the paper's is {_signed(float(gaps.mean()))} "
            f"on average; {near} cells agree within .01; the largest difference is {_dot(float(np.abs(gaps).max()))}."
        )
    records = [results.get("cells", cell) for chart in cells.tables() for cell in chart.cells()]
    worst = [record["minimum"] for record in records if record is not None]
    if worst:
        low = sum(minimum < 0.93 for minimum in worst)
        lines.append(
            f"- A mean over coefficients can hide a bad one: the lowest single coefficient covers {_dot(min(worst))}; "
            f"{low} cells have a coefficient below .93."
        )
    count = {
        word: sum(v.word == word for v in found)
        for word in ("confirmed", "partly", "not confirmed")
    }
    text = ", ".join(f"{number} {word}" for word, number in count.items())
    lines.append(f"- Findings: {text}, of {len(found)}.")
    return "\n".join(lines)


def _coverage(name: str, results: Results, look: Look) -> str:
    """One table: ours, the paper's, the difference and the smallest coefficient in every cell."""
    charts = [chart for chart in cells.tables() if chart.name == name]
    gaps = _gaps(charts, look)
    lines = [f"### {prose.TABLES[name]}", "", *_head(charts[0], "")]
    for chart, line in ((chart, line) for line in charts[0].lines for chart in charts):

        def entry(value: float, chart: Chart = chart, line: Line = line) -> str:
            record = results.get("cells", chart.cell(line, value))
            paper = printed(chart, line, value, "coverage")
            if record is None or paper is None:
                return NONE
            ours = record["coverage"]
            return f"**{_dot(ours)}**<br>{_dot(paper)}<br>{_signed(ours - paper)}<br>{_dot(record['minimum'], 3)}"

        title = f"**{' '.join(line)} {chart.loss}**<br>paper<br>difference<br>minimum"
        lines.append(_row(title, chart, entry))
    if len(gaps):
        lines += ["", f"Difference: mean {_signed(float(gaps.mean()))}, mean size {_dot(float(np.abs(gaps).mean()))}, "
                  f"largest {_dot(float(np.abs(gaps).max()))}; {len(gaps)} cells."]  # fmt: skip
    return "\n".join(lines)


def _figure(name: str, look: Look) -> str:
    """One figure, its caption, and its numbers folded away."""
    lines = [
        f"### {prose.FIGURES[name]}",
        "",
        f"![{prose.FIGURES[name]}](figures/paper_{name}.png)",
        "",
    ]
    lines += [prose.CAPTION, "", "<details><summary>The numbers</summary>", ""]
    for chart in _panels(name):
        lines += [
            f"({chart.panel}) {chart.shown_as}, {chart.loss}",
            "",
            *_head(chart, "CI ± sd<br>VI"),
        ]
        for line in chart.lines:

            def entry(value: float, chart: Chart = chart, line: Line = line) -> str:
                names = ("length", "length_sd", "variability")
                length, spread, shortest = (look(chart, line, value, name) for name in names)
                if length is None or spread is None or shortest is None:
                    return NONE
                return f"{length:.3g} ± {spread:.2g}<br>{shortest:.3g}"

            lines.append(_row(" ".join(line), chart, entry))
        lines.append("")
    return "\n".join([*lines, "</details>"])


def _findings(found: list[Verdict]) -> str:
    """Each finding with its verdict and numbers; for the tables also the verdict on the paper's own
    numbers.
    """
    own = {v.finding["id"]: v.word for v in verdicts(printed, only_tables=True)}
    lines = ["## The findings of section 5", "", prose.FINDINGS, ""]
    lines += [
        "| finding | verdict | our numbers | paper's own numbers |",
        "| --- | --- | --- | --- |",
    ]
    for verdict in found:
        finding = verdict.finding
        mark = "" if finding["source"] == "text" else " *"
        lines.append(
            f"| {finding['statement']}{mark} | **{verdict.word}** | {verdict.numbers()} | "
            f"{own.get(finding['id'], NONE)} |"
        )
    return "\n".join(lines)


def _floor(results: Results, look: Look) -> str:
    """What the floor of Σ does: eigenvalues below it, and the ratio CI/VI on KDD as n grows."""
    below = []
    for chart, cell in cells.fullest():
        record = results.get("spectrum", cell)
        if record is not None:
            below.append(
                f"{chart.shown_as} {chart.loss} {record['below']} of {len(record['eigenvalues'])}"
            )
    lines = (
        [f"Eigenvalues of Σ without noise that lie below the floor: {', '.join(below)}.", ""]
        if below
        else []
    )
    rows = []
    for chart in cells.panels():
        if chart.name not in ("dp", "zcdp") or chart.parameter != "n":
            continue
        for line in chart.lines:
            ratios = [
                look(chart, line, value, "ratio") for value in (chart.values[0], chart.values[-1])
            ]
            if None not in ratios:
                rows.append(
                    f"| {' '.join(line)} {chart.loss} | {ratios[0]:.2f} | {ratios[1]:.2f} |"
                )
    if rows:
        lines += ["| KDDCUP99, CI/VI | n = 50,000 | n = 450,000 |", "| --- | --- | --- |", *rows]
    return "\n".join(lines)


def _other_order(results: Results) -> str:
    """The middle column of each table with the columns selected first."""
    rows = []
    for chart, cell, other in cells.other_order():
        here = results.get("cells", cell)
        there = results.get("cells", other)
        if here is not None and there is not None:
            value = _value(chart.values[len(chart.values) // 2])
            setting = f"{chart.shown_as}, {SYMBOLS[chart.parameter]} = {value}"
            lengths = f"{here['length']:.3g} | {there['length']:.3g}"
            line = f"{cell.privacy} {cell.mechanism} {cell.loss}"
            rows.append(
                f"| {setting} | {line} | {_dot(here['coverage'])} | {_dot(there['coverage'])} | {lengths} |"
            )
    if not rows:
        return ""
    head = "| cell | row | coverage, paper's order | select first | length, paper's order | select first |"
    lines = [
        "### The other order of preprocessing",
        "",
        prose.ORDER,
        "",
        "<details><summary>The numbers</summary>",
    ]
    return "\n".join(
        [*lines, "", head, "| --- | --- | --- | --- | --- | --- |", *rows, "", "</details>"]
    )


def _rand(parameter: str, results: Results) -> str:
    """One table of the RAND data: coverage, smallest coefficient, length against no privacy."""
    charts = [chart for chart in cells.rand_tables() if chart.parameter == parameter]
    lines = [f"### RAND HIE, {SYMBOLS[parameter]} varied", "", *_head(charts[0], "")]
    for chart, line in ((chart, line) for line in charts[0].lines for chart in charts):

        def entry(value: float, chart: Chart = chart, line: Line = line) -> str:
            record = results.get("cells", chart.cell(line, value))
            if record is None:
                return NONE
            return f"**{_dot(record['coverage'])}**<br>{_dot(record['minimum'], 3)}<br>{record['inflation']:.2f}"

        lines.append(_row(f"**{' '.join(line)} {chart.loss}**<br>minimum<br>length", chart, entry))
    return "\n".join(lines)


def _head(chart: Chart, first: str) -> list[str]:
    values = [
        f"{SYMBOLS[chart.parameter]} = {_value(chart.values[0])}",
        *map(_value, chart.values[1:]),
    ]
    return [f"| {first} | {' | '.join(values)} |", "| --- |" + " --- |" * len(values)]


def _row(title: str, chart: Chart, entry: Callable[[float], str]) -> str:
    return f"| {title} | {' | '.join(entry(value) for value in chart.values)} |"


def _panels(figure: str) -> list[Chart]:
    return [chart for chart in cells.panels() if chart.name == figure]


def _gaps(charts: list[Chart], look: Look) -> np.ndarray:
    """Ours minus the paper's, in every cell that has been computed."""
    places = [
        (chart, line, value) for chart in charts for line in chart.lines for value in chart.values
    ]
    pairs = [(look(*place, "coverage"), printed(*place, "coverage")) for place in places]
    return np.array(
        [ours - paper for ours, paper in pairs if ours is not None and paper is not None]
    )


def _item(record: Record | None, name: str) -> float | None:
    return None if record is None else float(record[name])


def _value(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _dot(share: float, digits: int = 4) -> str:
    """.9680, as the paper prints a share."""
    return f"{share:.{digits}f}".removeprefix("0")


def _signed(gap: float) -> str:
    return ("−" if round(gap, 4) < 0 else "+") + _dot(abs(gap))


def main(arguments: list[str] | None = None) -> int:
    """Write the report of the results that are there."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.paper.report", description="Write the report again."
    )
    parser.add_argument("--out", default="studies/paper/results", help="folder of the results")
    parser.add_argument("--docs", default="docs", help="folder of the report")
    options = parser.parse_args(arguments)
    write(Results(options.out), Path(options.docs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
