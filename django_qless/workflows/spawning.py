"""What a running job has to do with other jobs: it spawns some, and reads results."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_qless.connections import connections
from django_qless.core import Client, PutMany
from django_qless.exceptions import InvalidOption, ResultGone
from django_qless.functions import Arguments
from django_qless.puts import outlet
from django_qless.puts.enqueue import Plan, plan_of
from django_qless.puts.parcel import Item, Parcel
from django_qless.values import revive

if TYPE_CHECKING:
    from django_qless.core.calls import Call
    from django_qless.current import CurrentJob
    from django_qless.handle import JobHandle


class Brood(Parcel):
    """Jobs that a running job puts, so that who waits for it waits for them, too."""

    __slots__ = ("current",)

    def __init__(self, items: Sequence[Item], current: CurrentJob) -> None:
        super().__init__(items)
        self.current = current

    def _part(self, items: Sequence[Item]) -> Brood:
        return Brood(items, self.current)

    def _only(self) -> Item | None:
        return None

    def _steps(self) -> Generator[Call[Any], Any, None]:
        reserved = self.current.reserved
        calls: Any = Client.spawn.build(
            None,
            *(reserved.jid, reserved.token, self.current.worker, self.puts()),
        )
        done = 0
        for part, size in zip(calls.parts, calls.sizes, strict=True):
            told: PutMany = calls.combine([(yield part)])
            Parcel(self.items[done : done + size]).delivered(
                told.instead, set(told.left)
            )
            done += size


def spawn(
    alias: str, current: CurrentJob, jobs: Iterable[Arguments]
) -> list[JobHandle[Any]]:
    """Put jobs for a running job of this alias; return their handles."""
    brood, waits = _brood(alias, current, jobs)
    if brood is None:
        return []
    outlet.ship(brood, waits)
    return _handles(brood)


async def aspawn(
    alias: str, current: CurrentJob, jobs: Iterable[Arguments]
) -> list[JobHandle[Any]]:
    """Do the same from asynchronous code."""
    brood, waits = _brood(alias, current, jobs)
    if brood is None:
        return []
    await outlet.aship(brood, waits)
    return _handles(brood)


def dependency_results(alias: str, jid: str) -> dict[str, Any]:
    """Return what the jobs returned that a job had to wait for, by jid."""
    client = connections[alias]
    jids = client.needs(jid)
    texts = client.results_text(jids)
    _must_be_whole(client.results_cut(jids))
    return _read(jids, texts)


async def adependency_results(alias: str, jid: str) -> dict[str, Any]:
    """Do the same from asynchronous code."""
    client = connections.aclient(alias)
    jids = await client.needs(jid)
    texts = await client.results_text(jids)
    _must_be_whole(await client.results_cut(jids))
    # Rows may be among them, and are loaded.
    return await sync_to_async(_read)(jids, texts)


def _must_be_whole(cut: Sequence[str]) -> None:
    """Raise ResultGone if results were dropped that should be there still."""
    if cut:
        more = f" (and {len(cut) - 1} more)" if len(cut) > 1 else ""
        raise ResultGone(
            f"This job depends on job {cut[0]}{more}, and what that returned is gone: more "
            "results than results-count or results-bytes allow came after it"
        )


def _read(jids: Sequence[str], texts: Sequence[str | None]) -> dict[str, Any]:
    found = {
        jid: json.loads(text)
        for jid, text in zip(jids, texts, strict=True)
        if text is not None
    }
    # All at once: rows are loaded with one query for each model.
    values: list[Any] = revive(list(found.values()))
    return dict(zip(found, values, strict=True))


def _brood(
    alias: str, current: CurrentJob, jobs: Iterable[Arguments]
) -> tuple[Brood | None, Sequence[str]]:
    given = list(jobs)
    for each in given:
        _must_suit(alias, each)
    items: list[Item] = []
    waits: dict[str, None] = {}
    for (job_type, options), run in groupby(given, attrgetter("job_type", "options")):
        plan = plan_of(job_type) if options is None else Plan(job_type, options)
        made, names = plan.items(list(run))
        for item in made:
            if plan.blueprint.is_staged(item):
                raise InvalidOption(
                    f"{job_type.name}: spawn() takes jobs with at most 1,000 "
                    f"dependencies"
                )
        items += made
        waits.update(dict.fromkeys(names))
    if waits:
        for item in items:
            item.handle.pending = True
    return (Brood(items, current) if items else None), list(waits)


def _must_suit(alias: str, job: object) -> None:
    if not isinstance(job, Arguments):
        raise InvalidOption(
            f"spawn() takes what .args() returns, as spawn([fetch.args(url)]), not "
            f"{job!r}"
        )
    theirs = (job.options or job.job_type.options).alias
    if theirs != alias:
        raise InvalidOption(
            f"{job.job_type.name} is in alias {theirs!r}, and a job in {alias!r} can "
            f"spawn only where it is itself: use .using(alias={alias!r}).args(…)"
        )


def _handles(brood: Brood) -> list[JobHandle[Any]]:
    return [item.handle for item in brood.items if not item.spare]
