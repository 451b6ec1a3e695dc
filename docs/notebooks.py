"""The gallery: sources in examples/gallery, executed notebooks in docs/gallery, pages of the site.

``python docs/notebooks.py`` (``make gallery``) runs the sources and writes the notebooks, with
their output.  As a hook of mkdocs this module turns them into pages without running anything,
lets files beside docs/ be pages, and ranks pages in the search.
"""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "examples/gallery"
NOTEBOOKS = ROOT / "docs/gallery"
BORROWED = ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")  # pages that live beside docs/
BOOST = {"tutorial.md": 4.0, "howto/": 3.0, "faq.md": 2.0, "glossary.md": 2.0, "CHANGELOG.md": 0.2}
STUDY_BOOST = 0.3
"""Ranks in the search of the site: who searches wants to do something; tables of studies match many words."""
REPOSITORY = "https://github.com/dpinfer/dpinfer/blob/main"


def cells(source: str) -> list[tuple[str, str]]:
    """Kind ("markdown" or "code") and text of each cell of a script with ``# %%`` between them."""
    found = []
    for mark, text in re.findall(
        r"^# %%( \[markdown\])?\n(.*?)(?=^# %%|\Z)", source, re.DOTALL | re.MULTILINE
    ):
        plain = (
            re.sub(r"^# ?", "", text, flags=re.MULTILINE)
            if mark
            else re.sub(r" +# noqa.*", "", text)
        )
        found.append(("markdown" if mark else "code", plain.strip()))
    return found


def execute(source: Path) -> None:
    """Run a source and write its notebook; ids of cells are their places, so the same source gives
    the same file.
    """
    import nbformat.v4 as form  # noqa: PLC0415 - of the environment of the documentation
    from nbclient import NotebookClient  # noqa: PLC0415

    make = {"markdown": form.new_markdown_cell, "code": form.new_code_cell}
    parts = [
        make[kind](text, id=f"cell-{j}")
        for j, (kind, text) in enumerate(cells(source.read_text("utf-8")))
    ]
    notebook = form.new_notebook(cells=parts)
    options = {
        "timeout": 300,
        "kernel_name": "python3",
        "record_timing": False,
        "coalesce_streams": True,
    }
    NotebookClient(notebook, **options).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    target = NOTEBOOKS / f"{source.stem}.ipynb"
    target.write_text(
        json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
    )


def page(notebook: dict[str, Any], name: str) -> str:
    """A notebook in Markdown, with its output."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        parts += [shown(output) for output in cell.get("outputs", ())]
    return "\n\n".join([*parts, f"[Download this notebook]({name}){{ download }}"])


def shown(output: dict[str, Any]) -> str:
    """One output: a table, a picture or text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "text/html" in data:
        table = re.sub(
            r"<style.*?</style>\n*|^\s+",
            "",
            "".join(data["text/html"]),
            flags=re.DOTALL | re.MULTILINE,
        )
        return table.replace('<table border="1" class="dataframe">', "<table>")
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="The figure that the cell above draws" src="data:image/png;base64,{picture}">'
    return f'<pre class="output" tabindex="0">{escape("".join(data["text/plain"]))}</pre>'


def on_files(files: Any, config: Any) -> Any:
    """A hook of mkdocs: notebooks and the files beside docs/ become pages."""
    from mkdocs.structure.files import File  # noqa: PLC0415

    made = {
        name: (ROOT / name).read_text("utf-8").replace("](docs/", "](").replace("[docs/", "[")
        for name in BORROWED
    }
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        made[f"gallery/{path.stem}.md"] = page(json.loads(path.read_text("utf-8")), path.name)
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def search_boost(path: str) -> float:
    """Return the rank of a page in the search; 1 is that of most pages."""
    for start, boost in BOOST.items():
        if path.startswith(start):
            return boost
    studies = ("reproduction.md", "tight.md", "split.md", "unpenalised.md", "audit.md")
    return STUDY_BOOST if path.endswith("-study.md") or path in studies else 1.0


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """A hook of mkdocs: pages get their rank in the search, and links that hold in the repository
    lead to the pages of the site, or to what is no page.
    """
    if page is not None:
        page.meta["search"] = {"boost": search_boost(page.file.src_uri)}
    markdown = re.sub(r"\]\(\.\./([A-Z]+\.md)", r"](\1", markdown)
    markdown = re.sub(r"\]\(((?:\.\./)?gallery/\w+)\.ipynb\)", r"](\1.md)", markdown)
    return re.sub(
        r"\]\((?:\.\./)*((?:benchmarks|clients|examples|studies)/[^)\s]+|CITATION\.cff|mkdocs\.yml)\)",
        rf"]({REPOSITORY}/\1)",
        markdown,
    )


if __name__ == "__main__":
    for script in sorted(SOURCES.glob("*.py")):
        execute(script)
