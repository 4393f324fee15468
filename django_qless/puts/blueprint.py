"""What the Lua core is told of the jobs of one plan: their puts, as values and packed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django_qless.core import Put
from django_qless.core.protocol import Argument, Packed, pack
from django_qless.core.put import PreparedPut, rare_options
from django_qless.exceptions import InvalidOption
from django_qless.puts.parcel import MOST_DEPENDENCIES, Item
from django_qless.registry import JobType

if TYPE_CHECKING:
    from django_qless.core.calls import Call
    from django_qless.options import Options

# How the Lua core calls the ends of a key's reign.
UNTIL = {"waiting": "start", "running": "end"}

UNIQUE = Put._fields.index("unique")


class Blueprint:
    """Makes the puts of jobs that have all but their data, context and key in common."""

    __slots__ = (
        *("_after", "_after_jids", "_keyed", "_keys", "_prepared"),
        *("depends", "has_many", "is_late", "shape"),
    )

    def __init__(self, job_type: JobType, options: Options) -> None:
        _must_be_of_alias(job_type, options)
        self._after, self._after_jids = options.after, options.after_jids
        #: What the options say that the jobs depend on.
        self.depends = self._named()
        #: Whether one call cannot name all of that.
        self.has_many = len(self.depends) > MOST_DEPENDENCIES
        #: Whether it shows only at the put: another job may stand for one of these.
        self.is_late = any(getattr(each, "pending", False) for each in options.after)
        expires = options.expires
        moment = expires.timestamp() if isinstance(expires, datetime) else None
        #: What is common to all of them.
        self.shape = Put(
            jid="",
            queue=options.queue,
            klass=job_type.name,
            data="",
            delay=options.delay,
            # A new job has 0 without being told, one that is put again keeps its own.
            priority=options.priority if options.jid else options.priority or None,
            retries=options.retries,
            tags=options.tags or (() if options.jid else None),
            depends=() if self.is_late else self.depends[:MOST_DEPENDENCIES],
            open=self.has_many and not self.is_late,
            on_failure="" if options.on_failure == "block" else options.on_failure,
            expires=None if isinstance(expires, datetime) else expires,
            # Times stay times: the server compares them with its own clock.
            at=options.run_at.timestamp() if options.run_at else None,
            expires_at=moment,
        )
        until = options.unique_for
        self._keyed = self.shape._replace(
            unique_until=UNTIL[until] if isinstance(until, str) else until,
            conflict="replace" if options.debounce else options.on_conflict,
            debounce=options.debounce,
            debounce_max=options.debounce_max,
        )
        self._prepared = PreparedPut(self.shape)
        #: What a key is followed by, packed, for each way to deal with a conflict.
        self._keys: dict[str, Packed] = {}

    def pending(self) -> list[str]:
        """Return the jids of jobs to come first that wait for their own commit."""
        if not self.is_late:
            return []
        return [each.jid for each in self._after if getattr(each, "pending", False)]

    def call(self, item: Item, worker: str) -> Call[str | None]:
        """Return the call that puts one job."""
        handle = item.handle
        if self.is_late or item.after or item.spare:
            put = self.put_of(item)
            return PreparedPut(put).call(worker, handle.jid, handle.data)
        more: tuple[Argument, ...] = ()
        if item.context:
            more = ("context", item.context)
        if item.key:
            more += ("unique", item.key, self._of_key(item.conflict))
        return self._prepared.call(worker, handle.jid, handle.data, *more)

    def put_of(self, item: Item) -> Put:
        """Return a job as it is put if that happens now."""
        handle, key, context, after = item.handle, item.key, item.context, item.after
        shape = self._keyed if key else self.shape
        # Ten thousand at a time: as tuples they are made in a fifth of the time.
        put = Put._make((handle.jid, *shape[1:3], handle.data, *shape[4:]))
        if key or context or after or self.is_late:
            changes: dict[str, Any] = {"context": context}
            if key:
                changes["unique"] = key
            if item.conflict:
                changes["conflict"] = item.conflict
            if after or self.is_late:
                depends = self.depends_of(item)
                changes["depends"] = depends[:MOST_DEPENDENCIES]
                changes["open"] = len(depends) > MOST_DEPENDENCIES
            put = put._replace(**changes)
        if not item.spare:
            return put
        # Nobody is waited for who might put it again: another job waits for it.
        return put._replace(spare=True, debounce=None, debounce_max=None)

    def puts_of(self, items: Iterable[Item]) -> Iterator[Put]:
        """Yield many jobs of this plan as they are put if that happens now."""
        now, keyed = self.shape, self._keyed
        head, put = now[1:3], Put._make
        context, tail, key_tail = now.context, now[4:], keyed[4:]
        # Ten thousand at a time: as tuples they are made in a fifth of the time.
        for item in items:
            if item.after or item.spare or item.conflict or self.is_late:
                yield self.put_of(item)
                continue
            if item.context != context:
                context = item.context
                tail = now._replace(context=context)[4:]
                key_tail = keyed._replace(context=context)[4:]
            handle, key = item.handle, item.key
            if not key:
                yield put((handle.jid, *head, handle.data, *tail))
            else:
                before, after = key_tail[: UNIQUE - 4], key_tail[UNIQUE - 3 :]
                yield put((handle.jid, *head, handle.data, *before, key, *after))

    def is_staged(self, item: Item) -> bool:
        """Return whether the job takes several calls, because it depends on so many."""
        most = len(self.depends) + len(item.after)
        return (
            most > MOST_DEPENDENCIES and len(self.depends_of(item)) > MOST_DEPENDENCIES
        )

    def further(self, item: Item) -> Sequence[str]:
        """Return the dependencies that further calls name."""
        if len(self.depends) + len(item.after) <= MOST_DEPENDENCIES:
            return ()
        return self.depends_of(item)[MOST_DEPENDENCIES:]

    def depends_of(self, item: Item) -> tuple[str, ...]:
        """Return what a job depends on, as it is called now."""
        if not item.after and not self.is_late:
            return self.depends
        named = self._named() if self.is_late else self.depends
        # What is put by the same call has to be among those that this call names.
        ahead = [handle.jid for handle in item.after]
        return tuple(dict.fromkeys([*ahead, *named]))

    def _named(self) -> tuple[str, ...]:
        """Return what the options say that a job depends on, as it is called now."""
        jids = [each.jid for each in self._after]
        return tuple(dict.fromkeys([*jids, *self._after_jids]))

    def _of_key(self, conflict: str) -> Packed:
        """Return the options of a job that has a key, but for the key."""
        found = self._keys.get(conflict)
        if found is None:
            put = Put("", "", "", "", unique="-")._replace(
                unique_until=self._keyed.unique_until,
                conflict=conflict or self._keyed.conflict,
                debounce=self._keyed.debounce,
                debounce_max=self._keyed.debounce_max,
            )
            found = self._keys[conflict] = pack(rare_options(put)[2:])
        return found


def _must_be_of_alias(job_type: JobType, options: Options) -> None:
    for handle in options.after:
        alias = getattr(handle, "alias", options.alias)
        if alias != options.alias:
            raise InvalidOption(
                f"{job_type.name}: job {handle.jid} is in alias {alias!r}; a job in "
                f"{options.alias!r} cannot depend on it"
            )
