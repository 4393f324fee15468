"""The subscriber hears what happens, and finds its way back after a loss."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from django_qless.core import (
    AsyncClient,
    BadArgument,
    Client,
    ConnectionLost,
    Event,
    NotPermitted,
)
from django_qless.core import events as module
from tests.client.jobs import Make, in_loop
from tests.real_servers import poll

if TYPE_CHECKING:
    from tests.real_servers import Server

#: Seconds of silence, in tests of it. A busy machine answers within them.
SOON = 0.5


def hang_up_subscribers(server: Server) -> int:
    """Cut the connections of all subscribers; return how many there were."""
    with server.client() as other:
        cut: int = other.client_kill_filter(_type="pubsub")
        return cut


def subscribers(server: Server) -> int:
    """Return how many connections listen to the log."""
    with server.client() as other:
        ((_, count),) = other.pubsub_numsub("ql:log")
        return int(count)


def test_events_of_the_log(valkey: Make) -> None:
    client = valkey()
    with client.events("log") as events:
        client.put("", "quäue", "a", "k", "{}")
        client.put("", "quäue", "b", "k", "{}")
        client.cancel("a")
        client.config_set("heartbeat", 5)
        first = events.next(5)
        assert first == Event(
            "put", "log", "a", {"jid": "a", "event": "put", "queue": "quäue"}
        )
        heard = [events.next(5) for _ in range(3)]
        assert [(event.event, event.jid) for event in heard if event] == [
            ("put", "b"),
            ("canceled", "a"),
            ("config_set", ""),
        ]
        assert events.next(0) is None


def test_events_of_a_worker_and_of_tracked_jobs(valkey: Make) -> None:
    client = valkey()
    client.put("", "q", "a", "k", "{}")
    client.track("a")
    with client.events("w:worker", "popped", "completed") as events:
        (job,) = client.settle("worker", [], 1, ["q"]).jobs
        assert events.next(5) == Event("popped", "popped", "a", {"jid": "a"})
        client.timeout("a")
        lost = events.next(5)
        assert lost is not None
        assert (lost.event, lost.channel, lost.jid) == ("lock_lost", "w:worker", "a")
        assert job.jid == "a"


def test_iterating_until_it_is_closed_by_another_thread(
    valkey: Make, server: Server
) -> None:
    client = valkey()
    heard: list[Event] = []
    with client.events() as events:
        thread = threading.Thread(target=lambda: heard.extend(events))
        thread.start()
        client.put("", "q", "a", "k", "{}")
        poll(lambda: heard, what="the event is heard")
        events.close()
        thread.join(5)
        assert not thread.is_alive()
    assert [event.jid for event in heard] == ["a"]
    poll(lambda: subscribers(server) == 0, what="the subscriber is gone")


def test_after_a_loss_it_reconnects_and_says_so(valkey: Make, server: Server) -> None:
    client = valkey()
    with client.events() as events:
        for jid in ("a", "b"):
            assert hang_up_subscribers(server) == 1
            reconnected = events.next(10)
            assert reconnected is not None
            assert reconnected.event == "reconnected"
            client.put("", "q", jid, "k", "{}")
            event = events.next(5)
            assert event is not None
            assert event.jid == jid


def test_it_waits_for_a_server_that_restarts(valkey: Make, server: Server) -> None:
    client = valkey()
    with client.events() as events:
        server.stop()
        assert events.next(0.1) is None
        server.start()
        event = events.next(20)
        assert event is not None
        assert event.event == "reconnected"


def test_a_silent_connection_is_given_up(
    valkey: Make, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENCE", SOON)
    client = valkey(options={"socket_timeout": 0.05})
    with client.events() as events, server.client() as other:
        # The server answers the question whether it is there.
        assert events.next(3 * SOON) is None
        connection = events._pubsub.connection
        # It does not answer any more.
        monkeypatch.setattr(events._pubsub, "ping", lambda: None)
        event = events.next(10)
        assert event is not None
        assert event.event == "reconnected"
        assert events._pubsub.connection is connection
        assert other.ping()


def test_messages_of_others_are_passed_over(valkey: Make, server: Server) -> None:
    client = valkey()
    with client.events() as events, server.client() as other:
        for text in ("", "[]", "{", b"\xff", "7"):
            other.publish("ql:log", text)
        client.put("", "q", "a", "k", "{}")
        event = events.next(5)
        assert event is not None
        assert event.jid == "a"


@pytest.mark.parametrize(
    ("channel", "text", "event"),
    [
        *[
            (name, "a-jid", Event(name, name, "a-jid", {"jid": "a-jid"}))
            for name in "put popped completed failed canceled stalled".split()
        ],
        ("track", "7", Event("track", "track", "7", {"jid": "7"})),
        ("untrack", "{", Event("untrack", "untrack", "{", {"jid": "{"})),
        ("log", '{"event":"x"}', Event("x", "log", "", {"event": "x"})),
        (
            "log",
            '{"event":"x","jid":null,"n":1}',
            Event("x", "log", "", {"event": "x", "jid": None, "n": 1}),
        ),
        (
            "w:put",
            '{"event":"order","jid":"j"}',
            Event("order", "w:put", "j", {"event": "order", "jid": "j"}),
        ),
        # The prefix is taken off once.
        ("ql:put", '{"event":"x"}', Event("x", "ql:put", "", {"event": "x"})),
    ],
)
def test_what_a_message_of_a_channel_stands_for(
    valkey: Make, server: Server, channel: str, text: str, event: Event
) -> None:
    with valkey().events(channel) as events, server.client() as other:
        other.publish(f"ql:{channel}", text)
        assert events.next(5) == event


def test_the_log_is_heard_unless_channels_are_named(valkey: Make) -> None:
    client = valkey()
    assert client.events()._channels == ["ql:log"]
    assert client.events("a", "b")._channels == ["ql:a", "ql:b"]


def test_it_listens_to_all_channels_when_it_is_open(
    valkey: Make, server: Server
) -> None:
    with (
        server.client() as other,
        valkey().events(*(f"c{number}" for number in range(5))) as events,
    ):
        # What is published to the last one at once is not missed.
        assert other.publish("ql:c4", '{"event":"x"}') == 1
        assert events.next(5) == Event("x", "c4", "", {"event": "x"})
        # No more than one of them is told of a loss.
        assert hang_up_subscribers(server) == 1
        heard = events.next(10)
        assert heard == Event("reconnected")
        assert other.publish("ql:c4", '{"event":"y"}') == 1
        assert events.next(5) == Event("y", "c4", "", {"event": "y"})


def test_what_has_arrived_is_returned_without_time_to_wait(
    valkey: Make, server: Server
) -> None:
    with valkey().events() as events, server.client() as other:
        other.publish("ql:log", '{"event":"x"}')
        poll(lambda: events.next(0), what="the event is there")
        assert events.next(0) is None
        assert events.next(-1) is None


def test_one_that_is_closed_returns_nothing_any_more(
    valkey: Make, server: Server
) -> None:
    events = valkey().events()
    with events:
        assert subscribers(server) == 1
    assert events.next() is None
    assert events.next(5) is None
    assert list(events) == []
    poll(lambda: subscribers(server) == 0, what="the subscriber is gone")


def test_a_user_who_may_not_subscribe_is_told(server: Server) -> None:
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "u", "reset", "on", ">p", "+@all", "~*")
        with (
            Client(server.client(username="u", password="p")) as client,
            pytest.raises(NotPermitted, match="&<prefix>"),
        ):
            client.events().next(5)
        admin.execute_command("ACL", "DELUSER", "u")


def test_a_server_that_is_not_there(valkey: Make) -> None:
    with pytest.raises(ConnectionLost, match="No subscription"):
        valkey("/nowhere/server.sock").events().open(0.05)


def test_channels_are_checked(valkey: Make) -> None:
    for channels in ([3], [""]):
        with pytest.raises(BadArgument, match="channels must"):
            valkey().events(*channels)


def test_asyncio_hears_the_same(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        await client.put("", "q", "a", "k", "{}")
        await client.track("a")
        async with client.events("log", "canceled") as events:
            assert await events.next(0.05) is None
            await client.put("", "q", "b", "k", "{}")
            event = await events.next(5)
            assert event is not None
            assert (event.event, event.jid) == ("put", "b")
            await client.cancel("a")
            heard = [await events.next(5) for _ in range(2)]
            assert {event.channel for event in heard if event} == {"log", "canceled"}
            assert await events.next(0) is None

    in_loop(server, body)


def test_asyncio_reconnects(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        async with client.events() as events:
            waiting = asyncio.create_task(events.next())
            await asyncio.sleep(0)
            assert await asyncio.to_thread(hang_up_subscribers, server) == 1
            event = await waiting
            assert event is not None
            assert event.event == "reconnected"
            await client.put("", "q", "a", "k", "{}")
            event = await events.next(5)
            assert event is not None
            assert event.jid == "a"

    in_loop(server, body)


def test_asyncio_iterates_until_it_is_closed(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        heard: list[str] = []
        first = asyncio.Event()

        async def listen() -> None:
            async for event in events:
                heard.append(event.jid)
                first.set()

        async with client.events() as events:
            task = asyncio.create_task(listen())
            await client.put("", "q", "a", "k", "{}")
            await first.wait()
            await events.close()
            await task
        assert heard == ["a"]
        assert await events.next() is None

    in_loop(server, body)


def test_asyncio_gives_up_a_silent_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENCE", SOON)

    async def nothing() -> None:
        """Say nothing."""

    async def body(client: AsyncClient) -> None:
        async with client.events() as events:
            assert await events.next(3 * SOON) is None
            monkeypatch.setattr(events._pubsub, "ping", nothing)
            event = await events.next(10)
            assert event is not None
            assert event.event == "reconnected"

    in_loop(server, body)


def test_asyncio_can_be_cancelled(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        async with client.events() as events:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(events.next(), 0.05)
            await client.put("", "q", "a", "k", "{}")
            # The connection was given up: what is published meanwhile is lost, and said.
            event = await events.next(5)
            assert event is not None
            assert event.event == "reconnected"

    in_loop(server, body)
