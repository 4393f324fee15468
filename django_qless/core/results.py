"""Waiting for results: until jobs or workflows have ended, and what a job depended on.

The core is told who waits for what, and feeds a list of the waiter's own when it ends. So
the waiter blocks on that list and then looks at the states, both in one round trip. The
wait is broken off every ten seconds to look all the same: an end of which nobody could
tell (by a copy of the core that is not ours, say) is seen then.

Of several, only the first that has not ended is watched: those behind it are looked at
once, when it has. So waiting for thousands costs no more than looking at each once, and
one wake-up for each that the others wait behind.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from . import arguments
from .calls import Call, Steps

Kind = Literal["job", "workflow"]

#: Seconds that one blocking call takes at most.
LOOK_AGAIN = 10.0

#: States in which nothing goes on by itself; "" is that of what does not exist.
ENDED = ("complete", "failed", "canceled", "")

# How many are asked about in one call.
_PART = 250

# Servers older than 7 take less for "for ever".
_SHORTEST = 0.01


class Watch(NamedTuple):
    """The answer to a look at some jobs or workflows."""

    #: The list to block on.
    key: str
    #: The states of the first of them.
    states: list[str]


def await_ended(
    client: Any, kind: Kind, ids: Sequence[str], seconds: float | None
) -> Steps[dict[str, str]]:
    """Wait until all of these have ended, or time is up.

    Returns the states of those that have ended; "" for what does not exist.
    """
    waiter = secrets.token_urlsafe(12)
    seconds = arguments.timeout(seconds)
    deadline = None if seconds is None else time.monotonic() + seconds
    left = list(dict.fromkeys(arguments.all_known("ids", ids, most=sys.maxsize)))
    states: dict[str, str] = {}
    watch = None
    while left:
        pause = LOOK_AGAIN if deadline is None else deadline - time.monotonic()
        if pause <= 0:
            break
        part = left[:_PART]
        call = _look(waiter, LOOK_AGAIN, kind, part)
        if watch is None:
            watch = yield from client.steps(call)
        else:
            seconds = max(_SHORTEST, min(pause, LOOK_AGAIN))
            watch = yield from _block(client.after([watch.key], seconds, call))
        states.update(zip(part, watch.states, strict=False))
        left = left[len(watch.states) :]
        if len(watch.states) == len(part):
            watch = None  # Nothing is watched now.
    for start in range(0, len(left), _PART):
        part = left[start : start + _PART]
        watch = yield from client.steps(_look(waiter, 0, kind, part))
        states.update(
            (id_, state)
            for id_, state in zip(part, watch.states, strict=True)
            if state in ENDED
        )
    return states


def time_left(timeout: float | None) -> Iterator[float | None]:
    """Yield how long to wait yet (None: for ever), until time is up.

    More than once only if a job goes on that was seen at its end: put again, say.
    """
    timeout = arguments.timeout(timeout)
    if timeout is None:
        while True:
            yield None
    deadline = time.monotonic() + timeout
    left = timeout
    while left > 0:
        yield left
        left = deadline - time.monotonic()
    if timeout <= 0:
        yield 0


def _block(after: Any) -> Steps[Watch]:
    try:
        watch: Watch = yield from after.steps()
    finally:
        after.abandon()
    if after.refusal is not None:
        # What the server has against the wait: it would be asked without pause.
        raise after.refusal
    return watch


def _look(waiter: str, seconds: float, kind: Kind, ids: Sequence[str]) -> Call[Watch]:
    return Call("await", (waiter, seconds, kind, *ids), "drain", _read)


def _read(reply: list[str]) -> Watch:
    return Watch(reply[0], reply[1:])


#: Part of a list: each jid, and how many jobs it has spawned.
Page: TypeAlias = list[tuple[str, int]]


def read_needs(client: Any, jid: str) -> Steps[list[str]]:
    """Return the jids, each followed by what it has spawned."""
    found: dict[str, None] = {}
    command, jid = "needs", arguments.known("jid", jid)
    # What is still to be read, the next last: jobs with what they have spawned.
    lists: list[tuple[str, str, int]] = [(command, jid, 0)]
    while lists:
        command, owner, offset = lists.pop()
        args = (owner, offset, arguments.MOST_ITEMS)
        call = Call(command, args, "read", _read_page)
        page = yield from client.steps(call)
        for index, (name, spawned) in enumerate(page):
            new = name not in found
            found[name] = None
            if spawned and new:
                lists.append((command, owner, offset + index + 1))
                lists.append(("offspring", name, 0))
                break
        else:
            if len(page) == arguments.MOST_ITEMS:
                lists.append((command, owner, offset + len(page)))
    return list(found)


def _read_page(reply: list[str | int]) -> Page:
    return [
        (str(jid), int(number))
        for jid, number in zip(reply[::2], reply[1::2], strict=True)
    ]
