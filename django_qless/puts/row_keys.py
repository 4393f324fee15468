"""The primary keys of many rows, read in bulk, as jobs and ids have them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.db import router
from django.db.models import QuerySet

from django_qless.options.values import RESERVED_ENDINGS
from django_qless.rows import key_of, portable_key

CHUNK = 1000
"""How many rows are read, and how many jobs are put, at a time."""

_PLAIN = re.compile(r"[A-Za-z0-9._~-]{1,64}")


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
            yield [(key_of(row, model), row) for row in chunk]
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
    """Return a primary key as a part of an id: as it is if that is short and plain."""
    text = str(key)
    if isinstance(key, (list, tuple)):
        parts = [str(part) for part in key]
        # Where the separator is in a part, two keys could be written alike.
        text = repr(parts) if any("~" in part for part in parts) else "~".join(parts)
    if _PLAIN.fullmatch(text) and not text.endswith(RESERVED_ENDINGS):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
