"""The client for R against a running server: names and types of what comes back, and what goes wrong."""

import json
import re
import shutil
from pathlib import Path

import pytest

from dpinfer.asking.questions import AnalystQuestion
from dpinfer_desk.web.question_code import in_r
from helpers.calling import Site
from helpers.in_r import R, has, run_r
from helpers.serving import KINDS, Breaking, certificate_in, served, worked
from helpers.visits import published

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients/r/connect.R"
START = """
source("dpinfer.R")
source("connect.R")
.desk_first_wait <- 0.05
site <- desk_connect(Sys.getenv("DESK"))
"""


@pytest.fixture(autouse=True)
def r_is_here():
    if R is None or not has("httr2", "jsonlite"):
        pytest.skip("R and its packages httr2 and jsonlite are not all here")


def run(code, folder, desk, address, by="a.meier"):
    """What a script prints that has the two files for R beside it, and the token of a person."""
    shutil.copy(CLIENT, folder)
    more = {"DESK": address, "DPINFER_TOKEN": desk.tokens[by]}
    return run_r(code, folder, more=more)


def connected(code, folder, desk, address, by="a.meier"):
    """The same of a script that is connected to the desk."""
    return run(START + code, folder, desk, address, by)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("r"))


@pytest.fixture(scope="module")
def address(desk):
    with served(desk, KINDS[-1]) as found:
        yield found


ASKED = """
tables <- desk_tables(site)
stopifnot(is.data.frame(tables), identical(names(tables), c("name", "title", "unit", "state", "records")))
stopifnot(is.character(tables$name), is.numeric(tables$records), tables$name == "visits", tables$records == 4000)
about <- desk_table(site, "visits")
stopifnot(about$allowance$amount == 0.8, grepl("columns.age", about$schema, fixed = TRUE))
checked <- desk_check(site, "visits", visit ~ age + health, rho = 0.1)
stopifnot(identical(checked$names, c("(Intercept)", "age", "health[fair]", "health[poor]")))
stopifnot(checked$allowed, checked$cost == 0.1)
asked <- desk_ask(site, "visits", visit ~ age + health, rho = 0.1, title = "Does age matter?")
same <- desk_ask(site, "visits", "visit ~ age + health", rho = 0.1, title = "Does age matter?", key = asked$key)
stopifnot(asked$id == same$id)
writeLines(asked$id, "asked.txt")
result <- desk_wait(asked, timeout = 300)
found <- tidy(result)
broom <- c("term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
stopifnot(is.data.frame(found), identical(names(found)[1:7], broom))
stopifnot(is.character(found$term), vapply(found[broom[-1]], is.numeric, NA))
stopifnot(nrow(found) == 4, found$conf.low < found$estimate, found$estimate < found$conf.high)
stopifnot(identical(as.character(glance(result)$release), desk_question(site, asked$id)$release))
jsonlite::write_json(found, "found.json", digits = NA, na = "null")
answers <- desk_answers(site, "visits")
stopifnot(answers$id == asked$id, identical(tidy(desk_answer(site, answers$id)), found))
mine <- desk_questions(site)
stopifnot(nrow(mine) == 1, mine$state == "answered", mine$cost == 0.1, mine$formula == "visit ~ age + health")
print(site)
print(asked)
str(site)
stopifnot(!("reticulate" %in% loadedNamespaces()))
"""


def test_from_tables_to_a_data_frame(tmp_path, desk, address):
    with worked(desk):
        shown = connected(ASKED, tmp_path, desk, address)
    ident = (tmp_path / "asked.txt").read_text(encoding="utf-8").strip()
    frame = desk.desk.result(ident).tidy()
    rows = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    for row, term, estimate, low in zip(
        rows, frame["term"], frame["estimate"], frame["conf_low"], strict=True
    ):
        assert row["term"] == term
        assert row["estimate"] == pytest.approx(estimate, rel=1e-12)
        assert row["conf.low"] == pytest.approx(low, rel=1e-12)
    assert desk.tokens["a.meier"] not in shown


FREE = """
absent <- tryCatch(desk_moments(site, "visits", "mean(age)", release = NA), error = conditionMessage)
stopifnot(grepl("no moment release", absent))
found <- desk_releases(site, "visits")
stopifnot(nrow(found) == 1, grepl("income", found$declared), found$price > 0)
answer <- desk_moments(site, "visits", income ~ age + health)
stopifnot(inherits(answer, "dpinfer"), identical(tidy(answer)$term[1:2], c("(Intercept)", "age")))
jsonlite::write_json(tidy(answer), "free.json", digits = NA, na = "null")
one <- desk_moments(site, "visits", "correlation(income, age)", level = 0.9)
stopifnot(is.data.frame(one), nrow(one) == 1, one$conf.low < one$estimate, one$estimate < one$conf.high)
wrong <- tryCatch(desk_moments(site, "visits", "nonsense"), error = conditionMessage)
stopifnot(grepl("is no question", wrong))
"""


