"""Cancellation of any number of jobs, some of which may depend on others of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from django_qless.core import BulkResult

if TYPE_CHECKING:
    from django_qless.core import Client

#: Jobs that one call cancels.
CHUNK = 250

#: Attempts for jobs that are refused.
ROUNDS = 10

#: Refusals that are printed.
SHOWN = 5


def cancel_all(client: Client, jids: Sequence[str]) -> BulkResult:
    """Cancel those of the jobs that can be; return these, and why the others cannot.

    A job goes after those that depend on it, which mostly follow it in lists: so the
    last come first. Refused jobs are tried again as long as that helps, since a dependent
    job may have been in another call.
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
    return BulkResult([jid for jid in dict.fromkeys(jids) if jid in done], refused)


def refusals(refused: dict[str, str]) -> Iterator[str]:
    """Yield lines with the jobs that were not cancelled, and why."""
    for text in list(refused.values())[:SHOWN]:
        yield f"left: {text}"
    if len(refused) > SHOWN:
        yield f"… and {len(refused) - SHOWN:,} more"
