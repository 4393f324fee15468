"""The data of a Task's job: the envelope of all jobs, with a few members more.

"backend"     the alias of TASKS, if it is not the one of the Task's declaration
"run_after"   the Task's `run_after`, as ISO 8601, if it has one
"ran"         added on success: the start of the last attempt (seconds of the epoch),
              its length in seconds, and 1 if it returned a value, else 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django_qless.serialization import envelope
from django_qless.serialization.json_values import from_json, to_json

# Data that is no longer has room for an addition, whatever its characters.
MAX_CHARACTERS = envelope.MOST_BYTES // 4 - 100


class Ran(NamedTuple):
    """The attempt that succeeded."""

    began: float
    seconds: float
    has_value: bool


class TaskData(NamedTuple):
    """The content of a Task's data."""

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
    """Return a Task's data as JSON text; the arguments come from normalize_json.

    `mark` says which of them are sensitive.
    Raises UnserialisableArgument (nan, say) and TooBig.
    """
    more: dict[str, Any] = {}
    if backend is not None:
        more["backend"] = backend
    if run_after is not None:
        more["run_after"] = run_after.isoformat()
    return envelope.encode(name, args, kwargs, mark=mark, more=more)


def decode(data: str) -> TaskData:
    """Return the content of a Task's data. Raises Fail if it is no envelope."""
    call = envelope.decode(data)
    ran, run_after = call.members.get("ran"), call.members.get("run_after")
    return TaskData(
        call.args,
        call.kwargs,
        call.members.get("backend"),
        datetime.fromisoformat(run_after) if run_after else None,
        Ran(float(ran[0]), float(ran[1]), bool(ran[2])) if ran else None,
    )


def with_run(data: str, ran: Ran) -> str | None:
    """Return the data with the run added, or None if that would make it too long."""
    if len(data) > MAX_CHARACTERS and len(data.encode()) > envelope.MOST_BYTES - 100:
        return None
    if '"ran":' in data:
        # It was enqueued again after a success.
        members = from_json(data)
        members.pop("ran", None)
        data = to_json(members)
    began, seconds, has_value = ran
    return f'{data[:-1]},"ran":[{began:.6f},{seconds:.6f},{int(has_value)}]}}'
