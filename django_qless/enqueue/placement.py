"""Placement: the namespace of each job, and what one namespace must have together.

A queue that is split has partitions. A job goes to that of its concurrency key, or else of
its unique key, or else of the jid that it is given; others take turns. What a job depends on
binds it to the partition of that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django_qless.conf import routing
from django_qless.exceptions import InvalidOption
from django_qless.serialization.json_values import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.enqueue.limit_keys import LimitKeys
    from django_qless.job_types.options import Options
    from django_qless.job_types.registry import JobType


def check_namespaces(job_type: JobType, options: Options) -> str:
    """Raise InvalidOption for what would have to be in two namespaces.

    Returns the partition that the dependencies bind the jobs to, "" for none.
    """
    bound = bound_to(job_type, options)
    own = bound or routing.namespace(options)
    for handle in options.after:
        _check_dependency(job_type, options, own, handle)
    declared = job_type.options
    if options.alias == declared.alias:
        unique = None if options.unique_scope == "global" else options.unique
        for given, what in ((unique, "its unique key"), (options.jid, "a jid")):
            if given is not None:
                whose = f"{job_type.name}: {what} holds within one namespace"
                home = routing.namespace(declared)
                routing.check_stays(whose, home, declared.queue, options.queue)
    return bound


def _check_dependency(
    job_type: JobType, options: Options, own: str, handle: Any
) -> None:
    """Raise InvalidOption if a job of the namespace `own` cannot depend on this one."""
    alias = getattr(handle, "alias", own)
    if alias == own:
        return
    is_split = bool(routing.partitions_of(options.alias, options.queue))
    if is_split or routing.alias_of(alias) != routing.alias_of(own):
        queue = getattr(handle, "queue", "")
        raise InvalidOption(
            f"{job_type.name}: job {handle.jid} is {routing.place(alias, queue)}; a "
            f"job {routing.place(own, options.queue)} cannot depend on it"
            f"{routing.remedy(own)}"
        )
    if getattr(handle, "pending", False):
        raise InvalidOption(
            f"{job_type.name}: job {handle.jid} is in namespace {alias!r} and not "
            "enqueued yet: enqueue it at once, with on_commit=False, or the job that "
            "depends on it later"
        )


def bound_to(job_type: JobType, options: Options) -> str:
    """Return the partition to which its dependencies bind a job, "" without any.

    Ids alone say it by their ends, if we have drawn them. Raises InvalidOption for jobs of
    several partitions.
    """
    names = routing.partitions_of(options.alias, options.queue)
    if not names:
        return ""
    if options.alias in names:
        return options.alias
    places = [getattr(handle, "alias", "") for handle in options.after]
    for jid in options.after_jids:
        places += routing.marked(jid, names)[:1]
    found = dict.fromkeys(name for name in places if name in names)
    if len(found) > 1:
        raise InvalidOption(
            f"{job_type.name}: it would depend on jobs of several partitions of the queue "
            f"{options.queue!r}: {', '.join(found)}. {routing.REMEDY}"
        )
    return next(iter(found), "")


def within(options: Options, name: str) -> Options:
    """Return the options of a job that goes with others in this namespace.

    If that is a partition of its queue it is bound to it.
    """
    if name in routing.partitions_of(options.alias, options.queue):
        return replace(options, alias=name)
    return options


def split_problem(options: Options) -> str:
    """Return why a queue that is split cannot serve these options, "" if it can.

    Its remedy is in it. All jobs of one argument may be in one partition, of two they
    cannot; all jobs of one call are in one.
    """
    if options.unique in (None, True) or options.concurrency_key is None:
        return ""
    if not routing.partitions_of(options.alias, options.queue):
        return ""
    return (
        f"the queue {options.queue!r} is split into partitions, and a job goes to that of "
        "its concurrency_key, where its unique key need not be known: use unique=True, by "
        "which jobs with the same arguments are one, or a queue without partitions"
    )


def key_of(options: Options, keys: LimitKeys, unique: str) -> str:
    """Return the key by which a job is placed, "" without any.

    A unique key that the options do not ask for, because others come after the job, is
    not: all jobs of one function may have it.
    """
    return keys.limit_key or (unique if options.unique is not None else "")


def place(
    job_type: JobType,
    options: Options,
    bound: str,
    keys: LimitKeys,
    unique: str,
    jid: str | None,
) -> str:
    """Return the partition of a job of a queue that is split; `bound` to one, or "".

    Raises InvalidOption if a key of the job belongs elsewhere.
    """
    whose = job_type.name
    if keys.limit_key and unique and (problem := split_problem(options)):
        raise InvalidOption(f"{whose}: {problem}")
    key, jid = key_of(options, keys, unique), jid or ""
    if bound and not key and not jid:
        return bound
    found = routing.job_namespace(options.alias, options.queue, jid=jid, key=key)
    if bound and found != bound:
        what = f"its key {key!r}" if key else f"its jid {jid!r}"
        raise InvalidOption(
            f"{whose}: {what} belongs {routing.place(found, options.queue)}, and what it "
            f"goes with is in {bound!r}. {routing.REMEDY}"
        )
    return found


def met_of(after: Iterable[Any]) -> frozenset[str]:
    """Return the jids of those of these jobs whose handles say that they are complete."""
    return frozenset(
        handle.jid for handle in after if getattr(handle, "state", "") == "complete"
    )


def stand_ins(home: str, after: Iterable[Any], queue: str) -> str | None:
    """Return which of these jobs are not in the namespace `home`, as the core takes it.

    `queue` stands in the record of a job that has ended and is in no queue.
    """
    jobs = {
        handle.jid: [handle.alias, handle.queue or queue, handle.name]
        for handle in after
        if getattr(handle, "alias", home) != home
    }
    return to_json({"home": home, "jobs": jobs}) if jobs else None
