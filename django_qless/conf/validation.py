"""Validation of the setting QLESS, by the checks of `schema.py`.

System checks show all problems; `conf` refuses to connect at the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django_qless.conf import setting_checks as checks
from django_qless.conf.combinations import combination_problems
from django_qless.conf.schema import ATTRIBUTES, CONNECTION_KEYS, REMEDY, Key
from django_qless.conf.setting_checks import Problem


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
