"""The setting QLESS as typed values: read when first needed, again when it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_qless.conf import in_tests, schema, validation
from django_qless.conf.schema import Alias as Alias

DEFAULT_ALIAS = "default"


def alias_names() -> list[str]:
    """Return the names of all aliases."""
    return list(raw_setting())


def raw_setting() -> Mapping[str, Mapping[str, Any]]:
    """Return QLESS as the project wrote it; without one there is an empty default."""
    value = getattr(settings, "QLESS", None)
    if value is None:
        return {DEFAULT_ALIAS: {}}
    for problem in validation.validate_setting(value):
        raise ImproperlyConfigured(f"{problem.text} {problem.hint}")
    return value  # type: ignore[no-any-return]


def routes() -> Mapping[str, str]:
    """Return QLESS_ROUTES: aliases by the names and globs of queues; {} if it is wrong."""
    if any(validation.validate_routes()):
        return {}
    value: Mapping[str, str] | None = getattr(settings, validation.ROUTES, None)
    return value or {}


def alias(name: str = DEFAULT_ALIAS) -> Alias:
    """Return the settings of one alias.

    Raises ImproperlyConfigured if something is wrong with them, or if there is no such
    alias.
    """
    in_tests.begin()
    found = _read.get(name)
    if found is None:
        value = raw_setting()
        if name not in value:
            raise ImproperlyConfigured(
                f"QLESS has no alias {name!r}; there are: {', '.join(sorted(value))}."
            )
        problems = validation.validate_alias(name, value[name])
        for problem in chain(problems, validation.validate_routes()):
            raise ImproperlyConfigured(f"{problem.text} {problem.hint}")
        found = _read[name] = _parsed(name, value[name])
    return found


def on_change(function: Callable[[], None]) -> None:
    """Call this function whenever QLESS, QLESS_ROUTES, or what they rest on, changes."""
    _listeners.append(function)


def _parsed(name: str, given: Mapping[str, Any]) -> Alias:
    options, throwaway, of_tests = given, None, False
    if in_tests.is_testing():
        options, is_thrown_away = in_tests.settings_in_tests(given)
        throwaway = in_tests.database_of(name) if is_thrown_away else None
        of_tests = is_thrown_away or bool(given.get("TEST"))
    implied = not any(options.get(key) for key in schema.CONNECTION_KEYS)
    if implied:
        options = {**options, "EMBEDDED": True}
    return schema.read_alias(
        name, options, implied=implied, throwaway=throwaway, in_tests=of_tests
    )


def clear_cache() -> None:
    """Read QLESS again when it is needed next."""
    _read.clear()
    for each in _listeners:
        each()


def _on_change(*, setting: str, **kwargs: Any) -> None:
    if setting in ("QLESS", "QLESS_ROUTES", "CACHES", "DEBUG", "BASE_DIR"):
        clear_cache()


_read: dict[str, Alias] = {}
_listeners: list[Callable[[], None]] = []
setting_changed.connect(_on_change, dispatch_uid="django_qless.conf")
