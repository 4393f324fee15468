"""Model references: the key that travels instead of a row, and loading it.

A reference names a model, a primary key and a database. The database is the one where
`save()` would write the row, so that a job sees what is committed and may lock it, also
where routers send reads to replicas. ReferencedInstances are loaded through the model's base manager,
as Django itself follows relations: a default manager that hides rows hides none here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.models import Field, Model

from django_qless.exceptions import RowGone

#: Keys of these types travel as they are; others as their field writes them as text.
_KEYS = (str, int, float, date, time, timedelta, Decimal, UUID)

# What one query asks for at most, where the database itself sets no narrower limit. With
# several columns each key is its own term, and SQLite takes a thousand terms.
MOST_KEYS = 5000
MOST_COMPOSITE_KEYS = 400


class ModelChanged(RowGone):
    """The model that a reference names is gone, or its keys are of another kind now."""


def is_saved(instance: Model) -> bool:
    """Return whether the instance has a row, as far as it knows itself."""
    if instance._state.adding:
        return False
    key = instance.pk
    return None not in key if isinstance(key, tuple) else key is not None


def reference_key(instance: Model, model: type[Model] | None = None) -> Any:
    """Return the primary key, a list for one of several columns.

    `model` may be a parent of the instance's model, whose rows have keys of their own.
    """
    model = model or type(instance)
    fields = _key_fields(model)
    if len(fields) == 1:
        return _portable(fields[0], instance)
    return [_portable(field, instance) for field in fields]


def portable_key(model: type[Model], raw: Any) -> Any:
    """Return the `reference_key` form of a primary key from a query."""
    fields = _key_fields(model)
    parts = raw if len(fields) > 1 else (raw,)
    portable = [
        _portable(field, SimpleNamespace(**{field.attname: part}))
        for field, part in zip(fields, parts, strict=True)
    ]
    return portable if len(fields) > 1 else portable[0]


def write_database(instance: Model, model: type[Model] | None = None) -> str:
    """Return the database where `save()` would write the row."""
    return router.db_for_write(model or type(instance), instance=instance)


def load_instance(model: type[Model], key: Any, database: str) -> Model:
    """Return the row as it is in the database now. Raises RowGone."""
    try:
        wanted = _read(model, key)
        rows = model._base_manager.using(database).filter(pk=wanted)
        row: Model | None = rows.first()
    except (ValidationError, ValueError, TypeError):
        raise ModelChanged(
            f"{model._meta.label} {key!r} is gone: its primary keys are not of this "
            "kind any more"
        ) from None
    if row is None:
        raise RowGone(f"{model._meta.label} {_shown(key)} is gone")
    return row


class ReferencedInstances:
    """The rows that one text refers to: one query for each model and database."""

    def __init__(self, references: Iterable[tuple[str, Any, str]]) -> None:
        wanted: dict[tuple[str, str], list[Any]] = {}
        for label, key, database in references:
            wanted.setdefault((label, database), []).append(key)
        self._found: dict[tuple[str, str], dict[Any, Model]] = {
            (label, database): dict(_load(_model(label), keys, database))
            for (label, database), keys in wanted.items()
        }

    def get(self, label: str, key: Any, database: str = DEFAULT_DB_ALIAS) -> Model:
        """Return one of the rows, always as the same object."""
        return self._found[label, database][_hashable(key)]


def _load(
    model: type[Model], keys: Sequence[Any], database: str
) -> Iterator[tuple[Any, Model]]:
    """Yield each key as it travelled, with its row. Raises RowGone."""
    single = {_hashable(key): key for key in keys}
    rows: dict[Any, Model] = {}
    if len(single) > 1:
        try:
            read = {_read(model, key) for key in single.values()}
        except (ValidationError, ValueError, TypeError):
            read = set()  # The one to blame is found below.
        for some in _chunks(model, list(read), database):
            for row in model._base_manager.using(database).filter(pk__in=some):
                rows[_read(model, row.pk)] = row
    for hashable, key in single.items():
        # Alone, or one of several and not found: the database may think otherwise of
        # what is equal, in a collation that ignores case, say.
        found = rows.get(_read(model, key)) if rows else None
        yield hashable, load_instance(model, key, database) if found is None else found


def _chunks(
    model: type[Model], keys: Sequence[Any], database: str
) -> Iterator[Sequence[Any]]:
    columns = len(_key_fields(model))
    most = MOST_KEYS if columns == 1 else MOST_COMPOSITE_KEYS
    allowed = connections[database].features.max_query_params
    if allowed:
        most = min(most, allowed // columns)
    for start in range(0, len(keys), most):
        yield keys[start : start + most]


def _model(label: str) -> type[Model]:
    try:
        model = apps.get_model(label)
    except (LookupError, ValueError):
        raise ModelChanged(f"{label} is not a model of this project any more") from None
    if model._meta.swapped:
        raise ModelChanged(f"{label} has been swapped for {model._meta.swapped}")
    return model


def _key_fields(model: type[Model]) -> Sequence[Field[Any, Any]]:
    fields: Sequence[Field[Any, Any]] = model._meta.pk_fields
    return fields


def _portable(field: Field[Any, Any], instance: Any) -> Any:
    value = getattr(instance, field.attname)
    if not isinstance(value, _KEYS):
        return field.value_to_string(instance)
    # A choice is in the database as its value.
    return value.value if isinstance(value, Enum) else value


def _read(model: type[Model], key: Any) -> Any:
    """Return a key in the form of the model's fields, and in comparable form."""
    fields = _key_fields(model)
    if len(fields) == 1 and not isinstance(key, (list, tuple)):
        return fields[0].to_python(key)
    return tuple(field.to_python(part) for field, part in zip(fields, key, strict=True))


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _shown(key: Any) -> str:
    return f"({', '.join(map(str, key))})" if isinstance(key, list) else str(key)
