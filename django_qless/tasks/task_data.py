"""The data of a Task's job: the usual envelope with a few more members.

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

# Data that is no longer has room for an addition, whatever its characters.
MAX_CHARACTERS = envelope.MOST_BYTES // 4 - 100


class Ran(NamedTuple):
    """The attempt that succeeded."""

    began: float
    seconds: float
    has_value: bool


class TaskData(envelope.Envelope):
    """The envelope of a Task."""

    __slots__ = ()

    @property
    def backend(self) -> str | None:
        """The alias of TASKS, None for that of the Task's declaration."""
        return self.members.get("backend")

    @property
    def run_after(self) -> datetime | None:
        """The Task's `run_after`."""
        text = self.members.get("run_after")
        return datetime.fromisoformat(text) if text else None

    @property
    def ran(self) -> Ran | None:
        """The attempt that succeeded, if one did."""
        ran = self.members.get("ran")
        return Ran(float(ran[0]), float(ran[1]), bool(ran[2])) if ran else None


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
    return TaskData(envelope.decode(data).members)


def with_run(data: str, ran: Ran) -> str | None:
    """Return the data with the run added, or None if it is too long."""
    if len(data) > MAX_CHARACTERS:
        # What is longer still is kept compressed, where a few bytes do not matter.
        room = envelope.MOST_BYTES - len(data.encode())
        if 0 <= room < 100:
            return None
    began, seconds, has_value = ran
    run = [round(began, 6), round(seconds, 6), int(has_value)]
    return envelope.with_member(data, "ran", run)
