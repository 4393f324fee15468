"""How a call becomes a job: now or at the commit, one or many, blocking or asyncio."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any

from django_qless.connections import connections
from django_qless.core import new_jid
from django_qless.exceptions import InvalidOption, NotPut
from django_qless.handle import JobHandle
from django_qless.options.backoff import Exponential
from django_qless.puts import carriers, outlet
from django_qless.puts.ahead import KEEP, NOTHING, Ahead
from django_qless.puts.blueprint import Blueprint
from django_qless.puts.parcel import Item, Parcel
from django_qless.puts.unfound import warn_if_unfound
from django_qless.registry import CARRIED, JobType
from django_qless.values import from_json, to_json

if TYPE_CHECKING:
    from django_qless.functions import Arguments
    from django_qless.options import Options


class Plan:
    """Everything that the jobs of one `JobFunction` have in common, worked out once."""

    __slots__ = (
        *("_carried", "_context", "_databases", "_jid", "_on_commit", "alias"),
        *("blueprint", "job_type", "replaces"),
    )

    def __init__(self, job_type: JobType, options: Options) -> None:
        self.job_type = job_type
        self.alias = options.alias
        #: What the core is told of the jobs.
        self.blueprint = Blueprint(job_type, options)
        #: Whether a second put changes the job of the first.
        self.replaces = options.on_conflict == "replace" or bool(options.debounce)
        self._jid = options.jid
        self._on_commit = options.on_commit
        self._databases = outlet.databases_of(options.on_commit)
        self._carried = _carried(job_type, options)
        self._context = to_json(self._carried) if self._carried else None

    @property
    def carried(self) -> str | None:
        """The context of jobs that a schedule puts: without what is carried from here."""
        return self._context

    def put(
        self,
        data: str,
        key: str = "",
        databases: Collection[str] = (),
        conflict: str = "",
        ahead: Ahead = NOTHING,
    ) -> JobHandle[Any]:
        """Put one job, at once or at the commit; return its handle.

        `key` is what `uniqueness.py` makes, `conflict` what is done about it, if not what
        the options say; `databases` are those where its rows are, whose commits are
        awaited as well; `ahead` is put before it.
        """
        waits = self._waits(databases)
        if ahead is NOTHING:
            item = self.item(data, key, conflict=conflict, pending=bool(waits))
            outlet.ship(Parcel((item,)), waits)
            return item.handle
        items = self.group(data, key, conflict, ahead, pending=bool(waits))
        outlet.ship(Parcel(items), waits)
        return items[-1].handle

    async def aput(
        self,
        data: str,
        key: str = "",
        databases: Collection[str] = (),
        conflict: str = "",
        ahead: Ahead = NOTHING,
    ) -> JobHandle[Any]:
        """Put one job from asynchronous code; return its handle."""
        waits = self._waits(databases)
        items = self.group(data, key, conflict, ahead, pending=bool(waits))
        await outlet.aship(Parcel(items), waits)
        return items[-1].handle

    def put_absent(self, jobs: Iterable[tuple[str, str, str, str, Ahead]]) -> int:
        """Put jobs of given jid, data, key, conflict and what is ahead of them, at once.

        Leaves alone those that exist, so that repeating it adds none. Returns how many
        were new, without those that were put ahead of them.
        """
        context = self._capture()
        puts, jids = [], set()
        for jid, data, key, conflict, ahead in jobs:
            *first, item = self.group(
                data, key, conflict, ahead, jid=jid, context=context
            )
            puts += [each.put() for each in first]
            puts.append(item.put()._replace(absent=True))
            jids.add(jid)
        if not puts:
            return 0
        told = connections[self.alias].put_many("", puts)
        return len(jids.difference(told.left, told.instead))

    def item(
        self,
        data: str,
        key: str = "",
        after: tuple[JobHandle[Any], ...] = (),
        *,
        conflict: str = "",
        jid: str | None = None,
        pending: bool = False,
        context: str | None = None,
    ) -> Item:
        """Return one job to be put, with a new handle.

        `context` is what `capture` returned, if it was asked already.
        """
        blueprint = self.blueprint
        shape = blueprint.shape
        if after:
            depends = [*(handle.jid for handle in after), *self.blueprint.depends]
            shape = shape._replace(depends=depends)
        handle = JobHandle.of_put(
            self.alias, jid or self._jid or new_jid(), shape, data, pending=pending
        )
        if context is None:
            carried = carriers.capture(self.alias, self.job_type.name)
            context = self._context if carried is None else self._with(carried)
        return Item(self, handle, context, key, after, conflict)

    def group(
        self,
        data: str,
        key: str = "",
        conflict: str = "",
        ahead: Ahead = NOTHING,
        *,
        jid: str | None = None,
        pending: bool = False,
        context: str | None = None,
    ) -> list[Item]:
        """Return one job to be put, after those that are put only for its sake."""
        items: list[Item] = []
        for before in ahead.jobs:
            plan = plan_of(before.job_type)
            if plan.alias != self.alias:
                raise InvalidOption(
                    f"{self.job_type.name} comes after {before.job_type.name}, which is "
                    f"in alias {plan.alias!r}; a job in {self.alias!r} cannot depend on it"
                )
            after = tuple(items[place].handle for place in before.after)
            item = plan.item(before.data, before.key, after, pending=pending)
            items.append(item._replace(conflict=KEEP, spare=True))
        after = tuple(items[place].handle for place in ahead.after)
        last = self.item(
            data,
            key,
            after,
            conflict=conflict,
            jid=jid,
            pending=pending,
            context=context,
        )
        return [*items, last]

    def items(self, jobs: Sequence[Arguments]) -> tuple[list[Item], list[str]]:
        """Return jobs to be put, and the databases whose commits they wait for.

        Raises NotPut if one that they depend on would be put only later.
        """
        if self._jid is not None and len(jobs) > 1:
            raise InvalidOption(
                f"{self.job_type.name}: jid={self._jid!r} can name one job, not "
                f"{len(jobs)}"
            )
        waits = self._waits(
            set(chain.from_iterable(map(attrgetter("databases"), jobs)))
        )
        alias, shape, pending = self.alias, self.blueprint.shape, bool(waits)
        context, of_put = self._capture(), JobHandle.of_put
        if any(map(partial(is_not, NOTHING), map(attrgetter("ahead"), jobs))):
            return [
                item
                for job in jobs
                for item in self.group(
                    *(job.data, job.key, job.conflict, job.ahead),
                    pending=pending,
                    context=context,
                )
            ], waits
        return [
            Item(
                self,
                of_put(alias, self._jid or new_jid(), shape, job.data, pending=pending),
                context,
                job.key,
                (),
                job.conflict,
            )
            for job in jobs
        ], waits

    def _waits(self, databases: Collection[str]) -> list[str]:
        """Return the databases whose commit is to be waited for.

        Raises NotPut if a job that this one depends on would be put only later.
        """
        warn_if_unfound(self.job_type)
        names = self._databases
        if databases:
            names = outlet.databases_of(self._on_commit, *databases)
        waits = outlet.open_ones(self.job_type.name, names) if names else []
        if not waits and self.blueprint.is_late:
            for jid in self.blueprint.pending():
                raise NotPut(
                    f"{self.job_type.name} would be put before job {jid}, on which it "
                    "depends"
                )
        return waits

    def _capture(self) -> str | None:
        """Return what a job that is put now has as its context, as JSON."""
        carried = carriers.capture(self.alias, self.job_type.name)
        return self._context if carried is None else self._with(carried)

    def _with(self, carried: dict[str, Any]) -> str:
        return to_json({**self._carried, carriers.MEMBER: carried})


@lru_cache(maxsize=1000)
def plan_of(job_type: JobType) -> Plan:
    """Return the plan of a job that is put as it is declared."""
    return Plan(job_type, job_type.options)


def _carried(job_type: JobType, options: Options) -> dict[str, Any]:
    """Return what a call changed of the options that the worker needs, and its data."""
    declared = job_type.options
    if options is declared:
        return {}
    changed = {
        name: getattr(options, name)
        for name in CARRIED
        if getattr(options, name) != getattr(declared, name)
    }
    backoff = changed.get("backoff")
    if isinstance(backoff, Exponential):
        changed["backoff"] = backoff.as_json()
    elif callable(backoff):
        raise InvalidOption(
            f"{job_type.name}: a function as backoff cannot travel with the job: give "
            "it to @job, or use a number, a list or exponential(…) here"
        )
    carried: dict[str, Any] = {"options": changed} if changed else {}
    if options.app_data:
        carried["app_data"] = from_json(options.app_data)
    return carried
