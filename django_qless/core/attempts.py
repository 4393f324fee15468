"""The attempts at a job, and how it spent its time, as its history tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

PhaseKind = Literal["waiting", "running", "failed", "over", "unknown"]

#: Words of a history that end an attempt; each says how.
ENDS = frozenset(
    {"done", "failed", "retried", "returned", "crashed", "lost", "canceled"}
)

#: The lock was taken away, or has run out: the worker may still end the attempt otherwise.
NOTICE = "timed-out"

#: The job was put again during the attempt.
PUT_AGAIN = "put"

#: There is no entry: earlier versions, and other clients, write none for a retry.
NOT_RECORDED = "not-recorded"

_AFTER: dict[str, PhaseKind] = {
    "done": "over",
    "failed": "failed",
    "canceled": "over",
}


@dataclass(slots=True)
class Phase:
    """A time that a job spent in one way."""

    kind: PhaseKind
    start: float
    end: float
    #: Whether it goes on: its end is now.
    is_open: bool = False

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return self.end - self.start

    @property
    def is_exact(self) -> bool:
        """Whether both times have a fraction: those of earlier histories have none."""
        return not (self.start.is_integer() or self.end.is_integer())


@dataclass(slots=True)
class Attempt:
    """One time that a worker had the job."""

    worker: str
    #: When the worker was given it.
    handed: float
    #: When it ended; None as long as it goes on, and if that is not known.
    ended: float | None = None
    #: One of ENDS, NOTICE, PUT_AGAIN or NOT_RECORDED; "" as long as it goes on.
    end: str = ""
    #: The failure group, or "".
    group: str = ""
    #: The line of the failure's message that says what happened, or "".
    message: str = ""
    #: When the job was to be ready again, if there was a delay.
    until: float | None = None
    #: How long the job waited before it was started; None if that is not known.
    waiting: Phase | None = None
    #: How long it ran; None if that is not known.
    running: Phase | None = None

    @property
    def started(self) -> float:
        """When it was started: later, if it lay in the worker's hands for a while."""
        return self.running.start if self.running else self.handed


@dataclass(slots=True)
class Attempts:
    """What a history tells: each attempt, and what the job did with all of its time."""

    attempts: list[Attempt] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)


def read_attempts(
    history: Sequence[dict[str, Any]],
    *,
    is_running: bool,
    now: float,
    since: float = 0.0,
    failed: float | None = None,
    missing: int = 0,
) -> Attempts:
    """Return what a history tells up to now.

    `is_running` says whether a worker has the job. `since` is when it came into its state,
    `failed` when it failed last: they tell when the last attempt ended if its history does
    not. `missing` is how many entries are left out behind the first.
    """
    reader = _Reader()
    for n, entry in enumerate(history):
        if n == 1 and missing:
            reader.leave_out()
        reader.read(entry)
    ended = (since, failed if failed is not None else 0.0)
    return reader.finish(is_running=is_running, ended=ended, now=now)


class _Reader:
    """Goes through a history, and notes when the job begins to do something else."""

    def __init__(self) -> None:
        self.found = Attempts()
        #: The attempt whose end is still to come.
        self.attempt: Attempt | None = None
        #: When its worker got notice that the lock is lost.
        self.noticed: float | None = None
        self.last = 0.0

    def read(self, entry: dict[str, Any]) -> None:
        # Clocks of clients differ, and some write whole seconds: time does not go back.
        what, when = str(entry.get("what")), max(self.last, _number(entry.get("when")))
        self.last = when
        if what == "put":
            self._break_off(PUT_AGAIN, when)
            self._begin("waiting", when)
        elif what == "popped":
            self._break_off(NOT_RECORDED, None)
            self.attempt = Attempt(str(entry.get("worker") or ""), when)
            self.found.attempts.append(self.attempt)
        elif what == NOTICE and self.attempt:
            self.noticed = when
        elif what in ENDS and not is_log(entry):
            self._read_end(what, when, entry)

    def leave_out(self) -> None:
        """Take note that entries are missing."""
        self.attempt = self.noticed = None
        for phase in self.found.phases:
            phase.kind = "unknown"

    def finish(
        self, *, is_running: bool, ended: tuple[float, float], now: float
    ) -> Attempts:
        """Take what the record tells of the time behind the last entry."""
        attempt, now = self.attempt, max(now, self.last)
        if attempt and is_running:
            attempt.running = self._take("running", attempt, attempt.handed)
        elif attempt:
            since, failed = ended
            when = None
            if failed >= math.floor(attempt.handed):
                when = min(max(failed, attempt.handed), now)
            elif since - attempt.handed >= 1:
                # (The record may still have the beginning of the run.)
                when = min(since, now)
            self._break_off(NOT_RECORDED, when)
        phases = self.found.phases
        if phases and phases[-1].kind in ("failed", "over"):
            phases.pop()
        elif phases:
            phases[-1].end, phases[-1].is_open = now, True
        self.found.phases = [
            phase
            for phase in phases
            if phase.kind != "over" and (phase.kind != "waiting" or phase.seconds)
        ]
        return self.found

    def _read_end(self, what: str, when: float, entry: dict[str, Any]) -> None:
        group = str(entry.get("group") or "")
        is_of_attempt = entry.get("worker") or group.startswith("failed-retries-")
        if what == "failed" and self.noticed is not None and not is_of_attempt:
            # It was taken from its worker, and failed without another attempt.
            self._break_off(NOTICE, None)
        if attempt := self.attempt:
            attempt.group = group
            attempt.message = str(entry.get("message") or "")
            attempt.until = _number(entry.get("until")) or None
            held = _number(entry.get("held"))
            self._close(what, min(attempt.handed + held, when), when)
        self._begin(_AFTER.get(what, "waiting"), when)

    def _break_off(self, how: str, when: float | None) -> None:
        """End the attempt, if there is one of which no entry says how it ended."""
        attempt = self.attempt
        if attempt is None:
            return
        if self.noticed is not None:
            how, when = NOTICE, self.noticed
        if when is not None:
            self._close(how, attempt.handed, when)
            self._begin("waiting", when)
            return
        self._take("unknown", attempt, attempt.handed)
        attempt.end = how
        self.attempt = None

    def _close(self, how: str, started: float, ended: float) -> None:
        attempt = self.attempt
        assert attempt is not None
        attempt.running = self._take("running", attempt, started)
        attempt.end, attempt.ended = how, ended
        self.attempt = self.noticed = None

    def _take(self, kind: PhaseKind, attempt: Attempt, when: float) -> Phase:
        """From now on the job does this, and waits no longer."""
        before = self.found.phases[-1] if self.found.phases else None
        if before and before.kind == "waiting":
            attempt.waiting = before
        return self._begin(kind, when)

    def _begin(self, kind: PhaseKind, when: float) -> Phase:
        """From now on the job does this."""
        self.last, phases = when, self.found.phases
        if phases:
            phases[-1].end = when
            if phases[-1].kind == kind:
                return phases[-1]
        phases.append(Phase(kind, when, when))
        return phases[-1]


def is_log(entry: dict[str, Any]) -> bool:
    """Return whether a job has logged the word with which the core notes a cancel."""
    return entry.get("what") == "canceled" and "was" not in entry


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
