"""The setting QLESS as typed values: read when first needed, again when it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_qless.conf import in_tests, namespaces, schema, validation
from django_qless.conf.schema import Alias as Alias

DEFAULT_ALIAS = "default"


def alias_names() -> list[str]:
    """Return the names of all aliases; each namespace of NAMESPACES is one, too."""
    return list(namespaces.members(raw_setting()))


def namespaces_of(alias: str) -> list[str]:
    """Return the names of the namespaces of an alias, that of most queues first.

    Without NAMESPACES and partitions, and for one of these, it is the alias alone. "default/" is only
    that of all queues that no other namespace has.
    """
    if alias.endswith(namespaces.SEPARATOR):
        return [alias.removesuffix(namespaces.SEPARATOR)]
    found = _names.get(alias)
    if found is None:
        value = raw_setting()
        if alias not in value:
            return [alias]
        routes = namespaces.routes_of(alias, value[alias])
        found = _names[alias] = tuple(routes.names) if routes else (alias,)
    return list(found)


def raw_setting() -> Mapping[str, Mapping[str, Any]]:
    """Return QLESS as the project wrote it; without one there is an empty default."""
    value = getattr(settings, "QLESS", None)
    if value is None:
        return {DEFAULT_ALIAS: {}}
    for problem in validation.validate_setting(value):
        raise ImproperlyConfigured(f"{problem.text} {problem.hint}")
    return value  # type: ignore[no-any-return]


def alias(name: str = DEFAULT_ALIAS) -> Alias:
    """Return the settings of one alias.

    Raises ImproperlyConfigured if something is wrong with them, or if there is no such
    alias.
    """
    in_tests.begin()
    found = _read.get(name)
    if found is None:
        value = raw_setting()
        aliases = namespaces.members(value)
        if name not in aliases:
            raise ImproperlyConfigured(
                f"QLESS has no alias {name!r}; there are: {', '.join(sorted(aliases))}."
            )
        member = aliases[name]
        own = value[member.alias]
        for problem in validation.validate_alias(member.alias, own, value):
            raise ImproperlyConfigured(f"{problem.text} {problem.hint}")
        found = _read[name] = _parsed(name, member.options)
    return found


def on_change(function: Callable[[], None]) -> None:
    """Call this function whenever QLESS, or what it rests on, changes."""
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
    _names.clear()
    for each in _listeners:
        each()


def _on_change(*, setting: str, **kwargs: Any) -> None:
    if setting in ("QLESS", "CACHES", "DEBUG", "BASE_DIR"):
        clear_cache()


_read: dict[str, Alias] = {}
_names: dict[str, tuple[str, ...]] = {}
_listeners: list[Callable[[], None]] = []
setting_changed.connect(_on_change, dispatch_uid="django_qless.conf")
