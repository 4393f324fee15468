"""What QLESS means while tests run: a private server, as DATABASES means test databases.

Within Django's test environment (`manage.py test`), and in a run of pytest from its
beginning to its end, an alias of the project's setting is on the throw-away server of the
test process, in a database of its own. Three things say otherwise:

    "TEST": {"LOCATION": "redis://…"}     in the alias: there, with what else it says
    "TEST": False                         in the alias: where it always is
    override_settings(QLESS={…})          in a test: a place that it names is used
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from django.conf import UserSettingsHolder, global_settings, settings
from django.utils.module_loading import import_string

from django_qless import rules
from django_qless.servers import throwaway

# Called once when tests begin: by its name, because imports point down.
_BEGIN = "django_qless.testing.beginning.begin"

# pytest loads it before anything of the project: where it is, tests are being run.
_PLUGIN = "django_qless.testing.plugin"

# What says where an alias is, and belongs to that place.
_PLACE = (*rules.WAYS, "DB", "SERVICE_NAME", "OPTIONS")

_begun = False
_forced = False


def is_testing() -> bool:
    """Return whether this process runs tests.

    Once it does, it does so to its end: what is put after the last test, by a thread or a
    fixture, is no more meant for the project's own server.
    """
    if _forced or _begun or _PLUGIN in sys.modules:
        return True
    utils = sys.modules.get("django.test.utils")
    return utils is not None and hasattr(
        getattr(utils, "_TestState", None), "saved_data"
    )


def begin(*, forced: bool = False) -> None:
    """Prepare this process for tests, once, if it runs any.

    `forced` says that it does, whether Django's test environment is set up or not.
    """
    global _begun, _forced
    _forced = _forced or forced
    if not _begun and is_testing():
        _begun = True
        import_string(_BEGIN)()


def options_of(given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return what an alias is in tests, and whether it is on the throw-away server."""
    test = given.get("TEST")
    options = {name: value for name, value in given.items() if name != "TEST"}
    if test is False or (not test and not _is_the_projects(options)):
        return options, False
    here = {name: value for name, value in options.items() if name not in _PLACE}
    here |= test or {}
    if not any(here.get(way) for way in rules.WAYS):
        return here, True
    here["PREFIX"] = here.get("PREFIX", "ql:") + _parallel()
    return here, False


def database_of(alias: str) -> int:
    """Return which database of the throw-away server is this alias's."""
    return _numbers.setdefault(alias, len(_numbers) % throwaway.DATABASES)


def _is_the_projects(options: Mapping[str, Any]) -> bool:
    """Return whether an alias is where the project's own settings have one, or nowhere."""
    place = _place(options)
    if not place:
        return True
    aliases = getattr(_project(), "QLESS", None)
    if not isinstance(aliases, Mapping):
        return False
    return any(place == _place(alias) for alias in aliases.values())


def _place(options: Mapping[str, Any]) -> dict[str, Any]:
    return {way: options[way] for way in rules.WAYS if options.get(way)}


def _project() -> Any:
    """Return the settings beneath those that tests have changed."""
    found: Any = settings._wrapped  # type: ignore[misc]
    while (
        isinstance(found, UserSettingsHolder)
        and found.default_settings is not global_settings
    ):
        found = found.default_settings
    return found


def _parallel() -> str:
    """Return what keeps the keys of parallel test processes apart on a shared server."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        number = getattr(sys.modules.get("django.test.runner"), "_worker_id", 0)
        worker = f"p{number}" if number else ""
    return f"{worker}:" if worker else ""


# Which database of the throw-away server an alias has, for the life of the process.
_numbers: dict[str, int] = {}
