"""The options of a job: what there is, and what goes together.

What each may be is said in `values.py`, and checked when it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from django_qless.exceptions import InvalidOption, UnknownOption
from django_qless.options import foreign, values
from django_qless.options.backoff import Exponential

Backoff = (
    float
    | Sequence[float]
    | Exponential
    | Callable[[int, BaseException], float | timedelta]
    | None
)

#: What makes a middleware: it takes what runs a job, and returns what does it instead.
Factory = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]

#: Classes of exceptions, or their dotted names.
Exceptions = type[BaseException] | str | Sequence[type[BaseException] | str]

#: One key for all jobs, or a function that makes it of a job's arguments; True: the
#: arguments themselves; None: the job is not unique.
Unique = bool | str | Callable[..., str | None] | None


@dataclass(frozen=True, slots=True)
class Options:
    """How a job is put and run. Seconds where it says seconds.

    Values are those that `changed()` made of what the user wrote.
    """

    queue: str = "default"
    alias: str = "default"
    priority: int = 0
    """Higher goes first."""
    delay: float = 0
    """Seconds until the job may start."""
    run_at: datetime | None = None
    """When the job may start, instead of a delay."""
    expires: float | datetime | None = None
    """Seconds from the put, or the moment, after which it is not started any more: it
    fails in the group `expired`."""
    retries: int = 3
    """How often the job is run again after a failure."""
    backoff: Any = None
    """Seconds between failure and retry: a number, a list, exponential(…), a function
    of (attempt, exception), or None for exponential()."""
    retry_on: tuple[type[BaseException] | str, ...] = ()
    """If given, only these exceptions (and their children) are worth a retry."""
    fail_on: tuple[type[BaseException] | str, ...] = ()
    """These exceptions fail the job at once, whatever retries are left."""
    timeout: float | None = None
    """Seconds until JobTimeout is raised in the job; None: as its queue has it."""
    hard_timeout: float | None = None
    """Seconds until the job's process is killed; None: as its queue has it."""
    middleware: tuple[Any, ...] = ()
    """Factories, or their dotted names, of what is called around the job's function,
    inside of the alias's MIDDLEWARE; the first is the outermost."""
    tags: tuple[str, ...] = ()
    after: tuple[Any, ...] = ()
    """Handles of the jobs that must be complete first."""
    after_names: tuple[str, ...] = ()
    """Jobs of the same row, by name, that must be complete first: given as `after`,
    alone or beside handles."""
    after_jids: tuple[str, ...] = ()
    on_failure: str = "block"
    """What a dependency that fails does to this job: block, cancel or run it."""
    unique: Any = None
    """What makes two puts the same job: see `Unique`. Keys count per job type."""
    unique_for: str | float = "running"
    """How long it keeps others out: "waiting" (until it starts), "running" (until it
    has ended), or seconds from its put."""
    on_conflict: str = "keep"
    """What a second put does: keep the first job, replace it, or refuse (DuplicateJob)."""
    debounce: float | None = None
    """Seconds for which the job waits for another put, which starts the wait anew."""
    debounce_max: float | None = None
    """Seconds after the first put at which it starts all the same."""
    sensitive: bool | tuple[str, ...] = ()
    """Parameters whose arguments nobody is to see, "return" for the result; True: all
    of them."""
    missing: str = "fail"
    """What becomes of the job when its row is gone: "fail" in row-gone, or "ignore"."""
    on_commit: bool | str | None = None
    """The database whose commit the put waits for; None and True: the default one;
    False: put at once."""
    jid: str | None = None
    result_ttl: int = 86400
    """Seconds for which the result is kept; 0: it is not kept."""
    app_data: str = ""
    """A JSON object that travels beside the arguments: `current_job().app_data`."""

    def changed(self, whose: str, **given: Any) -> Options:
        """Return a copy with these options, each checked, and together.

        `whose` names the job in messages. Raises UnknownOption or InvalidOption.
        """
        options = self.with_checked(whose, **given)
        if options.delay and options.run_at is not None:
            if "delay" in given and "run_at" in given:
                raise InvalidOption(f"{whose}: delay and run_at exclude each other.")
            # The later word wins: .using(run_at=…) of a job declared with a delay.
            options = (
                replace(options, delay=0)
                if "run_at" in given
                else replace(options, run_at=None)
            )
        if options.debounce is not None and "unique" not in given:
            options = replace(options, unique=options.unique or True)
        for wrong in (*_times(options), *_uniqueness(options, given), *_ends(options)):
            raise InvalidOption(f"{whose}: {wrong}.")
        return options

    def with_checked(self, whose: str, **given: Any) -> Options:
        """Return a copy with these options, each checked by itself."""
        checked = {name: check(whose, name, value) for name, value in given.items()}
        if "after" in checked:
            first = checked["after"]
            checked["after"] = tuple(e for e in first if not isinstance(e, str))
            checked["after_names"] = tuple(e for e in first if isinstance(e, str))
        return replace(self, **checked)


