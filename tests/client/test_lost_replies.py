"""A reply is lost after the request was executed: there is exactly one effect.

For every command that writes, the keyspace after a call whose reply was cut is compared
with that after the same call without accident; so are the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from django_qless.core import (
    AsyncClient,
    Client,
    ConnectionLost,
    LockLost,
    NotReached,
    Put,
    ReadLost,
    Settlement,
    Tick,
)
from tests.client.conftest import NOW
from tests.client.cutter import Cutter
from tests.core.keyspace import snapshot

if TYPE_CHECKING:
    from tests.real_servers import Server

Calling = Callable[[Client], Any]

# The token of the job "held", the first that is popped.
TOKEN = "1"

MUTATING: dict[str, Calling] = {
    "put": lambda client: client.put("", "q", "new", "k", "{}", tags=["t"]),
    "put again": lambda client: client.put("", "q", "waiting", "k", "{}", 5),
    "put absent": lambda client: client.put("", "q", "new", "k", "{}", absent=True),
    "put.many": lambda client: client.put_many(
        "", [Put(jid, "q", "k", "{}", absent=True) for jid in ("new", "waiting")]
    ),
    "put unique": lambda client: client.put(
        "", "q", "new", "k", "{}", unique="free", debounce=5
    ),
    "put replacing": lambda client: client.put(
        "", "q", "new", "k", "{}", unique="key", conflict="replace", depends=["held"]
    ),
    "spawn": lambda client: client.spawn(
        "held", TOKEN, "w", [Put("new", "q", "k", "{}", on_failure="run")]
    ),
    "requeue": lambda client: client.requeue("", "q2", "waiting", "k", "[]"),
    "pop": lambda client: [job.jid for job in client.pop("q", "w", 2)],
    "settle": lambda client: client.settle("w", [], 2, ["*"]),
    "settle and wait": lambda client: client.settle("w", [], 2, ["none"], wait=3),
    "settle complete": lambda client: client.settle(
        "w", [Settlement("held", TOKEN, "complete", ("1", 60))], 1, ["q"]
    ),
    "settle retry": lambda client: client.settle(
        "w", [Settlement("held", TOKEN, "retry", (0, "g", "m"))], 0, []
    ),
    "settle crash": lambda client: client.settle(
        "w", [Settlement("held", TOKEN, "crash", (3, "g", "m"))], 0, []
    ),
    "settle stale": lambda client: client.settle(
        "w", [Settlement("held", "99", "complete", ())], 0, []
    ),
    "beat": lambda client: client.beat(
        "w", '{"pid":1}', [("held", TOKEN), ("no", "2")]
    ),
    "order": lambda client: client.order("w", "quiet"),
    "heartbeat": lambda client: client.heartbeat("held", TOKEN, '"new"'),
    "complete": lambda client: client.complete("held", TOKEN, "q", "{}", result="1"),
    "complete next": lambda client: client.complete(
        "held", TOKEN, "q", "{}", next="q2"
    ),
    "fail": lambda client: client.fail("held", TOKEN, "group", "message"),
    "retry": lambda client: client.retry("held", "q", TOKEN, 0, "group", "message"),
    "release": lambda client: client.release("held", TOKEN),
    "progress": lambda client: client.progress("held", TOKEN, 0.5, "half"),
    "log": lambda client: client.log("held", "message", '{"a":1}'),
    "cancel": lambda client: client.cancel(["waiting", "held"]),
    "timeout": lambda client: client.timeout("held"),
    "priority": lambda client: client.priority("waiting", 7),
    "depends on": lambda client: client.depends_on("dependent", "held"),
    "depends off": lambda client: client.depends_off("dependent"),
    "tag add": lambda client: client.tag("waiting", ["t"]),
    "tag remove": lambda client: client.untag("waiting", ["red"]),
    "track": lambda client: client.track("waiting"),
    "untrack": lambda client: client.untrack("tracked"),
    "unfail": lambda client: client.unfail("q", "broken", 1),
    "recur": lambda client: client.recur("q", "tick", "k", "{}", 60, tags=["t"]),
    "recur.update": lambda client: client.recur_update("tock", interval=5, priority=1),
    "recur.tag": lambda client: client.recur_tag("tock", ["t"]),
    "recur.untag": lambda client: client.recur_untag("tock", ["red"]),
    "unrecur": lambda client: client.unrecur("tock"),
    "schedule.set": lambda client: client.schedule_set("new", "q", "k", "{}", every=60),
    "schedule.set again": lambda client: client.schedule_set(
        "cron", "q2", "k", "{}", cron="0 * * * *", owner="o"
    ),
    "schedule.update": lambda client: client.schedule_update("tock", every=30),
    "schedule.pause": lambda client: client.schedule_pause(["cron", "tock"]),
    "schedule.resume": lambda client: client.schedule_resume("rest"),
    "schedule.run": lambda client: client.schedule_run("cron"),
    "schedule.remove": lambda client: client.schedule_remove(["cron", "no"]),
    "schedule.due": lambda client: client.schedule_due("w"),
    "schedule.tick": lambda client: client.schedule_tick(
        [Tick("cron", str(NOW + 0.5), NOW, None, NOW + 1)]
    ),
    "each cancel": lambda client: client.cancel_each(["waiting", "held", "no"]),
    "each revive": lambda client: client.revive_each(["broken", "held"]),
    "each move": lambda client: client.move_each(["waiting", "held"], "q2"),
    "each priority": lambda client: client.priority_each(["waiting", "no"], 7),
    "each timeout": lambda client: client.timeout_each(["held", "waiting"]),
    "each tag": lambda client: client.tag_each(["waiting", "no"], "t"),
    "each untag": lambda client: client.untag_each(["waiting", "no"], "red"),
    "each track": lambda client: client.track_each(["waiting", "no"]),
    "each untrack": lambda client: client.untrack_each(["tracked", "no"]),
    "queue.pause": lambda client: client.pause("q", "why", "me"),
    "unpause": lambda client: client.unpause("paused"),
    "queue.forget": lambda client: client.forget_queue("q"),
    "queue.forget.empty": lambda client: client.forget_queue("no", only_if_empty=True),
    "worker.deregister": lambda client: client.deregister("w"),
    "config.set": lambda client: client.config_set("heartbeat", 5),
    "config.unset": lambda client: client.config_unset("grace-period"),
}

READING: dict[str, Calling] = {
    "get": lambda client: client.get("held"),
    "multiget": lambda client: client.multiget(["held", "waiting"]),
    "queues.part": lambda client: client.queues(),
    "length": lambda client: client.length("q"),
    "result": lambda client: client.result("held"),
    "results": lambda client: client.results(["held", "waiting"]),
    "needs": lambda client: client.needs("dependent"),
    "survey": lambda client: client.survey(),
    "schedule.get": lambda client: client.schedule_get("cron"),
    "schedule.list": lambda client: client.schedule_list(),
    "due": lambda client: client.due(["q"]),
    "brief": lambda client: client.brief(["held", "waiting"]),
    "briefs": lambda client: client.briefs([("waiting", "q", 0, 5)]),
    "search": lambda client: client.search([("waiting", "q", 0, 5)], klass="k"),
    "job.view": lambda client: client.job_view("held"),
    "failure.groups": lambda client: client.failure_groups(),
    "throughput": lambda client: client.throughput(None, 0, 5, 5),
    "worker.views": lambda client: client.worker_views(),
}


def furnish(client: Client) -> None:
    """Put a little of everything into an empty namespace."""
    client.script.now = NOW
    client.put("", "q", "held", "k", "{}", priority=9)
    client.put("", "q", "tracked", "k", "{}", priority=8)
    client.put("", "q", "broken", "k", "{}", priority=7)
    held, tracked, broken = client.settle("w", [], 3, ["q"]).jobs
    assert (held.jid, held.token) == ("held", TOKEN)
    client.track("tracked")
    client.release("tracked", tracked.token)
    client.fail("broken", broken.token, "broken", "message")
    for jid in ("waiting", "waiting-too"):
        client.put("", "q", jid, "k", "{}", tags=["red"])
    client.put("", "q", "dependent", "k", "{}", depends=["waiting-too"])
    client.put("", "q", "unique", "k", "{}", unique="key")
    client.put("", "paused", "scheduled", "k", "{}", 900)
    client.pause("paused")
    client.order("w", "stop")
    for schedule in ("cron", "rest"):
        client.script.now = NOW + 0.5
        client.schedule_set(schedule, "q", "k", "{}", cron="* * * * *")
        client.script.now = NOW
    client.schedule_pause("rest")
    client.recur("q", "tock", "k", "{}", 60, 60, tags=["red"])
    client.config_set("grace-period", 3)
    client.script.now = NOW + 10


def keyspace(server: Server) -> dict[str, Any]:
    """Return all keys and contents but the replies that are kept for repeats."""
    with server.client(
        decode_responses=True, encoding_errors="surrogateescape"
    ) as probe:
        return {
            name: (kind, content)
            for name, (kind, content, _) in snapshot(probe).items()
            if not name.startswith("ql:reply:")
        }


def accident_free(client: Client, server: Server, calling: Calling) -> Any:
    """Return the result and the keyspace after a call without accident."""
    server.flush()
    furnish(client)
    return calling(client), keyspace(server)


# Of a user's client: its own retries must not play a part.
EAGER = {"retry": Retry(NoBackoff(), 10)}


@pytest.mark.parametrize("name", MUTATING)
def test_one_effect(
    valkey: Callable[..., Client],
    server: Server,
    cutter: Cutter,
    name: str,
) -> None:
    calling, word = MUTATING[name], name.split(" ")[0]
    client = valkey(cutter.path, EAGER)
    expected = accident_free(client, server, calling)
    for head in (0, 3):
        server.flush()
        furnish(client)
        cutter.cut(f"\r\n{word}\r\n", head=head)
        assert (calling(client), keyspace(server)) == expected
        assert cutter.cuts == 1
        sent = [request for request in cutter.seen if b"ql:!" in request]
        assert len(sent) == 2
        assert sent[0] == sent[1], "the repeat is the same request"


@pytest.mark.parametrize("name", READING)
def test_reads_are_repeated(
    valkey: Callable[..., Client], server: Server, cutter: Cutter, name: str
) -> None:
    client = valkey(cutter.path, EAGER)
    expected = accident_free(client, server, READING[name])
    cutter.cut(f"\r\n{name}\r\n")
    assert (READING[name](client), keyspace(server)) == expected
    assert cutter.cuts == 1


def test_a_refusal_that_is_lost_is_given_again(
    valkey: Callable[..., Client], server: Server, cutter: Cutter
) -> None:
    client = valkey(cutter.path)
    furnish(client)
    cutter.cut("fail")
    with pytest.raises(LockLost):
        client.fail("held", "999", "group", "message")
    assert cutter.cuts == 1


def test_a_reply_may_be_lost_again_and_again(
    valkey: Callable[..., Client], server: Server, cutter: Cutter
) -> None:
    client = valkey(cutter.path)
    client.put("", "q", "a", "k", "{}")
    cutter.cut("settle", times=4)
    (job,) = client.settle("w", [], 1, ["q"]).jobs
    assert cutter.cuts == 4
    assert job.token == client.meta()["token"]


def test_when_patience_ends_the_caller_is_told(
    valkey: Callable[..., Client], server: Server, cutter: Cutter
) -> None:
    client = valkey(cutter.path, patience=0.05)
    client.put("", "q", "a", "k", "{}")
    cutter.cut("put", times=1_000_000)
    with pytest.raises(ConnectionLost, match="once, or not at all"):
        client.put("", "q", "b", "k", "{}")
    cutter.cut("nothing")
    # The next call of the same lane has a new number, so it is not taken for a repeat.
    assert client.put("", "q", "c", "k", "{}") == "c"
    assert client.length("q") == 3


def test_a_server_that_is_gone(valkey: Callable[..., Client]) -> None:
    client = valkey("/nowhere/server.sock", patience=0.02)
    with pytest.raises(NotReached, match=r"/nowhere/server\.sock") as caught:
        client.put("", "q", "a", "k", "{}")
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    assert "nothing was sent" in str(caught.value)
    with pytest.raises(NotReached):
        client.server_info()


def test_a_server_that_goes_after_a_request_was_sent(
    valkey: Callable[..., Client], server: Server, cutter: Cutter
) -> None:
    client = valkey(cutter.path, patience=0.05)
    client.put("", "q", "a", "k", "{}")
    cutter.cut("put")
    away = Path(f"{cutter.path}.away")
    Path(cutter.path).rename(away)
    # The first attempt got through; those after it find no server.
    with pytest.raises(ConnectionLost, match="once, or not at all") as lost:
        client.put("", "q", "b", "k", "{}")
    away.rename(cutter.path)
    assert not isinstance(lost.value, NotReached)


def test_a_read_that_is_lost_has_changed_nothing(
    valkey: Callable[..., Client], server: Server, cutter: Cutter
) -> None:
    client = valkey(cutter.path, patience=0.05)
    client.put("", "q", "a", "k", "{}")
    cutter.cut("length", times=1_000_000)
    with pytest.raises(ReadLost, match="only reads: nothing was changed"):
        client.length("q")


def test_asyncio_tells_the_same(server: Server, cutter: Cutter) -> None:
    async def body() -> None:
        gone = redis.asyncio.Redis(unix_socket_path="/nowhere/server.sock")
        async with AsyncClient(gone, patience=0.02) as client:
            with pytest.raises(NotReached):
                await client.put("", "q", "a", "k", "{}")
        there = redis.asyncio.Redis(unix_socket_path=cutter.path)
        async with AsyncClient(there, patience=0.05) as client:
            cutter.cut("put", times=1_000_000)
            with pytest.raises(ConnectionLost, match="once, or not at all") as lost:
                await client.put("", "q", "b", "k", "{}")
            assert not isinstance(lost.value, NotReached)

    asyncio.run(body())


def test_a_server_that_restarts(server: Server) -> None:
    with server.client() as redis_client, Client(redis_client) as client:
        client.put("", "q", "a", "k", "{}")
        server.restart()
        assert client.put("", "q", "b", "k", "{}") == "b"
        assert client.get("b") is not None
