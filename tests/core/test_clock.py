"""The clock of calls with KEYS: the server's, kept, and never going back by drift."""

from __future__ import annotations

import json

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot


def server_time(keyed: Keyed) -> float:
    seconds, micros = keyed.server.time()
    return seconds + micros / 1e6


def kept(keyed: Keyed) -> float:
    """Return the namespace's clock, as `meta` shows it."""
    return float(keyed.json("meta", now="*")["clock"])


def put_time(keyed: Keyed, jid: str) -> float:
    """Return when a job was put, in thousandths."""
    return float(keyed.job(jid, "*")["history"][0]["when"])


def set_clock(keyed: Keyed, time: float) -> None:
    """Set the namespace's clock: as if the server's had shown this time before."""
    keyed.server.hset("ql:meta", "clock", f"{time:.6f}")


def test_a_star_is_the_servers_time(keyed: Keyed) -> None:
    before = server_time(keyed)
    keyed.put("jid", "*")
    after = server_time(keyed)
    assert before - 0.001 <= put_time(keyed, "jid") <= after
    assert before <= kept(keyed) <= after


def test_a_number_is_taken_as_it_is_and_not_kept(keyed: Keyed) -> None:
    keyed.put("a", 1234.5)
    assert put_time(keyed, "a") == 1234.5
    assert "clock" not in keyed.json("meta", now="*")
    keyed.put("b", "*")
    before = kept(keyed)
    keyed.put("c", before + 3600)
    keyed.put("d", 5)
    assert kept(keyed) == before


def test_a_client_without_keys_does_not_move_the_clock(keyed: Keyed) -> None:
    keyed.put("a", "*")
    before = kept(keyed)
    keyed.core.put("b", before + 86400)
    keyed.core.pop(before + 86400)
    assert kept(keyed) == before


@pytest.mark.parametrize("ahead", [0.5, 5, 59])
def test_a_clock_that_goes_back_a_little_stands_still(
    keyed: Keyed, ahead: float
) -> None:
    """The kept time is set ahead: as if the server's clock had been set back since."""
    keyed.put("first", "*")
    future = server_time(keyed) + ahead
    set_clock(keyed, future)
    keyed.put("jid", "*")
    latest = max(future, server_time(keyed)) + 0.001
    assert future - 0.001 <= put_time(keyed, "jid") <= latest
    assert future - 0.001 <= kept(keyed) <= latest
    assert keyed.json("meta", now="*").get("skews", 0) in (0, "0")


def test_reads_take_the_later_time_and_write_nothing(keyed: Keyed) -> None:
    keyed.put("jid", "*", delay=30)
    assert keyed.json("queues", "queue", now="*")["scheduled"] == 1
    set_clock(keyed, server_time(keyed) + 40)
    before = kept(keyed)
    assert keyed.json("queues", "queue", now="*")["waiting"] == 1
    assert kept(keyed) == before


@pytest.mark.parametrize("ahead", [65, 3600, 10**6])
def test_a_clock_far_ahead_is_an_incident(keyed: Keyed, ahead: float) -> None:
    """A failover to a skewed replica: the server's time is taken again, and counted."""
    keyed.put("first", "*")
    set_clock(keyed, server_time(keyed) + ahead)
    before = server_time(keyed)
    keyed.put("jid", "*")
    after = server_time(keyed)
    assert before - 0.001 <= put_time(keyed, "jid") <= after
    assert before <= kept(keyed) <= after
    assert int(keyed.json("meta", now="*")["skews"]) == 1
    keyed.put("again", "*")
    assert int(keyed.json("meta", now="*")["skews"]) == 1


def test_a_refused_call_does_not_advance_the_clock(keyed: Keyed) -> None:
    keyed.put("jid", "*")
    before = snapshot(keyed.server)
    keyed.refusal("complete", "jid", "1", "queue", "{}", now="*")
    keyed.refusal("put", "w", "queue", "jid", "k", "{", 0, now="*")
    assert snapshot(keyed.server) == before


def test_locks_are_measured_by_the_servers_clock(core: Core) -> None:
    """A client without KEYS may have another clock. The lock ends with a whole second."""
    keyed = Keyed(core)
    keyed.put("jid", "*")
    before = server_time(keyed)
    [job] = keyed.take(now="*")
    assert before + 59 <= float(job["expires"]) <= server_time(keyed) + 60
    assert json.loads(core.old("get", 0, "jid"))["state"] == "running"
