"""What follows a job from where it was put to where it runs: locale, time zone, and more.

A carrier is named in the setting CONTEXT of the alias. It is a class without arguments,
an object or a module that has

    capture()            returns what is to travel, as JSON, or None for nothing
    restore(value)       returns a context manager, which is around the run of the job
    arestore(value)      optional: an asynchronous one, used around coroutines
    name                 optional: under what it travels (else its own name)

`capture` is called by `.delay()` and its siblings, where it may raise. `restore` is
entered outside of the middleware, in the thread or task that runs the job; what it
raises fails the job, for it would run as somebody else. What a job puts takes along what
the job has. A value that no carrier of the worker knows is left alone, and logged.

Locale and time zone are always carried, if they are not what the process has by itself.
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
from django_qless.current import CurrentJob
from django_qless.exceptions import UnserialisableArgument
from django_qless.values import to_json

logger = logging.getLogger("django_qless.worker")

Run = Callable[[CurrentJob], Any]
AsyncRun = Callable[[CurrentJob], Awaitable[Any]]

#: The member of a job's context that holds what is carried.
MEMBER = "carry"
#: The text of a context without this has no such member.
MARK = f'"{MEMBER}"'
MOST_BYTES = 16 * 1024


class Carrier(Protocol):
    """What takes something along with a job; see above."""

    def capture(self) -> Any:
        """Return what is to travel, None for nothing."""

    def restore(self, value: Any) -> AbstractContextManager[Any]:
        """Return what is around the run of a job that carries this."""


def _peek(local: Any) -> Callable[[None], Any]:
    """Return what gives None if nothing was ever set in a Local of asgiref, here.

    To ask the Local itself for what it has not takes as long as a quarter of a put, so
    this looks inside. Where the inside is another one the Local has to be asked.
    """
    data = getattr(getattr(local, "_storage", None), "_data", None)
    return data.get if isinstance(data, ContextVar) else lambda _: local


_language = _peek(getattr(trans_real, "_active", ...))
_time_zone = _peek(getattr(django_timezone, "_active", ...))


class Locale:
    """The active language. Switched-off translations are not carried."""

    def capture(self) -> str | None:
        """Return its code, None for the usual one."""
        if _language(None) is None:
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
        if _time_zone(None) is None:
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


BUILT_IN: Mapping[str, Carrier] = {"locale": Locale(), "timezone": TimeZone()}


def loaded(alias: str) -> Mapping[str, Carrier]:
    """Return the carriers of an alias by name. Raises what importing them raises."""
    found = _loaded.get(alias)
    if found is None:
        own = dict(made(dotted) for dotted in conf.alias(alias).context)
        found = _loaded[alias] = {**BUILT_IN, **own} if own else BUILT_IN
    return found


def made(dotted: str) -> tuple[str, Carrier]:
    """Return the name and the carrier that a dotted name stands for.

    Raises ImportError, and TypeError if it is none.
    """
    found = _imported(dotted)
    carrier = found() if isinstance(found, type) else found
    for method in ("capture", "restore"):
        if not callable(getattr(carrier, method, None)):
            raise TypeError(f"{dotted} is no carrier: it has no method {method}()")
    name = getattr(carrier, "name", None) or dotted.rpartition(".")[2]
    if not isinstance(name, str):
        raise TypeError(f"{dotted}: its name must be a text, not {name!r}")
    return name, carrier


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
    """Return what a job that is put now carries, None for nothing.

    `whose` names the job in messages. Raises UnserialisableArgument, TooBig and what a
    carrier raises.
    """
    carriers = _loaded.get(alias) or loaded(alias)
    if carriers is BUILT_IN and _language(None) is _time_zone(None) is None:
        return None
    carried: dict[str, Any] | None = None
    for name, carrier in carriers.items():
        value = carrier.capture()
        if value is not None:
            carried = carried or {}
            carried[name] = value
    if carried is not None:
        _must_travel(carried, whose)
    return carried


def restoring(alias: str, run: Run) -> Run:
    """Return what runs a job with what it carries around it."""

    def around(job: CurrentJob) -> Any:
        with ExitStack() as stack:
            for carrier, value in _known(alias, job):
                stack.enter_context(carrier.restore(value))
            return run(job)

    return around


def arestoring(alias: str, run: AsyncRun) -> AsyncRun:
    """Return what runs an asynchronous job with what it carries around it."""

    async def around(job: CurrentJob) -> Any:
        async with AsyncExitStack() as stack:
            for carrier, value in _known(alias, job):
                arestore = getattr(carrier, "arestore", None)
                if arestore is None:
                    stack.enter_context(carrier.restore(value))
                else:
                    await stack.enter_async_context(arestore(value))
            return await run(job)

    return around


def _known(alias: str, job: CurrentJob) -> Iterator[tuple[Carrier, Any]]:
    """Yield what restores each value that a job carries, and the value."""
    carried = job.context.get(MEMBER) or {}
    try:
        carriers = loaded(alias)
    except (ImportError, TypeError):
        logger.exception("CONTEXT of alias %r cannot be loaded", alias)
        carriers = BUILT_IN
    for name, value in carried.items():
        carrier = carriers.get(name)
        if carrier is None:
            logger.warning(
                "%s carries %r, for which CONTEXT of alias %r has no carrier",
                *(job.name, name, alias),
            )
        else:
            yield carrier, value


def _must_travel(carried: Mapping[str, Any], whose: str) -> None:
    for name, value in carried.items():
        try:
            size = len(to_json(value).encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise UnserialisableArgument(
                f"{whose}: what the carrier {name!r} of CONTEXT captured is not JSON: "
                f"{error}"
            ) from None
        if size > MOST_BYTES:
            raise TooBig(
                f"{whose}: what the carrier {name!r} of CONTEXT captured takes {size:,} "
                f"bytes as JSON, and at most {MOST_BYTES:,} travel: carry a reference"
            )


_loaded: dict[str, Mapping[str, Carrier]] = {}
conf.on_change(_loaded.clear)