# What only a call can know, so not for the decorator.
ONLY_USING = frozenset({"after_jids", "jid", "run_at", "app_data"})

# What belongs to the job's code, so not to a call: workers run what they find there.
ONLY_DECLARED = frozenset(
    {
        *("name", "aliases", "middleware", "retry_on", "fail_on", "sensitive"),
        *("every", "cron", "timezone", "rows", "missed", "offset"),
    }
)


def check(whose: str, name: str, value: Any, *, rule: str = "") -> Any:
    """Return the value as Options holds it. Raises UnknownOption or InvalidOption.

    `rule` names the option whose rule applies, if it is another one.
    """
    known = _RULES.get(rule or name)
    if known is None or (not rule and name not in KNOWN):
        raise UnknownOption(f"{whose}: {unknown(name, IN_DECORATOR)}")
    try:
        return known(value)
    except values.Refused as refused:
        raise InvalidOption(
            f"{whose}: {name} must be {refused}, not {_shown(value)}."
        ) from None


def unknown(name: str, allowed: frozenset[str]) -> str:
    """Return the sentence that there is no such option, and those allowed there."""
    return f"there is no option {name!r}.{_remedy(name)} The options here are " + (
        f"{', '.join(sorted(allowed))}."
    )


def _remedy(name: str) -> str:
    if name in foreign.OPTIONS:
        return f" Here it is {foreign.OPTIONS[name]}."
    near = get_close_matches(name, KNOWN | ONLY_DECLARED, n=2)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def must_suit_a_call(whose: str, given: Mapping[str, object]) -> None:
    """Raise InvalidOption for an option that belongs to the job's code."""
    for name in given:
        if name in ONLY_DECLARED:
            raise InvalidOption(
                f"{whose}: {name} belongs to the job's code, where workers find it: write "
                f"@job({name}=…), not .using({name}={_shown(given[name])})."
            )


def must_be_known(whose: str, given: Mapping[str, object]) -> None:
    """Raise UnknownOption for what `.using()` does not take."""
    for name in given:
        if name not in KNOWN:
            raise UnknownOption(f"{whose}: {unknown(name, IN_USING)}")


def hint_for_arguments(names: Iterable[str]) -> str:
    """Return where options belong that were given as arguments of the job, or ""."""
    for name in names:
        if name in foreign.OPTIONS:
            return f". For {name} use {foreign.OPTIONS[name]}, in .using(…)"
        if name in KNOWN:
            return f". Options of the job go into .using({name}=…)"
    return ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def _times(options: Options) -> Iterator[str]:
    soft, hard = options.timeout, options.hard_timeout
    if soft is not None and hard is not None and soft > hard:
        yield (
            f"timeout={soft:g} exceeds hard_timeout={hard:g}: the job's process would "
            "be killed before the job could be told"
        )
    expires, begins = options.expires, options.debounce or options.delay
    if isinstance(expires, datetime):
        if options.run_at is not None and expires <= options.run_at:
            yield (
                f"expires={expires} comes before run_at={options.run_at}, so the job "
                "would never be started: let it expire later"
            )
    elif expires is not None and expires <= begins:
        word = "debounce" if options.debounce else "delay"
        yield (
            f"expires={expires:g} comes before {word}={begins:g} has passed, so the job "
            "would never be started: let it expire later"
        )


