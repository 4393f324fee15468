"""The envelope in which a job's arguments travel.

    {"v": 1, "args": […], "kwargs": {…}}        empty parts left out, no spaces

A job on a row has `"row"`, its primary key, and `"db"` if the row is not in the default
database; `"s"` says which values are sensitive, see `sensitive.py`. What values may be is said in `values.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS

from django_qless.core.exceptions import TooBig
from django_qless.exceptions import Fail, UnserialisableArgument
from django_qless.values import (
    NotJSON,
    from_json,
    only_plain,
    prepare_at,
    references,
    revive,
    row_of,
    text_at,
    to_json,
)

if TYPE_CHECKING:
    from django.db.models import Model

VERSION = 1
NOT_ELSEWHERE = (None, DEFAULT_DB_ALIAS)
MOST_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a job's data holds."""

    args: list[Any]
    kwargs: dict[str, Any]
    row: Any = None
    database: str = DEFAULT_DB_ALIAS


def encode(
    whose: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    row: str = "",
    mark: str = "",
) -> str:
    """Return the envelope as JSON text.

    `row` is what `reference()` made, `mark` says which values are sensitive.

    Raises UnserialisableArgument, which names the job and the argument by its position
    or keyword, and TooBig.
    """
    try:
        text = f'{{"v":{VERSION}{row}{mark}'
        if args:
            text = f'{text},"args":{_array(args)}'
        if kwargs:
            text = f'{text},"kwargs":{_object(kwargs)}'
    except NotJSON as error:
        raise UnserialisableArgument(f"{whose}: {error}") from None
    return limited(whose, text + "}")


def reference(whose: str, instance: Model, model: type[Model]) -> str:
    """Return the envelope's part for the row that the job is put on.

    The job is one of `model`, which may be a parent of the instance's. Raises
    UnserialisableArgument if the instance is not in the database.
    """
    try:
        pk, database = row_of(instance, model)
    except NotJSON as error:
        raise UnserialisableArgument(f"{whose}: {error}") from None
    return row_part(whose, pk, database)


def row_part(whose: str, pk: Any, database: str) -> str:
    """Return the envelope's part for a row of this primary key in this database."""
    try:
        text = f',"row":{text_at(".pk", prepare_at(".pk", pk))}'
    except NotJSON as error:
        raise UnserialisableArgument(f"{whose}: {error}") from None
    return text if database == DEFAULT_DB_ALIAS else f'{text},"db":{to_json(database)}'


def decode(data: str, *, sensitive: bool = False) -> Envelope:
    """Return the envelope in a job's data, model instances loaded.

    Raises RowGone, and Fail (group `bad-arguments`) if it is no envelope; its message
    quotes the data unless they are `sensitive`.
    """
    try:
        envelope = from_json(data)
        version = envelope["v"]
    except (ValueError, TypeError, KeyError):
        raise Fail(
            "bad-arguments",
            "The job's data is no envelope of arguments: it was put by another "
            "program, or by hand."
            + ("" if sensitive else f" It begins {data[:100]!r}."),
        ) from None
    if version != VERSION:
        raise Fail(
            "bad-arguments",
            f"The job's arguments are in an envelope of version {version!r}, and this "
            f"django_qless reads version {VERSION}: a newer one has put the job.",
        )
    args, kwargs = envelope.get("args", []), envelope.get("kwargs", {})
    row = envelope.get("row")
    if '"$' in data:
        row, args, values = revive([row, args, list(kwargs.values())])
        kwargs = dict(zip(kwargs, values, strict=True))
    return Envelope(args, kwargs, row, envelope.get("db", DEFAULT_DB_ALIAS))


def databases_in(data: str) -> tuple[str, ...]:
    """Return the databases, apart from the default one, of the rows that the data names."""
    if '"db":"' not in data:
        return ()
    envelope = from_json(data)
    # The data of a class job is anything.
    if not isinstance(envelope, dict) or "v" not in envelope:
        return ()
    rows = references([envelope.get("args"), envelope.get("kwargs")])
    found = [envelope.get("db"), *(database for _, _, database in rows)]
    return tuple(dict.fromkeys(name for name in found if name not in NOT_ELSEWHERE))


def limited(whose: str, data: str) -> str:
    """Return the data if it is small enough and UTF-8 can carry it.

    Raises TooBig, which names the size, and UnserialisableArgument.
    """
    if len(data) * 4 <= MOST_BYTES and data.isascii():
        return data
    try:
        size = len(data.encode())
    except UnicodeEncodeError as error:
        raise UnserialisableArgument(
            f"{whose}: the arguments hold half of a surrogate pair "
            f"({error.object[error.start]!r}), which is not text"
        ) from None
    if size > MOST_BYTES:
        raise TooBig(
            f"{whose}: the arguments take {size:,} bytes as JSON, and a job carries at "
            f"most {MOST_BYTES:,}"
        )
    return data


def _array(args: Sequence[Any]) -> str:
    if not only_plain(map(type, args)):
        args = [prepare_at(_position(i), each) for i, each in enumerate(args)]
    try:
        return to_json(args)
    except ValueError:
        # Rare, so only now each by itself: the first bad one raises, with its name.
        return f"[{','.join(text_at(_position(i), e) for i, e in enumerate(args))}]"


def _object(kwargs: Mapping[str, Any]) -> str:
    if not only_plain(map(type, kwargs.values())):
        kwargs = {n: prepare_at(_keyword(n), each) for n, each in kwargs.items()}
    try:
        return to_json(kwargs)
    except ValueError:
        return to_json({n: text_at(_keyword(n), each) for n, each in kwargs.items()})


def _position(index: int) -> str:
    return f"argument {index + 1}"


def _keyword(name: str) -> str:
    return f"argument {name!r}"
