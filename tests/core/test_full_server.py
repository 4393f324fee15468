"""A server at its memory limit: nothing new comes in, what is there can be finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


@contextmanager
def full(keyed: Keyed) -> Iterator[None]:
    """The server has reached its limit (one byte) meanwhile."""
    keyed.server.config_set("maxmemory", 1)
    try:
        yield
    finally:
        keyed.server.config_set("maxmemory", 0)


@pytest.fixture
def held(keyed: Keyed) -> Iterator[Keyed]:
    """Eight running jobs `a` to `h`, and one waiting."""
    assert keyed.server.config_get("maxmemory-policy") == {
        "maxmemory-policy": "noeviction"
    }
    for number, jid in enumerate("abcdefgh"):
        keyed.put(jid, number)
    assert len(keyed.take(8, now=10)) == 8
    keyed.put("waiting", 10)
    keyed.put("dependent", 10, depends=["a"])
    yield keyed
    keyed.server.config_set("maxmemory", 0)


#: Stands for the token of the job that is named before.
TOKEN = object()


def with_tokens(keyed: Keyed, call: tuple[object, ...]) -> list[object]:
    """Return a call with the tokens of its jobs."""
    held = [part for part in call if part in set("abcdefgh")]
    token = keyed.job(str(held[0]))["token"] if held else ""
    return [token if part is TOKEN else part for part in call]


REFUSED = [
    ("put", "w", "queue", "new", "klass", "{}", 0),
    ("put.many", "w", "new", "queue", "klass", "{}", 0, 0),
    ("requeue", "w", "queue", "waiting", "klass", "{}", 0),
    ("pop", "queue", "worker", 1),
    ("recur", "queue", "cron", "klass", "{}", "interval", 60, 0),
    ("tag", "add", "waiting", "tag"),
    ("track", "track", "waiting"),
    ("priority", "waiting", 5),
    ("depends", "dependent", "on", "waiting"),
    ("config.set", "heartbeat", 5),
    ("pause", "queue"),
    ("queue.pause", "reason", "by", "queue"),
    ("each", "move", "other", 0, "waiting"),
]


@pytest.mark.parametrize("call", REFUSED, ids=lambda call: call[0])
def test_calls_that_add_something_are_refused(
    held: Keyed, call: tuple[object, ...]
) -> None:
    before = snapshot(held.server)
    with full(held), pytest.raises(redis.exceptions.OutOfMemoryError):
        held.call(*call, now=20, request="client:1")  # type: ignore[arg-type]
    assert snapshot(held.server) == before


ACCEPTED = [
    ("complete", "a", TOKEN, "queue", "{}"),
    ("complete", "b", TOKEN, "queue", "{}", "next", "other"),
    ("fail", "c", TOKEN, "group", "message"),
    ("retry", "d", "queue", TOKEN, 0, "group", "message"),
    ("release", "e", TOKEN),
    ("heartbeat", "f", TOKEN),
    ("beat", "worker", "{}", 1, "g", TOKEN, ""),
    ("settle", "worker", 1, "g", TOKEN, "", "complete", 0, 0, 0),
    ("settle", "worker", 1, "h", TOKEN, "", "fail", 2, "group", "message", 1, 1, "queue"),
    ("progress", "f", TOKEN, "[0.5]"),
    ("log", "waiting", "message"),
    ("cancel", "waiting"),
    ("each", "cancel", "waiting", "a"),
    ("worker.deregister", "worker"),
]  # fmt: skip


@pytest.mark.parametrize("call", ACCEPTED, ids=lambda call: " ".join(call[:2]))
def test_calls_that_finish_work_are_served(
    held: Keyed, call: tuple[object, ...]
) -> None:
    before = snapshot(held.server)
    command, *args = with_tokens(held, call)
    with full(held):
        held.call(str(command), *args, now=20, request="client:1")
    assert snapshot(held.server) != before


def test_reads_go_on(held: Keyed) -> None:
    with full(held):
        assert held.job("a", 20)["state"] == "running"
        assert held.json("queues", "queue", now=20)["running"] == 8
        assert held.violations() == []


def test_a_full_server_can_be_emptied(held: Keyed) -> None:
    with full(held):
        ends = [
            settlement(jid, held.job(jid)["token"], "complete") for jid in "abcdefgh"
        ]
        settled = held.settle(ends, 1, now=20, request="client:1")
        assert (settled.refused, settled.jids) == ([], ["waiting"])
        [job] = settled.jobs
        done = settlement("waiting", job["token"], "complete")
        assert held.settle([done], 1, now=21, request="client:2").refused == []


def test_old_clients_are_refused_before_anything_is_written(core: Core) -> None:
    """Without KEYS there are no classes: the first write decides, so it must be all."""
    core.put("a")
    core.pop()
    core.put("waiting")
    keyed = Keyed(core)
    before = snapshot(core.server)
    with full(keyed):
        for call in (
            ("put", 1, "w", "queue", "new", "klass", "{}", 0),
            ("put", 1, "w", "other", "waiting", "klass", "{}", 0),
            ("pop", 1, "queue", "worker", 1),
            ("recur", 1, "queue", "r", "k", "{}", "interval", 60, 0),
        ):
            with pytest.raises(redis.exceptions.ResponseError, match=r"OOM|maxmemory"):
                core.old(*call)
            assert snapshot(core.server) == before, call
