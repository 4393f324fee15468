"""Waiting for many jobs at once: one wait, not one for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from django_qless.conf.connections import connections
from django_qless.core import arguments
from django_qless.core.monotonic import monotonic
from django_qless.core.request import Steps, adrive, drive
from django_qless.exceptions import JobGone, ResultNotReady
from django_qless.job_types.handle import JobHandle


def wait_all(
    handles: Iterable[JobHandle[Any]], timeout: float | None = None
) -> list[JobHandle[Any]]:
    """Wait until all of these jobs have ended; return them as they are then.

    Complete, failed or canceled, in the order given. Raises ResultNotReady after
    `timeout` seconds (None: wait for ever), which says how many go on, and JobGone if
    nothing is known of one: a record that the history has dropped is not missed where the
    handle says complete, or the result is kept.
    """
    return drive(_waiting(connections.__getitem__, list(handles), timeout))


async def await_all(
    handles: Iterable[JobHandle[Any]], timeout: float | None = None
) -> list[JobHandle[Any]]:
    """Wait as `wait_all` does, from asynchronous code."""
    return await adrive(_waiting(connections.aclient, list(handles), timeout))


def _waiting(
    client_of: Callable[[str], Any],
    handles: Sequence[JobHandle[Any]],
    timeout: float | None,
) -> Steps[list[JobHandle[Any]]]:
    deadline = _deadline(timeout)
    ended: dict[tuple[str, str], Any] = {}
    for alias, jids in _by_alias(handles).items():
        client = client_of(alias)
        states = yield client.await_ended(jids, _left(deadline))
        gone = {jid for jid in jids if states.get(jid) == ""}
        if gone:
            known = yield from _known(client, alias, gone, handles)
            states |= dict.fromkeys(known, "complete")
        _check(jids, states, timeout)
        # Its record may be gone now, too.
        ended |= {(alias, jid): None for jid in jids if states[jid] == "complete"}
        ended |= {(alias, job.jid): job for job in (yield client.multiget(jids))}
    return _in_order(handles, ended)


def _known(
    client: Any,
    alias: str,
    jids: Collection[str],
    handles: Sequence[JobHandle[Any]],
) -> Steps[list[str]]:
    """Return those of these jobs without a record that are known to be complete."""
    of_alias = [each for each in handles if each.alias == alias and each.jid in jids]
    known = {each.jid for each in of_alias if each.state == "complete"}
    left = [jid for jid in jids if jid not in known]
    texts = (yield client.results_text(left)) if left else []
    kept = zip(left, texts, strict=True)
    return [*known, *(jid for jid, text in kept if text is not None)]


def _by_alias(handles: Sequence[JobHandle[Any]]) -> dict[str, list[str]]:
    jids: dict[str, list[str]] = {}
    for handle in handles:
        handle._check_enqueued()
        jids.setdefault(handle.alias, []).append(handle.jid)
    return {alias: list(dict.fromkeys(names)) for alias, names in jids.items()}


def _deadline(timeout: float | None) -> float | None:
    timeout = arguments.timeout(timeout)
    return None if timeout is None else monotonic() + timeout


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - monotonic())


def _check(jids: Sequence[str], states: dict[str, str], timeout: float | None) -> None:
    gone = [jid for jid in jids if states.get(jid) == ""]
    if gone:
        raise JobGone(f"There is no job {gone[0]}" + _and_more(gone))
    going_on = [jid for jid in jids if jid not in states]
    if going_on:
        raise ResultNotReady(
            f"Job {going_on[0]}{_and_more(going_on)} of {len(jids)} has not ended "
            f"after {timeout or 0:g} s"
        )


def _and_more(jids: Sequence[str]) -> str:
    return f" (and {len(jids) - 1} more)" if len(jids) > 1 else ""


def _in_order(
    handles: Sequence[JobHandle[Any]], ended: dict[tuple[str, str], Any]
) -> list[JobHandle[Any]]:
    found: list[JobHandle[Any]] = []
    for handle in handles:
        place = (handle.alias, handle.jid)
        if place not in ended:
            raise JobGone(f"There is no job {handle.jid} ({handle.name})")
        job = ended[place]
        found.append(JobHandle(handle.alias, job) if job else handle._as_complete())
    return found
