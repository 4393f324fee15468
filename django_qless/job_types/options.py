"""The options of `@job`: one table, from which all else about them is derived.

An option is a field of `Options`: what it holds, its default, the check of its values
(`option_checks.py`), where it may be given, and whether it travels with a job whose call
changed it (`option_table.py` has what makes a row). What type checkers accept is in the
typed dicts of `option_types.py`. `.using()`, Django's Tasks, workers, the admin and the
messages read the table.
"""

# ruff: noqa: RUF009  (`option` returns a field)
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from django_qless.core.schedule import MISSED
from django_qless.exceptions import InvalidOption, UnknownOption
from django_qless.job_types import foreign_names
from django_qless.job_types import option_checks as checks
from django_qless.job_types.backoff import Exponential, entity_backoff
from django_qless.job_types.option_conflicts import contradictions
from django_qless.job_types.option_table import (
    ANY,
    CODE,
    DECLARED,
    NO_TASK,
    In,
    Option,
    option,
)
from django_qless.job_types.option_types import CallOptions as CallOptions
from django_qless.job_types.option_types import DeclaredOptions as DeclaredOptions


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a job, as `changed()` made them of the user's values."""

    queue: str = option("default", checks.queue, NO_TASK, aka="queue_name routing_key")
    """The queue that it waits in; also the first argument of `@job`."""
    alias: str | None = option(None, checks.optional_name, NO_TASK)
    """The alias of the setting QLESS where the job is kept. None: the one to which QLESS_ROUTES
    routes its queue; without a match "default"."""
    priority: int = option(
        0, checks.whole(-checks.MOST_PRIORITY, checks.MOST_PRIORITY), NO_TASK
    )
    """Jobs of a higher priority leave their queue first; negative ones are allowed."""
    delay: float = option(
        0, checks.seconds, In.USING, aka="countdown schedule_in", hint="(seconds)"
    )
    """Seconds until the job may start."""
    run_at: datetime | None = option(
        None,
        checks.moment,
        In.USING,
        aka="eta run_after schedule_at",
        hint="(a moment)",
    )
    """The moment from which the job may start, instead of a delay: a datetime, in TIME_ZONE if it
    has no zone and USE_TZ is False."""
    jid: str | None = option(None, checks.jid, In.USING, aka="job_id task_id")
    """The job's id; None: a new one. A job that has this id already is replaced by this one."""
    missing: str = option(
        "fail", checks.one_of("fail", "ignore"), NO_TASK, travels=True
    )
    """What happens if the row that the job runs on is gone: "fail" (in the group `row-gone`) or
    "ignore" (the job is complete without a run)."""
    app_data: str = option("", checks.app_data, In.USING, aka="meta", hint="(a dict)")
    """A dict of JSON values, at most 32 KiB, that travels beside the arguments; the job reads
    it as `current_job().app_data`."""
    retries: int = option(
        3, checks.whole(0, checks.MOST_RETRIES), ANY | In.BACKEND, aka="max_retries"
    )
    """How often the job may run again after a failure, besides its first run."""
    backoff: Any = option(
        None,
        checks.backoff,
        ANY | In.BACKEND,
        travels=True,
        aka="default_retry_delay retry_delay",
        hint="(seconds)",
    )
    """Seconds between a failure and the next run: a number, a list with one for each retry,
    `exponential(…)`, or a function of (attempt, exception). None: `exponential()`, 2 s, 4 s,
    8 s … to an hour, each 25 % more or less by chance."""
    retry_on: tuple[type[BaseException] | str, ...] = option(
        (), checks.exceptions, CODE, aka="autoretry_for"
    )
    """The exceptions, or their dotted names, after which the job is retried; subclasses count.
    Empty: all."""
    fail_on: tuple[type[BaseException] | str, ...] = option(
        (), checks.exceptions, CODE, aka="throws"
    )
    """The exceptions, or their dotted names, that fail the job at once, whatever retries are
    left."""
    timeout: float | None = option(
        None,
        checks.timeout,
        ANY | In.BACKEND,
        travels=True,
        aka="job_timeout soft_time_limit",
        hint="(seconds)",
    )
    """Seconds until JobTimeout is raised in the job. None: the `timeout` of its queue in QUEUES;
    without that, no limit."""
    hard_timeout: float | None = option(
        None,
        checks.timeout,
        ANY | In.BACKEND,
        travels=True,
        aka="time_limit",
        hint="(seconds)",
    )
    """Seconds until the job's process is killed. None: the `hard_timeout` of its queue in QUEUES;
    without that, no limit."""
    tags: tuple[str, ...] = option((), checks.tags, ANY | In.BACKEND)
    """Words to find the job by, at most 32."""
    expires: float | datetime | None = option(
        None, checks.expires, ANY | In.BACKEND, aka="ttl", hint="(seconds)"
    )
    """Seconds from the enqueueing, or the moment, after which it is not started any more:
    it fails in the group `expired`."""
    result_ttl: int = option(
        3600,
        checks.whole(0, checks.MOST_RETRIES),
        ANY | In.BACKEND,
        travels=True,
        aka="result_expires",
        hint="(seconds)",
    )
    """Seconds for which the result is kept; 0: it is not kept."""
    unique: Any = option(None, checks.unique, aka="queueing_lock", hint="(a text)")
    """What makes two jobs the same: True (the same arguments), a text (one job of this type at
    a time), or a function of the arguments that returns such a text, or None for a job that
    is not unique. Keys count per job type."""
    unique_for: str | float = option("running", checks.unique_for)
    """How long a unique job keeps others out: "waiting" (until it starts), "running" (until it
    has ended), or seconds from its enqueueing."""
    on_conflict: str = option("keep", checks.one_of("keep", "replace"))
    """What becomes of a second unique job: "keep" (the first stays; the handle is that of the
    first, and its `created` is False) or "replace" (the second takes its place)."""
    debounce: float | None = option(None, checks.span)
    """Seconds that the job waits before it may start. Another one with the same `unique` key
    (default: the same arguments) takes its place and starts the wait again, until ten times
    as many seconds have passed since the first one."""
    after: tuple[Any, ...] = option(
        (), checks.after, aka="depends_on", hint="(handles of other jobs)"
    )
    """The jobs that must be complete first: in `@job` the names of other jobs of the same row, in
    `.using()` the handles or ids of jobs; one, or a list."""
    after_names: tuple[str, ...] = ()
    """Jobs of the same row, by name, that must be complete first: `after` of `@job`."""
    on_failure: str = option("block", checks.one_of("block", "cancel", "run"))
    """What happens if a job that this one waits for fails: "block" (this one waits on, until
    that is retried and complete), "cancel" (this one is cancelled) or "run" (it waits no
    longer). The last two also apply if that job is cancelled."""
    max_concurrency: int | None = option(
        None, checks.most_at_once, DECLARED, aka="concurrency"
    )
    """The number of jobs that may run at once, in all queues of the alias: of this type, or with
    `concurrency_key` of each key."""
    rate: str | None = option(
        None, checks.rate, DECLARED, aka="rate_limit", hint='("100/m")'
    )
    """How often jobs of this type, or with `concurrency_key` of each key, may start: "100/m" is
    100 within any minute; the units are s, m, h and d."""
    concurrency_key: Any = option(
        None, checks.key, DECLARED, hint="(a parameter's name)"
    )
    """The key of each job: a parameter's name, or a function of the arguments; None for a job
    without a limit. `max_concurrency` and `rate` count per key; without them, one job of a key
    runs at a time."""
    fair_by: Any = option(None, checks.key, DECLARED)
    """The tenant of each job: a parameter's name, or a function of the arguments. Tenants of a
    queue take turns, however many jobs each has."""
    sensitive: bool | tuple[str, ...] = option((), checks.sensitive, In.JOB | In.TASK)
    """Parameters whose arguments the admin, commands, logs and tracebacks hide; "return" stands
    for the result; True: all of them."""
    detached: bool = option(False, checks.flag, In.JOB | In.TASK)
    """Run it in a separate process, which outlives the worker: for work of hours."""
    entity: bool = option(False, checks.flag, In.JOB)
    """True for a job that runs once for an entity with all that was pushed onto it by
    `.push(entity, payload)`, not once for each call."""
    batch_size: int = option(1, checks.whole(1, 100), In.JOB)
    """How many entities one run may get at most, with `entity=True`: 1 to 100."""
    on_commit: bool | str | None = option(None, checks.on_commit, NO_TASK)
    """The database alias whose commit the enqueueing waits for, if a transaction is open there.
    None or True: that of its rows, else the default one. False: enqueue at
    once. "outbox": wait for the same commit, and write the job into that database's outbox."""

    def changed(self, whose: str, **given: Any) -> Options:
        """Return a copy with these options, each checked, and together.

        `whose` names the job in messages. Raises UnknownOption or InvalidOption.
        """
        options = self.with_checked(whose, **given)
        if options.delay and options.run_at is not None:
            raise InvalidOption(
                f"{whose}: delay and run_at exclude each other: keep one of them."
            )
        if options.debounce is not None and "unique" not in given:
            options = replace(options, unique=options.unique or True)
        for problem in contradictions(options, given):
            raise InvalidOption(f"{whose}: {problem}.")
        return options

    def with_checked(self, whose: str, **given: Any) -> Options:
        """Return a copy with these options, each checked by itself."""
        checked = {name: check(whose, name, value) for name, value in given.items()}
        if "after" in checked:
            checked["after_names"] = ()  # what @job names is replaced
        return replace(self, **checked)

    def travelling(self, whose: str, declared: Options) -> dict[str, Any]:
        """Return the part of a job's context that holds what a call changed."""
        if self is declared:
            return {}
        changed = {
            name: getattr(self, name)
            for name in TRAVELLING
            if getattr(self, name) != getattr(declared, name)
        }
        backoff = changed.get("backoff")
        if isinstance(backoff, Exponential):
            changed["backoff"] = asdict(backoff)
        elif callable(backoff):
            raise InvalidOption(
                f"{whose}: a function as backoff cannot travel with the job: give "
                "it to @job, or use a number, a list or exponential(…) here"
            )
        context: dict[str, Any] = {"options": changed} if changed else {}
        if self.app_data:
            context["app_data"] = json.loads(self.app_data)
        return context

    def with_travelling(self, whose: str, context: Mapping[str, Any]) -> Options:
        """Return declared options, changed by those in a job's context.

        They are not checked against the others: another version of the code may have
        enqueued the job.
        """
        given = context.get("options")
        if not isinstance(given, Mapping):
            return self
        known = {name: given[name] for name in TRAVELLING if name in given}
        return self.with_checked(whose, **known) if known else self


