"""Finding the namespace of a job by its id.

The end of an id that we have drawn says where to look first: one call. For others, such as
those that users have chosen, all namespaces of the alias are asked at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from django_qless import conf
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.conf.each import aask_each, answers, ask_each
from django_qless.core import AsyncClient, AsyncJob, Client, Job, QlessError
from django_qless.core.arguments import MOST_ITEMS
from django_qless.exceptions import InvalidOption

T = TypeVar("T")

# Moves of a job that are followed.
_MOVES = 8


def find_job(
    alias: str,
    jid: str,
    client_of: Callable[[str], Client] = connections.__getitem__,
) -> tuple[str, Job] | None:
    """Return a job of an alias and the name of its namespace; None without one.

    Raises InvalidOption if several namespaces have such a job, and the error of a server
    that did not answer if no other has it.
    """

    def ask(client: Client) -> Job | None:
        return client.get(jid)

    for names in _rounds(alias, jid):
        found = _only(alias, jid, names, ask_each(names, ask, client_of))
        if found is None and len(names) == 1:
            # It may have been moved, into a namespace that answers though others do not.
            name = followed(names[0], jid, client_of)
            job = None if name == names[0] else ask(client_of(name))
            found = None if job is None else (name, job)
        if found is not None:
            return found
    return None


async def afind_job(alias: str, jid: str) -> tuple[str, AsyncJob] | None:
    """Asynchronous version of `find_job`."""

    def ask(client: AsyncClient) -> Awaitable[AsyncJob | None]:
        return client.get(jid)

    for names in _rounds(alias, jid):
        found = _only(alias, jid, names, await aask_each(names, ask))
        if found is None and len(names) == 1:
            name = await afollowed(names[0], jid)
            job = None if name == names[0] else await ask(connections.aclient(name))
            found = None if job is None else (name, job)
        if found is not None:
            return found
    return None


def followed(
    name: str,
    jid: str,
    client_of: Callable[[str], Client] = connections.__getitem__,
) -> str:
    """Return the namespace into which a job was moved from this one, if it was.

    One call, and one for each move. Asks nothing where there is one namespace only.
    """
    for _ in range(_MOVES if routing.is_routed(name) else 0):
        (target,) = client_of(name).moved([jid])
        if not target:
            break
        name = target
    return name


async def afollowed(name: str, jid: str) -> str:
    """Asynchronous version of `followed`."""
    for _ in range(_MOVES if routing.is_routed(name) else 0):
        (target,) = await connections.aclient(name).moved([jid])
        if not target:
            break
        name = target
    return name


def home_of(
    alias: str,
    jid: str,
    client_of: Callable[[str], Client] = connections.__getitem__,
) -> str:
    """Return the name of the namespace of a job; of an unknown job, the first.

    Asks nothing where there is one namespace only.
    """
    names = conf.namespaces_of(alias)
    if len(names) > 1 and (found := find_job(alias, jid, client_of)) is not None:
        return found[0]
    return names[0]


async def ahome_of(alias: str, jid: str) -> str:
    """Asynchronous version of `home_of`."""
    names = conf.namespaces_of(alias)
    if len(names) > 1 and (found := await afind_job(alias, jid)) is not None:
        return found[0]
    return names[0]


def homes_of(alias: str, jids: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids that each namespace has, with unknown ones in the first.

    One call to each namespace for each thousand.
    """
    names = conf.namespaces_of(alias)
    if len(names) == 1:
        return {names[0]: list(jids)}
    known = answers(ask_each(names, lambda client: _existing(client, jids)))
    homes: dict[str, list[str]] = {}
    for jid in jids:
        having = [name for name, some in zip(names, known, strict=True) if jid in some]
        if len(having) > 1:
            having = [home_of(alias, jid)]
        homes.setdefault(having[0] if having else names[0], []).append(jid)
    return homes


def _existing(client: Client, jids: Sequence[str]) -> set[str]:
    return {
        brief.jid
        for start in range(0, len(jids), MOST_ITEMS)
        for brief in client.brief(jids[start : start + MOST_ITEMS])
    }


def _rounds(alias: str, jid: str) -> Iterator[list[str]]:
    """Yield the namespaces to ask, those that are likely first."""
    likely = routing.likely_namespaces(alias, jid)
    yield likely
    others = [name for name in conf.namespaces_of(alias) if name not in likely]
    if others:
        yield others


def _only(
    alias: str, jid: str, names: Sequence[str], found: Sequence[T | QlessError | None]
) -> tuple[str, T] | None:
    """Return the only answer that is a job. Raises an error if there is none."""
    jobs = [
        (name, each)
        for name, each in zip(names, found, strict=True)
        if each is not None
        and not isinstance(each, QlessError)
        # What stands for a job of another namespace is not the job.
        and getattr(each, "elsewhere", None) is None
    ]
    if len(jobs) > 1:
        having = " and ".join(name for name, _ in jobs)
        raise InvalidOption(
            f"The namespaces {having} both have a job {jid!r}, so that "
            f"alias={alias!r} does not say which: name the namespace as alias=",
            enqueues=False,
        )
    if jobs:
        return jobs[0]
    answers(found)
    return None
