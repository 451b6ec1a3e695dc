"""Build the documentation of this version into site-versions/VERSION, beside those of other versions there.

python tools/docs_version.py

versions.json there lists them, the newest first, and index.html leads to each.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site-versions"


def this_version() -> str:
    """Return the version of the source."""
    text = (ROOT / "src/dpinfer/__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.*)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def listed(site: Path) -> list[str]:
    """Return the versions that a site holds, the newest first."""
    names = [path.parent.name for path in site.glob("*/index.html")]
    versions = [name for name in names if re.fullmatch(r"\d+(\.\d+)*", name)]
    return sorted(versions, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def index(site: Path) -> None:
    """Write the list of versions for programs and for people."""
    versions = listed(site)
    entries = [{"version": name, "title": name, "aliases": []} for name in versions]
    for entry in entries[:1]:
        entry["aliases"] = ["latest"]
    (site / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    links = "\n".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in versions)
    (site / "index.html").write_text(
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Versions of the documentation</title>\n'
        f"<h1>dpinfer</h1>\n<p>The documentation of</p>\n<ul>\n{links}\n</ul>\n</html>\n",
        encoding="utf-8",
    )


def main() -> None:
    """Build one version and list all."""
    folder = SITE / this_version()
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    index(SITE)
    print(f"{folder}, among {len(listed(SITE))}")


if __name__ == "__main__":
    main()
