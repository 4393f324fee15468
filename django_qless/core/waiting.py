"""Waiting until jobs or workflows have ended.

The waiter registers its own list with the core, which feeds it when one ends. The waiter
blocks on that list and then reads the states, both in one round trip. Every ten seconds it
reads them all the same: other clients (with an original copy of the core, say) end jobs
without feeding the list.

Of several, only the first that has not ended is watched: the states of those behind it are
read when it has. So waiting for thousands costs one read of each, and one wake-up for each
that the others wait behind.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from redis.exceptions import ResponseError

from . import arguments
from .connection import pack_command
from .monotonic import monotonic
from .request import Command, Steps
from .retry import FAILURES, is_lasting, repeat_request
from .states import ENDED

EndedKind = Literal["job", "workflow"]

#: Seconds that one blocking command takes at most.
LOOK_AGAIN = 10.0

# How many are asked about in one command.
_PART = 250

# Servers older than 7 take less for "for ever".
_SHORTEST = 0.01


class Watch(NamedTuple):
    """The list to block on, and the states of the first jobs or workflows."""

    key: str
    states: list[str]


def await_ended(
    client: Any, kind: EndedKind, ids: Sequence[str], seconds: float | None
) -> Steps[dict[str, str]]:
    """Wait until all of these have ended, or time is up.

    Returns the states of those that have ended; "" for what does not exist.
    """
    waiter = secrets.token_urlsafe(12)
    seconds = arguments.timeout(seconds)
    deadline = None if seconds is None else monotonic() + seconds
    left = list(dict.fromkeys(arguments.existing_names("ids", ids, most=sys.maxsize)))
    states: dict[str, str] = {}
    watch = None
    while left:
        pause = LOOK_AGAIN if deadline is None else deadline - monotonic()
        if pause <= 0:
            break
        part = left[:_PART]
        command = _await(waiter, LOOK_AGAIN, kind, part)
        if watch is None:
            watch = yield from client.steps(command)
        else:
            seconds = max(_SHORTEST, min(pause, LOOK_AGAIN))
            watch = yield from _wait_then(client, watch.key, seconds, command)
        states.update(zip(part, watch.states, strict=False))
        left = left[len(watch.states) :]
        if len(watch.states) == len(part):
            watch = None  # Nothing is watched now.
    for start in range(0, len(left), _PART):
        part = left[start : start + _PART]
        watch = yield from client.steps(_await(waiter, 0, kind, part))
        states.update(
            (id_, state)
            for id_, state in zip(part, watch.states, strict=True)
            if not state or state in ENDED
        )
    return states


def time_left(timeout: float | None) -> Iterator[float | None]:
    """Yield how long to wait still (None: for ever), until time is up.

    More than once only if a job goes on after its end: put again, say.
    """
    timeout = arguments.timeout(timeout)
    if timeout is None:
        while True:
            yield None
    deadline = monotonic() + timeout
    left = timeout
    while left > 0:
        yield left
        left = deadline - monotonic()
    if timeout <= 0:
        yield 0


def _wait_then(
    client: Any, key: str, seconds: float, command: Command[Watch]
) -> Steps[Watch]:
    """Wait for an element of a list, then execute a command: one round trip."""
    wait = pack_command("BLPOP", key, seconds)
    pool, script = client.pool, client.script
    connection = yield pool.acquire(client.patience)
    try:
        request_id = connection.next_request()
        try:
            yield from connection.send(wait + script.request(command, request_id))
            woken, reply = yield from connection.receive(seconds, None)
            if isinstance(woken, ResponseError) and is_lasting(woken):
                # The next wait would be refused too: it would ask without pause.
                raise woken
            if isinstance(reply, ResponseError):
                raise reply
        except FAILURES as error:
            reply = yield from repeat_request(
                *(error, connection, script, command, request_id, client.patience)
            )
    finally:
        pool.release(connection)
    return command.read(reply)


def _await(
    waiter: str, seconds: float, kind: EndedKind, ids: Sequence[str]
) -> Command[Watch]:
    return Command("await", (waiter, seconds, kind, *ids), "drain", _read_watch)


def _read_watch(reply: list[str]) -> Watch:
    key, *states = reply
    return Watch(key, states)


def read_needs(client: Any, jid: str) -> Steps[list[str]]:
    """Return the jids that a job depended on, each followed by its spawned jobs."""
    found: dict[str, None] = {}
    name, jid = "needs", arguments.existing("jid", jid)
    # Lists still to be read, the next last: a command, the job that it is about, an offset.
    lists: list[tuple[str, str, int]] = [(name, jid, 0)]
    while lists:
        name, owner, offset = lists.pop()
        args = (owner, offset, arguments.MOST_ITEMS)
        page = yield from client.steps(Command(name, args, "read", _read_page))
        for index, (job, spawned) in enumerate(page):
            new = job not in found
            found[job] = None
            if spawned and new:
                lists.append((name, owner, offset + index + 1))
                lists.append(("offspring", job, 0))
                break
        else:
            if len(page) == arguments.MOST_ITEMS:
                lists.append((name, owner, offset + len(page)))
    return list(found)


def _read_page(reply: list[str | int]) -> list[tuple[str, int]]:
    """Read jids from a list, each with the number of its spawned jobs."""
    return [
        (str(jid), int(number))
        for jid, number in zip(reply[::2], reply[1::2], strict=True)
    ]