#: The table of all options, by name.
TABLE: dict[str, Option] = {
    each.name: each.metadata["option"] for each in fields(Options) if each.metadata
}


def given_in(where: In) -> frozenset[str]:
    """Return the names of the options of the table that may be given there."""
    return frozenset(name for name, row in TABLE.items() if where in row.given)


KNOWN = frozenset(TABLE)
DEFAULTS = Options()

#: What only a call can know, so not for the decorator.
ONLY_USING = KNOWN - given_in(In.JOB)

#: What belongs to the job's code, so not to a call: workers run what they find there.
ONLY_DECLARED = (KNOWN - given_in(In.USING)) | {
    *("name", "aliases", "every", "cron", "timezone", "rows", "missed")
}
IN_USING = given_in(In.USING)
IN_DECORATOR = (KNOWN - ONLY_USING) | ONLY_DECLARED

#: Options that a job carries in its context when a call gave it: the rest is in its record.
TRAVELLING = tuple(name for name, row in TABLE.items() if row.travels)

_CHECKS = {name: row.check for name, row in TABLE.items()}
_CHECKS |= {
    "name": checks.name,
    "aliases": checks.strings("names"),
    "every": checks.interval,
    "missed": checks.one_of(*MISSED),
}

# Names of other job queues, and what to write here.
_FOREIGN = foreign_names.OPTIONS | {
    word: f"{name}= {row.hint}".rstrip()
    for name, row in TABLE.items()
    for word in row.aka.split()
}


