"""The envelope in which a job's arguments travel.

    {"v": 1, "args": […], "kwargs": {…}}        empty parts left out, no spaces

A job on a row has `"row"`, its primary key, and `"db"` if the row is not in the default
database; `"s"` says which values are sensitive, see `redaction.py`. Further members belong
to others, such as Django's Tasks. `json_values.py` says how values are written.

Nothing else in the package knows these keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS

from django_qless.core.exceptions import TooBig
from django_qless.exceptions import Fail, UnserialisableArgument
from django_qless.serialization.derived_types import NotSerializable
from django_qless.serialization.json_values import (
    from_json,
    only_plain,
    reference_of,
    references,
    revive,
    to_json,
    to_json_text,
    to_json_types,
)

if TYPE_CHECKING:
    from django.db.models import Model

VERSION = 1

ONLY_DEFAULT = (DEFAULT_DB_ALIAS,)
ROW_KEY = "row"
MOST_BYTES = 512 * 1024
#: Before compression; what a job carries is checked where it is enqueued.
MOST_PLAIN_BYTES = 16 * 1024 * 1024
PAYLOAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Envelope:
    """The data of a job, read: as it travels, or with model instances loaded."""

    members: dict[str, Any]

    @classmethod
    def of(cls, value: Any) -> Envelope | None:
        """Return the envelope that a JSON value is; None if it is none.

        One without a version was written by another program, or a person.
        """
        if not isinstance(value, dict):
            return None
        is_call = isinstance(value.get("args", []), list)
        return (
            cls(value)
            if is_call and isinstance(value.get("kwargs", {}), dict)
            else None
        )

    @classmethod
    def read(cls, data: str) -> Envelope | None:
        """Return the envelope in a job's data, values as they travel; None without one."""
        try:
            return cls.of(from_json(data))
        except (ValueError, RecursionError):
            return None

    @property
    def version(self) -> Any:
        """The version of the envelope; None if another program wrote it."""
        return self.members.get("v")

    @property
    def args(self) -> list[Any]:
        """The positional arguments."""
        found: list[Any] = self.members.get("args", [])
        return found

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        found: dict[str, Any] = self.members.get("kwargs", {})
        return found

    @property
    def has_row(self) -> bool:
        """True if the job runs on a row."""
        return ROW_KEY in self.members

    @property
    def row(self) -> Any:
        """The primary key of the row that the job runs on."""
        return self.members.get(ROW_KEY)

    @property
    def database(self) -> str:
        """The database of that row."""
        found: str = self.members.get("db", DEFAULT_DB_ALIAS)
        return found

    @property
    def entity(self) -> Any:
        """The entity that the job carries, as it was pushed: a text or a number."""
        return self.members.get("entity")

    def payloads(self) -> list[Any]:
        """Return the payloads of the entity's run, model instances loaded."""
        found: list[Any] = self.members.get("payloads", [])
        [revived] = revive([found])
        return list(revived)

    @property
    def mark(self) -> Any:
        """The sensitive values: True for all, a list of positions, or None."""
        mark = self.members.get("s")
        # A mark that is none of ours was meant to hide something.
        return mark if mark is None or isinstance(mark, list) else True

    def keep_mark(self, original: Envelope) -> None:
        """Take over the mark of the envelope that this one was made from."""
        if original.mark is not None:
            self.members["s"] = original.members["s"]

    def revived(self) -> Envelope:
        """Return the envelope with model instances loaded. Raises RowGone."""
        row, args, values = revive([self.row, self.args, list(self.kwargs.values())])
        kwargs = dict(zip(self.kwargs, values, strict=True))
        return Envelope({**self.members, ROW_KEY: row, "args": args, "kwargs": kwargs})


