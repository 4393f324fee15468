"""The setting QLESS while tests run: a private server, like Django's test databases.

Within Django's test environment (`manage.py test`), and during a run of pytest, each
alias of the project's setting has its own database on the throwaway server of the test
process. Three settings override that:

    "TEST": {"LOCATION": "redis://…"}     in the alias: this server, with these options
    "TEST": False                         in the alias: its ordinary server
    override_settings(QLESS={…})          in a test: the server that it names, if any

The first two are servers of the tests. Where tests may have stopped the clock of the
process, calls to these are made at the time that it shows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.conf import UserSettingsHolder, global_settings, settings
from django.utils.module_loading import import_string

from django_qless.conf import schema
from django_qless.servers import throwaway

# Called once when tests begin, by its name because imports point down.
_BEGIN = "django_qless.testing.dispatcher.begin"

# pytest loads it before the project: if it is loaded, tests run.
_PLUGIN = "django_qless.testing.plugin"

#: Django's test environment is in this module: while it is not loaded, none begins.
ENVIRONMENT = "django.test.utils"

# What stops the clock, or sets it.
_FREEZERS = ("freezegun", "time_machine")

_begun = False
_forced = False


def is_testing() -> bool:
    """Return True if this process runs tests.

    It stays True to the end of the process: jobs that a thread or a fixture enqueues
    after the last test are not meant for the project's own server either.
    """
    if _forced or _begun or _PLUGIN in sys.modules:
        return True
    utils = sys.modules.get(ENVIRONMENT)
    return utils is not None and hasattr(
        getattr(utils, "_TestState", None), "saved_data"
    )


def begin(*, forced: bool = False) -> None:
    """Prepare this process for tests, once, if it runs any.

    `forced` declares that it does, even without Django's test environment.
    """
    global _begun, _forced
    if forced:
        _forced = True
    if not _begun and is_testing():
        _begun = True
        import_string(_BEGIN)()


def settings_in_tests(given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the options of an alias in tests, and True for the throwaway server."""
    test = given.get("TEST")
    options = {name: value for name, value in given.items() if name != "TEST"}
    if test is False or (not test and not _is_in_project(options)):
        return options, False
    options = {k: value for k, value in options.items() if k not in schema.SERVER_KEYS}
    options |= test or {}
    if not _server(options):
        return options, True
    options["PREFIX"] = options.get("PREFIX", "ql:") + _parallel_prefix()
    return options, False


def clock() -> str | float:
    """Return the clock of a call to a server of the tests."""
    if any(name in sys.modules for name in _FREEZERS):
        return datetime.now(UTC).timestamp()
    return "*"


def database_of(alias: str) -> int:
    """Return the number of the alias's database on the throwaway server."""
    return _numbers.setdefault(alias, len(_numbers) % throwaway.DATABASES)


def _is_in_project(options: Mapping[str, Any]) -> bool:
    """Return True if the options name no server, or one of the project's settings."""
    server = _server(options)
    aliases = getattr(_project(), "QLESS", None)
    return not server or (
        isinstance(aliases, Mapping)
        and any(server == _server(own) for own in aliases.values())
    )


def _server(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: options[key] for key in schema.CONNECTION_KEYS if options.get(key)}


def _project() -> Any:
    """Return the settings that tests have overridden."""
    found: Any = settings._wrapped  # type: ignore[misc]
    while (
        isinstance(found, UserSettingsHolder)
        and found.default_settings is not global_settings
    ):
        found = found.default_settings
    return found


def _parallel_prefix() -> str:
    """Return a prefix that separates parallel test processes on a shared server."""
    number = throwaway.worker_id()
    worker = os.environ.get("PYTEST_XDIST_WORKER") or (number and f"p{number}")
    return f"{worker}:" if worker else ""


# The number of each alias's database, for the life of the process.
_numbers: dict[str, int] = {}
