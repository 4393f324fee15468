"""Cancelling any number of jobs, some of which may wait for others of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from django_qless.core import Each

if TYPE_CHECKING:
    from django_qless.core import Client

#: Jobs that one call cancels.
CHUNK = 250

#: How often what was refused is tried again.
ROUNDS = 10

#: What could not be cancelled and is named.
SHOWN = 5


def cancel_all(client: Client, jids: Sequence[str]) -> Each:
    """Cancel those of the jobs that can be; return these, and why the others cannot.

    A job goes after those that wait for it, and lists mostly have these behind it: so the
    last come first. What is refused is tried again as long as that helps, as the job that
    waits for it may have been in another call.
    """
    done: set[str] = set()
    refused: dict[str, str] = {}
    left = list(dict.fromkeys(jids))
    for _ in range(ROUNDS):
        refused = {}
        for end in range(len(left), 0, -CHUNK):
            each = client.cancel_each(left[max(end - CHUNK, 0) : end])
            done.update(each.done)
            refused |= each.refused
        if not refused or len(refused) == len(left):
            break
        left = [jid for jid in left if jid in refused]
    return Each([jid for jid in dict.fromkeys(jids) if jid in done], refused)


def left(refused: dict[str, str]) -> Iterator[str]:
    """Yield lines that say what was not cancelled, and why."""
    for words in list(refused.values())[:SHOWN]:
        yield f"left: {words}"
    if len(refused) > SHOWN:
        yield f"… and {len(refused) - SHOWN:,} more"
