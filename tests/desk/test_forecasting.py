"""Forecasts in processes of their own: what they may take, how many, and none twice."""

import threading
import time
from datetime import timedelta

import pytest

import dpinfer as dp
from dpinfer.simulate.forecast import Forecast, forecast
from dpinfer_desk.permissions import NotFoundError
from dpinfer_desk.worker import forecasts as module
from dpinfer_desk.worker.forecasts import BusyError, Forecasts
from helpers import forecast_bombs as bombs
from helpers.desks import desk_in, question

LONG = 120.0


@pytest.fixture
def desk(tmp_path):
    return desk_in(tmp_path)


def test_a_forecast_is_that_of_the_library(desk):
    """The same numbers, in a process of its own, for each budget or for a half-width."""
    forecasts = Forecasts(desk)
    forecasts.warm()
    asked = question(rho=0.5)
    ident = forecasts.ask("visits", asked, "meier", [dp.ZCDP(0.5), dp.ZCDP(1.0)])
    found = forecasts.get(ident, "meier", LONG)
    table = desk.table("visits")
    model = asked.model(table.schema, table.ledger().neighbours)
    expected = forecast(model, records=table.records, budgets=[dp.ZCDP(0.5), dp.ZCDP(1.0)])
    assert found.to_json() == expected.to_json()
    narrow = question("y ~ a", rho=0.5)
    wide = forecasts.ask("visits", narrow, "meier", half_width=2.0, coefficient="a")
    assert isinstance(forecasts.get(wide, "meier", LONG), Forecast)
    assert forecasts.ask("visits", asked, "meier", [dp.ZCDP(0.5), dp.ZCDP(1.0)]) == ident
    for other in ("weber", ""):
        with pytest.raises(NotFoundError):
            forecasts.get(ident, other)
    with pytest.raises(NotFoundError):
        forecasts.get("0" * 32, "meier")


def test_a_forecast_tells_how_far_it_is(desk):
    """To its person alone; the fits are on made-up records."""
    forecasts = Forecasts(desk)
    ident = forecasts.ask("visits", question(rho=0.5), "meier")
    assert forecasts.progress(ident, "meier")[1] == 20
    assert forecasts.get(ident, "meier", LONG).replicates == 20
    assert forecasts.progress(ident, "meier") == (20, 20)
    with pytest.raises(NotFoundError):
        forecasts.progress(ident, "weber")


def test_what_is_wrong_is_told(desk):
    forecasts = Forecasts(desk)
    ident = forecasts.ask("visits", question("y ~ nothing", rho=0.5), "meier")
    with pytest.raises(dp.InputError, match="nothing"):
        forecasts.get(ident, "meier", LONG)
    with pytest.raises(dp.InputError, match="at most 6 budgets"):
        forecasts.ask("visits", question(rho=0.5), "meier", [dp.ZCDP(0.5)] * 7)


def test_no_guess_no_forecast(tmp_path):
    """Where the number of records is private and nobody has guessed it."""
    desk = desk_in(tmp_path)
    with desk.register.write() as sql:
        sql("UPDATE tables SET records = NULL")
    with pytest.raises(dp.InputError, match="no guess of it"):
        Forecasts(desk).ask("visits", question(), "meier")


class _Still(Forecasts):
    """Forecasts that are taken and do not run: how many there may be is judged before."""

    def _work(self):
        return

    def end(self):
        """All of them are there."""
        for job in self._jobs.values():
            job.done.set()


def test_a_person_has_thirty_in_an_hour(desk):
    now = [desk.clock()]
    desk.clock = lambda: now[0]
    forecasts = _Still(desk)
    forecasts._queue.maxsize = 0
    for k in range(30):
        forecasts.ask("visits", question(rho=0.1 + k / 100), "meier")
        forecasts.end()
    with pytest.raises(BusyError, match="30 forecasts in an hour"):
        forecasts.ask("visits", question(rho=0.9), "meier")
    forecasts.ask("visits", question(rho=0.1), "meier")  # one that is there
    forecasts.ask("visits", question(rho=0.9), "weber")  # somebody else
    now[0] += timedelta(hours=1, seconds=1)
    forecasts.ask("visits", question(rho=0.9), "meier")


