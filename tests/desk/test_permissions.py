"""Who sees what of a desk."""

import pytest

from dpinfer_desk.desk import Desk
from dpinfer_desk.permissions import NotFoundError, Permissions
from dpinfer_desk.store.accounts import Signed
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.store.tickets import ANSWERED, WAITING
from helpers.desks import ask, desk_in, question, work


@pytest.fixture
def desk(tmp_path):
    found = desk_in(tmp_path, policy=Policy("above", 0.15))
    files = [tmp_path / name for name in ("table.parquet", "schema.toml", "ledger.db")]
    found.add_table("other", *files, Policy("none"))
    for name in ("weber", "stranger"):
        found.add_person(name)
    found.allow("visits", "weber", 100.0)
    return found


def sight(desk, person, role="analyst"):
    return Permissions(desk, Signed(person, role))


def names(sight):
    return [table.name for table in sight.tables()]


def test_guarantee_others_are_not_seen(desk):
    """Tables, open questions and answers, by role and policy."""
    mine = ask(desk)
    waits = ask(desk, rho=0.3)
    work(desk)
    assert desk.ticket(mine.id).state == ANSWERED
    for role in ("steward", "auditor"):
        everything = sight(desk, "somebody", role)
        assert names(everything) == ["other", "visits"]
        assert {one.id for one in everything.tickets()} == {mine.id, waits.id}
        assert everything.ticket(waits.id).state == WAITING
        assert [one.id for one in everything.answers("visits")] == [mine.id]
    meier = sight(desk, "meier")
    weber = sight(desk, "weber")
    stranger = sight(desk, "stranger")
    assert names(meier) == names(weber) == ["visits"]
    assert names(stranger) == []
    assert {one.id for one in meier.tickets()} == {mine.id, waits.id}
    assert weber.tickets(by="meier") == []
    assert meier.ticket(waits.id).state == WAITING
    assert weber.ticket(mine.id).state == ANSWERED  # shared by the policy
    hidden = [
        lambda: weber.ticket(waits.id),
        lambda: weber.own(mine.id),
        lambda: meier.ticket(mine.id[:12]),  # the whole id alone
        lambda: meier.ticket(mine.key),
        lambda: stranger.ticket(mine.id),
        lambda: stranger.table("visits"),
        lambda: meier.table("other"),
        lambda: meier.table("none"),
        lambda: stranger.analyst("visits"),
    ]
    texts = set()
    for look in hidden:
        with pytest.raises(NotFoundError) as told:
            look()
        texts.add(str(told.value))
    assert len(texts) == 1
    desk.set_policy("visits", Policy("none", shared=False))
    with pytest.raises(NotFoundError):
        weber.ticket(mine.id)
    assert weber.answers("visits") == []
    assert [one.id for one in meier.answers("visits")] == [mine.id]


def test_who_is_revoked_sees_his_own_alone(desk):
    mine = ask(desk)
    theirs = ask(desk, by="weber", rho=0.11)
    work(desk)
    desk.set_state("visits", "meier", "paused")
    assert names(sight(desk, "meier")) == ["visits"]
    desk.set_state("visits", "meier", "revoked")
    meier = sight(desk, "meier")
    assert names(meier) == []
    assert meier.ticket(mine.id).state == ANSWERED
    with pytest.raises(NotFoundError):
        meier.ticket(theirs.id)


def test_acting(desk):
    """Who acts stands in the journal; the desk itself stays that of the steward."""
    desk.acting("weber").ask("visits", question(), "weber", anyway=True)
    assert desk.journal()[-1].who == "weber"
    assert desk.who == "steward"
    assert Desk.open(desk.folder.path, "x", public=True).acting("y").public
