"""A page that stands alone, and a folder of files that are whole: what all documents are made with."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.result.grid import Grid, markdown_text
from dpinfer.result.text import escape_controls

NOT_PRIVATE = (
    "NOT PRIVATE – do not publish. The noise was off or came from a known seed, so nobody is "
    "protected."
)
MAY_NOT = (
    "Do not conclude that there is no effect because an interval contains 0. Do not conclude that an "
    "effect is a cause, that a coefficient without an interval is small, or anything about one person."
)


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, and a list or a table under them; on pages also a picture, as HTML.

    With a line to ``fold``, the list of a page is shown on demand, below that line.
    """

    title: str
    paragraphs: tuple[str, ...]
    items: tuple[str, ...] = ()
    fold: str = ""
    picture: str = ""
    table: Grid | None = None


def rendered(template: str, parts: Mapping[str, Any]) -> str:
    """Fill in a template of this package; all words are escaped."""
    environment = Environment(
        loader=PackageLoader("dpinfer", "views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment.get_template(template).render(**parts)


def breakable(name: str) -> Markup:
    """Return a name, escaped, that a browser may break behind an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def style() -> str:
    """Return the style sheet of documents."""
    return (files("dpinfer") / "views" / "style.css").read_text(encoding="utf-8")


def markdown_sections(sections: Iterable[Section]) -> list[str]:
    """Write sections as lines of Markdown."""
    lines = []
    for section in sections:
        lines += ["", f"## {section.title}"]
        for paragraph in section.paragraphs:
            lines += ["", markdown_text(paragraph)]
        if section.fold:
            lines += ["", markdown_text(f"{section.fold}:")]
        if section.items:
            lines += ["", *(f"- {markdown_text(item)}" for item in section.items)]
        if section.table is not None:
            lines += ["", *section.table.markdown()]
    return lines


def written(folder: str | os.PathLike[str], contents: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, which is made if it is not there, and give their paths.

    Nothing is moved into place before all files are written in full elsewhere in the folder, so
    that no file is ever seen half-written.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        persistence.write_all(target, contents)
    except OSError as fault:
        raise InputError(
            f"cannot write the report to {target}: {fault.strerror}; name a folder you may write to"
        ) from None
    return [target / name for name in contents]


def no_formula(name: str) -> str:
    """Return a word that no spreadsheet takes for a formula."""
    shown = escape_controls(name, keep="\n\t")  # a carriage return would begin a new row
    if shown.startswith(("=", "+", "-", "@", "\t", "\n")):
        return f"'{shown}"
    return shown
