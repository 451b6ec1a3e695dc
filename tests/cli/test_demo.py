"""`dpinfer demo`, and the folder it leaves."""

import shutil
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

import dpinfer as dp
from dpinfer import errors
from helpers.terminal import fails, run, run_here, succeeds
from helpers.windows import started


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    here = tmp_path_factory.mktemp("demo")
    return here, succeeds(run("demo", "--out", "try", cwd=here))


def test_the_whole_path(shown):
    folder, text = shown[0] / "try", shown[1]
    result = dp.FitResult.from_json((folder / "release/result.json").read_text(encoding="utf-8"))
    (entry,) = dp.Ledger.open(folder / "ledger.db").entries()
    assert result.privacy.release == entry.release
    assert result.privacy.budget == dp.ApproxDP(1.0, 1e-6)
    assert "<html" in (folder / "release/report.html").read_text(encoding="utf-8")
    steps = [line for line in text.splitlines() if line.startswith("$ dpinfer ")]
    assert [step.split()[2] for step in steps] == ["schema", "budget", "fit", "fit", "budget"]
    for words in (
        "health[poor]",
        "one person-year",
        "20,190 records",
        "try/release/report.html",
        entry.release[:8],
    ):
        assert words in text


def test_it_ends_with_the_picture(shown):
    _, _, end = shown[1].partition("# The result as a picture")
    result = dp.FitResult.load(shown[0] / "try/release/result.json")
    bars = [line for line in end.splitlines() if "●" in line]
    assert len(bars) == result.reported[1:].sum() > 0  # without the intercept
    assert all(any(line.startswith(name) for name in result.names) for line in bars)
    for name in ("report.html", "forest.png"):
        assert f"try/release/{name}" in end
        assert (shown[0] / "try/release" / name).exists()


def test_its_commands_can_be_typed(shown, tmp_path):
    """The same files again, by hand."""
    for name in ("visits.parquet", "schema.toml", "fit.toml"):
        shutil.copy(shown[0] / "try" / name, tmp_path / name)
    succeeds(
        run_here(
            "budget", "init", "ledger.db", "--rho", "1", "--schema", "schema.toml", cwd=tmp_path
        )
    )
    succeeds(run_here("fit", "fit.toml", "-q", cwd=tmp_path))
    assert len(dp.Ledger.open(tmp_path / "ledger.db").entries()) == 1


def test_an_earlier_demo_is_replaced_when_told_to(shown):
    here = shown[0]
    fails(run_here("demo", "--out", "try", cwd=here), "'try'", "--force")
    succeeds(run_here("demo", "--out", "try", "--force", cwd=here))
    assert len(dp.Ledger.open(here / "try/ledger.db").entries()) == 1


def test_a_page_needs_its_packages_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "installed", lambda *_: False)
    fails(run_here("demo", "--out", "try", "--open", cwd=tmp_path), "dpinfer[desk]")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not errors.installed("starlette", "uvicorn"), reason="needs the extra desk")
def test_a_demo_that_is_there_is_opened(shown, tmp_path):
    """Neither `make demo` nor an earlier `--open` stands in the way, and nothing is fitted again."""
    folder = tmp_path / "try"
    shutil.copytree(shown[0] / "try", folder)
    with started(["demo", "--out", str(folder), "--open"], folder / "desk", "true") as site:
        browser = build_opener(HTTPCookieProcessor())
        browser.open(site.address).close()
        with browser.open(site.at("/")) as page:
            assert "RAND Health Insurance Experiment" in page.read().decode()
    assert len(dp.Ledger.open(folder / "ledger.db").entries()) == 1


def test_a_desk_of_an_earlier_demo_goes_with_it(shown):
    here = shown[0]
    succeeds(run_here("desk", "init", "try/desk", cwd=here))
    succeeds(run_here("demo", "--out", "try", "--force", cwd=here))
    assert not (here / "try/desk").exists()


def test_a_ledger_of_somebody_else_is_left_alone(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0))
    fails(run_here("demo", "--out", tmp_path, "--force"), "not the demo's", "--out")
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
