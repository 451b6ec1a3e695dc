"""The regression table for a paper, a notebook or a line of a terminal.  Names are escaped; numbers
are for people.
"""

import html as _html
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from dpinfer.result import text
from dpinfer.result.estimates import Estimates

HEADS = ("Coefficient", "Estimate", "interval", "Std. error", "z", "p", "Noise share")
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": r"$-$", "–": "--", "<": r"$<$", ">": r"$>$",
    "[": "{[}", "]": "{]}", "ε": r"$\varepsilon$", "δ": r"$\delta$",
}  # fmt: skip


def heads(level: float) -> list[str]:
    """Titles of the columns, with the level of the intervals."""
    return [f"{100 * level:.4g}% interval" if head == "interval" else head for head in HEADS]


def cells(row: dict[str, Any]) -> list[str]:
    """The numbers of a row of a result's table, as `HEADS` has them."""
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
    ordinary = fit.ordinary_intercept(level)
    under = [] if ordinary is None else [ordinary | {"instead_of": ""}]
    return [*fit.lines(level), *under]


def line(fit: Estimates) -> str:
    """The result in a line."""
    asked = (
        ""
        if fit.question is None
        else f" {textwrap.shorten(fit.question.asked, 70, placeholder=' …')}:"
    )
    kept, every = int(fit.reported.sum()), len(fit.names)
    privacy = (
        str(fit.privacy.budget).rpartition(" with ")[2] if fit.privacy.private else "NOT PRIVATE"
    )
    count = f"{every} coefficients" if kept == every else f"{kept} of {every} coefficients reported"
    return text.harmless(
        f"<FitResult{asked} {count}, {fit.records} {fit.model.unit.word}, {privacy}>"
    )


def caption(fit: Estimates) -> str:
    """What stands with a table wherever it goes: what was asked, how many records, how private."""
    asked = (
        ""
        if fit.question is None
        else f"{fit.question.asked}. {' '.join(fit.question.sentences())} "
    )
    privacy = (
        f"{fit.privacy.budget}, protects {fit.privacy.unit}"
        if fit.privacy.private
        else "NOT PRIVATE"
    )
    return f"{asked}{fit.records} {fit.model.unit.word}. Privacy: {privacy}."


def notes_of(shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """What stands under a table: why lines have no interval, what that means, and what the indented
    ones are.
    """
    return [*text.reasons(shown), *text.no_estimates(shown), *text.about_instead(shown)]


def markdown(fit: Estimates, level: float) -> str:
    """The table in Markdown, its caption, and what is to be known of open lines."""
    shown = rows(fit, level)
    lines = ["| " + " | ".join(heads(level)) + " |", "| --- |" + " ---: |" * (len(HEADS) - 1)]
    lines += ["| " + " | ".join([marked(row), *cells(row)]) + " |" for row in shown]
    lines += ["", plain(caption(fit))]
    for note in notes_of(shown):
        lines += ["", plain(note)]
    return "\n".join(lines)


def marked(row: Mapping[str, Any]) -> str:
    """A name in Markdown, indented where the line stands in for another."""
    return "&emsp;" * text.stands_in(row) + plain(row["name"])


def latex(fit: Estimates, level: float) -> str:
    """A tabular environment, and its caption as a comment: it needs no package."""
    shown = rows(fit, level)
    lines = [" & ".join(map(_tex, heads(level))) + r" \\"]
    for row in shown:
        name = r"\quad " * text.stands_in(row) + _tex(row["name"])
        lines.append(" & ".join([name, *map(_tex, cells(row))]) + r" \\")
    notes = [f"% {' '.join(note.split())}" for note in (caption(fit), *notes_of(shown))]
    begin = r"\begin{tabular}{l" + "r" * (len(HEADS) - 1) + "}"
    end = r"\end{tabular}"
    return "\n".join([*notes, begin, r"\hline", lines[0], r"\hline", *lines[1:], r"\hline", end])


def html(fit: Estimates, level: float) -> str:
    """A table for notebooks: no script, no style of its own beyond alignment."""
    shown = rows(fit, level)
    head = "".join(f'<th scope="col">{_html.escape(word)}</th>' for word in heads(level))
    body = "".join(
        f'<tr><th scope="row">{"&emsp;" * text.stands_in(row)}{_html.escape(row["name"])}</th>'
        + "".join(f"<td>{_html.escape(cell)}</td>" for cell in cells(row))
        + "</tr>"
        for row in shown
    )
    notes = "".join(f"<p>{_html.escape(note)}</p>" for note in notes_of(shown))
    title = f"<caption>{_html.escape(caption(fit))}</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def plain(words: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(words.split()))


def _tex(words: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(words.split()))
