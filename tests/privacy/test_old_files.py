"""Results of earlier formats are refused by their version."""

from pathlib import Path

import pytest

import dpinfer as dp

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_old_result_in_a_geometry_is_refused_by_its_version(version):
    """Its lines are about another model than the one that was asked for."""
    old = (GOLDEN / f"result_v{version}_geometry.json").read_text(encoding="utf-8")
    with pytest.raises(dp.InputError, match=f"of version {version} and was fitted by a procedure"):
        dp.FitResult.from_json(old)
