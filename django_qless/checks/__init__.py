"""System checks of the settings; each problem has a number and a hint.

None of them connects to a server; `qless_doctor` does.

    django_qless.E001   QLESS is not a dict of aliases with a "default"
    django_qless.E002   a key that does not exist
    django_qless.E003   two ways to connect
    django_qless.E005 to E014, E025, E033, E034, E040 to E043, E045, E046, E052, E054
                        see `conf/schema.py`, `conf/combinations.py` and `jobs.py`
    django_qless.E060 to E063
                        see `outbox.py`, and `conf/schema.py` for E061 and E062
    django_qless.E047 to E049
                        QLESS_ROUTES, see `conf/routing.py`
    django_qless.E044   QLESS_MONITORING_TOKEN is no token
    django_qless.W010   django_qless.urls is included, but there is no token
    django_qless.E015   two aliases with one namespace
    django_qless.E017   a release of redis-py that does not work
    django_qless.E016, E019 to E021, E026 to E029, E056, W004, W005, W008     see `jobs.py`
    django_qless.E030 to E032                                  see `schedules.py`
    django_qless.W001   the queue shares its database with a cache
    django_qless.W002   no server is named, and DEBUG is off (--deploy)
    django_qless.W003   EMBEDDED, and DEBUG is off (--deploy)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse
from django.utils.module_loading import import_string

from django_qless import conf
from django_qless.checks.jobs import (
    check_jobs,
    check_modules,
    check_options,
    check_queues_of_detached,
    check_queues_of_entities,
)
from django_qless.checks.messages import caution, error
from django_qless.checks.outbox import check_outbox
from django_qless.checks.schedules import check_schedules
from django_qless.conf import monitoring, routing, schema, validation
from django_qless.conf.connection_factory import (
    Factory,
    factory_for,
    factory_from_cache,
)
from django_qless.conf.setting_checks import Problem
from django_qless.enqueue import context_propagation

TAG = "qless"


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Check the setting QLESS."""
    return list(_settings_messages())


def check_context(**kwargs: Any) -> list[CheckMessage]:
    """Import the context propagators that CONTEXT names."""
    try:
        aliases = [conf.alias(name) for name in conf.alias_names()]
    except ImproperlyConfigured:
        return []  # E001 and its siblings say so
    return [
        error(
            "E025",
            f"QLESS[{alias.name!r}]: CONTEXT: {text}",
            "A propagator is a class, an object or a module with capture() and "
            "restore(value).",
        )
        for alias in aliases
        for text in _context_problems(alias)
    ]


def _context_problems(alias: conf.Alias) -> Iterator[str]:
    seen = dict.fromkeys(context_propagation.BUILT_IN, "a built-in one")
    for dotted in alias.propagators:
        try:
            name, _ = context_propagation.load(dotted)
        except Exception as error:  # noqa: BLE001  what importing it raises
            yield str(error) or repr(error)
            continue
        if name in seen:
            yield f"{dotted} is called {name!r}, as {seen[name]}: give it another name."
        seen[name] = dotted


def check_redis_py(**kwargs: Any) -> list[CheckMessage]:
    """Refuse the release of redis-py that mishandles sockets."""
    if version("redis") != "8.0.0":
        return []
    return [
        error(
            "E017",
            "redis-py 8.0.0 mishandles Unix sockets and asyncio.",
            "Install 8.0.1 or later: pip install -U redis",
        )
    ]


def check_monitoring(**kwargs: Any) -> list[CheckMessage]:
    """Check the token of the URLs for machines."""
    found: list[CheckMessage] = [
        error(each.number, each.text, each.hint) for each in monitoring.token_problems()
    ]
    if not found and not monitoring.tokens() and _has_urls():
        text = "django_qless.urls is included, but answers 404 without a token."
        hint = f"Set {monitoring.NAME}. {monitoring.REMEDY}"
        found.append(caution("W010", text, hint))
    return found


def _has_urls() -> bool:
    """Return whether the project includes the URLs for machines."""
    if not getattr(settings, "ROOT_URLCONF", None):
        return False
    try:
        return bool(reverse("django_qless:metrics"))
    except Exception:  # noqa: BLE001  Django's own checks say what is wrong with URLs
        return False


