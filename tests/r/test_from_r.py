"""What docs/howto/from-r.md tells users of R runs in R, with reticulate; and saved results are read without Python."""

import json
import math
import re
from pathlib import Path

import pytest

import dpinfer as dp
from helpers.in_r import has, run_r
from helpers.partial_results import partly_reported

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/howto/from-r.md"
PACKAGES = ("jsonlite", "reticulate", "ggplot2", "generics")
MISSING = "R and its packages jsonlite, reticulate, ggplot2 and generics are not all here"


@pytest.fixture(autouse=True)
def r_is_here():
    if not has(*PACKAGES):
        pytest.skip(MISSING)


def test_the_page_runs(tmp_path):
    """All blocks in order; what follows holds whatever the noise is."""
    page = PAGE.read_text(encoding="utf-8")
    for text in re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        (tmp_path / re.match(r"# (\S+)\n", text)[1]).write_text(text, encoding="utf-8")
    blocks = re.findall(r"^```r\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 8
    checks = """
stopifnot(all.equal(tidy(result), tidy(saved)), all.equal(glance(result), glance(saved)))
stopifnot(glance(saved)$nobs == n, glance(saved)$epsilon == 1, glance(saved)$booked, glance(saved)$private)
stopifnot(names(as_frame(result$odds_ratios()))[1:2] == c("name", "odds_ratio"))
stopifnot(nrow(as_frame(both$to_frame())) == nrow(tidy(result)) + 3)
stopifnot(nrow(as_frame(result$predict(list(age = c(30, 60), smoker = TRUE, region = "north")))) == 2)
stopifnot(names(figures)[1:4] == c("column", "level", "group", "figure"))
stopifnot(all(is.na(figures$level[figures$figure == "mean"])), is.na(figures$group[1]))
levels <- unique(figures$level[figures$figure == "share"])
stopifnot(setequal(levels, c("north", "south", "west", "TRUE")))
stopifnot(nrow(figures) == nrow(read.csv("table1/table1.csv")))
reread <- r_to_py(visits)
cat("MISSING:", sum(is.na(visits$smoker)), import_builtins()$int(reread["smoker"]$isna()$sum()), "\\n")
"""
    shown = run_r("\n".join(blocks) + checks, tmp_path)
    assert "[1] TRUE" in shown.partition("MISSING")[0]  # the twin is glm
    assert (tmp_path / "forest.png").read_bytes().startswith(b"\x89PNG")
    assert "tabular" in (tmp_path / "models.tex").read_text(encoding="utf-8")
    missing, seen = map(int, re.search(r"MISSING: (\d+) (\d+)", shown).groups())
    assert missing == 500
    assert seen in (
        0,
        500,
    )  # where reticulate loses them the page is right: give a file


SAVED = """
x <- read_dpinfer("result.json")
stopifnot(!("reticulate" %in% loadedNamespaces()))
jsonlite::write_json(list(tidy = tidy(x), glance = glance(x)), "read.json", digits = NA, na = "null")
print(x)
"""


def read_back(folder, before=""):
    shown = run_r(f'{before}\nsource("dpinfer.R")\n{SAVED}', folder, python="/nowhere")
    return shown, json.loads((folder / "read.json").read_text(encoding="utf-8"))


def plain(value):
    """A cell as JSON has it: what is no finite number is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@pytest.mark.parametrize("before", ["", "library(generics)"])
def test_a_saved_result_without_python(before, tmp_path):
    """The numbers of Python, also by the generics of another package."""
    result = partly_reported()
    result.save(tmp_path / "result.json")
    shown, found = read_back(tmp_path, before)
    for ours, theirs in ((result.tidy(), found["tidy"]), (result.glance(), found["glance"])):
        rows = ours.rename(columns=lambda name: name.replace("_", ".")).to_dict("records")
        for row, other in zip(rows, theirs, strict=True):
            for key, value in row.items():
                if isinstance(value, float) and plain(value) is not None:
                    assert other[key] == pytest.approx(value, rel=1e-12)
                else:
                    assert other.get(key) == plain(value), key
    assert found["glance"][0]["conf.level"] == 0.95
    assert "health[poor]" in shown
    assert "NOT PRIVATE" not in shown


def test_what_was_open_is_not_reported(tmp_path):
    """Results of earlier versions have another word in their statuses."""
    old = Path(__file__).parents[1] / "result/saved/logistic_open.json"
    (tmp_path / "result.json").write_text(old.read_text(encoding="utf-8"), encoding="utf-8")
    statuses = [row["status"] for row in read_back(tmp_path)[1]["tidy"]]
    assert statuses == list(dp.FitResult.load(old).statuses)


def test_what_is_not_private_is_said(tmp_path):
    partly_reported(private=False).save(tmp_path / "result.json")
    assert "NOT PRIVATE" in read_back(tmp_path)[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}', "not a saved result of dpinfer"),
        ('{"format": "dpinfer.FitResult", "version": 99}', "a result of version 99"),
    ],
)
def test_other_files_are_refused(text, words, tmp_path):
    (tmp_path / "result.json").write_text(text, encoding="utf-8")
    code = """
source("dpinfer.R")
said <- tryCatch(read_dpinfer("result.json"), error = conditionMessage)
cat(said)
"""
    assert words in run_r(code, tmp_path)


def test_frames_that_reticulate_has_converted(tmp_path):
    """Newer versions hand over data frames of R, with the index as names of rows."""
    code = """
source("dpinfer.R")
given <- data.frame(low = c(1, NaN), row.names = c("a", "b"))
attr(given, "pandas.index") <- list(name = "name")
stopifnot(all.equal(as_frame(given), data.frame(name = c("a", "b"), low = c(1, NA))))
attr(given, "pandas.index") <- NULL
stopifnot(all.equal(as_frame(given), data.frame(low = c(1, NA))))
"""
    run_r(code, tmp_path)
