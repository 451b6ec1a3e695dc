"""The regression table in Markdown, LaTeX and HTML, and a result in one line.

Names are escaped; numbers are for people, as `text` writes them.
"""

import html as _html
import re
import textwrap
from collections.abc import Mapping, Sequence
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


def markdown(fit: Estimates, level: float) -> str:
    """The table in Markdown, its caption, and what is to be known of open lines."""
    shown = rows(fit, level)
    lines = markdown_table(shown, level)
    for words in (caption(fit), *notes_of(shown)):
        lines += ["", plain(words)]
    return "\n".join(lines)


def markdown_table(shown: Sequence[dict[str, Any]], level: float) -> list[str]:
    """The lines of the table alone; a row that stands in for another is indented."""
    titles = heads(level)
    lines = ["| " + " | ".join(titles) + " |", "| --- |" + " ---: |" * (len(titles) - 1)]
    for row in shown:
        name = "&emsp;" * text.stands_in(row) + plain(row["name"])
        lines.append("| " + " | ".join([name, *cells(row)]) + " |")
    return lines


def latex(fit: Estimates, level: float) -> str:
    """A tabular environment, and what was asked and is open in small print under it: it needs no
    package.
    """
    shown = rows(fit, level)
    titles = heads(level)
    lines = [r"\begin{tabular}{l" + "r" * (len(titles) - 1) + "}", r"\hline"]
    lines += [" & ".join(map(tex, titles)) + r" \\", r"\hline"]
    for row in shown:
        name = r"\quad " * text.stands_in(row) + tex(row["name"])
        lines.append(" & ".join([name, *map(tex, cells(row))]) + r" \\")
    lines += [r"\hline", r"\end{tabular}"]
    for note in (caption(fit), *notes_of(shown)):
        lines += [r"\par\smallskip", rf"{{\footnotesize {tex(note)}\par}}"]
    return "\n".join(lines)


def html(fit: Estimates, level: float) -> str:
    """A table for notebooks: no script, no style of its own beyond alignment."""
    shown = rows(fit, level)
    title = f"<caption>{_html.escape(caption(fit))}</caption>"
    head = "".join(f'<th scope="col">{_html.escape(word)}</th>' for word in heads(level))
    body = "".join(map(_html_row, shown))
    notes = "".join(f"<p>{_html.escape(note)}</p>" for note in notes_of(shown))
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _html_row(row: dict[str, Any]) -> str:
    name = "&emsp;" * text.stands_in(row) + _html.escape(row["name"])
    numbers = "".join(f"<td>{_html.escape(cell)}</td>" for cell in cells(row))
    return f'<tr><th scope="row">{name}</th>{numbers}</tr>'


def plain(words: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(words.split()))


def tex(words: str) -> str:
    """Text that LaTeX shows as it is, on one line."""
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(words.split()))