def encode(
    whose: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    row: str = "",
    mark: str = "",
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return the envelope as JSON text.

    `row` is what `reference()` made, `mark` what `mark_part()` made of the sensitive
    values; `more` are further members.

    Raises UnserialisableArgument, which names the job and the argument by its position
    or keyword, and TooBig.
    """
    try:
        text = f'{{"v":{VERSION}{row}{mark}'
        if args:
            text = f'{text},"args":{_array(args)}'
        if kwargs:
            text = f'{text},"kwargs":{_object(kwargs)}'
    except NotSerializable as error:
        raise UnserialisableArgument(f"{whose}: {error}") from None
    if more:
        return limited(whose, f"{text},{to_json(more)[1:]}", MOST_PLAIN_BYTES)
    return limited(whose, text + "}", MOST_PLAIN_BYTES)


def entity_head(entity: str | float, row: str = "") -> str:
    """Return the envelope of an entity's job, as JSON text: the core adds payloads."""
    return f'{{"v":{VERSION},"entity":{to_json(entity)}{row}}}'


def payload_text(whose: str, payload: Any) -> str:
    """Return a payload as canonical JSON text, in which equal ones are equal.

    Raises UnserialisableArgument, and TooBig beyond 64 KiB.
    """
    try:
        text = to_json_text("the payload", to_json_types("the payload", payload))
    except NotSerializable as error:
        raise UnserialisableArgument(f"{whose}: {error}") from None
    limited(whose, text)
    text = json.dumps(
        json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    if (size := len(text.encode())) > PAYLOAD_BYTES:
        raise TooBig(
            f"{whose}: the payload takes {size:,} bytes as JSON, and may have "
            f"{PAYLOAD_BYTES:,}"
        )
    return text


def with_member(data: str, name: str, value: Any) -> str:
    """Return an envelope, given as JSON text, with this member added or replaced."""
    if f'"{name}":' in data:
        data = to_json({k: v for k, v in from_json(data).items() if k != name})
    return f"{data[:-1]},{to_json({name: value})[1:]}"


def reference(whose: str, instance: Model, model: type[Model]) -> str:
    """Return the envelope's part for the row that the job runs on.

    The job is one of `model`, which may be a parent of the instance's. Raises
    UnserialisableArgument if the instance is not in the database.
    """
    try:
        pk, database = reference_of(instance, model)
    except NotSerializable as error:
        raise UnserialisableArgument(f"{whose}: {error}") from None
    return row_part(whose, pk, database)


def row_part(whose: str, pk: Any, database: str) -> str:
    """Return the envelope's part for a row of this primary key in this database."""
    try:
        text = f',"{ROW_KEY}":{to_json_text(".pk", to_json_types(".pk", pk))}'
    except NotSerializable as error:
        raise UnserialisableArgument(f"{whose}: {error}") from None
    return text if database == DEFAULT_DB_ALIAS else f'{text},"db":{to_json(database)}'


def mark_part(mark: bool | Sequence[int | str]) -> str:
    """Return the envelope's part that says which values are sensitive."""
    return f',"s":{to_json(mark)}' if mark else ""


def row_texts(parts: Iterable[str]) -> list[str]:
    """Return texts to search for in data that holds one of these row parts.

    Data that people have written may have blanks in them: they match as well.
    """
    return [f"{part}{end}" for part in sorted(parts) for end in ",}"] + [
        f'"{ROW_KEY}": '
    ]


def decode(data: str, *, sensitive: bool = False) -> Envelope:
    """Return the envelope in a job's data, model instances loaded.

    Raises RowGone, and Fail (group `bad-arguments`) if it is no envelope; its message
    quotes the data unless they are `sensitive`.
    """
    envelope = Envelope.read(data)
    if envelope is None or envelope.version is None:
        raise Fail(
            "bad-arguments",
            "The job's data is no envelope of arguments: another program, or a "
            "person, has enqueued it."
            + ("" if sensitive else f" It begins {data[:100]!r}."),
        )
    if envelope.version != VERSION:
        raise Fail(
            "bad-arguments",
            f"The job's arguments are in an envelope of version {envelope.version!r}, and this "
            f"django_qless reads version {VERSION}: a newer one has enqueued the job.",
        )
    return envelope.revived() if '"$' in data else envelope


def databases_of(data: str) -> tuple[str, ...]:
    """Return the databases of the rows in the data; those of no row are in the default one."""
    if '"db":"' not in data:
        return ONLY_DEFAULT
    envelope = Envelope.read(data)
    # The data of a class job is anything.
    if envelope is None or envelope.version is None:
        return ONLY_DEFAULT
    rows = references([envelope.args, envelope.kwargs])
    own = [envelope.database] if ROW_KEY in envelope.members else []
    return tuple({*own, *(database for _, _, database in rows)}) or ONLY_DEFAULT


def limited(whose: str, data: str, most: int = MOST_BYTES) -> str:
    """Return the data if it is small enough and UTF-8 can carry it.

    Raises TooBig, which names the size, and UnserialisableArgument.
    """
    if len(data) * 4 <= most and data.isascii():
        return data
    try:
        size = len(data.encode())
    except UnicodeEncodeError as error:
        raise UnserialisableArgument(
            f"{whose}: the arguments hold half of a surrogate pair "
            f"({error.object[error.start]!r}), which is not text"
        ) from None
    if size > most:
        raise TooBig(
            f"{whose}: the arguments take {size:,} bytes as JSON, and a job carries at "
            f"most {most:,}"
        )
    return data


def _array(args: Sequence[Any]) -> str:
    if not only_plain(map(type, args)):
        args = [to_json_types(_position(i), each) for i, each in enumerate(args)]
    try:
        return to_json(args)
    except ValueError:
        # Rare, so only now each by itself: the first bad one raises, with its name.
        return (
            f"[{','.join(to_json_text(_position(i), e) for i, e in enumerate(args))}]"
        )


def _object(kwargs: Mapping[str, Any]) -> str:
    if not only_plain(map(type, kwargs.values())):
        kwargs = {n: to_json_types(_keyword(n), each) for n, each in kwargs.items()}
    try:
        return to_json(kwargs)
    except ValueError:
        return to_json(
            {n: to_json_text(_keyword(n), each) for n, each in kwargs.items()}
        )


def _position(index: int) -> str:
    return f"argument {index + 1}"


def _keyword(name: str) -> str:
    return f"argument {name!r}"
