"""Context that follows a job from its enqueue to its run: locale, time zone, and more.

A propagator is named in the setting CONTEXT of the alias. It is a class without arguments,
an object or a module that has

    capture()            returns what is to travel, as JSON, or None for nothing
    restore(value)       returns a context manager, which is around the run of the job
    arestore(value)      optional: an asynchronous one, used around coroutines
    name                 optional: under what it travels (else its own name)

`capture` is called by `.delay()` and its siblings, where it may raise. `restore` is
entered outside of the middleware, in the thread or task that runs the job; what it
raises fails the job, for it would run as another user. What a job enqueues takes along
what the job has. A value that no propagator of the worker knows is left alone, and logged.

Locale and time zone always travel, if they are not the defaults of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, nullcontext
from contextvars import ContextVar
from datetime import timedelta, timezone, tzinfo
from importlib import import_module
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone as django_timezone
from django.utils import translation
from django.utils.module_loading import import_string
from django.utils.translation import trans_real

from django_qless import conf
from django_qless.core import TooBig
from django_qless.exceptions import UnserialisableArgument
from django_qless.job_types.current import CurrentJob
from django_qless.serialization.derived_types import NotSerializable, check_plain
from django_qless.serialization.json_values import to_json

logger = logging.getLogger("django_qless.worker")

Run = Callable[[CurrentJob], Any]
AsyncRun = Callable[[CurrentJob], Awaitable[Any]]

#: The member of a job's context that holds the captured values.
MEMBER = "carry"
#: The text of a context without this has no such member.
MARK = f'"{MEMBER}"'
MOST_BYTES = 16 * 1024

#: The name of the job for which a propagator captures something just now.
enqueueing: ContextVar[str] = ContextVar("qless_enqueueing", default="")


class Propagator(Protocol):
    """Takes something along with a job; see above."""

    def capture(self) -> Any:
        """Return the value that travels with the job, None for nothing."""

    def restore(self, value: Any) -> AbstractContextManager[Any]:
        """Return the context manager around the run of a job with this value."""


def _peek(local: Any) -> Callable[[None], Any]:
    """Return a getter for asgiref's Local that returns None if it was never set.

    To ask the Local itself for what it has not takes as long as a quarter of an enqueue,
    so this looks inside. Where the inside is another one the Local has to be asked.
    """
    data = getattr(getattr(local, "_storage", None), "_data", None)
    return data.get if isinstance(data, ContextVar) else lambda _: local


#: Called with None, these return None if no language, or time zone, was activated.
active_language = _peek(getattr(trans_real, "_active", ...))
active_time_zone = _peek(getattr(django_timezone, "_active", ...))


class Locale:
    """The active language. Switched-off translations do not travel."""

    def capture(self) -> str | None:
        """Return its code, None for the usual one."""
        if active_language(None) is None:
            return None
        code = translation.get_language()
        return None if code == settings.LANGUAGE_CODE else code

    def restore(self, value: str) -> AbstractContextManager[Any]:
        """Activate it."""
        return translation.override(value)


class TimeZone:
    """The current time zone, by name, or a fixed distance from UTC in seconds."""

    def capture(self) -> str | float | None:
        """Return its name, None for the usual one and for one without a name."""
        if active_time_zone(None) is None:
            return None
        current: tzinfo = django_timezone.get_current_timezone()
        if current == django_timezone.get_default_timezone():
            return None
        if isinstance(current, ZoneInfo):
            return current.key
        if isinstance(current, timezone):
            return current.utcoffset(None).total_seconds()
        return None

    def restore(self, value: str | float) -> AbstractContextManager[Any]:
        """Activate it, if this machine knows it."""
        if not isinstance(value, str):
            return django_timezone.override(timezone(timedelta(seconds=value)))
        try:
            return django_timezone.override(ZoneInfo(value))
        except (ValueError, OSError, LookupError):
            logger.warning("the time zone %r of a job is not known here", value)
            return nullcontext()


BUILT_IN: Mapping[str, Propagator] = {"locale": Locale(), "timezone": TimeZone()}

_by_alias: dict[str, Mapping[str, Propagator]] = {}
#: Aliases that are known to have the built-in ones only.
without_own: set[str] = set()


def propagators(alias: str) -> Mapping[str, Propagator]:
    """Return the propagators of an alias by name. Raises what importing them raises."""
    found = _by_alias.get(alias)
    if found is None:
        own = dict(load(dotted) for dotted in conf.alias(alias).propagators)
        found = _by_alias[alias] = {**BUILT_IN, **own}
        if not own:
            without_own.add(alias)
    return found


def load(dotted: str) -> tuple[str, Propagator]:
    """Return the name and the propagator that a dotted name stands for.

    Raises ImportError, and TypeError if it is none.
    """
    found = _imported(dotted)
    propagator = found() if isinstance(found, type) else found
    for method in ("capture", "restore"):
        if not callable(getattr(propagator, method, None)):
            raise TypeError(
                f"{dotted} is no context propagator: it has no method {method}()"
            )
    name = getattr(propagator, "name", None) or dotted.rpartition(".")[2]
    if not isinstance(name, str):
        raise TypeError(f"{dotted}: its name must be a text, not {name!r}")
    return name, propagator


def _imported(dotted: str) -> Any:
    """Return the attribute of a module, or the module, that a dotted name stands for."""
    try:
        return import_string(dotted)
    except ImportError as error:
        try:
            return import_module(dotted)
        except ModuleNotFoundError as missing:
            if missing.name and f"{dotted}.".startswith(f"{missing.name}."):
                raise error from None
            raise  # The module is there, and misses another one.


def capture(alias: str, whose: str) -> dict[str, Any] | None:
    """Return the context for a job that is enqueued now, None for nothing.

    `whose` names the job in messages. Raises UnserialisableArgument, TooBig and what a
    propagator raises.
    """
    enqueueing.set(whose)
    values = {
        name: value
        for name, propagator in propagators(alias).items()
        if (value := propagator.capture()) is not None
    }
    for name, value in values.items():
        _check_size(whose, name, value)
    return values or None


def restoring(alias: str, run: Run) -> Run:
    """Return a function that runs a job with its context restored around it."""

    def around(job: CurrentJob) -> Any:
        if MARK not in job.reserved.context:
            return run(job)
        with ExitStack() as stack:
            for propagator, value in _captured(alias, job):
                stack.enter_context(propagator.restore(value))
            return run(job)

    return around


def arestoring(alias: str, run: AsyncRun) -> AsyncRun:
    """Return a function that runs an asynchronous job with its context restored."""

    async def restored(job: CurrentJob) -> Any:
        async with AsyncExitStack() as stack:
            for propagator, value in _captured(alias, job):
                arestore = getattr(propagator, "arestore", None)
                if arestore is None:
                    stack.enter_context(propagator.restore(value))
                else:
                    await stack.enter_async_context(arestore(value))
            return await run(job)

    def around(job: CurrentJob) -> Awaitable[Any]:
        return restored(job) if MARK in job.reserved.context else run(job)

    return around


def _captured(alias: str, job: CurrentJob) -> Iterator[tuple[Propagator, Any]]:
    """Yield each value that travels with a job, behind what restores it."""
    try:
        known = propagators(alias)
    except (ImportError, TypeError):
        logger.exception("CONTEXT of alias %r cannot be loaded", alias)
        known = BUILT_IN
    for name, value in (job.context.get(MEMBER) or {}).items():
        if name in known:
            yield known[name], value
        else:
            logger.warning(
                "%s has a context %r, for which CONTEXT of alias %r has no propagator",
                *(job.name, name, alias),
            )


def _check_size(whose: str, name: str, value: Any) -> None:
    try:
        check_plain(value)
        size = len(to_json(value).encode())
    except (TypeError, ValueError, RecursionError, NotSerializable) as error:
        raise UnserialisableArgument(
            f"{whose}: what {name!r} of CONTEXT captured is not JSON: {error}"
        ) from None
    if size > MOST_BYTES:
        raise TooBig(
            f"{whose}: what {name!r} of CONTEXT captured takes {size:,} bytes as JSON, "
            f"and at most {MOST_BYTES:,} travel"
        )


def _forget() -> None:
    _by_alias.clear()
    without_own.clear()


conf.on_change(_forget)
