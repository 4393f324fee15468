"""Where a job is that another namespace asks about, after it was moved to and fro."""

from __future__ import annotations

import pytest

from tests.lua.keyed import Keyed
from tests.lua.test_crossing import exchange, put_after
from tests.lua.test_result_waiters import look, told


@pytest.fixture
def mail(keyed: Keyed) -> Keyed:
    return Keyed(keyed.core.with_prefix("mail:"))


@pytest.fixture
def away(keyed: Keyed) -> Keyed:
    return Keyed(keyed.core.with_prefix("away:"))


def complete(place: Keyed, now: int) -> None:
    [job] = place.take(now=now)
    place.call("complete", job["jid"], job["token"], "queue", "{}", now=now)


def test_what_was_moved_here_and_is_gone_is_not_looked_for_for_ever(
    keyed: Keyed, mail: Keyed
) -> None:
    keyed.call("config.set", "jobs-history-count", 0, now=0)
    mail.put("real", 1)
    mail.call("send.each", "home", "queue", 0, "real", now=2)
    exchange(3, home=keyed, mail=mail)
    complete(keyed, 4)
    assert keyed.call("get", "real", now=5) is None
    # By an old handle, which says that it is there.
    put_after(keyed, "a", "real", 5, on_failure="run")
    exchange(6, home=keyed, mail=mail)
    assert [job["jid"] for job in keyed.take(now=7)] == ["a"]


def test_of_what_has_no_result_no_time_is_told(mail: Keyed) -> None:
    mail.put("real", 1)
    mail.call("watch", "real", "home", now=2)
    complete(mail, 3)
    _, [_, command, args] = mail.call("crossing.read", "home", now=4)
    assert (command, args) == ("ended", ["real", "complete", "", "1"])


def test_what_is_on_its_way_here_is_awaited(keyed: Keyed, mail: Keyed) -> None:
    mail.put("real", 1)
    mail.call("send.each", "home", "queue", 0, "real", now=2)
    put_after(keyed, "a", "real", 3)
    exchange(4, home=keyed, mail=mail)
    assert keyed.job("a", 5)["state"] == "depends"
    complete(keyed, 6)
    assert [job["jid"] for job in keyed.take(now=7)] == ["a"]


def test_what_was_moved_on_from_here_is_found(
    keyed: Keyed, mail: Keyed, away: Keyed
) -> None:
    places = {"home": keyed, "mail": mail, "away": away}
    mail.put("real", 1)
    mail.call("send.each", "home", "queue", 0, "real", now=2)
    exchange(3, **places)
    keyed.call("send.each", "away", "queue", 0, "real", now=4)
    exchange(5, **places)
    put_after(keyed, "a", "real", 6)
    exchange(7, **places)
    assert keyed.job("a", 8)["state"] == "depends"
    complete(away, 9)
    exchange(10, **places)
    assert [job["jid"] for job in keyed.take(now=11)] == ["a"]


def test_a_complete_job_is_watched_no_more(keyed: Keyed, mail: Keyed) -> None:
    mail.put("real", 1)
    put_after(keyed, "a", "real", 2)
    exchange(3, home=keyed, mail=mail)
    assert mail.server.hget("mail:j:real", "watched") == "1"
    complete(mail, 4)
    assert mail.server.hget("mail:j:real", "watched") is None
    assert "watched" not in mail.json("get", "real", now=5)


def test_who_waits_here_for_a_job_elsewhere_is_told(keyed: Keyed, mail: Keyed) -> None:
    mail.put("real", 1)
    put_after(keyed, "a", "real", 2)
    exchange(3, home=keyed, mail=mail)
    assert look(keyed, "real", now=4) == []
    complete(mail, 5)
    assert told(keyed) == 0
    exchange(6, home=keyed, mail=mail)
    assert told(keyed) == 1


def test_who_asks_where_a_job_is_awaited_is_told_its_end(
    keyed: Keyed, mail: Keyed
) -> None:
    """What is complete is known here; what has failed goes on where it is."""
    for jid in ("done", "broken"):
        mail.put(jid, 1)
        put_after(keyed, f"after-{jid}", jid, 2)
    exchange(3, home=keyed, mail=mail)
    done, broken = mail.take(now=4)
    mail.call("complete", "done", done["token"], "queue", "{}", now=4)
    mail.call("fail", "broken", broken["token"], "group", "message", now=4)
    exchange(5, home=keyed, mail=mail)
    for jid in ("done", "broken"):
        keyed.call("watch", jid, "away", now=6)
    _, [_, command, args] = keyed.call("crossing.read", "away", now=7)
    assert (command, args) == ("ended", ["done", "complete", "", "1"])
    _, [_, command, args] = keyed.call("crossing.read", "mail", now=7)
    assert (command, args) == ("watch", ["broken", "away"])
