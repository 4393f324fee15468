"""How replies are read, for several subjects."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ..calls import Call, Calls, Kind
from ..wire import Argument

T = TypeVar("T")
J = TypeVar("J")  # the class of jobs: Job or AsyncJob
R = TypeVar("R")  # the class of recurring jobs


class Listing(NamedTuple):
    """A part of a list of jobs, and how long the whole list is."""

    total: int
    jids: list[str]


class HandsOutJobs(Generic[J]):
    """Commands whose replies are whole jobs."""

    def _job(self, members: dict[str, Any]) -> J:
        raise NotImplementedError

    def _read_job(self, reply: str | None) -> J | None:
        return None if reply is None else self._job(json.loads(reply))

    def _read_jobs(self, reply: str) -> list[J]:
        return [self._job(members) for members in read_list(reply)]


def read_list(reply: str) -> list[Any]:
    """Read a JSON list; the server writes an empty one as {}."""
    return json.loads(reply) or []


def read_json(reply: str | None) -> Any:
    """Read JSON, or nothing."""
    return None if reply is None else json.loads(reply)


def read_listing(reply: str) -> Listing:
    """Read a total and a list of jids."""
    members = json.loads(reply)
    return Listing(members["total"], members["jobs"] or [])


def nothing(reply: Any) -> None:
    """Read a reply that says nothing."""


def split(
    command: str,
    items: Sequence[Argument],
    kind: Kind,
    decode: Callable[[Any], list[T]],
    *,
    most: int,
    head: tuple[Argument, ...] = (),
) -> Calls[list[T]]:
    """Return calls for as many items as there are, whose results are one list.

    Each has `head` before its items.
    """
    parts = [tuple(items[at : at + most]) for at in range(0, len(items), most)]
    return Calls(
        tuple(Call(command, (*head, *part), kind, decode) for part in parts),
        tuple(map(len, parts)),
        lambda results: [result for part in results for result in part],
    )
