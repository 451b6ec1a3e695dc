"""Counts with an exposure from every kind of table: the same totals, in parts, by persons."""

import numpy as np
import pytest

import dpinfer as dp
from helpers import claims

TABLE = claims.table(5000)
TABLE.loc[::97, "years"] = np.nan
TABLE.loc[::89, "years"] = 0.0
TABLE.loc[::83, "years"] = -1.0
TABLE.loc[::79, "years"] = 10.0
WRITERS = {
    "t.csv": lambda path: TABLE.to_csv(path, index=False),
    "t.parquet": lambda path: TABLE.to_parquet(path, row_group_size=700),
    "t.feather": TABLE.to_feather,
}


def fitted(native, head="", **options):
    return claims.model(head=head, insecure_seed=5, **options).fit(native).result_


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("head", ["", claims.UNIT], ids=["records", "persons"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_every_kind_of_file_gives_the_fit_of_the_table(name, head, neighbours, tmp_path):
    WRITERS[name](tmp_path / name)
    here = fitted(TABLE, head, neighbours=neighbours)
    there = fitted(tmp_path / name, head, neighbours=neighbours)
    assert np.array_equal(here.estimate, there.estimate)
    assert np.array_equal(here.conf_int(), there.conf_int(), equal_nan=True)
    assert here.status == there.status


def test_a_file_that_memory_does_not_hold(tmp_path, monkeypatch):
    """In parts, from the disk, or read anew in every pass: the same bits."""
    TABLE.to_parquet(tmp_path / "t.parquet", row_group_size=700)
    here = fitted(TABLE)
    for head in ("", claims.UNIT):
        here = fitted(TABLE, head)
        monkeypatch.setenv("DPINFER_MEMORY", "1")
        assert np.array_equal(fitted(tmp_path / "t.parquet", head).estimate, here.estimate)
        monkeypatch.delenv("DPINFER_MEMORY")


def test_a_record_without_an_exposure_counts_for_nothing():
    """Missing, 0 or below; one beyond its bound counts as the bound."""
    kept = TABLE[TABLE["years"] > 0].copy()
    noiseless = {"budget": dp.NoPrivacy()}
    whole = fitted(TABLE, **noiseless)
    assert np.allclose(whole.estimate, fitted(kept, **noiseless).estimate, atol=1e-10)
    kept["years"] = kept["years"].clip(upper=2.0)
    assert np.allclose(whole.estimate, fitted(kept, **noiseless).estimate, atol=1e-10)


def test_the_bound_of_an_exposure_is_a_unit():
    """In other units of time only the level moves."""
    days = TABLE.assign(years=TABLE["years"] * 365)
    text = claims.COLUMNS.replace("high = 2\n", "high = 730\n")
    other = dp.PoissonRegression(
        claims.FORMULA,
        schema=dp.Schema.parse(text),
        exposure="years",
        budget=dp.ZCDP(0.5),
        insecure_seed=5,
    )
    here = fitted(TABLE)
    there = other.fit(days).result_
    assert np.allclose(here.estimate[1:], there.estimate[1:], atol=1e-6)
    assert here.estimate[0] - there.estimate[0] == pytest.approx(np.log(365), abs=1e-6)
