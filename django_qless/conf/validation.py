"""Validation of the setting QLESS, by the checks of `schema.py`.

System checks show all problems; `conf` refuses to connect at the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings

from django_qless.conf import setting_checks as checks
from django_qless.conf.combinations import combination_problems
from django_qless.conf.schema import ATTRIBUTES, CONNECTION_KEYS, REMEDY, Key
from django_qless.conf.setting_checks import Problem

ROUTES = "QLESS_ROUTES"


def _test(value: Any) -> Iterator[Problem]:
    if value is None or value is False:
        return
    if not isinstance(value, Mapping) or "TEST" in value:
        yield Problem(" must be False, or a dict of what the alias is in tests.")
        return
    for problem in _problems(value):
        yield problem._replace(text=f": {problem.text}")


KEYS = (
    *ATTRIBUTES.values(),
    Key("TEST", _test, "E040", 'For example {"LOCATION": "redis://localhost:6379/9"}.'),
)
KNOWN = frozenset(row.name for row in KEYS)


def validate_setting(value: Any) -> Iterator[Problem]:
    """Yield the problems of QLESS itself; without any, its aliases can be validated."""
    if not isinstance(value, Mapping) or not all(
        isinstance(alias, str) and isinstance(options, Mapping)
        for alias, options in value.items()
    ):
        text = "QLESS must be a dict of aliases, each a dict."
        yield Problem(text, REMEDY, "E001")
    elif "default" not in value:
        yield Problem('QLESS has no alias "default".', REMEDY, "E001")


def validate_alias(alias: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the options of one alias."""
    for problem in _problems(options):
        yield problem._replace(text=f"QLESS[{alias!r}]: {problem.text}")


def validate_routes() -> Iterator[Problem]:
    """Yield why QLESS_ROUTES cannot be read; without any, it is a dict of texts."""
    value = getattr(settings, ROUTES, None) or {}
    hint = 'For example {"mail": "mail", "report.*": "reports"}.'
    if not isinstance(value, Mapping):
        yield Problem(f"{ROUTES} must be a dict, not {value!r:.120}.", hint, "E047")
        return
    for glob, alias in value.items():
        if not (isinstance(glob, str) and glob and isinstance(alias, str)):
            yield Problem(
                f"{ROUTES}: {glob!r:.120}: {alias!r:.120} must be the name of a queue, or a "
                "glob with * and ?, and the name of an alias.",
                hint,
                "E047",
            )


def _problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    for name in options:
        if name not in KNOWN:
            hint = checks.near_miss(str(name).upper(), KNOWN) or checks.listed(
                sorted(KNOWN)
            )
            yield Problem(f"there is no option {name!r}.", hint, "E002")
    yield from combination_problems(options, CONNECTION_KEYS)
    for row in KEYS:
        if row.name in options:
            for text, hint, number in row.check(options[row.name]):
                yield Problem(
                    f"{row.name}{text}", hint or row.hint, number or row.number
                )
