"""JSON with the rich types that arguments and results may have.

What JSON has no word for travels as an object with one marker:

    {"$datetime": "2030-01-31T12:00:00+00:00"}      $date, $time likewise
    {"$timedelta": "P1DT00H00M00S"}                 as django.utils.duration writes it
    {"$decimal": "1.10"}  {"$uuid": "…"}
    {"$model": "shop.Order", "pk": 5}               and "db" if not the default one;
                                                    a list as pk if it has several parts
    {"$dict": {…}}                                  a user's dict with a key in $

Nothing is pickled, and nothing that is read here names code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, QuerySet
from django.utils.dateparse import parse_duration
from django.utils.duration import duration_iso_string
from django.utils.functional import Promise

from django_qless.exceptions import Fail, UnserialisableArgument
from django_qless.serialization.derived_types import (
    EXACT,
    NotSerializable,
    cannot_travel,
    check_keys,
    check_same,
    plain_scalar,
)
from django_qless.serialization.model_references import (
    ReferencedInstances,
    is_saved,
    reference_key,
    write_database,
)

MOST_DEPTH = 100

to_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode

from_json = json.JSONDecoder().decode


def json_or_none(text: str) -> Any:
    """Return the value of JSON text; None if it is none."""
    try:
        return from_json(text)
    except (ValueError, RecursionError):
        return None


PLAIN = frozenset({str, int, float, bool, type(None)})
only_plain = PLAIN.issuperset
_only_strings = frozenset({str}).issuperset


def encode_value(value: Any, what: str) -> str:
    """Return the value as JSON text. Raises UnserialisableArgument, naming `what`."""
    try:
        return to_json_text(what, to_json_types(what, value))
    except NotSerializable as error:
        raise UnserialisableArgument(str(error)) from None


def to_json_types(place: str, value: Any, depth: int = 0) -> Any:
    """Return the value in JSON types; the same object if nothing changes.

    Raises NotSerializable, whose place begins with this one.
    """
    if type(value) in PLAIN:
        return value
    try:
        return _prepare(value, depth)
    except NotSerializable as error:
        error.place = place + error.place
        raise


def to_json_text(place: str, prepared: Any) -> str:
    """Return a value in JSON types as JSON text. Raises NotSerializable for nan."""
    try:
        return to_json(prepared)
    except ValueError as error:
        if "float" not in str(error):
            raise NotSerializable(str(error), place) from None
        raise NotSerializable(
            "JSON has no word for nan and infinity: pass None, or a string, instead",
            place,
        ) from None


def revive(value: Any) -> Any:
    """Return a JSON value with its markers turned into what they stand for.

    ReferencedInstances are loaded with one query for each model and database.

    Raises RowGone for a model instance that is not in the database any more, and Fail
    (group `bad-arguments`) for a marker of a later version.
    """
    return _revive(value, ReferencedInstances(references(value)))


def reference_of(instance: Model, model: type[Model] | None = None) -> tuple[Any, str]:
    """Return the primary key and the database of a saved instance. Raises NotSerializable.

    `model` may be a parent of the instance's model.
    """
    if not is_saved(instance):
        label = instance._meta.label
        raise NotSerializable(f"this {label} is not in the database: save it first")
    return reference_key(instance, model), write_database(instance, model)


def _revive(value: Any, rows: ReferencedInstances) -> Any:
    if isinstance(value, list):
        return [_revive(each, rows) for each in value]
    if not isinstance(value, dict):
        return value
    marker = _marker(value)
    if marker is None:
        return {key: _revive(each, rows) for key, each in value.items()}
    if marker == "$model":
        return rows.get(*_reference(value))
    if marker == "$dict":
        return {key: _revive(each, rows) for key, each in value["$dict"].items()}
    read = _READERS.get(marker)
    if read is None:
        raise Fail(
            "bad-arguments",
            f"This django_qless cannot read a {marker!r}; a newer one has enqueued it.",
        )
    return read(value[marker])


def _marker(value: dict[str, Any]) -> str | None:
    for key in value:
        if key[:1] == "$":
            return key
    return None


def references(value: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield the model, key and database of each reference in a JSON value."""
    if isinstance(value, dict):
        marker = _marker(value)
        if marker == "$model":
            yield _reference(value)
            return
        inner = value["$dict"] if marker == "$dict" else value
        value = inner.values()
    if isinstance(value, (list, ValuesView)):
        for each in value:
            if isinstance(each, (list, dict)):
                yield from references(each)


