"""A desk on a network under load: `python -m benchmarks.serve overspend|replays|schemathesis`.

overspend     1,000 questions of 200 analysts at once, for twice the total.
replays       1,000 keys, each sent ten times, on a line on which half of the connections break off.
schemathesis  20,000 requests made up from the document of the interface, by every role; needs the program, which has
              an environment of its own: name it with --program.

Results go to benchmarks/results/serve_*.json.
"""

import argparse
import json
from pathlib import Path

from benchmarks import serve_api

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run one of them and keep what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["overspend", "replays", "schemathesis"])
    parser.add_argument("--number", type=int, default=0, help="of questions, keys or requests")
    parser.add_argument("--slot", type=float, default=0.5)
    parser.add_argument("--limit", type=int, default=3600, help="seconds, of schemathesis")
    parser.add_argument("--program", help="the program schemathesis")
    given = parser.parse_args()
    path = RESULTS / f"serve_{given.which}.json"
    if given.which == "overspend":
        found = serve_api.overspend(given.number or 1000, given.slot)
    elif given.which == "replays":
        found = serve_api.replays(given.number or 1000, 10, given.slot)
    else:
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        number = given.number or 20_000
        found = serve_api.schemathesis(number, given.program, given.limit, before)
    print(json.dumps(found, indent=1))
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
