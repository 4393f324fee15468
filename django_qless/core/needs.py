"""What a job was made to depend on, and what that has spawned: in several calls."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeAlias

from . import arguments
from .calls import Call

if TYPE_CHECKING:
    from .client import AsyncClient, Client

#: Part of a list: each jid, and how many jobs it has spawned.
Page: TypeAlias = list[tuple[str, int]]
Steps: TypeAlias = Generator[Call[Page], Page, list[str]]


def steps_to_needs(jid: str) -> Steps:
    """Say which lists to read; return the jids, each followed by what it has spawned."""
    found: dict[str, None] = {}
    yield from _collect("needs", arguments.known("jid", jid), found)
    return list(found)


def _collect(
    command: str, jid: str, found: dict[str, None]
) -> Generator[Call[Page], Page, None]:
    # What is still to be read, the next last: jobs with what they have spawned.
    lists: list[tuple[str, str, int]] = [(command, jid, 0)]
    while lists:
        command, owner, offset = lists.pop()
        page = yield Call(
            command, (owner, offset, arguments.MOST_ITEMS), "read", _read_page
        )
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


def follow(client: Client, steps: Steps) -> list[str]:
    """Make the calls that the steps say, and return their result."""
    try:
        call = next(steps)
        while True:
            call = steps.send(client.run(call))
    except StopIteration as end:
        jids: list[str] = end.value
        return jids


async def afollow(client: AsyncClient, steps: Steps) -> list[str]:
    """Make the calls that the steps say, and return their result."""
    try:
        call = next(steps)
        while True:
            call = steps.send(await client.run(call))
    except StopIteration as end:
        jids: list[str] = end.value
        return jids


def _read_page(reply: list[str | int]) -> Page:
    return [
        (str(jid), int(number))
        for jid, number in zip(reply[::2], reply[1::2], strict=True)
    ]
