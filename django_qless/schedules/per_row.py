"""Schedules of single rows: their ids, and their end with the row.

A row that is gone is noticed by the next tick's job, which finds none and ends the
schedule. The keys of many rows are read here as well.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, router
from django.db.models import Model, QuerySet

from django_qless.exceptions import RowGone
from django_qless.job_types.option_checks import RESERVED_ENDINGS
from django_qless.job_types.registry import Binding, JobType
from django_qless.serialization.envelope import Envelope
from django_qless.serialization.json_values import from_json, revive
from django_qless.serialization.model_references import (
    load_instance,
    portable_key,
    reference_key,
)

if TYPE_CHECKING:
    from django_qless.job_types.current import CurrentJob

logger = logging.getLogger("django_qless.worker")

CHUNK = 1000
"""Rows that are read, and jobs that are enqueued, at a time."""

_PLAIN = re.compile(r"[A-Za-z0-9._~-]{1,64}")

# The end of the jids of a tick's jobs, behind the schedule's id: of those that the core
# enqueues, and those of a tick's job (ticks.py). Keys of rows may end alike, so it is only
# looked for behind an id that is known.
_OF_TICK = re.compile(r"@(?:\d+(?:\.\d+)?|run-\d+)(?::job)?")


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
