"""A result as a document: HTML for people, Markdown, CSV, and a folder with all of it.

Everything here is made from a result, so it costs no privacy and needs no network.
"""

import csv as _csv
import io
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpinfer.errors import InputError, installed, missing

if not installed("jinja2", "matplotlib"):
    raise missing("dp.report", "report", "jinja2", "matplotlib")

from jinja2 import Environment, StrictUndefined

from dpinfer import disk
from dpinfer.result import text
from dpinfer.result.result import FitResult
from dpinfer.views.drawing import NARROW, WIDE, drawing
from dpinfer.views.plot import forest
from dpinfer.views.words import NOT_PRIVATE, sections

__all__ = ["csv", "html", "markdown", "write"]

_TITLE = "Regression coefficients with confidence intervals"
_KINDS = {"mean": "least squares", "robust": "robust regression, no mean"}
_HEADS = ("Coefficient", "Estimate", "interval", "Std. error", "z", "p", "Noise share")


def html(result: FitResult, *, title: str | None = None, level: float = 0.95) -> str:
    """A page about a ``result`` that stands alone: table, forest plot, privacy statement, estimand, limits, citation.

    ``title`` is its heading, ``level`` that of the intervals.

    It has no script and loads nothing.  It prints on A4, fits a phone, and can be read aloud.  All names are escaped.
    """
    heading = title or _TITLE
    page = files("dpinfer.views").joinpath("page.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(page).render(
        title=heading,
        warning=None if result.privacy.private else NOT_PRIVATE,
        level=_percent(level),
        facts=_facts(result),
        heads=_heads(level),
        rows=_rows(result, level),
        notes=result.notes(),
        drawings=[drawing(result, level, layout) for layout in (WIDE, NARROW)],
        sections=list(sections(result, heading, level)),
    )


def markdown(result: FitResult, *, title: str | None = None, level: float = 0.95) -> str:
    """The regression table and all statements as Markdown; ``result``, ``title`` and ``level`` as for `html`."""
    heading = title or _TITLE
    lines = [f"# {_plain(heading)}", ""]
    if not result.privacy.private:
        lines += [f"**{NOT_PRIVATE}**", ""]
    lines += [f"- {key}: {_plain(fact)}" for key, fact in _facts(result).items()]
    lines += ["", "| " + " | ".join(_heads(level)) + " |", "| --- |" + " ---: |" * (len(_HEADS) - 1)]
    for row in _rows(result, level):
        lines.append("| " + " | ".join([_plain(row["name"]), *row["cells"]]) + " |")
    lines += [line for note in result.notes() for line in ("", _plain(note))]
    for section in sections(result, heading, level):
        lines += ["", f"## {section.title}"]
        lines += [line for paragraph in section.paragraphs for line in ("", _plain(paragraph))]
        lines += ["", *(f"- {_plain(item)}" for item in section.items)] if section.items else []
    return "\n".join(lines) + "\n"


def csv(result: FitResult, *, level: float = 0.95) -> str:
    """The rows of ``result.table(level)`` as CSV with all digits; infinities are written as inf, no number as nan.

    A name that a spreadsheet would take for a formula, one that begins with =, +, -, @, a tab or a line end, gets an
    apostrophe in front; a carriage return and other controls are written as escapes.
    """
    rows = result.table(level)
    written = io.StringIO()
    sheet = _csv.DictWriter(written, fieldnames=list(rows[0]), lineterminator="\n")
    sheet.writeheader()
    sheet.writerows({**row, "name": _no_formula(row["name"])} for row in rows)
    return written.getvalue()


def write(
    result: FitResult, folder: str | os.PathLike[str], *, title: str | None = None, level: float = 0.95
) -> list[Path]:
    """Write ``result.json``, ``coefficients.csv``, ``report.html`` and ``forest.png``, and give their paths.

    ``title`` and ``level`` are those of the page.

    The folder is made if it is not there.  Nothing is moved into place before all files are written in full elsewhere
    in the folder, so that no file is ever seen half-written.
    """
    picture = io.BytesIO()
    forest(result, level=level).savefig(picture, format="png")
    contents = {
        "result.json": result.to_json().encode(),
        "coefficients.csv": csv(result, level=level).encode(),
        "report.html": html(result, title=title, level=level).encode(),
        "forest.png": picture.getvalue(),
    }
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        disk.write_all(target, contents)
    except OSError as fault:
        raise InputError(
            f"cannot write the report to {target}: {fault.strerror}; name a folder you may write to"
        ) from None
    return [target / name for name in contents]


def _rows(result: FitResult, level: float) -> list[dict[str, Any]]:
    found = []
    for row in result.table(level):
        decimals = text.places(row["std_error"])
        cells = [
            text.number(row["estimate"], decimals),
            text.interval(row),
            text.number(row["std_error"], decimals),
            text.number(row["z"], 2),
            text.p_value(row["p_value"]),
            text.percent(row["noise_share"]),
        ]
        found.append({"name": text.name(row), "status": row["status"] if text.set_aside(row) else "", "cells": cells})
    return found


def _facts(result: FitResult) -> dict[str, str]:
    model, privacy, kept = result.model, result.privacy, int(result.reported.sum())
    return {
        "Privacy": str(privacy.budget) if privacy.private else "none",
        "Protects": privacy.unit if privacy.private else "nobody",
        "Records": result.records,
        "Coefficients": f"{len(result.names)}, "
        + ("all reported" if result.reported.all() else f"{kept} of them reported"),
        "Model": _KINDS.get(model.target, f"{model.loss}, {model.target}")
        + (f", c\u00a0=\u00a0{model.penalty:.3g}" if model.penalty else ", no\u00a0penalty"),
    }


def _heads(level: float) -> list[str]:
    return [f"{_percent(level)} interval" if head == "interval" else head for head in _HEADS]


def _percent(level: float) -> str:
    return f"{100 * level:.4g}%"


def _no_formula(name: str) -> str:
    shown = text.harmless(name, keep="\n\t")  # a carriage return would begin a new row
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "\t", "\n")) else shown


def _plain(words: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(words.split()))
