"""`dpinfer audit`: attacks on this installation, in seconds."""

from typing import Annotated

import typer
from rich.text import Text

from dpinfer.cli.screen import AsJson, Quiet, Screen, facts, title

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
Needs no data.  Ends with code 0 if nothing was found, 1 otherwise.  That nothing was found proves nothing; what is
promised under which assumptions is in SECURITY.md.
"""


@app.command(help=_HELP)
def audit(
    seconds: Annotated[
        float, typer.Option(help="About how long to try.", min=1.0, max=86_400.0)
    ] = 20.0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run every check and say what was found."""
    from dpinfer import audit as audits  # noqa: PLC0415  (loads scipy.stats, which no other command needs)

    console = Screen(quiet, as_json)
    report = audits.run(seconds, lambda name: console.note(f"trying: {name}"))
    for finding in report.findings:
        verdict = Text("nothing found", style="green")
        if finding.is_fault:
            verdict = Text("FOUND", style="bold red")
        console.show(
            title(finding.name),
            facts({"Tried": finding.tried, "Result": finding.message, "Verdict": verdict}),
        )
    end = "Nothing was found."
    if not report.clean:
        end = "A fault was found: publish nothing, and see SECURITY.md."
    console.show("", Text(end, style="bold"))
    findings = [
        {
            "name": finding.name,
            "tried": finding.tried,
            "found": finding.is_fault,
            "words": finding.message,
            "numbers": finding.numbers,
        }
        for finding in report.findings
    ]
    console.emit({"clean": report.clean, "findings": findings})
    if not report.clean:
        raise typer.Exit(1)
