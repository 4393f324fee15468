"""What the models know of a job, and what a put says of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.core.caller import flat


class Refused(Exception):
    """The call must be refused with one of these codes, and change nothing."""

    def __init__(self, *codes: str) -> None:
        super().__init__(codes)
        self.codes = codes


@dataclass(repr=False)
class Put:
    """What a put says; None is left open."""

    jid: str
    queue: str
    klass: str = "klass"
    data: str = "{}"
    delay: float = 0
    priority: float | None = None
    retries: int | None = None
    tags: list[str] | None = None
    depends: list[str] | None = None
    on_failure: str | None = None
    unique: str | None = None
    unique_until: str | None = None
    conflict: str | None = None
    absent: int | None = None
    workflow: str | None = None
    limit_key: str | None = None
    fair_by: str | None = None

    def __repr__(self) -> str:
        given = {k: v for k, v in vars(self).items() if v not in (None, 0, "{}")}
        return f"Put({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    def options(self) -> dict[str, Any]:
        """Return the options that are given, as the wire names them."""
        known = vars(self)
        must = ("jid", "queue", "klass", "data", "delay")
        return {k: v for k, v in known.items() if k not in must and v is not None}

    def arguments(self, worker: str) -> list[Any]:
        """Return the arguments of the command put."""
        first = [worker, self.queue, self.jid, self.klass, self.data, self.delay]
        return [*first, *flat(self.options())]


@dataclass
class Job:
    """One job. `state` is raw: one whose delay is over stays scheduled until it is moved."""

    jid: str
    queue: str = ""
    klass: str = "klass"
    data: str = "{}"
    priority: float = 0
    retries: int = 5
    remaining: int = 5
    tags: list[str] = field(default_factory=list)
    state: str = "waiting"
    since: float = 0
    first: bool = False  # was taken from its worker, and goes before all others
    due: float | None = None
    worker: str = ""
    token: str = ""
    expires: float = 0
    lock: float = 0
    noticed: bool = False  # its worker has got notice that the lock has run out
    crashes: int = 0
    failure: str | None = None
    depends: set[str] = field(default_factory=set)
    on_failure: str = "block"
    behind: str = ""  # it goes on as soon as this one has ended, even if it failed
    unique: tuple[str, str] | None = None
    workflow: str | None = None
    result: str | None = None
    limit_key: str | None = None
    fair_by: str | None = None
    returned: bool = False  # it has started before, and may have another place
    holds: set[str] = field(default_factory=set)  # limits under which it runs

    def rank(self) -> tuple[Any, ...]:
        """Return what decides which of those that are ready is handed out first."""
        return (0,) if self.first else (1, -self.priority, self.since)

    def counts(self) -> bool:
        """Return whether it holds its unique key in its present state."""
        states = {"waiting", "scheduled", "depends"}
        if self.unique and self.unique[0] == "end":
            return self.state in states | {"running"}
        return self.unique is not None and self.state in states and not self.first

    def is_pending(self) -> bool:
        """Return whether it has not started."""
        return self.state in ("waiting", "scheduled", "depends")
