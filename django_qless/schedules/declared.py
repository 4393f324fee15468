"""Sync of the schedules that `@job` declares with those on the server.

A mark on the server remembers, for each project, which set of declarations was applied
last. A process with the same set has nothing to do. One with another set applies it: what
is new, changed or gone, and nothing else. An operator who has edited, paused or removed a
declared schedule wins until it is reset, and dynamic schedules are left alone.

While a deployment is under way, workers with the old code may start beside those with
the new one. A set that another one has replaced lately is therefore not applied again by
itself; after ten minutes it is a rollback, and it is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Container
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import ENVIRONMENT_VARIABLE, settings

from django_qless import conf
from django_qless.conf import routing
from django_qless.conf.config_sync import MARKER, declared_options
from django_qless.conf.connections import connections
from django_qless.conf.declaration_mark import (
    Mark,
    digest_of,
    read_mark,
    short,
    write_mark,
)
from django_qless.core.exceptions import ConnectionLost, QlessError
from django_qless.core.request import Steps, adrive, drive
from django_qless.enqueue.dependencies import has_dependents, on_its_way_key
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.redaction import mark_of
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.schedules.ticks import RETRIES, needs_python, tick_name
from django_qless.schedules.timetable import checked_schedule
from django_qless.serialization import envelope

if TYPE_CHECKING:
    from django_qless.core import Client, Schedule

logger = logging.getLogger("django_qless.worker")

AGAIN = 60.0
"""Seconds until what could not be applied is tried again."""

OF_ANOTHER = (
    "recurring job %s is left as the project %r has declared it: if that is this one "
    'under an earlier name, set PROJECT to "%s" in QLESS; if not, give one of the jobs '
    "another name="
)

CODE = "code:"

EDITABLE = (
    "queue",
    "every",
    "cron",
    "timezone",
    "missed",
    "priority",
    "retries",
    "tags",
    "expires",
)


class SyncResult(NamedTuple):
    """The outcome of `sync_schedules`, as ids of schedules."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    kept: list[str]
    """Declared otherwise by now, but an operator has edited or removed them."""
    by_hand: list[str]
    """Not applied: a dynamic schedule has the same id."""
    failed: dict[str, str]
    """Refused by the server, and why; the next process to start tries all again."""
    waits: float = 0.0
    """Seconds until this set is applied, because another one has replaced it lately."""
    others: dict[str, str] = {}
    """Not applied: code of another project has declared them, and which."""


NO_CHANGES = SyncResult([], [], [], [], [], {})


def sync_schedules(
    alias: str = conf.DEFAULT_ALIAS, *, anyway: bool = False
) -> SyncResult:
    """Apply what the code declares, if that has not been done yet.

    A worker calls it at its start. `anyway` looks at each schedule in any case, also if
    this very set was applied, or replaced a moment ago.
    """
    client, wanted = connections[alias], declared_on(alias)
    text = read_mark(client, mark_name(alias))
    if not text and not wanted:
        return NO_CHANGES
    mark, digest = Mark.read(text), digest_of(wanted)
    if not anyway and mark.applied == digest:
        return NO_CHANGES
    # By the server's clock: those of two machines may differ by more than that.
    now = float(client.meta()["now"])
    waits = 0.0 if anyway else mark.seconds_until_due(digest, now)
    if waits > 0:
        return NO_CHANGES._replace(waits=waits)
    done = _apply(alias, wanted, mark)
    after = mark.replaced_by(digest, sorted(wanted), now).text()
    if not done.failed and after != text:
        # Last, so that a crash before it is made good by the next start.
        write_mark(client, mark_name(alias), after)
    return done


def sync_at_start(alias: str) -> float:
    """Apply what the code declares when a worker starts, and log what changed.

    Returns the seconds after which it is to be done again, 0 for never.
    """
    done = sync_schedules(alias)
    for word, names in (
        ("added", done.added),
        ("changed", done.changed),
        ("removed", done.removed),
        ("left as an operator has it", done.kept),
        ("left, because it is a dynamic schedule", done.by_hand),
    ):
        for name in names:
            logger.info("recurring job %s: %s", word, name)
    for name, project in done.others.items():
        logger.warning(OF_ANOTHER, name, project, project)
    for name, why in done.failed.items():
        logger.error("recurring job %s is not applied: %s", name, why)
    if done.waits > 0:
        logger.warning(
            "other code has declared other recurring jobs lately: those of this code "
            "are applied in %.0f s, or at once by `manage.py qless_recurring sync`",
            done.waits,
        )
    return AGAIN if done.failed else max(0.0, done.waits)


def reset(alias: str, id: str) -> None:  # noqa: A002 (what it is)
    """Reset a schedule to its declaration, even if an operator has edited it.

    Raises InvalidOption if the code declares none of this id.
    """
    drive(_resetting(connections[alias], alias, id))


async def areset(alias: str, id: str) -> None:  # noqa: A002
    """Asynchronous version of `reset`."""
    await adrive(_resetting(connections.aclient(alias), alias, id))


def _resetting(client: Any, alias: str, id: str) -> Steps[None]:  # noqa: A002
    wanted = declared_on(alias).get(id)
    if wanted is None:
        raise InvalidOption(
            f"The code declares no recurring job {id!r} in alias {alias!r}."
        )
    if (yield client.schedule_get(id)) is not None:
        # So its next tick is computed again: the server's clock may have been set back.
        yield client.schedule_pause([id])
    yield client.schedule_set(id, **wanted, owner=owner_name(alias))
    yield client.schedule_resume([id])


