"""System checks: what is wrong with the settings, each with a number and a hint.

None of them connects to a server; `qless_doctor` does.

    django_qless.E001   QLESS is not a dict of aliases with a "default"
    django_qless.E002   an option that does not exist
    django_qless.E003   two ways to connect
    django_qless.E004   something that is not available yet
    django_qless.E005   LOCATION
    django_qless.E006   CACHE, DB
    django_qless.E007   EMBEDDED
    django_qless.E008   PREFIX
    django_qless.E009   ENGINE
    django_qless.E010   OPTIONS
    django_qless.E011   QUEUES
    django_qless.E012   CONFIG
    django_qless.E013   MIDDLEWARE
    django_qless.E014   a timeout of the connection
    django_qless.E015   two aliases with one namespace
    django_qless.E016   a module of jobs that cannot be imported
    django_qless.E017   a release of redis-py that does not work
    django_qless.E018   a middleware of a job that cannot be imported
    django_qless.E019 to E021, W004, W005       see `jobs.py`
    django_qless.E025 to E029                   see `options.py`
    django_qless.E030 to E032                   see `schedules.py`
    django_qless.E033   PATIENCE, WORKER_PATIENCE
    django_qless.E034   PROJECT
    django_qless.E040   TEST
    django_qless.W001   the queue shares its database with a cache
    django_qless.W002   no server is named, and DEBUG is off (--deploy)
    django_qless.W003   EMBEDDED, and DEBUG is off (--deploy)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_qless import conf, discovery, rules
from django_qless.checks.jobs import check_jobs
from django_qless.checks.options import check_context, check_options
from django_qless.checks.schedules import check_schedules
from django_qless.places import at
from django_qless.registry import registry
from django_qless.sources import Source, of_cache, source_of

TAG = "qless"


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Judge QLESS."""
    return list(_settings_messages())


def check_modules(**kwargs: Any) -> list[CheckMessage]:
    """Import the modules of jobs, as a worker does at its start."""
    return [
        Error(
            f"The module {failure.module} cannot be imported: {failure.error!r}",
            hint="A worker would not start either.",
            id="django_qless.E016",
        )
        for failure in discovery.failures()
    ]


def check_middleware(**kwargs: Any) -> list[CheckMessage]:
    """Import the middleware of jobs that name their own."""
    return [
        _error(
            "E018",
            f"{job_type.name}{at(job_type.function)}: middleware: {trouble}",
            "Is it spelt so?",
        )
        for job_type in registry
        for name in job_type.options.middleware
        if isinstance(name, str) and (trouble := _trouble(name))
    ]


def check_redis_py(**kwargs: Any) -> list[CheckMessage]:
    """Refuse the release of redis-py that mishandles sockets."""
    if version("redis") != "8.0.0":
        return []
    return [
        Error(
            "redis-py 8.0.0 mishandles Unix sockets and asyncio.",
            hint="Install 8.0.1 or later: pip install -U redis",
            id="django_qless.E017",
        )
    ]


def check_deployment(**kwargs: Any) -> list[CheckMessage]:
    """Warn of what is meant for development."""
    if settings.DEBUG or any(_problems()):
        return []
    messages: list[CheckMessage] = []
    for name in conf.names():
        alias = conf.alias(name)
        if alias.implied:
            messages.append(
                Caution(
                    f"QLESS[{name!r}] names no server, so nothing can be put.",
                    hint=rules.REMEDY,
                    id="django_qless.W002",
                )
            )
        elif alias.embedded:
            messages.append(
                Caution(
                    f"QLESS[{name!r}] is EMBEDDED, which is made for development.",
                    hint=f"Run a Redis or Valkey server. {rules.REMEDY}",
                    id="django_qless.W003",
                )
            )
    return messages


def register_checks() -> None:
    """Make Django run these checks."""
    register(check_settings, TAG)
    register(check_redis_py, TAG)
    register(check_modules, TAG)
    register(check_middleware, TAG)
    register(check_jobs, TAG)
    register(check_options, TAG)
    register(check_context, TAG)
    register(check_schedules, TAG)
    register(check_deployment, TAG, Tags.security, deploy=True)


def _settings_messages() -> Iterator[CheckMessage]:
    wrong = list(_problems())
    for problem in wrong:
        yield _error(problem.number, problem.text, problem.hint)
    if wrong:
        return
    sources: dict[str, Source] = {}
    for name in conf.names():
        alias = conf.alias(name)
        yield from _middleware_messages(alias)
        try:
            if not alias.implied:
                sources[name] = source_of(alias)
        except ImproperlyConfigured as error:
            yield _error("E006", f"QLESS[{name!r}]: {error}", None)
    yield from _same_namespace(sources)
    yield from _shared_with_cache(sources)


def _problems() -> Iterator[rules.Problem]:
    value = getattr(settings, "QLESS", None)
    if value is None:
        return
    wrong = list(rules.whole_setting(value))
    yield from wrong
    if isinstance(value, Mapping):
        for name, options in value.items():
            if isinstance(options, Mapping):
                yield from rules.one_alias(name, options)


def _error(number: str, text: str, hint: str | None) -> Error:
    return Error(text, hint=hint, id=f"django_qless.{number}")


def _middleware_messages(alias: conf.Alias) -> Iterator[CheckMessage]:
    for name in alias.middleware:
        if trouble := _trouble(name):
            text = f"QLESS[{alias.name!r}]: MIDDLEWARE: {trouble}"
            yield _error("E013", text, "Is it spelt so?")


def _trouble(name: str) -> str:
    """Say why this dotted name is no middleware, "" if it may be one."""
    try:
        found = import_string(name)
    except ImportError as error:
        return str(error)
    if callable(found):
        return ""
    return f"{name} cannot be called: a middleware takes what runs a job."


def _same_namespace(sources: Mapping[str, Source]) -> Iterator[CheckMessage]:
    seen: dict[tuple[Any, ...], str] = {}
    for name, source in sources.items():
        namespace = (*source.database, conf.alias(name).prefix)
        first = seen.setdefault(namespace, name)
        if first != name:
            yield _error(
                "E015",
                f"QLESS[{first!r}] and QLESS[{name!r}] are one namespace: the same "
                "database with the same PREFIX.",
                "Give one of them another PREFIX or another database.",
            )


def _shared_with_cache(sources: Mapping[str, Source]) -> Iterator[CheckMessage]:
    caches = dict(_cache_databases(settings.CACHES))
    for name, source in sources.items():
        for cache, database in caches.items():
            if database == source.database:
                yield Caution(
                    f"QLESS[{name!r}] shares its database with the cache {cache!r}: "
                    "cache.clear() would delete every job.",
                    hint=(
                        'Give the queue a database of its own: "DB": 1 beside CACHE, or '
                        "another number at the end of LOCATION."
                    ),
                    id="django_qless.W001",
                )


def _cache_databases(names: Iterable[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name in names:
        try:
            yield name, of_cache(name, None).database
        except (ImproperlyConfigured, ValueError, TypeError):
            continue  # no cache in Redis, or none that works: not ours to judge