def _uniqueness(options: Options, given: dict[str, Any]) -> Iterator[str]:
    debounce, most = options.debounce, options.debounce_max
    if options.unique is None:
        for name in ("unique_for", "on_conflict"):
            if name in given:
                yield (
                    f"{name}={given[name]!r} says something of jobs with one unique key, "
                    "and this one has none: add unique=True, or a key"
                )
    if debounce is None:
        if most is not None:
            yield f"debounce_max={most:g} needs debounce=, the wait that it limits"
        return
    if options.unique is None:
        yield (
            f"debounce={debounce:g} needs to know which puts are the same job: leave "
            "unique away for those of the same arguments, or give a key"
        )
    if options.delay or options.run_at is not None:
        word = "delay" if options.delay else "run_at"
        yield (
            f"debounce={debounce:g} says when the job starts, and so does {word}: keep "
            "one of them"
        )
    if most is not None and most < debounce:
        yield f"debounce_max={most:g} must not be below debounce={debounce:g}"
    if options.on_conflict == "refuse":
        yield (
            'on_conflict="refuse" contradicts debounce, where each put replaces the one '
            "before: leave one of them away"
        )
    if not isinstance(options.unique_for, str):
        yield (
            f"unique_for={options.unique_for:g} contradicts debounce, whose jobs are "
            'unique while they wait: write unique_for="waiting" or "running"'
        )


def _ends(options: Options) -> Iterator[str]:
    for wanted in options.retry_on:
        for final in options.fail_on:
            children = isinstance(wanted, type) and isinstance(final, type)
            if wanted == final or (children and issubclass(wanted, final)):  # type: ignore[arg-type]
                yield (
                    f"retry_on names {_class_name(wanted)}, which fail_on has fail at "
                    f"once, as {_class_name(final)}: keep one of them"
                )


def _class_name(exception: type[BaseException] | str) -> str:
    return exception if isinstance(exception, str) else exception.__qualname__


KNOWN = frozenset(field.name for field in fields(Options)) - {"after_names"}
IN_USING = KNOWN - ONLY_DECLARED
IN_DECORATOR = (KNOWN - ONLY_USING) | ONLY_DECLARED

_RULES: dict[str, Callable[[Any], Any]] = {
    "queue": values.queue,
    "alias": values.name,
    "priority": values.whole(-values.MOST_PRIORITY, values.MOST_PRIORITY),
    "delay": values.seconds,
    "run_at": values.moment,
    "expires": values.expires,
    "retries": values.whole(0, values.MOST_RETRIES),
    "backoff": values.backoff,
    "retry_on": values.exceptions,
    "fail_on": values.exceptions,
    "timeout": values.timeout,
    "hard_timeout": values.timeout,
    "middleware": values.middleware,
    "tags": values.tags,
    "after": values.after,
    "after_jids": values.strings("job ids"),
    "aliases": values.strings("names"),
    "on_failure": values.one_of("block", "cancel", "run"),
    "unique": values.unique,
    "unique_for": values.unique_for,
    "on_conflict": values.one_of("keep", "replace", "refuse"),
    "debounce": values.span,
    "debounce_max": values.span,
    "sensitive": values.sensitive,
    "missing": values.one_of("fail", "ignore"),
    "on_commit": values.on_commit,
    "jid": values.jid,
    "result_ttl": values.whole(0, values.MOST_RETRIES),
    "app_data": values.app_data,
}
