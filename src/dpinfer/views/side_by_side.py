"""Models side by side as documents: a page for people, and a folder with every form of the table."""

import csv as _csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpinfer.result.comparison import Comparison
from dpinfer.views import page
from dpinfer.views.forest import MODEL_STYLES, model_notes
from dpinfer.views.forest_page import MODELS_NARROW, MODELS_WIDE, model_picture
from dpinfer.views.page import MAY_NOT, NOT_PRIVATE, Section
from dpinfer.views.plot import compare

_TITLE = "Regressions side by side"
_WORDS = ("model", "term", "status", "label")


def side_by_side(comparison: Comparison, *, title: str | None = None) -> str:
    """Return a page about a comparison: table, forest plot, differences and limits.

    It has no script and loads nothing, like that of `html`.

    Parameters
    ----------
    comparison : Comparison
        The models, from `dp.compare`.
    title : str, optional
        The heading; by default a general one.

    Returns
    -------
    str
        The HTML document.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> one = model.fit(data.table).result_  # the noise is off, for examples only
    >>> "<script" in dp.report.side_by_side(dp.compare([one, one]))
    False
    """
    warning = None
    if not comparison.private:
        warning = NOT_PRIVATE
    drawings = [model_picture(comparison, layout) for layout in (MODELS_WIDE, MODELS_NARROW)]
    parts = {
        "title": title or _TITLE,
        "warning": warning,
        "level": f"{100 * comparison.level:.4g}%",
        "facts": _facts(comparison),
        "caption": f"{comparison.caption}.",
        "names": comparison.names,
        "rows": comparison.rows(),
        "careful": comparison.warnings(),
        "notes": [*comparison.reasons(), MAY_NOT],
        "key": list(zip(comparison.names, MODEL_STYLES, strict=False)),
        "drawings": drawings,
        "axis": "Ratios" if comparison.ratios else "Coefficients",
        "neutral": "1" if comparison.ratios else "0",
        "under": model_notes(comparison, len(drawings[0].panels)),
        "sections": list(_sections(comparison)),
    }
    return page.rendered("comparison.html.j2", parts)


def _facts(comparison: Comparison) -> dict[str, str]:
    """Return the facts at the head of the page."""
    privacies = [result.privacy for result in comparison.results]
    budgets = [str(privacy.budget) if privacy.private else "none" for privacy in privacies]
    return {
        "Models": ", ".join(comparison.names),
        "Privacy of each": "; ".join(dict.fromkeys(budgets)),
        "Protects": "; ".join(dict.fromkeys(privacy.unit for privacy in privacies)),
    }


def _sections(comparison: Comparison) -> Iterator[Section]:
    yield Section("What is the same, and what differs", tuple(comparison.differences()))
    yield Section(
        "How to read an interval",
        (
            "If the data were collected and protected afresh many times, about "
            f"{100 * comparison.level:.4g} in 100 of a model's intervals of one row would contain "
            "its number. The intervals count the privacy noise of their "
            "model as well as the sampling error. Each is made for its own row and model.",
        ),
    )
    yield Section(
        "Limits", ("What the promises and the intervals do not cover:",), _limits(comparison)
    )


def _limits(comparison: Comparison) -> tuple[str, ...]:
    """Return the caveats of all models, with the names of the models where they do not hold of all."""
    told: dict[str, list[str]] = {}
    for name, result in zip(comparison.names, comparison.results, strict=True):
        for caveat in result.privacy.caveats(result.model.n, weighted=result.model.weighted):
            told.setdefault(caveat, []).append(name)
    count = len(comparison.names)
    return tuple(
        caveat if len(names) == count else f"{', '.join(names)}: {caveat}"
        for caveat, names in told.items()
    )


def write_side_by_side(
    comparison: Comparison, folder: str | os.PathLike[str], *, title: str | None = None
) -> list[Path]:
    """Write a comparison to a folder, in every format.

    Parameters
    ----------
    comparison : Comparison
        The models, from `dp.compare`.
    folder : path
        The folder, which is made if it is not there.
    title : str, optional
        The heading of the page; by default a general one.

    Returns
    -------
    list of Path
        The files: ``comparison.html``, ``.md``, ``.tex``, ``.csv`` and ``.png``.

    Notes
    -----
    As with `write`, no file is ever seen half-written.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> one = model.fit(data.table).result_  # the noise is off, for examples only
    >>> len(dp.report.write_side_by_side(dp.compare([one, one]), "models"))
    5
    """
    picture = io.BytesIO()
    compare(comparison).savefig(picture, format="png")
    contents = {
        "comparison.html": side_by_side(comparison, title=title).encode(),
        "comparison.md": f"{comparison.to_markdown()}\n".encode(),
        "comparison.tex": f"{comparison.to_latex()}\n".encode(),
        "comparison.csv": _rows(comparison).encode(),
        "comparison.png": picture.getvalue(),
    }
    return page.written(folder, contents)


def _rows(comparison: Comparison) -> str:
    """Write the long table as CSV with all digits, its words as in the CSV file of a report."""
    rows: list[dict[Any, Any]] = comparison.to_frame().to_dict("records")
    written = io.StringIO()
    sheet = _csv.DictWriter(written, fieldnames=list(rows[0]), lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(row | {key: page.no_formula(str(row[key])) for key in _WORDS} for row in rows)
    return written.getvalue()
