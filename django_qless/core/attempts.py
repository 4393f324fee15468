"""Attempts at a job and the phases of its life, read from its history."""

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

#: The lock was taken away or has expired; the worker may still end the attempt differently.
NOTICE = "timed-out"

#: The job was put again during the attempt.
PUT_AGAIN = "put"

#: No entry says how it ended: earlier versions and other clients write none for a retry.
NOT_RECORDED = "not-recorded"

#: Handed back by its worker, which had begun with it only if `held` says when.
RETURNED = "returned"

_AFTER: dict[str, PhaseKind] = {"done": "over", "failed": "failed", "canceled": "over"}


@dataclass(slots=True)
class Phase:
    """A span of time in which a job did one thing."""

    kind: PhaseKind
    start: float
    end: float
    #: Whether it still goes on; then `end` is now.
    is_open: bool = False

    @property
    def seconds(self) -> float:
        """The duration, so far if the phase still goes on."""
        return self.end - self.start

    @property
    def is_exact(self) -> bool:
        """True if both times have fractions; earlier versions kept whole seconds."""
        return not (self.start.is_integer() or self.end.is_integer())


@dataclass(slots=True)
class Attempt:
    """One attempt: a worker had the job."""

    worker: str
    #: When the job was handed to the worker.
    handed: float
    #: When it ended; None while it goes on, or if unknown.
    ended: float | None = None
    #: One of ENDS, NOTICE, PUT_AGAIN or NOT_RECORDED; "" while it goes on.
    end: str = ""
    #: The failure group, or "".
    group: str = ""
    #: The line of the failure's message that names the error, or "".
    message: str = ""
    #: When the job was to be ready again, if there was a delay.
    until: float | None = None
    #: The wait before the start; None if unknown.
    waiting: Phase | None = None
    #: The run; None if unknown.
    running: Phase | None = None

    @property
    def started(self) -> float:
        """The start of the run: later than `handed` if the worker held it back."""
        return self.running.start if self.running else self.handed

    @property
    def has_begun(self) -> bool:
        """False if the worker handed the job back before it began with it."""
        return self.end != RETURNED or self.running is not None


@dataclass(slots=True)
class Attempts:
    """The attempts and phases of a job, in order."""

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
    """Return the attempts and phases of a job up to now.

    `is_running` says whether a worker has the job. `since` is when it came into its state,
    `failed` when it failed last: they date the end of the last attempt if its history does
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
    """Reads a history, entry by entry, into attempts and phases."""

    def __init__(self) -> None:
        self.found = Attempts()
        #: The attempt that has not ended yet.
        self.attempt: Attempt | None = None
        #: When its worker was notified that the lock is lost.
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
        """Note that entries are missing here."""
        self.attempt = self.noticed = None
        for phase in self.found.phases:
            phase.kind = "unknown"

    def finish(
        self, *, is_running: bool, ended: tuple[float, float], now: float
    ) -> Attempts:
        """Complete the reading with the time since the last entry, from the record."""
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
            # The job was taken from its worker, and failed without another attempt.
            self._break_off(NOTICE, None)
        if what == RETURNED and not group and "held" not in entry:
            self._hand_back(when)
        elif attempt := self.attempt:
            attempt.group = group
            attempt.message = str(entry.get("message") or "")
            attempt.until = _number(entry.get("until")) or None
            held = _number(entry.get("held"))
            self._close(what, min(attempt.handed + held, when), when)
        self._begin(_AFTER.get(what, "waiting"), when)

    def _hand_back(self, when: float) -> None:
        """End the open attempt, whose worker never began with the job: it waited on."""
        phases = self.found.phases
        if attempt := self.attempt:
            if phases and phases[-1].kind == "waiting":
                attempt.waiting = phases[-1]
            attempt.end, attempt.ended = RETURNED, when
            self.attempt = self.noticed = None
        if phases:
            phases[-1].end = when
        # The next attempt's wait is its own.
        phases.append(Phase("waiting", when, when))
        self.last = when

    def _break_off(self, how: str, when: float | None) -> None:
        """End the open attempt, if there is one, although no entry records its end."""
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
        """Begin a phase of an attempt; a wait before it is the attempt's."""
        before = self.found.phases[-1] if self.found.phases else None
        if before and before.kind == "waiting":
            attempt.waiting = before
        return self._begin(kind, when)

    def _begin(self, kind: PhaseKind, when: float) -> Phase:
        """Begin a phase, or continue one of the same kind."""
        self.last, phases = when, self.found.phases
        if phases:
            phases[-1].end = when
            if phases[-1].kind == kind:
                return phases[-1]
        phases.append(Phase(kind, when, when))
        return phases[-1]


def is_log(entry: dict[str, Any]) -> bool:
    """Return whether a job logged "canceled" itself: the core's entries have `was`."""
    return entry.get("what") == "canceled" and "was" not in entry


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
