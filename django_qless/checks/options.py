"""System checks of what jobs and QLESS name: exceptions, databases, aliases, carriers.

django_qless.E025   CONTEXT
django_qless.E026   retry_on or fail_on of a job: an exception that cannot be imported
django_qless.E027   on_commit of a job: a database that does not exist
django_qless.E028   alias of a job: not in QLESS
django_qless.E029   unique of a job: a function that cannot take the job's arguments
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from inspect import Parameter
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from django_qless import conf, discovery
from django_qless.places import place_of
from django_qless.puts import carriers
from django_qless.registry import Binding, JobType, registry

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def check_options(**kwargs: Any) -> list[CheckMessage]:
    """Judge what the options of all jobs name; modules that cannot be imported are E016."""
    list(discovery.failures())
    return [message for job_type in registry for message in _of_job(job_type)]


def check_context(**kwargs: Any) -> list[CheckMessage]:
    """Import the carriers that CONTEXT names."""
    try:
        aliases = [conf.alias(name) for name in conf.names()]
    except ImproperlyConfigured:
        return []  # E001 and its siblings say so
    return [
        Error(
            f"QLESS[{alias.name!r}]: CONTEXT: {text}",
            hint="A carrier is a class, an object or a module with capture() and "
            "restore(value).",
            id="django_qless.E025",
        )
        for alias in aliases
        for text in _troubles(alias)
    ]


def _troubles(alias: conf.Alias) -> Iterator[str]:
    seen = dict.fromkeys(carriers.BUILT_IN, "a carrier that is always there")
    for dotted in alias.context:
        try:
            name, _ = carriers.made(dotted)
        except Exception as error:  # noqa: BLE001  what importing it raises
            yield str(error) or repr(error)
            continue
        if name in seen:
            yield f"{dotted} is called {name!r}, as {seen[name]}: give it another name."
        seen[name] = dotted


def _of_job(job_type: JobType) -> Iterator[CheckMessage]:
    options, whose = job_type.options, f"{place_of(job_type.function)}: {job_type.name}"
    for option in ("retry_on", "fail_on"):
        for each in getattr(options, option):
            if isinstance(each, str) and (trouble := _no_exception(each)):
                yield Error(
                    f"{whose}: {option}: {trouble}",
                    hint="Is it spelt so?",
                    id="django_qless.E026",
                )
    database = options.on_commit
    if isinstance(database, str) and database not in settings.DATABASES:
        yield Error(
            f"{whose}: on_commit={database!r} is not in DATABASES.",
            hint=f"There are: {', '.join(settings.DATABASES)}.",
            id="django_qless.E027",
        )
    if options.alias not in _aliases(options.alias):
        yield Error(
            f"{whose}: alias={options.alias!r} is not in QLESS.",
            hint=f"There are: {', '.join(_aliases(options.alias))}.",
            id="django_qless.E028",
        )
    if callable(options.unique) and (trouble := _mismatch(job_type, options.unique)):
        yield Error(
            f"{whose}: unique={options.unique!r} is called with the job's arguments, "
            f"and does not take all that the job takes: {trouble}.",
            hint="Give it the parameters of the job; a method's first is the instance.",
            id="django_qless.E029",
        )


def _aliases(otherwise: str) -> list[str]:
    try:
        return conf.names()
    except ImproperlyConfigured:
        return [otherwise]  # E001 says so


def _no_exception(dotted: str) -> str:
    """Say why this dotted name is no exception, "" if it is one."""
    try:
        found = pkgutil.resolve_name(dotted)
    except Exception as error:  # noqa: BLE001  what importing it raises
        return f"{dotted} cannot be imported: {error}"
    if isinstance(found, type) and issubclass(found, BaseException):
        return ""
    return f"{dotted} is no exception."


def _mismatch(job_type: JobType, unique: Any) -> str:
    """Say why a function cannot take a job's fewest, or its most, arguments."""
    if job_type.binding is Binding.CLASS:
        return ""
    try:
        parameters = list(inspect.signature(job_type.function).parameters.values())
        signature = inspect.signature(unique)
    except (TypeError, ValueError):
        return ""
    for only_needed in (True, False):
        asked = [
            p for p in parameters if not only_needed or p.default is Parameter.empty
        ]
        args = [None for p in asked if p.kind in POSITIONAL]
        kwargs = {p.name: None for p in asked if p.kind is Parameter.KEYWORD_ONLY}
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
    return ""
