"""A desk on a network, under load and by the clock: `python -m benchmarks.serve WHICH`.

overspend     1,000 questions of 200 analysts at once, for twice the total.
replays       1,000 keys, each sent ten times, on a line on which half of the connections break off.
schemathesis  20,000 requests made up from the document of the interface, by every role; needs the program, which has
              an environment of its own: name it with --program.
browse        200 analysts who look at a page every few seconds while fits run: how long pages take, and how much
              memory the process with the network has.
forecasts     the same with forecasts among the pages: how long one takes, and one that is there already.
kills         web and worker are killed at random moments, one of them or both, while people ask and send again until
              they are answered; then both are started once more.
watch         what /health and the queue tell of the table that is fitted.
signin        what the time of a wrong password tells of the name.
bare          the same without the network, and with a hash that costs next to nothing, so that all the rest is heard.
overruns      10,000 fits of hard tables beside their slots.
start         from the wheel to an analyst's first answer, by the words of docs/howto/serve.md.

Results go to benchmarks/results/serve_*.json.  Long ones stop after --seconds; overruns goes on from its result,
watch and signin from the file that --keep names.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import serve_api, serve_fits, serve_pages, serve_start, serve_watch

RESULTS = Path(__file__).parent / "results"
NUMBERS = {
    "overspend": 1000,
    "replays": 1000,
    "schemathesis": 20_000,
    "browse": 200,
    "forecasts": 200,
    "kills": 500,
    "watch": 2000,
    "signin": 2000,
    "bare": 2000,
    "overruns": 10_000,
    "start": 1,
}
"""Of questions, keys, requests, analysts, kills, times a side, fits."""


def main() -> None:
    """Run one of them and keep what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", choices=NUMBERS)
    parser.add_argument("--number", type=int, help="of whatever is counted")
    parser.add_argument("--slot", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, help="after which it stops")
    parser.add_argument("--program", help="the program schemathesis")
    parser.add_argument("--keep", type=Path, help="a file for times, to go on with")
    given = parser.parse_args()
    path = RESULTS / f"serve_{given.which}.json"
    number = given.number or NUMBERS[given.which]
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = _runs(given, number, before)[given.which]()
    print(json.dumps(found, indent=1))
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _runs(
    given: argparse.Namespace, number: int, before: dict[str, Any]
) -> dict[str, Callable[[], dict[str, Any]]]:
    seconds = given.seconds or 3600.0
    browsing = given.seconds or 120.0
    return {
        "overspend": lambda: serve_api.overspend(number, given.slot),
        "replays": lambda: serve_api.replays(number, 10, given.slot),
        "schemathesis": lambda: serve_api.schemathesis(number, given.program, int(seconds), before),
        "browse": lambda: serve_pages.browse(number, browsing),
        "forecasts": lambda: serve_pages.browse(number, browsing, asking=True),
        "kills": lambda: serve_pages.kills(number),
        "watch": lambda: serve_watch.watch(number, given.slot, seconds, given.keep),
        "signin": lambda: serve_watch.signin(number, seconds, given.keep),
        "bare": lambda: serve_pages.bare(number),
        "overruns": lambda: serve_fits.overruns(number, seconds, before),
        "start": serve_start.start,
    }


if __name__ == "__main__":
    main()
