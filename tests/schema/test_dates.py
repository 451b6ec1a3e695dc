"""Dates as days, and columns of dates in a schema."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema import dates
from dpinfer.schema.columns import column_of, entry_of

DATE = '[columns.d]\ntype = "date"\nlow = 2019-03-05\nhigh = 2022-12-31\n'


@given(st.dates())
def test_days_and_texts_are_inverse(date):
    day = dates.day_of(date)
    assert dates.text_of(day) == date.isoformat()
    assert dates.day_of_text(f" {date.isoformat()} ") == day
    assert dates.day_of_text(f"{date.isoformat()}T23:59:59.9+02:00") == day
    assert dates.day_stated(date) == dates.day_stated(date.isoformat()) == day


@given(st.one_of(st.text(), st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.{0,9}")))
def test_no_text_raises(text):
    day = dates.day_of_text(text)
    assert np.isnan(day) or text.strip().startswith(dates.text_of(day))


@given(st.dates(datetime.date(1678, 1, 1), datetime.date(2261, 1, 1)))
def test_the_calendar_is_that_of_python(date):
    day = np.array([dates.day_of(date), np.nan])
    assert dates.years(day)[0] == date.year
    assert dates.months(day)[0] == date.month - 1
    assert dates.weekdays(day)[0] == date.weekday()
    for of in (dates.years, dates.months, dates.weekdays):
        assert np.isnan(of(day)[1])


def test_a_column_of_dates():
    schema = dp.Schema.parse(
        DATE + "missing = 2020-01-01\ntypical = { mean = 2020-06-01, sd = 90 }"
    )
    column = schema["d"]
    assert (column.kind, column.low, column.high, column.origin) == ("date", 0, 1397, "2019-03-05")
    assert column.missing == 302
    assert column_of("d", entry_of(column)) == column
    quoted = DATE.replace("2019-03-05", '"2019-03-05"').replace("2022-12-31", '"2022-12-31"')
    assert dp.Schema.parse(quoted) == dp.Schema.parse(DATE)
    assert dp.Schema.parse(quoted).digest() == dp.Schema.parse(DATE).digest()


def test_a_schema_with_dates_reads_back(tmp_path):
    schema = dp.Schema.parse(
        DATE + "missing = 2020-01-01\ntypical = { mean = 2020-06-01, sd = 90 }"
    )
    schema.write(tmp_path / "schema.toml")
    assert dp.Schema.read(tmp_path / "schema.toml") == schema


BAD = {
    "a number": ("low = 2019-03-05", "low = 3", "line 3.*low must be a date such as 2024-05-31"),
    "no date": ("low = 2019-03-05", 'low = "May"', "line 3.*must be a date"),
    "no low": ("low = 2019-03-05\n", "", "low is missing"),
    "in the wrong order": ("low = 2019-03-05", "low = 2023-03-05", "line 4.*with low < high"),
    "a gap": ("low = 2019-03-05", 'low = "?"', "line 3.*low is not filled in"),
    "another key": ("high", "centre = 3\nhigh", "type 'date' has no key 'centre'"),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD.values(), ids=BAD)
def test_bad_dates(old, new, message):
    with pytest.raises(dp.InputError, match=message):
        dp.Schema.parse(DATE.replace(old, new))


def test_bad_guesses():
    for guess in ("mean = 3", "mean = 2025-01-01", 'mean = "x"'):
        with pytest.raises(dp.InputError, match="mean must"):
            dp.Schema.parse(DATE + f"typical = {{ {guess}, sd = 9 }}")


def test_a_draft_knows_dates_by_their_type():
    days = pd.to_datetime(["2024-01-01"])
    text = dp.Schema.draft(pd.DataFrame({"d": days, "e": days.tz_localize("America/New_York")}))
    assert text.count('type = "date"') == 2
    assert "2024" not in text
    filled = text.replace('low = "?"', "low = 2019-01-01").replace(
        'high = "?"', "high = 2029-01-01"
    )
    assert dp.Schema.parse(filled.replace('unit = "?"', ""))["d"].kind == "date"


def test_bounds_of_dates_are_not_learned():
    """They stay open, beside what is."""
    days = pd.to_datetime(["2024-01-01"] * 400)
    frame = pd.DataFrame({"d": days, "x": np.arange(400.0)})
    found = dp.learn_bounds(frame, columns=["x"], budget=dp.ZCDP(5.0))
    assert "x" in found.schema.columns
    with pytest.raises(dp.InputError, match="a boolean or a date, whose bounds are not learned"):
        dp.learn_bounds(frame, columns=["d"], budget=dp.ZCDP(5.0))
