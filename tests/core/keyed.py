"""The calls with KEYS in the words of the tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.core.caller import Core, flat
from tests.core.invariants import violations

RESERVED = "jid queue klass data token retries remaining priority tags context expires"


@dataclass(frozen=True)
class Settled:
    """A decoded reply of settle."""

    refused: list[tuple[str, str, str]]
    jobs: list[dict[str, str]]
    rest: list[str]

    @property
    def jids(self) -> list[str]:
        """The jids of the reserved jobs, in order."""
        return [job["jid"] for job in self.jobs]


def settlement(
    jid: str, token: str, verb: str, *args: Any, held: Any = ""
) -> list[Any]:
    """Return the arguments that settle one job."""
    return [jid, token, held, verb, len(args), *args]


def chunks(values: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Cut a flat list into tuples."""
    assert len(values) % size == 0, values
    return [tuple(values[n : n + size]) for n in range(0, len(values), size)]


class Keyed:
    """A namespace, called with KEYS."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.server = core.server
        self.call = core.ours
        self.refusal = core.refusal

    def put(
        self, jid: str, now: Any = 0, *, queue: str = "queue", worker: str = "worker",
        klass: str = "klass", data: str = "{}", delay: Any = 0, request: str = "",
        **pairs: Any,
    ) -> Any:  # fmt: skip
        """Put one job."""
        return self.call(
            "put", worker, queue, jid, klass, data, delay, *flat(pairs),
            now=now, request=request,
        )  # fmt: skip

    def put_many(
        self, items: Sequence[dict[str, Any]], now: Any = 0, *, request: str = ""
    ) -> list[str]:
        """Put many jobs; an item has jid and, if not usual, queue, klass, data, delay."""
        arguments: list[Any] = ["worker"]
        for item in items:
            pairs = dict(item)
            arguments += [
                pairs.pop("jid"),
                pairs.pop("queue", "queue"),
                pairs.pop("klass", "klass"),
                pairs.pop("data", "{}"),
                pairs.pop("delay", 0),
                len(pairs),
                *flat(pairs),
            ]
        self.instead: dict[str, str]
        left: list[str]
        left, instead = self.call("put.many", *arguments, now=now, request=request)
        self.instead = dict(zip(instead[::2], instead[1::2], strict=True))
        return left

    def settle(
        self,
        settlements: Sequence[list[Any]] = (),
        count: int = 0,
        queues: Sequence[str] = ("queue",),
        *,
        worker: str = "worker",
        now: Any = 0,
        request: str = "",
        exclude: Sequence[str] = (),
        wait: Any = None,
    ) -> Settled:
        """Settle jobs and reserve others in one call."""
        pairs: list[Any] = [part for glob in exclude for part in ("exclude", glob)]
        if wait is not None:
            pairs += ["wait", wait]
        parts = [part for settled in settlements for part in settled]
        refused, jobs, rest, *_ = self.call(
            "settle", worker, len(settlements), *parts, count, len(queues), *queues,
            *pairs, now=now, request=request,
        )  # fmt: skip
        names = RESERVED.split()
        return Settled(
            [(jid, code, text) for jid, code, text in refused],
            [dict(zip(names, job, strict=False)) for job in jobs],
            rest,
        )

    def take(
        self, count: int = 10, *, queue: str = "queue", worker: str = "worker",
        now: Any = 0,
    ) -> list[dict[str, str]]:  # fmt: skip
        """Reserve jobs of one queue."""
        return self.settle([], count, [queue], worker=worker, now=now).jobs

    def token(self, jid: str, now: Any = 0) -> str:
        """Reserve jobs until this one comes (it must), and return its token."""
        for job in self.take(250, now=now):
            if job["jid"] == jid:
                return job["token"]
        raise AssertionError(f"{jid} was not handed out")

    def job(self, jid: str, now: Any = 0) -> dict[str, Any]:
        """Return the decoded record of a job that must exist."""
        text = self.call("get", jid, now=now)
        assert text is not None, f"job {jid} does not exist"
        job: dict[str, Any] = json.loads(text)
        return job

    def json(self, command: str, *args: Any, now: Any = 0) -> Any:
        """Call and decode the JSON reply."""
        return json.loads(self.call(command, *args, now=now))

    def is_woken(self, names: Sequence[str]) -> bool:
        """Block as an idle worker does, but not for long: a marker is there or not."""
        return self.server.bzpopmin(list(names), timeout=0.02) is not None

    def violations(self) -> list[str]:
        """Return which invariants the keys of the namespace break, in words."""
        return violations(self.server, self.core.prefix)