def check(whose: str, name: str, value: Any) -> Any:
    """Return the value as Options holds it. Raises UnknownOption or InvalidOption."""
    known = _CHECKS.get(name)
    if known is None:
        raise UnknownOption(f"{whose}: {_unknown(name, IN_DECORATOR)}")
    try:
        return known(value)
    except checks.Refused as refused:
        raise InvalidOption(
            f"{whose}: {name} must be {refused}, not {_shown(value)}."
        ) from None


def check_using(whose: str, given: Mapping[str, object]) -> None:
    """Raise UnknownOption or InvalidOption for what `.using()` does not take."""
    for name in given:
        if name in ONLY_DECLARED:
            raise InvalidOption(
                f"{whose}: {name} belongs to the job's code, where workers find it: write "
                f"@job({name}=…), not .using({name}={_shown(given[name])})."
            )
        if name not in KNOWN:
            raise UnknownOption(f"{whose}: {_unknown(name, IN_USING)}")


def declared_options(whose: str, given: Mapping[str, Any]) -> Options:
    """Return the options given to `@job`. Raises UnknownOption or InvalidOption."""
    for name in ONLY_USING & given.keys():
        raise InvalidOption(
            f"{whose}: {name} is known only when the job is enqueued: write "
            f".using({name}=…).delay(…)"
        )
    options = DEFAULTS.changed(whose, **given)
    if options.entity and options.backoff is None:
        options = replace(options, backoff=entity_backoff)
    names = all(map(checks.is_dotted, options.after))
    for name, remedy, is_wrong in (
        ("after", "names of other jobs of the same row", not names),
        ("expires", "a number of seconds", isinstance(options.expires, datetime)),
    ):
        if is_wrong:
            raise InvalidOption(
                f"{whose}: {name}={getattr(options, name)!r} is known only when the job "
                f"is enqueued: give @job {remedy}, or write .using({name}=…).delay(…)"
            )
    return replace(options, after=(), after_names=options.after)


def hint_for_arguments(names: Iterable[str]) -> str:
    """Return where options belong that were given as arguments of the job, or ""."""
    for name in names:
        if name in _FOREIGN:
            return f". For {name} use {_FOREIGN[name]}, in .using(…)"
        if name in KNOWN:
            return f". Options of the job go into .using({name}=…)"
    return ""


def _unknown(name: str, allowed: frozenset[str]) -> str:
    """Return the sentence that there is no such option, and those allowed there."""
    remedy = ""
    if name in _FOREIGN:
        remedy = f" Here it is {_FOREIGN[name]}."
    elif near := get_close_matches(name, KNOWN | ONLY_DECLARED, n=2):
        remedy = f" Did you mean {' or '.join(near)}?"
    return (
        f"there is no option {name!r}.{remedy} The options here are "
        f"{', '.join(sorted(allowed))}."
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"
