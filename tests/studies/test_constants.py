"""The study of constants: another value is used in every module and taken back, and a run writes its page."""

import json
import sys
from pathlib import Path

import pytest
from studies.constants import __main__ as command
from studies.constants.patching import patched, registry, times
from studies.constants.report import page

from dpinfer.inference import joint, ranges, winsorising
from dpinfer.inference.constants import MAX_ERROR_SHARE, MAX_LEVEL_SHARE, MIN_SIGNAL, RANGE_SDS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "studies/constants/results/constants.json"


def test_another_value_is_used_in_every_module_and_taken_back():
    with patched(MIN_SIGNAL, 5.0):
        assert joint.MIN_SIGNAL == winsorising.MIN_SIGNAL == 5.0
    assert joint.MIN_SIGNAL is winsorising.MIN_SIGNAL is MIN_SIGNAL
    defaults = ranges.narrowed.__defaults__
    with patched(RANGE_SDS, 1.0):
        assert ranges.narrowed.__defaults__ == (1.0,)
    assert ranges.narrowed.__defaults__ == defaults


def test_constants_next_to_their_largest_value_stay_below_it():
    assert times(MAX_ERROR_SHARE, 0.5) == 0.2
    assert times(MAX_LEVEL_SHARE, 2.0) == pytest.approx(0.98)


def test_a_run_of_two_constants(monkeypatch, tmp_path):
    asked = ["--constants", "MIN_SIGNAL", "AMPLE_STRENGTH", "--cells", "1", "--replicates", "1"]
    asked += ["--workers", "1", "--out", str(tmp_path), "--docs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["studies.constants", *asked])
    command.main()
    results = json.loads((tmp_path / "constants.json").read_text(encoding="utf-8"))
    # a constant of forecasts changes no fit
    assert results["constants"]["AMPLE_STRENGTH"]["half"]["changed"] == 0
    assert results["as it is"]["length"] == 1
    assert "`MIN_SIGNAL`" in (tmp_path / "constants-study.md").read_text(encoding="utf-8")


def test_the_page_is_that_of_the_results_and_has_every_constant():
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert (ROOT / "docs/constants-study.md").read_text(encoding="utf-8") == page(results)
    assert {name: one["value"] for name, one in results["constants"].items()} == {
        name: float(one) for name, one in registry().items()
    }
