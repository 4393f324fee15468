"""Bad arguments are refused before anything is sent; refusals of the core write nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import redis

from django_qless.core import (
    BadArgument,
    Client,
    DependencyCycle,
    HasDependents,
    JobNotFound,
    LockLost,
    Put,
    QlessError,
    ScheduleNotFound,
    Settlement,
    StaleRequest,
    TooBig,
    UnknownCommand,
    WrongState,
)
from django_qless.core.request import Command, drive
from django_qless.core.retry import to_qless_error
from tests.core.keyspace import difference, snapshot

if TYPE_CHECKING:
    from tests.real_servers import Server

NAN, INF = float("nan"), float("inf")
BIG = '"' + "x" * (512 * 1024) + '"'
LONG = "n" * 256

# Replies that are kept are not text.
AS_TEXT = {"decode_responses": True, "encoding_errors": "surrogateescape"}

Calling = Callable[[Client], Any]


def put(**options: Any) -> Calling:
    """Return a put with these options."""
    values = {
        "queue": "q",
        "jid": "j",
        "klass": "k",
        "data": "{}",
        "delay": 0,
    } | options
    return lambda client: client.put("", **values)


def put_many(**options: Any) -> Calling:
    """Return a put_many whose second item has these options."""
    values = {"queue": "q", "jid": "j", "klass": "k", "data": "{}"} | options
    return lambda client: client.put_many("", [Put("i", "q", "k", "{}"), Put(**values)])


def schedule(**options: Any) -> Calling:
    """Return a schedule_set with these options."""
    values = {"id": "s", "queue": "q", "klass": "k", "data": "{}"} | options
    return lambda client: client.schedule_set(**values)


def settle(*settlement: Any) -> Calling:
    """Return a settle of one job."""
    return lambda client: client.settle("w", [Settlement("j", "1", *settlement)], 0, [])


# What is called, and words that its message must have: the argument, the value, the remedy.
REFUSED: list[tuple[Calling, list[str]]] = [
    (put(queue=""), ["queue", "must not be empty"]),
    (put(queue=None), ["queue", "None"]),
    (put(queue=3), ["queue", "str", "3"]),
    (put(queue="a*"), ["queue", "a*", "without * and ?"]),
    (put(queue=LONG), ["queue", "255", "nnn"]),
    (put(queue="ü" * 128), ["queue", "255"]),
    (put(jid=""), ["jid", "must not be empty"]),
    (put(jid=b"j"), ["jid", "b'j'"]),
    (put(jid="x-history"), ["jid", "-history", "x-history"]),
    (put(jid="x-dependents"), ["jid", "-dependents"]),
    (put(jid="\ud800"), ["surrogate"]),
    (put(klass=""), ["klass"]),
    (put(data={"a": 1}), ["data", "{'a': 1}", "json.dumps"]),
    (put(data=None), ["data", "None", "json.dumps"]),
    (put(data=""), ["data", '"null"']),
    (put(data=BIG), ["data", "524,290", "524,288"]),
    (put(data='"\ud83c"'), ["surrogate", "UTF-8"]),
    (put(delay=NAN), ["delay", "finite", "nan"]),
    (put(delay=INF), ["delay", "finite", "inf"]),
    (put(delay="5"), ["delay", "number", "'5'"]),
    (put(delay=True), ["delay", "number", "True"]),
    (put(delay=None), ["delay", "number", "None"]),
    (put(priority="high"), ["priority", "high"]),
    (put(priority=NAN), ["priority", "nan"]),
    (put(retries=1.5), ["retries", "whole", "1.5"]),
    (put(retries=-1), ["retries", "at least 0", "-1"]),
    (put(retries=True), ["retries", "True"]),
    (put(retries=2**60), ["retries", "2**53"]),
    (put(tags="red"), ["tags", "list of str", "red"]),
    (put(tags=[1]), ["tags", "str", "1"]),
    (put(tags=[""]), ["tags", "must not be empty"]),
    (put(tags=[str(number) for number in range(33)]), ["33", "tags", "32"]),
    (put(tags=["\ud800"]), ["surrogate"]),
    (put(depends="a"), ["depends", "list of str", "'a'"]),
    (put(depends=[None]), ["depends", "None"]),
    (put(depends=[str(number) for number in range(1_001)]), ["1,001", "1,000"]),
    (put(context={"a": 1}), ["context", "JSON text", "{'a': 1}"]),
    (put(context="[]"), ["context", "object", "[]"]),
    (put(context='{"a":"' + "x" * 65_536 + '"}'), ["context", "65,536"]),
    (put(on_failure="panic"), ["on_failure", "block, cancel, run", "panic"]),
    (put(on_failure=None), ["on_failure", "None"]),
    (put(unique=""), ["unique", "must not be empty"]),
    (put(unique=LONG), ["unique", "255"]),
    (put(unique="k", unique_until="never"), ["unique_until", "start, end", "never"]),
    (put(unique="k", unique_until=0), ["unique_until", "above 0", "0"]),
    (put(unique="k", conflict="fight"), ["conflict", "keep, replace", "fight"]),
    (put(debounce=5), ["debounce needs unique"]),
    (put(unique="k", debounce=-5), ["debounce", "below 0", "-5"]),
    (put(unique="k", debounce="5"), ["debounce", "number", "'5'"]),
    (put(unique="k", debounce=5, delay=3), ["debounce", "delay of 3"]),
    (put(expires=NAN), ["expires", "nan"]),
    (put(at=5.0, delay=3), ["at says when", "no delay"]),
    (put(at=5.0, unique="k", debounce=5), ["at says when", "no debounce"]),
    (put(expires=5, expires_at=5.0), ["expires and expires_at exclude"]),
    (put(workflow=""), ["workflow", "must not be empty"]),
    (put_many(unique=""), ["item 1", "unique"]),
    (put_many(jid=""), ["item 1", "jid"]),
    (put_many(jid=LONG), ["item 1", "jid", "255"]),
    (put_many(jid="x-history"), ["item 1", "-history"]),
    (put_many(queue="a?"), ["item 1", "queue", "a?"]),
    (put_many(klass=None), ["item 1", "klass", "None"]),
    (put_many(data=BIG), ["item 1", "data", "524,288"]),
    (put_many(data=7), ["item 1", "data", "7"]),
    (put_many(data="\udfff"), ["item 1", "surrogate"]),
    (put_many(delay=NAN), ["item 1", "delay", "nan"]),
    (put_many(retries=-1), ["item 1", "retries", "-1"]),
    (put_many(tags=["a"] * 33), ["item 1", "33"]),
    (lambda client: client.put_many("", [("j", "q")]), ["item 0", "not a Put"]),
    (lambda client: client.put_many("", [None]), ["item 0", "not a Put"]),
    (settle("finish"), ["finish", "complete, fail, retry"]),
    (settle("fail", ("group",)), ["fail takes 2", "group"]),
    (settle("complete", ("result",)), ["complete takes 0 or 2 or 3", "result"]),
    (settle("complete", ("x" * 65_537, 5)), ["complete", "65,537", "65,536"]),
    (settle("complete", ("1", 5, BIG)), ["complete", "524,290"]),
    (settle("fail", ("g", None)), ["None"]),
    (settle("complete", (), INF), ["held", "finite", "inf"]),
    (settle("complete", (), NAN), ["held", "finite", "nan"]),
    (lambda client: client.settle("w", [], 1, ["q", []]), ["queues", "[]"]),
    (lambda client: client.schedule_tick([()] * 1_001), ["1,001 ticks", "1,000"]),
    (lambda client: client.put_workflow("", "f", []), ["at least one job"]),
    (lambda client: client.put_workflow("", "f/g", []), ["id may have", "f/g"]),
    (settle("retry", (NAN, "g", "m")), ["finite", "nan"]),
    (lambda client: client.settle("", [], 1, ["q"]), ["worker"]),
    (lambda client: client.settle("w", [], -1, ["q"]), ["count", "-1"]),
    (lambda client: client.settle("w", [], 1, "q"), ["queues", "list", "'q'"]),
    (lambda client: client.settle("w", [], 1, [""]), ["queues"]),
    (lambda client: client.settle("w", [], 1, ["q"], wait=INF), ["wait", "inf"]),
    (lambda client: client.settle("w", [()], 1, ["q"]), ["settlement", "()"]),
    (lambda client: client.beat("w", "[]", []), ["info", "[]"]),
    (lambda client: client.entity("q", ""), ["entity", "1 to 255 bytes", "''"]),
    (lambda client: client.entity("q", "ü" * 128), ["entity", "1 to 255", "üüü"]),
    (lambda client: client.entity("q", 5), ["entity", "text", "5"]),
    (lambda client: client.pop("q", "w", 1.5), ["count", "1.5"]),
    (lambda client: client.pop("q*", "w"), ["queue", "q*"]),
    (lambda client: client.complete("j", 1, "q", "{}"), ["token", "1"]),
    (lambda client: client.complete("j", "1", "q", []), ["data", "[]"]),
    (lambda client: client.fail("j", "1", "", "m"), ["group"]),
    (lambda client: client.fail("j", "1", "g", "m" * 65_537), ["message", "65,537"]),
    (lambda client: client.retry("j", "q", "1", -INF), ["delay", "-inf"]),
    (lambda client: client.progress("j", "1", 1.01), ["fraction", "1.01"]),
    (lambda client: client.progress("j", "1", NAN), ["fraction", "nan"]),
    (lambda client: client.get(""), ["jid"]),
    (lambda client: client.multiget([1]), ["jids", "1"]),
    (lambda client: client.multiget("abc"), ["jids", "list of str", "abc"]),
    (lambda client: client.lag("mail"), ["queues", "list of str", "mail"]),
    (lambda client: client.cancel([]), ["jids", "at least one"]),
    (lambda client: client.cancel(["j"] * 1_001), ["1,001", "1,000"]),
    (lambda client: client.tag("j", ["t"] * 33), ["33", "32"]),
    (lambda client: client.tagged("t", -1), ["offset", "-1"]),
    (lambda client: client.jobs("lost", "q"), ["lost", "running, stalled"]),
    (lambda client: client.log("j", "m", "[]"), ["details", "[]"]),
    (lambda client: client.pause([]), ["queues", "at least one"]),
    (lambda client: client.stats("q", NAN), ["date", "nan"]),
    (lambda client: client.config_set("o", None), ["None"]),
    (lambda client: client.recur("q", "r", "k", "{}", 0), ["interval", "above 0"]),
    (lambda client: client.recur("q", "r", "k", "{}", NAN), ["interval", "nan"]),
    (schedule(), ["either every or cron"]),
    (schedule(every=1, cron="* * * * *"), ["either every or cron"]),
    (schedule(every=0.5), ["every", "at least 1 second", "0.5"]),
    (schedule(every=NAN), ["every", "nan"]),
    (schedule(every="hourly"), ["every", "hourly"]),
    (schedule(every=1, offset=INF), ["offset", "inf"]),
    (schedule(every=1, missed="some"), ["missed", "all, last, none", "some"]),
    (schedule(every=1, tags="red"), ["tags", "red"]),
    (schedule(every=1, context="[]"), ["context", "object"]),
    (schedule(every=1, unique="u" * 256), ["unique", "256", "255"]),
    (schedule(every=1, expires=-1), ["expires", "-1"]),
    (schedule(every=1, owner="o" * 256), ["owner", "255"]),
    (schedule(cron=5), ["cron", "5"]),
    (schedule(cron=""), ["cron", "empty"]),
    (schedule(id="i" * 201, every=1), ["id", "200"]),
    (schedule(id="x-history", every=1), ["-history"]),
    (schedule(queue="q*", every=1), ["queue", "q*"]),
    (lambda client: client.schedule_update("s"), ["something to change"]),
    (lambda client: client.schedule_update("s", every=5, cron="*"), ["not both"]),
    (lambda client: client.schedule_pause([]), ["ids", "at least one"]),
    (lambda client: client.schedule_list(-1), ["offset", "-1"]),
    (lambda client: client.schedule_due("w", 0), ["count", "0"]),
    (lambda client: client.recur_update("r"), ["something to change"]),
    (lambda client: client.recur_update("r", interval=-1), ["interval", "-1"]),
    (lambda client: client.bzpopmin(["k"], 0), ["seconds", "0 would be for ever"]),
    (lambda client: client.bzpopmin("k", 1), ["keys", "'k'"]),
]


@pytest.mark.parametrize(("calling", "words"), REFUSED)
def test_a_bad_argument_never_leaves(
    valkey: Callable[..., Client], server: Server, calling: Calling, words: list[str]
) -> None:
    client = valkey()
    before = connections(server)
    with pytest.raises(BadArgument) as caught:
        calling(client)
    for word in words:
        assert word in caught.value.detail
    assert len(caught.value.detail) < 500
    assert connections(server) == before + 1, "nothing but this test's question"


def connections(server: Server) -> int:
    """Return how many connections the server has ever had."""
    with server.client() as probe:
        received: int = probe.info("stats")["total_connections_received"]
        return received


def test_a_client_that_is_none() -> None:
    with pytest.raises(
        BadArgument, match=r"Client needs a redis\.Redis, not builtins\.str"
    ):
        Client("redis://localhost")


def pop(client: Client) -> tuple[str, str]:
    """Take a job."""
    client.put("", "q", "taken", "k", "{}")
    (job,) = client.settle("w", [], 1, ["q"]).jobs
    return job.jid, job.token


def state(client: Client) -> None:
    """Let a job wait for another, and one be held."""
    client.put("", "other", "first", "k", "{}")
    client.put("", "other", "second", "k", "{}", depends=["first"])
    pop(client)


# What the core refuses: the call, the exception.
CODES: list[tuple[Calling, type[QlessError]]] = [
    (put(data="{"), BadArgument),
    (put(data="NaN"), BadArgument),
    (put(data="[01]"), BadArgument),
    (put(data='"\t"'), BadArgument),
    (put_many(data="{"), BadArgument),
    (put(context="{]"), BadArgument),
    (put(depends=["nobody"]), JobNotFound),
    (put_many(depends=["nobody"]), JobNotFound),
    (put(jid="first", depends=["second"]), DependencyCycle),
    (put(jid="first", depends=["first"]), DependencyCycle),
    (lambda client: client.heartbeat("taken", "999"), LockLost),
    (lambda client: client.complete("taken", "999", "q", "{}"), LockLost),
    (lambda client: client.fail("taken", "999", "g", "m"), LockLost),
    (lambda client: client.retry("taken", "q", "999"), LockLost),
    (lambda client: client.release("taken", "999"), LockLost),
    (lambda client: client.progress("taken", "999", 0.5), LockLost),
    (lambda client: client.fail("nobody", "1", "g", "m"), JobNotFound),
    (lambda client: client.priority("nobody", 1), JobNotFound),
    (lambda client: client.log("nobody", "m"), JobNotFound),
    (lambda client: client.tag("nobody", "t"), JobNotFound),
    (lambda client: client.track("nobody"), JobNotFound),
    (lambda client: client.recur_update("nobody", priority=1), JobNotFound),
    (lambda client: client.schedule_update("nobody", priority=1), ScheduleNotFound),
    (lambda client: client.schedule_pause(["nobody"]), ScheduleNotFound),
    (lambda client: client.schedule_run("nobody"), ScheduleNotFound),
    (lambda client: client.timeout("first"), WrongState),
    (lambda client: client.depends_on("first", "taken"), WrongState),
    (lambda client: client.cancel("first"), HasDependents),
    (lambda client: client.depends_on("second", "second"), DependencyCycle),
    (lambda client: client.config_set("heartbeat", "abc"), BadArgument),
    (lambda client: client.run(Command("put.more", (), "write")), UnknownCommand),
    (lambda client: client.run(Command("cancel", ("j",) * 1_001, "drain")), TooBig),
]


@pytest.mark.parametrize(("calling", "raised"), CODES)
def test_what_the_core_refuses_writes_nothing(
    client: Client, each_server: Server, calling: Calling, raised: type[QlessError]
) -> None:
    state(client)
    with each_server.client(**AS_TEXT) as probe:
        before = snapshot(probe)
        with pytest.raises(raised) as caught:
            calling(client)
        assert type(caught.value) is raised
        assert caught.value.detail
        assert not caught.value.detail.startswith(("ERR", "user_"))
        assert difference(before, snapshot(probe)) == {}


def test_an_older_request_is_stale(client: Client) -> None:
    client.pause("q")
    connection = client.pool.acquire(1)
    call: Command[Any] = Command("pause", ("q",), "write")
    drive(connection.exchange(client.script.request(call, "somebody:2")))
    with pytest.raises(redis.ResponseError) as caught:
        drive(connection.exchange(client.script.request(call, "somebody:1")))
    assert isinstance(to_qless_error(caught.value), StaleRequest)
