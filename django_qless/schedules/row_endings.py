"""Schedules of single rows end with their rows.

Deleting a row through Django ends its schedules when the deletion is committed. Rows that
vanish in other ways are noticed by the next tick's job, which finds no row.

To listen for deletions costs a project something (Django then loads the rows that it
deletes), so only the models are listened to of which a row recurs. Which they are is
remembered on the server, for processes that begin later.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS
from django.db import connections as databases
from django.db.models import Model
from django.db.models.signals import post_delete

from django_qless.connections import connections
from django_qless.core.exceptions import QlessError
from django_qless.exceptions import RowGone
from django_qless.puts import outlet
from django_qless.puts.row_keys import key_text
from django_qless.registry import Binding, JobType, registry
from django_qless.rows import database_of, key_of, load_row
from django_qless.values import from_json, revive

if TYPE_CHECKING:
    from django_qless.current import CurrentJob

logger = logging.getLogger("django_qless.worker")

MARK = "rows"
"""The mark on the server that has the names of the jobs of which a row recurs."""

# What one call may name.
MOST_IDS = 1000

#: What is known of that mark here: the names that a client has found there, or added.
_noted: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

# What is appended to a schedule's id for the jobs of its ticks: by the core, and where a
# tick's job puts the job itself (ticks.py). Keys of rows may end alike, so it is only
# looked for behind an id that is known.
_OF_TICK = re.compile(r"(?:@\d+|@run-\d+|-\d+)(?:(?:@\d+)?:job)?")


def note(alias: str, job_type: JobType) -> None:
    """Remember, here and on the server, that a row has a schedule of this job."""
    listen(alias, job_type)
    client = connections[alias]
    noted = _noted.setdefault(client, set())
    while job_type.name not in noted:
        text = client.schedule_marks().get(MARK, "")
        after = _with(text, job_type.name)
        if after == text or client.schedule_mark(MARK, after, expected=text):
            noted.add(job_type.name)


async def anote(alias: str, job_type: JobType) -> None:
    """Do the same from asynchronous code."""
    listen(alias, job_type)
    client = connections.aclient(alias)
    noted = _noted.setdefault(client, set())
    while job_type.name not in noted:
        text = (await client.schedule_marks()).get(MARK, "")
        after = _with(text, job_type.name)
        if after == text or await client.schedule_mark(MARK, after, expected=text):
            noted.add(job_type.name)


def listen_to_all(alias: str) -> None:
    """Listen for deletions in all models of which a row recurs, as the server knows."""
    for name in json.loads(connections[alias].schedule_marks().get(MARK, "") or "[]"):
        job_type = registry.get(name)
        if job_type is not None and job_type.binding is Binding.ROW:
            listen(alias, job_type)


def listen(alias: str, job_type: JobType) -> None:
    """Listen for deletions in the model of a job, its proxies included."""
    owner: type[Model] = job_type.model
    concrete = owner._meta.concrete_model
    for model in owner._meta.apps.get_models(include_auto_created=True):
        if model._meta.concrete_model is concrete:
            post_delete.connect(
                partial(_deleted, alias=alias, job_type=job_type),
                sender=model,
                weak=False,
                dispatch_uid=f"django_qless.schedules.row_endings:{alias}:{job_type.name}",
            )


def ids_of(job_type: JobType, key: Any, databases: Iterable[str]) -> list[str]:
    """Return the ids of a row's schedule, under this and former names of the job.

    The row may be known under several databases.
    """
    return [
        id_of(name, key, database)
        for name in (job_type.name, *job_type.aliases)
        for database in databases
    ]


def id_of(name: str, key: Any, database: str) -> str:
    """Return the id of the schedule of the row with this key."""
    suffix = "" if database == DEFAULT_DB_ALIAS else f"@{database}"
    return f"{name}:{key_text(key)}{suffix}"


def has_ended_with_row(job_type: JobType, job: CurrentJob) -> bool:
    """End the schedule of a job's row if that is gone; return whether it came from one.

    Another row, among the arguments, may be gone instead: that ends nothing.
    """
    if job_type.binding is not Binding.ROW:
        return False
    envelope = from_json(job.reserved.data)
    key, database = revive(envelope.get("row")), envelope.get("db", DEFAULT_DB_ALIAS)
    owner: type[Model] = job_type.model
    try:
        load_row(owner, key, database)
    except RowGone:
        return end_with_row(job_type, job, key, database)
    return False


def end_with_row(job_type: JobType, job: CurrentJob, key: Any, database: str) -> bool:
    """End the schedule of a row that is gone, if a job came from that.

    Returns whether it did: the deletion of the row may have ended the schedule already.
    """
    for schedule in ids_of(job_type, key, [database]):
        if job.jid.startswith(schedule) and _OF_TICK.fullmatch(job.jid, len(schedule)):
            if job.client.schedule_remove([schedule]):
                logger.info("recurring job %s has ended: its row is gone", schedule)
            return True
    return False


def _deleted(
    *, instance: Model, using: str, alias: str, job_type: JobType, **kwargs: Any
) -> None:
    # The key is known now, and no longer when the transaction commits.
    owner: type[Model] = job_type.model
    key, known_in = key_of(instance, owner), {using, database_of(instance, owner)}
    ending = Ending(alias, ids_of(job_type, key, known_in))
    if not outlet.current().waits(using):
        ending()
        return
    database = databases[using]
    if database.run_on_commit:
        # Thousands of rows may be deleted together: their schedules are ended together.
        savepoints, last = database.run_on_commit[-1][:2]
        if (
            isinstance(last, Ending)
            and last.alias == alias
            and savepoints == set(database.savepoint_ids)
        ):
            last.ids += ending.ids
            return
    outlet.current().at_commit(using, ending)


class Ending:
    """Ends the schedules of rows that are deleted, when that is committed."""

    def __init__(self, alias: str, ids: list[str]) -> None:
        self.alias = alias
        self.ids = ids

    def __call__(self) -> None:
        """End them, a thousand in each call. Raises nothing."""
        try:
            for start in range(0, len(self.ids), MOST_IDS):
                some = self.ids[start : start + MOST_IDS]
                connections[self.alias].schedule_remove(some)
        except QlessError as error:
            # The rows are deleted all the same; the jobs of the next ticks end them.
            logger.warning("schedules of deleted rows have not ended yet: %s", error)


def _with(text: str, name: str) -> str:
    """Return the mark with one more name."""
    names = set(json.loads(text or "[]")) | {name}
    return json.dumps(sorted(names), separators=(",", ":"))