def _reference(marked: dict[str, Any]) -> tuple[str, Any, str]:
    # A key holds no references, so this looks for no rows.
    key = revive(marked["pk"])
    return marked["$model"], key, marked.get("db", DEFAULT_DB_ALIAS)


def _prepare(value: Any, depth: int) -> Any:
    if depth > MOST_DEPTH:
        raise NotSerializable(
            f"it is nested deeper than {MOST_DEPTH} levels, or within itself"
        )
    if isinstance(value, Mapping):
        return _prepare_mapping(value, depth)
    if isinstance(value, (list, tuple)):
        return _prepare_list(value, depth)
    plain = plain_scalar(value)
    if type(plain) in PLAIN:
        return plain
    for rich, write in _WRITERS:
        if isinstance(value, rich):
            return write(value)
    raise cannot_travel(value, _remedy(value))


def _prepare_list(value: Sequence[Any], depth: int) -> Sequence[Any]:
    if type(value) not in EXACT:
        check_same(value, list(value))
    if only_plain(map(type, value)):
        return value
    return [to_json_types(f"[{i}]", each, depth + 1) for i, each in enumerate(value)]


def _prepare_mapping(value: Mapping[Any, Any], depth: int) -> Mapping[str, Any]:
    if not _only_strings(map(type, value)):
        check_keys(value)
    if type(value) is not dict:
        check_same(value, dict(value.items()))
    if type(value) is not dict or not only_plain(map(type, value.values())):
        value = {
            key: to_json_types(f"[{key!r}]", each, depth + 1)
            for key, each in value.items()
        }
    if any(key[:1] == "$" for key in value):
        return {"$dict": value}
    return value


def _remedy(value: object) -> str:
    """Return what to do with a value that cannot travel."""
    if isinstance(value, QuerySet):
        return "pass list(queryset), or the primary keys"
    if isinstance(value, Promise):
        return "it is a lazy text, so pass str(text), or translate inside the job"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "pass base64.b64encode(value).decode()"
    if isinstance(value, (set, frozenset)):
        return "pass a list"
    if hasattr(value, "jid"):
        return "pass its jid"
    return (
        "possible is what JSON has, datetime, date, time, timedelta, Decimal, "
        "UUID and model instances"
    )


def _write_model(instance: Model) -> dict[str, Any]:
    pk, database = reference_of(instance)
    marked = {"$model": instance._meta.label, "pk": to_json_types(".pk", pk)}
    if database != DEFAULT_DB_ALIAS:
        marked["db"] = database
    return marked


_READERS: dict[str, Callable[[Any], Any]] = {
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": parse_duration,
    "$decimal": Decimal,
    "$uuid": UUID,
}


def _writer(
    kind: type, marker: str, write: Callable[[Any], str]
) -> Callable[[Any], dict[str, Any]]:
    """Return what writes values of a type, and refuses those that come back unequal."""

    def marked(value: Any) -> dict[str, Any]:
        text = write(value)
        has_zone = getattr(value, "tzinfo", None) is not None
        if has_zone and value.utcoffset() is None:
            raise cannot_travel(
                value,
                "its time zone has no offset without a date, so pass it without one, and "
                "the name of the zone",
            )
        if type(value) is not kind:
            check_same(value, _read_or_none(marker, text))
        return {marker: text}

    return marked


def _read_or_none(marker: str, text: str) -> Any:
    try:
        return _READERS[marker](text)
    except (ValueError, ArithmeticError):
        return None


# In this order: a datetime is a date.
_WRITERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (datetime, _writer(datetime, "$datetime", datetime.isoformat)),
    (date, _writer(date, "$date", date.isoformat)),
    (time, _writer(time, "$time", time.isoformat)),
    (timedelta, _writer(timedelta, "$timedelta", duration_iso_string)),
    (Decimal, _writer(Decimal, "$decimal", str)),
    (UUID, _writer(UUID, "$uuid", str)),
    (Model, _write_model),
)
