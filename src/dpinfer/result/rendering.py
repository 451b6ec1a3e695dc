"""Tables in Markdown, LaTeX and HTML, that of a result first, and a result in one line.

Names are escaped; numbers are for people, as `text` writes them.
"""

import html as _html
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpinfer.result import text
from dpinfer.result.estimates import Estimates

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": r"$-$",
    "–": "--",
    "<": r"$<$",
    ">": r"$>$",
    "[": "{[}",
    "]": "{]}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
}


def heads(level: float) -> list[str]:
    """Titles of the columns, with the level of the intervals."""
    interval = f"{100 * level:.4g}% interval"
    return ["Coefficient", "Estimate", interval, "Std. error", "z", "p", "Noise share"]


def cells(row: dict[str, Any]) -> list[str]:
    """The numbers of a row of a result's table, in the order of `heads`; none where it has no
    interval.
    """
    if text.set_aside(row):
        return [text.NOTHING, text.interval(row), *[text.NOTHING] * 4]
    decimals = text.places(row["std_error"])
    return [
        text.number(row["estimate"], decimals),
        text.interval(row),
        text.number(row["std_error"], decimals),
        text.number(row["z"], 2),
        text.p_value(row["p_value"]),
        text.percent(row["noise_share"]),
    ]


def rows(fit: Estimates, level: float) -> list[dict[str, Any]]:
    """The table with what is known instead of open lines; last the ordinary intercept, where there
    is another.
    """
    shown = fit.lines(level)
    ordinary = fit.ordinary_intercept(level)
    if ordinary is not None:
        shown.append(ordinary | {"instead_of": ""})
    return shown


def line(fit: Estimates) -> str:
    """The result in a line."""
    asked = ""
    if fit.question is not None:
        asked = f" {textwrap.shorten(fit.question.asked, 70, placeholder=' …')}:"
    reported = int(fit.reported.sum())
    coefficients = f"{len(fit.names)} coefficients"
    if reported < len(fit.names):
        coefficients = f"{reported} of {coefficients} reported"
    privacy = "NOT PRIVATE"
    if fit.privacy.private:
        privacy = str(fit.privacy.budget).rpartition(" with ")[2]
    return text.harmless(
        f"<FitResult{asked} {coefficients}, {fit.records} {fit.model.unit.word}, {privacy}>"
    )


def caption(fit: Estimates) -> str:
    """What stands with a table wherever it goes: what was asked, how many records, how private."""
    asked = ""
    if fit.question is not None:
        asked = f"{fit.question.asked}. {' '.join(fit.question.sentences())} "
    privacy = "NOT PRIVATE"
    if fit.privacy.private:
        privacy = f"{fit.privacy.budget}, protects {fit.privacy.unit}"
    reading = f" {text.LOG_RATES}" if fit.model.counts else ""
    return f"{asked}{fit.records} {fit.model.unit.word}.{reading} Privacy: {privacy}."


def notes_of(shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """What stands under a table: why lines have no interval, what that means, what the indented
    ones are, and why some have no z.
    """
    return [
        *text.reasons(shown),
        *text.no_estimates(shown),
        *text.about_instead(shown),
        *text.about_allowances(shown),
    ]


@dataclass(frozen=True)
class Grid:
    """A table for every format: titles, and rows of a name, whether it is indented, and cells."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[str, ...]], ...]

    @classmethod
    def of(cls, shown: Sequence[dict[str, Any]], level: float) -> "Grid":
        """That of rows of a result's table; one that stands in for another is indented."""
        lines = [(row["name"], text.stands_in(row), tuple(cells(row))) for row in shown]
        return cls(tuple(heads(level)), tuple(lines))

    def markdown(self) -> list[str]:
        """Lines of Markdown."""
        lines = [
            "| " + " | ".join(map(plain, self.titles)) + " |",
            "| --- |" + " ---: |" * (len(self.titles) - 1),
        ]
        for name, indented, numbers in self.rows:
            first = "&emsp;" * indented + plain(name)
            lines.append("| " + " | ".join([first, *numbers]) + " |")
        return lines

    def latex(self) -> list[str]:
        """Lines of a tabular environment; it needs no package."""
        lines = [r"\begin{tabular}{l" + "r" * (len(self.titles) - 1) + "}", r"\hline"]
        lines += [" & ".join(map(_tex, self.titles)) + r" \\", r"\hline"]
        for name, indented, numbers in self.rows:
            first = r"\quad " * indented + _tex(name)
            lines.append(" & ".join([first, *map(_tex, numbers)]) + r" \\")
        return [*lines, r"\hline", r"\end{tabular}"]

    def html(self, title: str) -> str:
        """A table with this caption: no script, no style."""
        head = "".join(f'<th scope="col">{_html.escape(word)}</th>' for word in self.titles)
        body = ""
        for name, indented, numbers in self.rows:
            first = "&emsp;" * indented + _html.escape(name)
            others = "".join(f"<td>{_html.escape(number)}</td>" for number in numbers)
            body += f'<tr><th scope="row">{first}</th>{others}</tr>'
        return (
            f"<table><caption>{_html.escape(title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


def markdown_page(grid: Grid, notes: Sequence[str]) -> str:
    """A table in Markdown, and one paragraph per note under it."""
    lines = grid.markdown()
    for note in notes:
        lines += ["", plain(note)]
    return "\n".join(lines)


def latex_page(grid: Grid, notes: Sequence[str]) -> str:
    """A table in LaTeX, and the notes in small print under it."""
    lines = grid.latex()
    for note in notes:
        lines += [r"\par\smallskip", rf"{{\footnotesize {_tex(note)}\par}}"]
    return "\n".join(lines)


def html_page(grid: Grid, title: str, notes: Sequence[str]) -> str:
    """A table for notebooks, and one paragraph per note under it."""
    return grid.html(title) + "".join(f"<p>{_html.escape(note)}</p>" for note in notes)


def markdown(fit: Estimates, level: float) -> str:
    """The table in Markdown, its caption, and what is to be known of open lines."""
    shown = rows(fit, level)
    return markdown_page(Grid.of(shown, level), (caption(fit), *notes_of(shown)))


def latex(fit: Estimates, level: float) -> str:
    """A tabular environment, and what was asked and is open in small print under it."""
    shown = rows(fit, level)
    return latex_page(Grid.of(shown, level), (caption(fit), *notes_of(shown)))


def html(fit: Estimates, level: float) -> str:
    """A table for notebooks, under what was asked, with what is to be known of open lines."""
    shown = rows(fit, level)
    return html_page(Grid.of(shown, level), caption(fit), notes_of(shown))


def plain(words: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(words.split()))


def _tex(words: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(words.split()))