def test_three_of_a_person_are_under_way(desk):
    forecasts = _Still(desk)
    for k in range(3):
        forecasts.ask("visits", question(rho=0.1 + k / 100), "meier")
    with pytest.raises(BusyError, match="3 of your forecasts are running"):
        forecasts.ask("visits", question(rho=0.9), "meier")
    forecasts.ask("visits", question(rho=0.1), "meier")  # one that is there
    forecasts.ask("visits", question(rho=0.9), "weber")  # somebody else
    forecasts.end()
    forecasts.ask("visits", question(rho=0.9), "meier")


def test_what_is_refused_does_not_count(desk):
    """Thirty that found no place in the queue, and then thirty that did."""
    forecasts = _Still(desk)
    for k in range(20):
        forecasts.ask("visits", question(rho=0.1), f"person {k}")
    for _ in range(30):
        with pytest.raises(BusyError, match="many forecasts are running"):
            forecasts.ask("visits", question(rho=0.9), "meier")
    forecasts._queue.maxsize = 0
    for k in range(30):
        forecasts.ask("visits", question(rho=0.1 + k / 100), "meier")
        forecasts.end()


def test_a_flood_is_turned_away(desk):
    forecasts = _Still(desk, rate=None)
    for k in range(20):
        forecasts.ask("visits", question(rho=0.1 + k / 100), f"person {k}")
    with pytest.raises(BusyError, match="running"):
        forecasts.ask("visits", question(rho=0.9), "meier")


def test_old_forecasts_are_forgotten(desk, monkeypatch):
    monkeypatch.setattr(module, "_MAX_STORED", 3)
    forecasts = _Still(desk)
    idents = []
    for k in range(5):
        forecasts.end()
        idents.append(forecasts.ask("visits", question(rho=0.1 + k / 100), "meier"))
    with pytest.raises(NotFoundError):
        forecasts.get(idents[0], "meier")
    assert forecasts.get(idents[-1], "meier") is None
    assert len(forecasts._known) == 3


def test_large_forecasts_are_few(desk, monkeypatch):
    """All that is remembered has at most so many bytes, and of what was asked nothing is kept."""
    monkeypatch.setattr(module, "_MAX_STORED_BYTES", 5000)
    forecasts = Forecasts(desk)
    asked = threading.Event()

    def run(*_):
        assert asked.wait(LONG)  # so that nothing is done while it is asked for
        return None, "x" * 2000, 2000

    monkeypatch.setattr(forecasts, "_run", run)
    idents = []
    for k in range(5):
        asked.clear()
        idents.append(forecasts.ask("visits", question(rho=0.1 + k / 100), "meier"))
        asked.set()
        assert forecasts._jobs[idents[-1]].done.wait(LONG)
    assert list(forecasts._jobs) == idents[-3:]  # two, and the one that was asked for last
    assert set(forecasts._known.values()) == set(idents[-3:])
    assert all(job.task is None for job in forecasts._jobs.values())
    assert max(map(len, forecasts._known)) == 64


def said_by(forecasts, work, rho):
    """What becomes of a forecast in whose process something else is done."""
    real = forecasts._context
    process = lambda target, args: real.Process(target=work, args=args)  # noqa: E731
    forecasts._context = type("Bombs", (), {"Pipe": real.Pipe, "Process": staticmethod(process)})()
    ident = forecasts.ask("visits", question(rho=rho), "meier")
    with pytest.raises(dp.InputError) as told:
        forecasts.get(ident, "meier", LONG)
    forecasts._context = real
    return str(told.value)


def test_a_bomb_ends_by_itself(desk, monkeypatch):
    """A forecast that never ends, takes all memory or dies is stopped; the next one is answered."""
    forecasts = Forecasts(desk)
    assert said_by(forecasts, bombs.limited, 0.1) == "[(20, 20), (0, 0), (0, 0)]"
    assert 5 <= int(said_by(forecasts, bombs.grows, 0.2)) <= 10  # times 100 MB
    assert said_by(forecasts, bombs.dies, 0.3) == module._GIVEN_UP
    monkeypatch.setattr(module, "_WALL", 2.0)
    start = time.monotonic()
    assert said_by(forecasts, bombs.loops, 0.4) == module._GIVEN_UP
    assert time.monotonic() - start >= 2
    monkeypatch.setattr(module, "_WALL", 90.0)
    again = forecasts.ask("visits", question(rho=0.6), "meier")
    assert forecasts.get(again, "meier", LONG).names
