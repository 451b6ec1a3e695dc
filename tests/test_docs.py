"""Every Python block of the documents runs, and so do the commands; links, navigation and notebooks
hold together.
"""

import atexit
import contextlib
import io
import json
import re
import shlex
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from docs import notebooks

from helpers.terminal import run_here

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Stories: their blocks run in order, in one folder, and Python remembers.  In other documents every
# block stands alone.
STORIES = [
    ROOT / "docs/tutorial.md",
    ROOT / "docs/from-statsmodels-and-r.md",
    *sorted((ROOT / "docs/howto").glob("*.md")),
]
STORIES.remove(ROOT / "docs/howto/connect.md")  # it needs a server: tests/serve
BLOCKS = [
    pytest.param(code, id=f"{path.name}-{j}")
    for path in DOCUMENTS[1:]  # the README has a test of its own
    if path not in STORIES and path.name != "connect.md"
    for j, code in enumerate(
        re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("code", BLOCKS)
def test_code_blocks_run(code, capsys):
    exec(compile(code, "document", "exec"), {})
    assert "Traceback" not in capsys.readouterr().out


def blocks(path):
    """Language and text of each block."""
    return re.findall(
        r"^```(\w+)\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def typed(text):
    """The commands of a console block; a backslash continues a line."""
    return re.findall(r"^\$ (.*)$", text.replace("\\\n", " "), re.MULTILINE)


DEMO = "dpinfer demo --out demo"


@cache
def demo():
    """What the demo leaves, for all stories that begin with it."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder)
    here(DEMO, folder)
    return folder / "demo"


def typed_here(command, folder):
    """A command in this process; the demo is run once."""
    if command == DEMO:
        shutil.copytree(demo(), folder / "demo")
    else:
        here(command, folder)


def here(command, folder):
    """The program in this process, which is quicker."""
    program, *arguments = shlex.split(command)
    assert program == "dpinfer"
    done = run_here(*arguments, cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), command


def follow(story, folder):
    """Files are written, code and commands are run, in the order of a document."""
    names = {}
    for language, text in story:
        if language == "toml":
            (folder / re.match(r"# (\S+\.toml)\n", text)[1]).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "story", "exec"), names)
        elif language == "console":
            assert typed(text)
            for command in typed(text):
                typed_here(command, folder)
        else:
            assert language in ("text", "r"), "a block that nobody tries"


WRITTEN = {
    "tutorial": ("release", "release-health", "release-age", "release-90"),
    "several-rows": ("release-people",),
    "publish": ("demo/release", "demo/ninety"),
    "counts": ("release-claims",),
    "survival": ("release-cohort",),
    "differences": ("release-clinics",),
}


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_stories_can_be_followed(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert blocks(path)
    follow(blocks(path), tmp_path)
    for folder in WRITTEN.get(path.stem, ()):
        assert (tmp_path / folder / "report.html").exists()


def test_the_output_of_the_readme_is_that_of_its_code(capsys):
    """But for the numbers, which are noisy, and for what its dots stand for."""
    (code, output) = [
        text for language, text in blocks(ROOT / "README.md") if language in ("python", "text")
    ]
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    printed, left = output.split("...\n")
    # Noise decides the numbers, and which lines have words in their stead: these lines are certain.
    certain = re.compile(r"(visit ~|Model:|Outcome:|Target:| +estimate )")
    heads = [line.split() for line in printed.splitlines() if certain.match(line)]
    assert len(heads) == 5
    spaced = [line.split() for line in shown]  # columns are as wide as their noisy numbers
    assert all(head in spaced for head in heads)
    table = printed.split("-\n")[1].split("\n=")[0]
    names = [line.split()[0] for line in table.splitlines()]
    assert len(names) == 10
    starts = [line.split()[0] for line in shown if line[:1].strip()]
    assert [name for name in starts if name in names][:10] == names
    assert shown[-1] == left.strip()


def test_the_demo_runs(capsys):
    code = (ROOT / "examples/rand_hie.py").read_text(encoding="utf-8")
    exec(compile(code, "rand_hie.py", "exec"), {})
    shown = capsys.readouterr().out
    for words in ("lncoins", "health[poor]", "one person-year", "20,190", "ρ = 0.1875"):
        assert words in shown


def prose(path):
    return re.sub(
        r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def anchors(path):
    """As code hosts and the site make them of headings."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path):
    """The links of a page to files or headings that are not there."""
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose(path)):
        place = path.parent / target if target else path
        if not place.exists() or (anchor and anchor not in anchors(place)):
            yield f"{path.relative_to(ROOT)}: {target}#{anchor}"


def test_links_lead_somewhere():
    beside = [ROOT / name for name in notebooks.BORROWED]
    assert [link for path in [*DOCUMENTS, *beside] for link in broken_links(path)] == []


def test_a_broken_link_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](page.md#one) [b](#two) [c](gone.md) [d](https://elsewhere)\n")
    assert list(broken_links(page)) == ["page.md: #two", "page.md: gone.md#"]


def test_the_navigation_is_the_pages():
    """Each page has one place on the site, and each place a page; notebooks are pages, too."""
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    listed = re.findall(r"^ +- .*: (\S+)$", site, re.MULTILINE)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    pages += [path.relative_to(ROOT / "docs").with_suffix(".md").as_posix() for path in NOTEBOOKS]
    assert sorted(listed) == sorted([*pages, *notebooks.BORROWED])


def test_no_two_pages_have_one_title():
    """Neither in the navigation nor at their heads."""
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    titles = re.findall(r"^ +- (.*): \S+$", site, re.MULTILINE)
    heads = [path.read_text(encoding="utf-8").splitlines()[0] for path in DOCUMENTS]
    heads += [json.loads(path.read_text("utf-8"))["cells"][0]["source"] for path in NOTEBOOKS]
    assert all(head.startswith("# ") for head in heads)
    for names in (titles, [head.splitlines()[0] for head in heads]):
        assert [name for name in names if names.count(name) > 1] == []


NOTEBOOKS = sorted((ROOT / "docs/gallery").glob("*.ipynb"))


def test_every_source_has_its_notebook():
    assert [path.stem for path in NOTEBOOKS] == sorted(
        path.stem for path in notebooks.SOURCES.glob("*.py")
    )
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_say_what_their_code_says(path):
    """The cells are those of the source, and what they print is printed again: else `make gallery`."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    source = notebooks.cells((notebooks.SOURCES / f"{path.stem}.py").read_text(encoding="utf-8"))
    assert [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]] == source
    assert path.stat().st_size < 300_000
    names, outputs = {"__name__": path.stem}, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert {output["output_type"] for output in cell["outputs"]} <= {
                "stream",
                "execute_result",
            }
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                exec(compile(cell["source"], path.name, "exec"), names)
            kept = "".join(output.get("text", "") for output in cell["outputs"])
            assert alike(shown.getvalue(), kept), cell["source"]
            outputs += len(cell["outputs"])
    assert outputs > 2


NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"


def alike(text, other):
    """The same words and, but for the last digits, the same numbers; columns may be a blank wider."""
    numbers = [np.array(re.findall(NUMBER, one), dtype=float) for one in (text, other)]
    words = [re.sub(NUMBER, "", one).split() for one in (text, other)]
    return words[0] == words[1] and np.allclose(*numbers, rtol=0.01, atol=1e-6)


def test_alike_can_tell():
    assert alike("a 1.000 b", "a  1.001 b")
    assert not alike("a 1.0", "a 1.1")
    assert not alike("a 1.0", "b 1.0")


def test_pages_of_the_site():
    """What the site makes of a notebook: text, code, tables and pictures, none from elsewhere."""
    (logistic,) = [path for path in NOTEBOOKS if path.stem == "rand_logistic"]
    page = notebooks.page(json.loads(logistic.read_text(encoding="utf-8")), logistic.name)
    assert page.startswith("# Logistic regression")
    for part in (
        "```python\n",
        '<pre class="output"',
        "<table",
        '<img alt="',
        "](rand_logistic.ipynb)",
    ):
        assert part in page
    assert "http" not in page
    assert "&lt;b&gt;" in notebooks.shown({"text": "<b>"})
    moved = notebooks.on_page_markdown(
        "[a](../SECURITY.md) [b](../gallery/persons.ipynb) [c](CITATION.cff)"
    )
    assert moved.startswith("[a](SECURITY.md) [b](../gallery/persons.md) [c](https://")
    for path in (
        "../benchmarks/results/peers.json",
        "../../clients/r/dpinfer.R",
        "mkdocs.yml",
        "../../studies/tight/README",
    ):
        assert notebooks.on_page_markdown(f"[d]({path})").startswith("[d](https://")


def test_the_site_asks_nobody():
    """Fonts, addresses of repositories and other scripts would be fetched when a page is read."""
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in site
    assert (
        "polyfills: [iframe-worker.js]" in site
    )  # else the plugin "offline" takes one from elsewhere
    assert not re.search(r"https?:|repo_url|extra_javascript|analytics", site)
    assert not re.search(r"url\(|@import", (ROOT / "docs/site.css").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", ["README.md", "docs/index.md"])
def test_the_three_numbers_are_those_of_promises_and_studies(path):
    text = re.sub(r"\s+", " ", (ROOT / path).read_text(encoding="utf-8"))
    promises = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    assert f"**{len(re.findall(r'^[|] `', promises, re.MULTILINE))} guarantees**" in text
    study = (ROOT / "docs/ordinary-study.md").read_text(encoding="utf-8")
    judged, failed = re.search(r"(\d+) of \d+ cells have .* (\d+) of them fail", study).groups()
    assert f"**{int(judged) - int(failed)} of {judged}**" in text
    assert f"the other {failed} " in text
    rows = re.findall(
        r"^[|] (\w+) [|] \(1, 10⁻⁶\) [|] looked at [|].* (\S+) [|]$", study, re.MULTILINE
    )
    length = dict(rows)
    assert f"**{length['logistic']} times**" in text
    assert f"Least squares has {length['linear']}, counts {length['poisson']}." in text


def test_tutorial_and_how_tos_rank_above_studies_in_the_search():
    boost = notebooks.search_boost
    assert boost("tutorial.md") > boost("schema.md") > boost("linear-study.md")
    assert boost("howto/counts.md") > boost("reproduction.md")
    assert all(
        (ROOT / "docs" / start).exists() or start == "CHANGELOG.md" for start in notebooks.BOOST
    )
