"""A server at its memory limit: nothing new comes in, what is there can be finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from tests.core.caller import Core, call_class
from tests.core.every_call import KEYED, Call, name, scene, with_proof
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


@pytest.mark.parametrize("call", KEYED, ids=name)
def test_only_calls_that_finish_work_are_served(keyed: Keyed, call: Call) -> None:
    command, *args = with_proof(call, scene(keyed))
    before = snapshot(keyed.server)
    with full(keyed):
        if call_class(command, tuple(args)) == "write":
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                keyed.call(command, *args, now=20, request="client:1")
            assert snapshot(keyed.server) == before
        else:
            keyed.call(command, *args, now=20, request="client:1")


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
