"""Which commands of the server a job costs, one at a time: what is asked for twice shows here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.lua.entities import Entities
from tests.lua.keyed import Keyed, settlement

#: As often as a call is made: the first of a second looks after more.
TRIES = 6

PUT = "hmget time exists publish hset*2 zadd*2 hincrby zcard"
SETTLE = (
    "hmget*2 time exists rpush*2 publish hset*2 zrem*2 zadd zcount zpopmax "
    "hmget hset zadd*2"
)

BATCH = "hmget time exists*2 publish*3 hset*4 zadd*2 hincrby zcard"
FREED = (
    "hmget*3 time exists*6 hlen rpush*2 publish hset*4 zrem*4 zadd*2 scard*2 smembers "
    "srem zrange zcard del"
)


def counted(words: str) -> Counter[str]:
    """Return how often each command is named: `zadd*2` is twice."""
    counts: Counter[str] = Counter()
    for word in words.split():
        name, _, times = word.partition("*")
        counts[name] += int(times or 1)
    return counts


def cost(keyed: Keyed, call: Callable[[], object]) -> Counter[str]:
    """Return which commands a call runs: in the cheapest of some tries."""
    tries = []
    for _ in range(TRIES):
        keyed.server.config_resetstat()
        call()
        stats = keyed.server.info("commandstats")
        calls = {name.partition("_")[2]: each["calls"] for name, each in stats.items()}
        beside = {"config|resetstat", "fcall", "evalsha"}
        if keyed.core.engine == "script":
            beside.add("info")  # who draws a token asks for the server, functions once
        tries.append(Counter({k: n for k, n in calls.items() if k not in beside}))
    return min(tries, key=lambda each: each.total())


@pytest.fixture
def busy(keyed: Keyed) -> Keyed:
    """A namespace with work, by the server's clock."""
    for n in range(3 * TRIES):
        keyed.call("put", "", "queue", f"old{n}", "klass", "{}", 0, now="*")
    return keyed


def test_a_put(busy: Keyed) -> None:
    jids = iter("abcdefghij")

    def put() -> None:
        jid = next(jids)
        busy.call(
            "put", "", "queue", jid, "k", "{}", 0, now="*", request=f"c:{ord(jid)}"
        )

    assert cost(busy, put) == counted(PUT)


def test_a_settlement_with_the_next_reservation(busy: Keyed) -> None:
    [held] = busy.settle([], 1, now="*", request="c:1").jobs
    requests = iter(range(2, 100))

    def settle() -> None:
        nonlocal held
        done = settlement(held["jid"], held["token"], "complete", held="0.001")
        request = f"c:{next(requests)}"
        [held] = busy.settle([done], 1, now="*", request=request).jobs

    assert cost(busy, settle) == counted(SETTLE)


#: If any key of a list is there, each of the list is asked for.
OF_ALL, OF_QUEUES = "hlen exists*6 sismember zrange", "hlen exists zcount*2 llen zrem"
MORE = {
    "tracked": f"{OF_ALL} zscore*2",
    "paused_queues": OF_ALL,
    "idle:queue": OF_QUEUES,
    "q:queue-scheduled": OF_QUEUES,
}


@pytest.mark.parametrize("name", MORE)
def test_what_is_there_is_asked_for_by_itself(busy: Keyed, name: str) -> None:
    """Of the keys that are mostly absent one is there: that makes no others dearer."""
    key = f"ql:{name}"
    if name == "paused_queues":
        busy.server.sadd(key, "other")
    else:
        busy.server.zadd(key, {"other": 1e12})
    [held] = busy.settle([], 1, now="*", request="c:1").jobs
    requests = iter(range(2, 100))

    def settle() -> None:
        nonlocal held
        done = settlement(held["jid"], held["token"], "complete", held="0.001")
        request = f"c:{next(requests)}"
        [held] = busy.settle([done], 1, now="*", request=request).jobs

    assert cost(busy, settle) - counted(SETTLE) == counted(MORE[name])


def test_a_settlement_alone(busy: Keyed) -> None:
    held = iter(busy.settle([], 2 * TRIES, now="*", request="c:1").jobs)
    requests = iter(range(2, 100))

    def settle() -> None:
        job = next(held)
        done = settlement(job["jid"], job["token"], "complete", held="0.001")
        busy.settle([done], 0, [], now="*", request=f"c:{next(requests)}")

    words = "hmget*2 time exists rpush*2 publish hset*2 zrem*2 zadd"
    assert cost(busy, settle) == counted(words)


def test_an_entity_with_the_next_one(keyed: Keyed) -> None:
    """Beside what a job costs: its entity, its payloads, its lists, its figures."""
    entities = Entities(keyed)
    entities.push_many([(f"e{n}", n, "", "") for n in range(3 * TRIES)])
    [held] = keyed.settle([], 1, ["orders"], now="*", request="c:1").jobs
    requests = iter(range(2, 100))

    def settle() -> None:
        nonlocal held
        done = settlement(held["jid"], held["token"], "complete", held="0.001")
        request = f"c:{next(requests)}"
        [held] = keyed.settle([done], 1, ["orders"], now="*", request=request).jobs

    more = "hmget*2 exists*2 del zrange renamenx zrem hincrby"
    assert cost(keyed, settle) - counted(SETTLE) == counted(more)


def test_a_batch_of_new_jobs(busy: Keyed) -> None:
    """One question asks for all of them: none is read."""
    batches = iter(range(100))

    def put() -> None:
        batch = next(batches)
        jobs = [{"jid": f"batch{batch}-{n}"} for n in range(3)]
        busy.put_many(jobs, now="*")

    assert cost(busy, put) == counted(BATCH)


def test_a_completion_that_frees_a_dependent(busy: Keyed) -> None:
    """A dependent without anything rare is read once."""
    held = busy.settle([], 2 * TRIES, now="*", request="c:1").jobs
    for job in held:
        busy.put(f"after-{job['jid']}", "*", depends=[job["jid"]])
    requests, left = iter(range(2, 100)), iter(held)

    def settle() -> None:
        job = next(left)
        done = settlement(job["jid"], job["token"], "complete", held="0.001")
        busy.settle([done], 0, [], now="*", request=f"c:{next(requests)}")

    assert cost(busy, settle) == counted(FREED)
