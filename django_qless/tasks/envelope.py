"""A Task's data: the envelope of all jobs, with a few members more.

"backend"     the alias of TASKS, if it is not the one of the Task's declaration
"run_after"   when it was to begin, as ISO 8601, if that was said
"ran"         added when it has succeeded: when the last attempt began (seconds of
              the epoch), how many seconds it took, 1 if it left a value, else 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from django.conf import settings
from django.utils.timezone import is_naive, make_aware

from django_qless.core.jid import ALPHABET
from django_qless.puts import arguments
from django_qless.values import from_json, to_json

# Data that is no longer has room for an addition, whatever its characters.
MOST_CHARACTERS = arguments.MOST_BYTES // 4 - 100

_LATEST = (1 << 56) - 1
_DIGITS = {chr(character): value for value, character in enumerate(ALPHABET)}


class Ran(NamedTuple):
    """How the attempt went that succeeded."""

    began: float
    seconds: float
    has_value: bool


class Envelope(NamedTuple):
    """What the data of a Task's job holds."""

    args: list[Any]
    kwargs: dict[str, Any]
    backend: str | None
    run_after: datetime | None
    ran: Ran | None


def encode(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    backend: str | None = None,
    run_after: datetime | None = None,
    mark: str = "",
) -> str:
    """Return a Task's data as JSON text; the arguments are what normalize_json made.

    `mark` says which of them are sensitive.
    Raises UnserialisableArgument (nan, say) and TooBig.
    """
    more: dict[str, Any] = {}
    if backend is not None:
        more["backend"] = backend
    if run_after is not None:
        more["run_after"] = run_after.isoformat()
    text = arguments.encode(name, args, kwargs, mark=mark)
    if not more:
        return text
    return arguments.limited(name, f"{text[:-1]},{to_json(more)[1:]}")


def decode(data: str) -> Envelope:
    """Return what a Task's data holds. Raises Fail if it is no envelope."""
    plain = arguments.decode(data)
    # Most have none of them, and need not be read twice.
    more = any(f'"{name}":' in data for name in ("backend", "run_after", "ran"))
    members = from_json(data) if more else {}
    ran, run_after = members.get("ran"), members.get("run_after")
    return Envelope(
        plain.args,
        plain.kwargs,
        members.get("backend"),
        datetime.fromisoformat(run_after) if run_after else None,
        Ran(float(ran[0]), float(ran[1]), bool(ran[2])) if ran else None,
    )


def with_run(data: str, ran: Ran) -> str | None:
    """Return the data with how the run went, or None if that would make it too long."""
    if len(data) > MOST_CHARACTERS and len(data.encode()) > arguments.MOST_BYTES - 100:
        return None
    if '"ran":' in data:
        # It was put again after it had succeeded.
        members = from_json(data)
        members.pop("ran", None)
        data = to_json(members)
    began, seconds, has_value = ran
    return f'{data[:-1]},"ran":[{began:.6f},{seconds:.6f},{int(has_value)}]}}'


def put_at(jid: str) -> float | None:
    """Return when a jid was drawn, in seconds of the epoch; None if it is none of ours."""
    if len(jid) != 20 or not all(each in _DIGITS for each in jid):
        return None
    number = 0
    for each in jid:
        number = number << 6 | _DIGITS[each]
    return (_LATEST - (number >> 64)) / 1e6


def moment(seconds: float | None) -> datetime | None:
    """Return a time as Django would have it: aware, if USE_TZ says so."""
    if seconds is None:
        return None
    if settings.USE_TZ:
        return datetime.fromtimestamp(seconds, timezone.utc)
    return datetime.fromtimestamp(seconds)


def aware(time: datetime) -> datetime:
    """Return the time with the time zone that it is meant in."""
    return make_aware(time) if is_naive(time) else time


def change(result: Any, **attributes: Any) -> None:
    """Set attributes of a TaskResult, which is frozen for everybody else."""
    for name, value in attributes.items():
        object.__setattr__(result, name, value)
