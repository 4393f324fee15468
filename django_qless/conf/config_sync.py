"""Config sync: applies QUEUES and CONFIG, except what an operator has changed.

The option `declared` remembers, as JSON, what was applied last. An option that still has
that value is ours to change; one that an operator has set otherwise is left alone, until
it is unset. What code has declared that other code has replaced recently waits: see
`declaration_mark.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from django_qless import conf
from django_qless.conf.connections import connections
from django_qless.conf.declaration_mark import (
    PREFIX,
    Mark,
    digest_of,
    read_mark,
    write_mark,
)
from django_qless.core.options import known

logger = logging.getLogger("django_qless.worker")

MARKER = "declared"

MARK = "config"
"""The name of the mark on the server that says which set was applied last."""

Origin = Literal["operator", "settings", "default"]

#: What declares further options of an alias, beside QUEUES and CONFIG.
sources: list[Callable[[str], Mapping[str, str]]] = []

#: What says which options of an alias are called otherwise by now, as jobs are.
renames: list[Callable[[str], Mapping[str, str]]] = []


def declared_options(alias: str) -> dict[str, str]:
    """Return all options that are declared for an alias, in the core's form."""
    declared: dict[str, str] = {}
    for source in sources:
        declared.update(source(alias))
    return declared | conf.alias(alias).declared_options


class SyncResult(NamedTuple):
    """The changes that `sync_config` made."""

    set: dict[str, str]
    unset: list[str]
    kept: dict[str, str]
    """Options that an operator has set otherwise than declared, and their values."""


def sync_config(alias: str = conf.DEFAULT_ALIAS, *, anyway: bool = False) -> SyncResult:
    """Set the options that are declared and that no operator has changed.

    Repeating it changes nothing, and neither does another process that does the same at
    the same time. `anyway` also sets what other code has replaced a moment ago.
    """
    return _sync(alias, anyway=anyway)[0]


def sync_at_start(alias: str) -> float:
    """Do the same when a worker starts.

    Returns the seconds after which it is to be done again, 0 for never.
    """
    _, waits = _sync(alias, anyway=False)
    if waits:
        logger.warning(
            "other code has declared other options and limits recently: those of this code "
            "are applied in %.0f s, or at once by `manage.py qless_config sync`",
            waits,
        )
    return waits


def _sync(alias: str, *, anyway: bool) -> tuple[SyncResult, float]:
    """Return what was done, and in how many seconds it may be done if it has to wait."""
    client = connections[alias]
    declared = declared_options(alias)
    before = applied_options({MARKER: client.config_get(MARKER)})
    _follow_renames(alias, before)
    if not declared and not before:
        return SyncResult({}, [], {}), 0.0
    mark, digest = Mark.read(read_mark(client, MARK)), digest_of(declared)
    if mark.applied == digest:
        return _apply(alias, declared, before), 0.0
    # By the server's clock: those of two machines may differ by more than that.
    now = float(client.meta()["now"])
    waits = mark.seconds_until_due(digest, now)
    if waits > 0 and before and not anyway:
        return SyncResult({}, [], {}), waits
    # First, so that the next process knows what was replaced if this one is interrupted.
    write_mark(client, MARK, mark.replaced_by(digest, (), now).text())
    return _apply(alias, declared, before), 0.0


def _follow_renames(alias: str, before: Mapping[str, str]) -> None:
    """Keep what an operator has set for what is called otherwise by now."""
    renamed: dict[str, str] = {}
    for source in renames:
        renamed.update(source(alias))
    if not renamed:
        return
    client = connections[alias]
    present = client.config_all()
    for old, new in renamed.items():
        value = present.get(old)
        if value is None or value == before.get(old):
            continue
        if present.get(new) in (None, before.get(new)):
            client.config_set(new, value)
        client.config_unset(old)


def _apply(
    alias: str, declared: Mapping[str, str], before: Mapping[str, str]
) -> SyncResult:
    """Set what is declared in place of what was declared before."""
    client = connections[alias]
    # What is set is text; defaults are numbers.
    present = {
        option: value
        for option, value in client.config_all().items()
        if isinstance(value, str)
    }
    done = SyncResult({}, [], {})
    after: dict[str, str] = {}
    for option, value in declared.items():
        now = present.get(option)
        if now in (None, before.get(option)) or now == value:
            after[option] = value
            if now != value:
                client.config_set(option, value)
                done.set[option] = value
        else:
            done.kept[option] = str(now)
    for option, value in before.items():
        if option not in declared and present.get(option) == value:
            client.config_unset(option)
            done.unset.append(option)
    if after != before:
        # Last, so that a crash before it is made good by the next start.
        client.config_set(MARKER, json.dumps(after))
    return done


def reset(options: Sequence[str], alias: str = conf.DEFAULT_ALIAS) -> None:
    """Give options back the value that is declared, or without one, their default."""
    client = connections[alias]
    declared = declared_options(alias)
    after = applied_options({MARKER: client.config_get(MARKER)})
    for option in options:
        client.config_unset(option)
        after.pop(option, None)
        if option in declared:
            client.config_set(option, declared[option])
            after[option] = declared[option]
    client.config_set(MARKER, json.dumps(after))


def operator_overrides(alias: str = conf.DEFAULT_ALIAS) -> set[str]:
    """Return the names of the options that were set otherwise than declared."""
    values = connections[alias].config_all()
    applied = applied_options(values)
    return {
        option
        for option in values
        if not is_mark(option) and origin_of(option, values, applied) == "operator"
    }


def is_mark(option: str) -> bool:
    """Return whether this is no option, but says what was applied."""
    return option == MARKER or option.startswith(PREFIX)


def applied_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that were applied last; `values` is the reply of config_all()."""
    try:
        applied = json.loads(values.get(MARKER) or "{}")
    except ValueError:
        return {}
    return applied if isinstance(applied, dict) else {}


def origin_of(
    option: str, values: Mapping[str, Any], applied: Mapping[str, str]
) -> Origin:
    """Return what has set an option: an operator, the settings, or nothing."""
    # Values that are set are texts; the core's defaults are numbers, except for one.
    value = values.get(option)
    if not isinstance(value, str) or value == default_of(option):
        return "default"
    return "settings" if value == applied.get(option) else "operator"


def default_of(option: str) -> str | int | None:
    """Return the core's default of an option, or None if it has none."""
    known_option = known(option)
    return known_option.default if known_option else None
