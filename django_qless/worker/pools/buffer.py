"""The jobs that a child holds, and how many it should hold."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from django_qless.core import Settlement
from django_qless.worker.pools.locks import LockTerm
from django_qless.worker.pools.outcomes import released
from django_qless.worker.process_info import boottime

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_qless.core import Reserved
    from django_qless.worker.pools.batches import Batches
    from django_qless.worker.pools.shared_state import SharedState

# A job that takes longer, in seconds, is reserved only when it can be started at once.
SHORT = 0.005


class Item(NamedTuple):
    """A held job."""

    #: Its slot in the shared state.
    slot: int
    job: Reserved
    #: Since when it is held (monotonic).
    since: float
    #: For how long its lock holds.
    term: LockTerm


class Outcome(NamedTuple):
    """The end of a held job, until the server takes it."""

    slot: int
    settlement: Settlement
    job: Reserved
    #: When the job ended (monotonic); 0.0: settle it at once.
    since: float = 0.0


class JobBuffer:
    """Held jobs and their outcomes, in memory and in the shared state.

    Several threads use it at once: deques and dicts, whose single operations are
    atomic, make sure that each job is either run or returned, and each outcome sent
    once.
    """

    def __init__(self, shared: SharedState) -> None:
        self.shared = shared
        #: All waiting and running jobs, by the tokens of their locks.
        self.held: dict[str, Item] = {}
        self.waiting: deque[Item] = deque()
        self.outcomes: deque[Outcome] = deque()
        #: Tokens of entities that run together -> the job that leads them.
        self.leaders: dict[str, Reserved] = {}
        #: Returned jobs that the reserver does not know yet.
        self.returned: deque[Reserved] = deque()
        #: Number of runs that have ended, and the seconds that they took together.
        self.ended = 0
        self.seconds = 0.0
        self._counting = threading.Lock()
        #: The batches of the jobs, if someone listens to them.
        self.batches: Batches | None = None

    @property
    def running(self) -> int:
        """Number of running jobs."""
        return len(self.held) - len(self.waiting)

    @property
    def runs(self) -> int:
        """Number of held jobs; entities that run together count as one."""
        return len(self.held) - len(self.leaders)

    @property
    def waiting_since(self) -> float:
        """When the first waiting job came (monotonic); infinity if none waits."""
        try:
            return self.waiting[0].since
        except IndexError:  # a thread may just have taken the last one
            return float("inf")

    def hold(
        self,
        jobs: Sequence[Reserved],
        term: LockTerm | None = None,
        since: float | None = None,
    ) -> list[Item]:
        """Hold new jobs `since` then (monotonic; None: now), and show them.

        They are not run before they are added to `waiting`.
        """
        since, term = time.monotonic() if since is None else since, term or LockTerm()
        take, held = self.shared.take, self.held
        items = []
        for job in jobs:
            item = Item(take(job.jid, job.token, since), job, since, term)
            held[job.token] = item
            items.append(item)
        term.shown = boottime()
        return items

    def let_in(self, items: Sequence[Item]) -> None:
        """Let held jobs wait for their start, as if they were held from now on.

        Before, their batch was announced, which may have taken its time.
        """
        now = time.monotonic()
        for item in items:
            if item.job.token in self.held:
                later = item._replace(since=now)
                self.held[item.job.token] = later
                self.waiting.append(later)

    def begin(self, item: Item) -> float:
        """Show a job as running; return the time (monotonic)."""
        now = time.monotonic()
        with self._counting:
            self.shared.begin(item.slot, now)
        return now

    def end(self, item: Item, settlement: Settlement, began: float) -> None:
        """Keep the outcome of a run until it is settled."""
        slot, job, since, _ = item
        self.shared.finish(slot)
        if settlement.held is not None:
            # A run that was begun: with the seconds for which the job was held before.
            settlement = Settlement(*settlement[:4], began - since)
        self.outcomes.append(Outcome(slot, settlement, job, time.monotonic()))
        self.held.pop(job.token, None)
        if self.batches is not None:
            self.batches.end(job.token, ran=True)

    def hand_over(self, item: Item) -> None:
        """Forget a job that runs on, in a process that outlives this one."""
        self.held.pop(item.job.token, None)
        self.shared.free(item.slot)

    def count_run(self, seconds: float) -> None:
        """Count a run that has ended."""
        with self._counting:
            self.ended += 1
            self.seconds += seconds

    def give_back(self, item: Item) -> None:
        """Return a job that was not started to its queue."""
        job = item.job
        self.held.pop(job.token, None)
        self.outcomes.append(Outcome(item.slot, released(job.jid, job.token), job))
        self.returned.append(job)
        if self.batches is not None:
            self.batches.end(job.token, ran=False)

    def give_back_waiting(self, before: float = float("inf")) -> int:
        """Return the waiting jobs, or those held since before then; count them."""
        count = 0
        while self.waiting_since < before:
            try:
                item = self.waiting.popleft()
            except IndexError:
                break
            self.give_back(item)
            count += 1
        return count

    def drop(self, tokens: Collection[str]) -> list[Reserved]:
        """Forget waiting jobs whose locks are lost; return those that run."""
        for item in list(self.waiting):
            if item.job.token in tokens:
                try:
                    self.waiting.remove(item)
                except ValueError:
                    continue  # it has just been started
                self.held.pop(item.job.token, None)
                self.shared.free(item.slot)
                if self.batches is not None:
                    self.batches.end(item.job.token, ran=False)
        return [
            self.leaders.get(token, known.job)
            for token in tokens
            if (known := self.held.get(token))
        ]

    def running_jobs(self) -> list[Reserved]:
        """Return the running jobs."""
        waiting = {item.job.token for item in list(self.waiting)}
        held = list(self.held.values())
        return [
            self.leaders.get(item.job.token, item.job)
            for item in held
            if item.job.token not in waiting
        ]

    def take_companions(self, item: Item) -> list[Item]:
        """Remove and return the waiting entities that run together with this one."""
        items: list[Item] = []
        kind = item.job.klass, item.job.queue
        while len(items) < item.job.batch - 1:
            try:
                other = self.waiting.popleft()
            except IndexError:
                break
            if not other.job.batch or (other.job.klass, other.job.queue) != kind:
                self.waiting.appendleft(other)
                break
            items.append(other)
        return items

    def take_outcomes(self, most: int) -> list[Outcome]:
        """Remove and return up to `most` outcomes, the oldest first, of different jobs.

        A job that was lost and reserved again may have two, but the server's refusal of
        one of them names the job only.
        """
        taken: list[Outcome] = []
        jids: set[str] = set()
        while len(taken) < most:
            try:
                outcome = self.outcomes.popleft()
            except IndexError:
                break
            if outcome.job.jid in jids:
                self.outcomes.appendleft(outcome)
                break
            jids.add(outcome.job.jid)
            taken.append(outcome)
        return taken

    def put_back(self, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes that could not be sent."""
        self.outcomes.extendleft(reversed(outcomes))


class Prefetch:
    """The number of jobs to hold, learned from how long the last ones took.

    It doubles while jobs are short, and falls at once to what runs within the budget;
    if jobs take long, to the least.
    """

    def __init__(self, budget: float, *, least: int, most: int, step: int = 0) -> None:
        """`budget` is in seconds; `step` is added to each doubling."""
        self.budget = budget
        self.least = least
        self.most = max(least, most)
        self.step = step
        self.count = least
        #: Seconds that the last jobs took on average; None: unknown.
        self.each: float | None = None

    def learn(
        self, ended: int, passed: float, each: float, *, grow: bool = True
    ) -> None:
        """Learn from jobs that ended in `passed` seconds, and took `each` on average.

        Without `grow` the number can only fall.
        """
        self.each = each
        fitting = int(self.budget * ended / passed) if passed > 0 else self.most
        if each > SHORT:
            fitting = 0
        grown = 2 * self.count + self.step if grow else self.count
        self.count = max(self.least, min(fitting, grown, self.most))

    def reset(self) -> None:
        """Begin again: the next jobs may be different."""
        self.count = self.least
        self.each = None
