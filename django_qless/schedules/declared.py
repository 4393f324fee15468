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
from typing import Any, NamedTuple

from django.conf import ENVIRONMENT_VARIABLE, settings

from django_qless import conf
from django_qless.conf import routing
from django_qless.conf.config_sync import MARKER, declared_options
from django_qless.conf.connections import connections
from django_qless.conf.declaration_mark import DEPLOYMENT_SECONDS as DEPLOYMENT_SECONDS
from django_qless.conf.declaration_mark import MOST_EARLIER as MOST_EARLIER
from django_qless.conf.declaration_mark import Mark as Mark
from django_qless.conf.declaration_mark import digest_of
from django_qless.core.exceptions import ConnectionLost, QlessError
from django_qless.core.request import Steps, adrive, drive
from django_qless.enqueue.dependencies import has_dependents, on_its_way_key
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.redaction import mark_of
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.schedules.ticks import RETRIES, needs_python, tick_name
from django_qless.schedules.timetable import checked_schedule
from django_qless.serialization import envelope

logger = logging.getLogger("django_qless.worker")

AGAIN = 60.0
"""Seconds until what could not be applied is tried again."""

OF_ANOTHER = (
    "recurring job %s is left as the project %r has declared it: if that is this one "
    'under an earlier name, set PROJECT to "%s" in QLESS; if not, give one of the jobs '
    "another name="
)

CODE = "code:"


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

    def merged_with(self, later: SyncResult) -> SyncResult:
        """Return the outcome of two rounds together, each name once."""
        return SyncResult(
            list(dict.fromkeys([*self.added, *later.added])),
            list(dict.fromkeys([*self.changed, *later.changed])),
            list(dict.fromkeys([*self.removed, *later.removed])),
            list(dict.fromkeys([*self.kept, *later.kept])),
            list(dict.fromkeys([*self.by_hand, *later.by_hand])),
            later.failed,
            later.waits,
            later.others,
        )


NO_CHANGES = SyncResult([], [], [], [], [], {})


def sync_schedules(
    alias: str = conf.DEFAULT_ALIAS, *, anyway: bool = False
) -> SyncResult:
    """Apply what the code declares, if that has not been done yet.

    A worker calls it at its start. `anyway` looks at each schedule in any case, also if
    this very set was applied, or replaced a moment ago.
    """
    client = connections[alias]
    wanted = declared_on(alias)
    project = project_name(alias)
    done = NO_CHANGES
    while True:
        text = client.schedule_marks().get(project, "")
        if not text and not wanted:
            return done
        mark = Mark.read(text)
        digest = digest_of(wanted)
        if not anyway and mark.applied == digest:
            return done
        # By the server's clock: those of two machines may differ by more than that.
        now = float(client.meta()["now"])
        if not anyway:
            waits = mark.seconds_until_due(digest, now)
            if waits > 0:
                return done._replace(waits=waits)
        done = done.merged_with(_apply(alias, wanted, mark))
        if done.failed:
            return done  # Without the mark that it is applied.
        after = mark.replaced_by(digest, sorted(wanted), now).text()
        # Last, so that a crash before it is made good by the next start. If another
        # process was faster, look at all again: what is right stays as it is.
        if after == text or client.schedule_mark(project, after, expected=text):
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
    yield client.schedule_set(id, **_owned(alias, wanted), force=True)
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
    if declared_on(alias) and not client.schedule_marks().get(project_name(alias)):
        lost.append("recurring jobs")
    if declared_options(alias) and not client.config_get(MARKER):
        lost.append("options")
    return lost


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
    client = connections[alias]
    owner = owner_name(alias)
    owners = {each.id: each.owner for each in client.schedule_declared()}
    present = {id for id, each in owners.items() if each == owner}  # noqa: A001
    done = SyncResult([], [], [], [], [], {}, others={})
    for id, definition in wanted.items():  # noqa: A001 (what it is)
        if id in owners and id not in present:
            done.others[id] = owners[id].removeprefix(CODE)
            continue
        formerly = [] if id in present else former_ids(id, wanted)
        renamed = present.intersection(formerly)
        known = {id} if renamed else {id, *formerly}
        if id not in present and known.intersection(mark.ids):
            done.kept.append(id)  # An operator has removed it.
            continue
        try:
            outcome = client.schedule_set(
                id, **_owned(alias, definition), formerly=formerly
            )
        except ConnectionLost:
            raise
        except QlessError as error:
            done.failed[id] = str(error)  # The others are to recur all the same.
            continue
        present -= renamed
        if outcome == "new":
            done.added.append(id)
        elif outcome == "changed":
            done.changed.append(id)
        elif outcome == "kept":
            (done.kept if id in present or renamed else done.by_hand).append(id)
    gone = sorted(present - wanted.keys())
    if gone:
        client.schedule_remove(gone)
        done.removed.extend(gone)
    return done


def _owned(alias: str, definition: dict[str, Any]) -> dict[str, Any]:
    return {**definition, "owner": owner_name(alias), "declared": digest_of(definition)}