def check_deployment(**kwargs: Any) -> list[CheckMessage]:
    """Warn of settings that are meant for development."""
    if settings.DEBUG or any(_problems()):
        return []
    messages: list[CheckMessage] = []
    for name in conf.alias_names():
        alias = conf.alias(name)
        if alias.implied:
            messages.append(
                caution(
                    "W002",
                    f"QLESS[{name!r}] names no server, so nothing can be enqueued.",
                    schema.REMEDY,
                )
            )
        elif alias.embedded:
            messages.append(
                caution(
                    "W003",
                    f"QLESS[{name!r}] is EMBEDDED, which is made for development.",
                    f"Run a Redis or Valkey server. {schema.REMEDY}",
                )
            )
    return messages


def register_checks() -> None:
    """Make Django run these checks."""
    for check in (
        *(check_settings, check_redis_py, check_monitoring, check_modules),
        *(check_jobs, check_options, check_queues_of_detached),
        *(check_queues_of_entities, check_context, check_schedules, check_outbox),
    ):
        register(check, TAG)
    register(check_deployment, TAG, Tags.security, deploy=True)


def _settings_messages() -> Iterator[CheckMessage]:
    wrong = list(_problems())
    for problem in wrong:
        yield error(problem.number, problem.text, problem.hint)
    if wrong:
        return
    factories: dict[str, Factory] = {}
    for name in conf.alias_names():
        alias = conf.alias(name)
        yield from _middleware_messages(alias)
        try:
            if not alias.implied:
                factories[name] = factory_for(alias)
        except ImproperlyConfigured as problem:
            yield error("E006", f"QLESS[{name!r}]: {problem}")
    yield from _same_namespace(factories)
    yield from _shared_with_cache(factories)


def _problems() -> Iterator[Problem]:
    value = getattr(settings, "QLESS", None)
    if value is not None:
        wrong = list(validation.validate_setting(value))
        yield from wrong
        if isinstance(value, Mapping):
            for name, options in value.items():
                if isinstance(options, Mapping):
                    yield from validation.validate_alias(name, options)
        if wrong:
            return
    yield from routing.route_problems()


def _middleware_messages(alias: conf.Alias) -> Iterator[CheckMessage]:
    for name in alias.middleware:
        if trouble := _no_middleware(name):
            text = f"QLESS[{alias.name!r}]: MIDDLEWARE: {trouble}"
            yield error("E013", text, "Check the spelling.")


def _no_middleware(name: str) -> str:
    """Return why this dotted name is no middleware, "" if it may be one."""
    try:
        found = import_string(name)
    except Exception as error:  # noqa: BLE001  what importing it raises
        return f"{name}: {type(error).__name__}: {error}"
    if callable(found):
        return ""
    return f"{name} cannot be called: a middleware takes what runs a job."


def _same_namespace(
    factories: Mapping[str, Factory],
) -> Iterator[CheckMessage]:
    seen: dict[tuple[Any, ...], str] = {}
    for name, factory in factories.items():
        namespace = (*factory.database, conf.alias(name).prefix)
        first = seen.setdefault(namespace, name)
        if first != name:
            yield error(
                "E015",
                f"QLESS[{first!r}] and QLESS[{name!r}] are one namespace: the same "
                "database with the same PREFIX.",
                "Give one of them another PREFIX or another database.",
            )


def _shared_with_cache(
    factories: Mapping[str, Factory],
) -> Iterator[CheckMessage]:
    caches = dict(_cache_databases(settings.CACHES))
    for name, factory in factories.items():
        for cache, database in caches.items():
            if database == factory.database:
                yield caution(
                    "W001",
                    f"QLESS[{name!r}] shares its database with the cache {cache!r}: "
                    "cache.clear() would delete every job.",
                    'Give the queue its own database: "DB": 1 beside CACHE, or '
                    "another number at the end of LOCATION.",
                )


def _cache_databases(names: Iterable[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name in names:
        try:
            yield name, factory_from_cache(name, None).database
        except (ImproperlyConfigured, ValueError, TypeError):
            continue  # no cache in Redis, or none that works: not ours to check
