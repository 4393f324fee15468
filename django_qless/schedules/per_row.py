"""Schedules of single rows: their ids, and their end with the row.

Deleting a row through Django ends its schedules when the deletion is committed. Rows that
vanish in other ways are noticed by the next tick's job, which finds no row.

To listen for deletions costs a project something (Django then loads the rows that it
deletes), so only the models of which a row recurs are listened to. The server remembers
which ones, for processes that start later. The keys of many rows are read here as well.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, router
from django.db import connections as databases
from django.db.models import Model, QuerySet
from django.db.models.signals import post_delete

from django_qless.conf.connections import connections
from django_qless.conf.declaration_mark import PREFIX
from django_qless.core.exceptions import QlessError
from django_qless.core.request import Steps
from django_qless.enqueue import dispatch
from django_qless.exceptions import RowGone
from django_qless.job_types.option_checks import RESERVED_ENDINGS
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.serialization.envelope import Envelope
from django_qless.serialization.json_values import from_json, revive
from django_qless.serialization.model_references import (
    load_instance,
    portable_key,
    reference_key,
    write_database,
)

if TYPE_CHECKING:
    from django_qless.job_types.current import CurrentJob

logger = logging.getLogger("django_qless.worker")

MARK = f"{PREFIX}rows"
"""The mark on the server that has the names of the jobs of which a row recurs."""

# Ids that one call may name.
MOST_IDS = 1000

CHUNK = 1000
"""Rows that are read, and jobs that are enqueued, at a time."""

_PLAIN = re.compile(r"[A-Za-z0-9._~-]{1,64}")

#: The names in that mark that a client has found there, or added.
_noted: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

# The end of the jids of a tick's jobs, behind the schedule's id: of those that the core
# enqueues, and those of a tick's job (ticks.py). Keys of rows may end alike, so it is only
# looked for behind an id that is known.
_OF_TICK = re.compile(r"@(?:\d+(?:\.\d+)?|run-\d+)(?::job)?")


def remember(client: Any, alias: str, job_type: JobType) -> Steps[None]:
    """Remember, here and on the server, that a row has this job's schedule."""
    listen(alias, job_type)
    noted = _noted.setdefault(client, set())
    if job_type.name not in noted:
        text = (yield client.config_get(MARK)) or ""
        after = _with(text, job_type.name)
        if after != text:
            yield client.config_set(MARK, after)
        noted.add(job_type.name)


def listen_for_deletions(alias: str) -> None:
    """Listen for deletions in all models whose rows recur, as the server knows."""
    for name in json.loads(connections[alias].config_get(MARK) or "[]"):
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
                dispatch_uid=f"django_qless.schedules.per_row:{alias}:{job_type.name}",
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
    """End the schedule of a job's deleted row; return whether it enqueued the job.

    Another row, among the arguments, may be gone instead: that ends nothing.
    """
    if job_type.binding is not Binding.ROW:
        return False
    envelope = Envelope(from_json(job.reserved.data))
    key, database = revive(envelope.row), envelope.database
    owner: type[Model] = job_type.model
    try:
        load_instance(owner, key, database)
    except RowGone:
        return end_with_row(job_type, job, key, database)
    return False


def end_with_row(job_type: JobType, job: CurrentJob, key: Any, database: str) -> bool:
    """End the schedule of a row that is gone, if it enqueued the job.

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
    key, known_in = (
        reference_key(instance, owner),
        {using, write_database(instance, owner)},
    )
    ending = Ending(alias, ids_of(job_type, key, known_in))
    if not dispatch.dispatcher.is_in_transaction(using):
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
    dispatch.dispatcher.on_commit(using, ending)


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
    return json.dumps(sorted(names))


def chunks_of_keys(
    queryset: QuerySet[Any], *, whole: bool = False
) -> Iterator[list[tuple[Any, Any]]]:
    """Yield the primary keys of a queryset's rows, a thousand at a time.

    Nothing but the keys is read, unless `whole` rows are wanted beside them; without, it
    is None. No more than a chunk is kept.
    """
    model = queryset.model
    found = queryset if whole else queryset.values_list("pk", flat=True)
    rows = found.iterator(chunk_size=CHUNK)
    while chunk := list(islice(rows, CHUNK)):
        if whole:
            yield [(reference_key(row, model), row) for row in chunk]
        else:
            yield [(portable_key(model, raw), None) for raw in chunk]


def written_to(queryset: QuerySet[Any]) -> str:
    """Return the database where the rows of a queryset are written.

    Routers may send reads to replicas; without any, it is the one that is read.
    """
    for each in router.routers:
        choose = getattr(each, "db_for_write", None)
        chosen = choose(queryset.model) if choose else None
        if chosen:
            return str(chosen)
    return queryset.db


def key_text(key: Any) -> str:
    """Return a primary key as part of an id; long or special ones are hashed."""
    text = str(key)
    if isinstance(key, (list, tuple)):
        parts = [str(part) for part in key]
        # Where the separator is in a part, two keys could be written alike.
        text = repr(parts) if any("~" in part for part in parts) else "~".join(parts)
    if _PLAIN.fullmatch(text) and not text.endswith(RESERVED_ENDINGS):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