def declared_on(alias: str) -> dict[str, dict[str, Any]]:
    """Return the definitions of an alias's schedules, by id, as the code declares them."""
    return {
        job_type.name: definition_of(job_type)
        for job_type in registry
        if routing.alias_for(job_type.options) == alias and _recurs(job_type)
    }


def former_ids(name: str, wanted: Container[str]) -> list[str]:
    """Return the ids that a declared schedule had under former names of its job."""
    job_type = registry.get(name)
    aliases = job_type.aliases if job_type is not None else ()
    return [each for each in aliases if each not in wanted]


def definition_of(job_type: JobType) -> dict[str, Any]:
    """Return the definition of the schedule of a declared job."""
    schedule, options = job_type.schedule, job_type.options
    assert schedule is not None
    in_python = needs_python(job_type)
    if in_python:
        data = envelope.encode(job_type.name, (), {})
    elif job_type.binding is Binding.CLASS:
        data = "{}"
    else:
        data = envelope.encode(job_type.name, (), {}, mark=mark_of(job_type))
    return {
        **schedule.timetable.for_core(),
        "queue": options.queue,
        "klass": tick_name(job_type) if in_python else job_type.name,
        "data": data,
        "priority": options.priority,
        "retries": RETRIES if in_python else options.retries,
        "tags": list(options.tags),
        "expires": None if in_python else options.expires,
        # So that a job that depends on it can tell that it is on its way.
        "unique": on_its_way_key(job_type, "")
        if has_dependents(job_type) and not in_python
        else None,
        "name": job_type.name,
    }


def _recurs(job_type: JobType) -> bool:
    try:
        schedule = checked_schedule(
            job_type.schedule, job_type.binding, job_type.function
        )
    except InvalidJob as error:
        logger.error("a schedule is left out: %s", error)
        return False
    return schedule is not None


def declarations_lost(alias: str) -> list[str]:
    """Return the names of what is declared and missing on the server.

    So it is when the server comes back without its data, and until the first worker has
    applied it. Two short calls at most.
    """
    client, lost = connections[alias], []
    if declared_on(alias) and not read_mark(client, mark_name(alias)):
        lost.append("recurring jobs")
    if declared_options(alias) and not client.config_get(MARKER):
        lost.append("options")
    return lost


def mark_name(alias: str) -> str:
    """Return the name of the mark of what this project's code has declared."""
    return f"by {project_name(alias)}"


def owner_name(alias: str) -> str:
    """Return who owns the schedules that this project's code declares."""
    return f"{CODE}{project_name(alias)}"


def project_name(alias: str = conf.DEFAULT_ALIAS) -> str:
    """Return the name of this project among those that share a namespace.

    Unless PROJECT says it, it is the package of ROOT_URLCONF, which other settings of
    the same project have as well, or else that of the settings.
    """
    module = (
        getattr(settings, "ROOT_URLCONF", None)
        or os.environ.get(ENVIRONMENT_VARIABLE)
        or getattr(settings, "SETTINGS_MODULE", "")
    )
    return conf.alias(alias).project or str(module or "project").partition(".")[0]


def _apply(alias: str, wanted: dict[str, dict[str, Any]], mark: Mark) -> SyncResult:
    client, owner = connections[alias], owner_name(alias)
    done = SyncResult([], [], [], [], [], {}, others={})
    gone = {each.id for each in client.schedule_declared() if each.owner == owner}
    for id, definition in wanted.items():  # noqa: A001 (what it is)
        ids = [id, *former_ids(id, wanted)]
        try:
            before = next(iter(client.schedules_of(ids)), None)
            gone -= {id, before.id if before else id}
            if before is None and not set(map(short, ids)).isdisjoint(mark.ids):
                done.kept.append(id)  # An operator has removed it.
            elif before is None or before.owner == owner:
                definition = {**definition, "owner": owner, "formerly": ids[1:]}
                _declare(client, id, definition, before, done)
            elif before.owner.startswith(CODE):
                done.others[id] = before.owner.removeprefix(CODE)
            else:
                done.by_hand.append(id)
        except ConnectionLost:
            raise
        except QlessError as error:
            done.failed[id] = str(error)  # The others are to recur all the same.
    if gone:
        client.schedule_remove(sorted(gone))
        done.removed.extend(sorted(gone))
    return done


def _declare(
    client: Client,
    id: str,  # noqa: A002 (what it is)
    definition: dict[str, Any],
    before: Schedule | None,
    done: SyncResult,
) -> None:
    """Set a schedule as it is declared, but for what an operator has changed."""
    if before is None:
        if client.schedule_set(id, **definition) == "new":
            done.added.append(id)
    elif before.edited:
        done.kept.append(id)
        if before.id != id:
            client.schedule_set(id, **definition | _edited(before))
    elif before.id != id or not _is_as(before, definition):
        client.schedule_set(id, **definition)
        done.changed.append(id)


def _is_as(schedule: Schedule, definition: dict[str, Any]) -> bool:
    """Return whether a schedule is as it is declared."""
    return all(
        getattr(schedule, name) == (tuple(value) if isinstance(value, list) else value)
        for name, value in definition.items()
        if name != "formerly"
    )


def _edited(schedule: Schedule) -> dict[str, Any]:
    """Return what an operator may have changed of a schedule."""
    return {"edited": True} | {name: getattr(schedule, name) for name in EDITABLE}
