"""The table of operations in docs/api.md, made of their declarations: `python tests/helpers/api_page.py` renews it."""

from pathlib import Path

from dpinfer_desk.store.roles import ROLES
from dpinfer_desk.web.api import OPERATIONS
from dpinfer_desk.web.openapi import statuses

PAGE = Path(__file__).resolve().parents[2] / "docs/api.md"
START = "<!-- operations: made by `python tests/helpers/api_page.py` -->\n"
END = "<!-- end of the operations -->"


def _who(operation):
    if not operation.roles:
        return "anyone"
    return "all" if operation.roles == ROLES else ", ".join(operation.roles)


def drawn():
    """The table as text."""
    lines = [
        "| call | who | scope | what | good | refused |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for operation in OPERATIONS:
        good = ", ".join(map(str, operation.replies))
        common = {400, 401, 403, 408, 413, 414, 415, 503}
        own = ", ".join(str(code) for code in statuses(operation) if code not in common)
        scope = operation.scope if operation.roles else ""
        call = f"{operation.method} `{operation.path}`"
        lines.append(
            f"| {call} | {_who(operation)} | {scope} | {operation.description} | {good} | {own} |"
        )
    return "\n".join(lines) + "\n"


def renewed(text):
    """A page with the table of now."""
    before, _, rest = text.partition(START)
    return f"{before}{START}{drawn()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
