"""The child processes of a pool: their number, and the capacity of each."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import log_event
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.child_process import ChildProcess
from django_qless.worker.pools.shared_state import SLOTS, SharedState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from django_qless.worker.crash_reports import CrashReport
    from django_qless.worker.pools import Pool

# Seconds from one look at leaving children to the next.
LEAVING_PAUSE = 0.1

# Seconds to wait after the first child that could not even start; doubled for each more
# in a row, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0

# A child that has worked and died young was usually killed by its job, and is replaced
# at once. Only after many such deaths in a row there is a pause, a short one.
YOUNG, MANY, SHORT_PAUSE = 0.5, 10, 0.5

# Seconds for which suspected jobs run apart at most: they may run elsewhere, or never.
ISOLATION_LIMIT = 30.0

# Seconds between two looks for the suspected jobs.
ISOLATION_PAUSE = 0.02

# The most processes, each with one job, during crash isolation.
ISOLATED = 4


class ProcessManager:
    """Starts, counts and rebalances the children of one pool.

    A pool with one job per child has many children, and a child that leaves is replaced
    when it has left. Other pools have one child. There the successor starts at once,
    with the capacity that the leaving children do not use; and after a crash there are
    several children for a while, with one job in each.
    """

    def __init__(self, pool: Pool, concurrency: int) -> None:
        self.pool = pool
        self.concurrency = concurrency
        self.restart_backoff = RestartBackoff()
        self._children: list[ChildProcess] = []
        self._isolation = CrashIsolation()
        self._ended_runs = 0

    def __iter__(self) -> Iterator[ChildProcess]:
        return iter(self._children)

    def __len__(self) -> int:
        return len(self._children)

    @property
    def wanted(self) -> int:
        """Number of children that there should be, apart from leaving ones."""
        if self.pool.one_job_each:
            return self.concurrency
        return max(1, min(ISOLATED, self._free)) if self._isolation else 1

    @property
    def staying(self) -> list[ChildProcess]:
        """The children that count against `wanted`."""
        if self.pool.one_job_each:
            return self._children
        return [child for child in self._children if not is_leaving(child)]

    @property
    def missing(self) -> int:
        """Number of children to start; below 0: there are too many."""
        return self.wanted - len(self.staying)

    @property
    def is_complete(self) -> bool:
        """True if all wanted children are there, and no others."""
        return self.missing == 0 and len(self.staying) == len(self)

    @property
    def runs(self) -> int:
        """Number of runs begun by all present and past children."""
        return self._ended_runs + sum(
            child.shared.ints[shared_state.RUNS] for child in self
        )

    @property
    def running(self) -> int:
        """Number of jobs that run now."""
        return sum(map(running_in, self))

    def dead(self) -> Iterator[ChildProcess]:
        """Yield the children that have ended; each is closed after its turn."""
        for child in [child for child in self if child.watch()]:
            self._children.remove(child)
            self._ended_runs += child.shared.ints[shared_state.RUNS]
            self._record_end(child, time.monotonic())
            yield child
            child.close()

    def start(
        self,
        run: Callable[[SharedState], None],
        heartbeat_interval: float,
        crash_reports: list[CrashReport],
        *,
        quiet: bool,
    ) -> None:
        """Start a child that calls `run`; the other arguments begin its shared state."""
        shared = SharedState(slots=max(SLOTS, 4 * self.concurrency))
        shared.crash_reports = crash_reports
        shared.floats[shared_state.HEARTBEAT_INTERVAL] = heartbeat_interval
        shared.floats[shared_state.PARENT_WAKES] = math.inf
        shared.ints[shared_state.QUIET] = quiet
        shared.ints[shared_state.CAPACITY] = self._capacity
        self._children.append(ChildProcess(run, shared, self._children))

    def rebalance(self) -> None:
        """Distribute the capacity over the children of a pool with one child."""
        if self.pool.one_job_each:
            return
        if self._isolation:
            jobs = [held for child in self for held in child.shared.held_jobs().running]
            self._isolation.look({held.jid for held in jobs}, time.monotonic())
        for child in self.staying[self.wanted :]:
            child.command(shared_state.STOP)
        for child in self.staying:
            child.command(shared_state.CAPACITY, self._capacity)

    @property
    def due(self) -> float:
        """Time to rebalance again (monotonic)."""
        if self._isolation:
            return time.monotonic() + ISOLATION_PAUSE
        if len(self.staying) < len(self):
            return time.monotonic() + LEAVING_PAUSE
        return math.inf

    @property
    def _free(self) -> int:
        """Number of jobs that may run in the staying children."""
        return max(0, self.concurrency - sum(map(running_in, filter(is_leaving, self))))

    @property
    def _capacity(self) -> int:
        if self.pool.one_job_each:
            return 1
        return min(1, self._free) if self._isolation else self._free

    def _record_end(self, dead: ChildProcess, now: float) -> None:
        """Record the end of a child for crash isolation and restart backoff."""
        ints, pid = dead.shared.ints, dead.pid
        if not self.pool.one_job_each:
            self._isolation.record_crash(crashed_jobs(dead), now)
        if dead.killed_outcomes is not None:
            return
        planned = dead.status == 0 and (
            ints[shared_state.STOP] or ints[shared_state.LEAVING]
        )
        if planned:
            log_event(
                logging.DEBUG, "child left", pid=pid, runs=ints[shared_state.RUNS]
            )
        else:
            log_event(logging.ERROR, "child died", pid=pid, status=dead.status)
        if not (planned and ints[shared_state.RUNS]):
            self.restart_backoff.record_death(dead, now)


def is_leaving(child: ChildProcess) -> bool:
    """Return whether a child takes no more jobs, for good."""
    ints = child.shared.ints
    return bool(ints[shared_state.LEAVING] or ints[shared_state.STOP])


def is_busy(child: ChildProcess) -> bool:
    """Return whether a child holds jobs."""
    return bool(child.shared.held_jobs().locked)


def running_in(child: ChildProcess) -> int:
    """Return the number of jobs that run in a child."""
    return len(child.shared.held_jobs().running)


def crashed_jobs(dead: ChildProcess) -> list[str]:
    """Return the jobs to which the end of a child counts as a crash."""
    if dead.killed_outcomes is None:
        return [held.jid for held in dead.shared.held_jobs().running]
    outcomes = dead.killed_outcomes.values()
    return [each.jid for each in outcomes if each and each.verb == "crash"]


class RestartBackoff:
    """Delays the next child when children keep dying."""

    def __init__(self) -> None:
        #: When the next child may be started (monotonic).
        self.due = 0.0
        self._failed_starts = 0
        self._young_deaths = 0

    def record_death(self, dead: ChildProcess, now: float) -> None:
        """Record that a child has died by itself."""
        if not dead.shared.ints[shared_state.READY]:
            pause = min(FIRST_PAUSE * 2**self._failed_starts, LONGEST_PAUSE)
            self.wait(pause, now)
            self._failed_starts = min(self._failed_starts + 1, 16)
            return
        self._failed_starts = 0
        is_young = now - dead.began < YOUNG
        self._young_deaths = self._young_deaths + 1 if is_young else 0
        if self._young_deaths > MANY:
            self.wait(SHORT_PAUSE, now)

    def wait(self, seconds: float, now: float) -> None:
        """Start no child for so many seconds from now."""
        self.due = max(self.due, now + seconds)


class CrashIsolation:
    """Finds the job that killed a process in which several jobs ran.

    Each of them has the crash counted, as any of them may be to blame. Then each runs
    alone in a process: if that dies again, only its job is counted on.
    """

    def __init__(self) -> None:
        self._suspected: set[str] = set()
        self._seen: set[str] = set()
        self._until = -math.inf

    def __bool__(self) -> bool:
        return bool(self._suspected)

    def record_crash(self, jids: Collection[str], now: float) -> None:
        """Record that a process has died that ran these jobs."""
        if len(jids) > 1 or self._suspected:
            self._suspected.update(jids)
            self._seen.difference_update(jids)
            self._until = now + ISOLATION_LIMIT

    def look(self, running: Collection[str], now: float) -> None:
        """Clear suspected jobs whose run has ended since."""
        self._seen |= self._suspected.intersection(running)
        innocent = self._seen.difference(running)
        self._suspected -= innocent
        self._seen -= innocent
        if now >= self._until:
            self._suspected.clear()
            self._seen.clear()


class IdleTimer:
    """Measures for how long no job has run, for workers that end when idle."""

    LOOKS = 20
    """Number of looks per limit, which is the precision."""

    def __init__(self, limit: float | None) -> None:
        """Set the limit in seconds; None: no limit."""
        self._limit = math.inf if limit is None else limit
        self._since = -math.inf
        self._runs = -1
        #: When to look (monotonic).
        self.due = math.inf if limit is None else -math.inf

    def look(self, now: float, *, runs: int, busy: bool) -> bool:
        """Return whether the limit is over.

        `runs` is the number of runs begun so far; `busy`, whether a job runs or the
        time does not count for another reason.
        """
        if busy or runs != self._runs:
            self._since, self._runs = now, runs
        self.due = min(now + self._limit / self.LOOKS, self._since + self._limit)
        return now - self._since >= self._limit
