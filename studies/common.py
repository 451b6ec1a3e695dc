"""What the small studies share."""

import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Whole, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(path.suffix + ".part")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