def test_a_moment_release_is_asked_from_r(tmp_path):
    desk = Site(tmp_path)
    published(desk.desk)
    with served(desk, KINDS[-1]) as address:
        connected(FREE, tmp_path, desk, address)
    (release,) = desk.desk.moment_releases("visits")
    expected = release.ols("income ~ age + health")
    rows = json.loads((tmp_path / "free.json").read_text(encoding="utf-8"))
    assert [row["estimate"] for row in rows] == pytest.approx(expected.estimate, rel=1e-12)


def test_the_code_on_the_page_of_a_question_runs(tmp_path, address, desk):
    """It reads the answer that is there, by the key of the question, and asks nothing again."""
    keys = {"formula": "visit ~ age + health", "rho": 0.07, "title": '"quoted" \\ 100 % of ε 😀'}
    question = AnalystQuestion.of(keys)
    ticket = desk.desk.ask("visits", question, "a.meier", "a-key-of-its-own")
    code = in_r(desk.desk.ticket(ticket.id), address, own=True)
    before = len(desk.desk.tickets())
    with worked(desk):
        shown = run(f"{code}\nwriteLines(asked$question$title)\n", tmp_path, desk, address)
    assert keys["title"] in shown
    assert "health[poor]" in shown
    assert len(desk.desk.tickets()) == before


FAULTS = """
said <- function(expression) tryCatch({ expression; "nothing" }, error = conditionMessage)
stopifnot(grepl("has 40 % left, .* at most: lower its budget", said(desk_ask(site, "visits", visit ~ age, rho = 0.9))))
stopifnot(inherits(tryCatch(desk_ask(site, "visits", visit ~ age, rho = 0.9), error = identity), "dpinfer_refused"))
stopifnot(grepl("nothing of yours", said(desk_table(site, "none"))))
stopifnot(grepl("has no key 'ledger'", said(desk_check(site, "visits", visit ~ age, rho = 0.1, ledger = "x"))))
stopifnot(grepl("nothing of yours", said(desk_question(site, strrep("0", 32)))))
other <- desk_ask(site, "visits", visit ~ income, rho = 0.3)
stopifnot(other$state == "waiting", desk_withdraw(other)$state == "withdrawn")
stopifnot(grepl("there will be no answer", said(desk_wait(other))))
waits <- desk_ask(site, "visits", visit ~ income, rho = 0.31)
stopifnot(grepl("not there yet", said(desk_wait(waits, timeout = 0.5))))
for (name in c("stats.example.org", "localhost.example.org", "127.0.0.1.example.org")) {
  stopifnot(grepl("begins with https://", said(desk_connect(paste0("http://", name), "token"))))
}
for (url in c("ftp://x", "x", "https://me:secret@stats.example.org")) {
  stopifnot(grepl("begins with https://", said(desk_connect(url, "token"))))
}
stopifnot(grepl("needs a token", said(desk_connect("https://stats.example.org", ""))))
set.seed(1)
first <- .desk_random(16)
set.seed(1)
stopifnot(!identical(first, .desk_random(16)))
cat("done")
"""


def test_what_goes_wrong(tmp_path, desk, address):
    assert connected(FAULTS, tmp_path, desk, address, "b.okafor").endswith("done")


def test_a_line_that_breaks_off(tmp_path, desk, address):
    code = """
asked <- desk_ask(site, "visits", visit ~ age, rho = 0.02, key = "broken-line-1")
cat(asked$id)
"""
    with Breaking(address, ["after", "before", "after"]) as broken:
        ident = connected(code, tmp_path, desk, broken, "b.okafor")
    (found,) = [one for one in desk.desk.tickets(by="b.okafor") if one.key == "broken-line-1"]
    assert ident == found.id


def test_certificates(tmp_path, desk):
    files = certificate_in(tmp_path)
    code = """
said <- tryCatch({ desk_tables(site); "nothing" }, error = conditionMessage)
stopifnot(grepl("cannot be reached", said), grepl("certificate|SSL", said))
sure <- desk_connect(Sys.getenv("DESK"), cafile = "certificate.pem")
cat(desk_tables(sure)$name)
"""
    with served(desk, KINDS[-1], files) as address:
        assert connected(code, tmp_path, desk, address) == "visits"


def test_the_page_for_analysts_runs(tmp_path):
    """All R blocks of docs/howto/connect.md, in order, with a server in the place of its address."""
    desk = Site(tmp_path)
    page = (ROOT / "docs/howto/connect.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```r\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    with worked(desk), served(desk, KINDS[-1]) as address:
        code = "\n".join(blocks).replace("https://stats.example.org", address)
        shown = connected(f"{code}\nstopifnot(nrow(tidy(result)) == 3)\n", tmp_path, desk, address)
    assert "visit ~ age + income" in shown
