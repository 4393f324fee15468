"""The board between a pool's parent and one child: anonymous shared memory.

The child writes what it holds, so that the parent can beat for its jobs and clear up
after its death; the parent writes orders. Neither waits for the other or makes a system
call, and a board is as readable after its child's death as before.

    word         written by    meaning
    RUNNING      child         which of the held jobs runs: its place from 1; 0: none yet
    STARTED      child         since when, on the monotonic clock
    ALONE        child         the turn of `held` of which only the running job is left
    CALLS        child         odd while a call that reserves jobs is under way
    IDLE         child         1: it waits for jobs and may be woken by a signal
    DRY          child         1: its queues were empty when it last asked
    READY        child         1: it has reached the server once
    LOCK         child         the shortest lock it was given of late, in seconds
    ATTENTION    parent        rises with each order: a stop, or jobs lost
    STOP         parent        1: start no more jobs
    PACE         parent        seconds from one heartbeat to the next
    held         child         [jid, token, jid, token…]: what the server takes for held,
                               in the order of running
    lost         parent        [token…] of held jobs whose locks are lost
"""

from __future__ import annotations

import mmap
import time
from typing import TYPE_CHECKING, NamedTuple

from django_qless.worker.pools.letter import Letter

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_qless.core import Reserved, Settlement

(
    RUNNING,
    STARTED,
    ALONE,
    CALLS,
    IDLE,
    DRY,
    READY,
    LOCK,
    ATTENTION,
    STOP,
    PACE,
    WORDS,
) = range(12)

WORD = 8
DONE = 1 << 32  # a place behind the last one
# Pages that are never touched take no memory. A hundred ids of 255 bytes fit.
HELD_BYTES = 512 * 1024
LOST_BYTES = 16 * 1024


class Held(NamedTuple):
    """A job that a child holds: the name of the job and of the lock on it."""

    jid: str
    token: str


class Holdings(NamedTuple):
    """What a child holds at a moment."""

    finished: list[Held]
    running: Held | None
    waiting: list[Held]

    @property
    def all(self) -> list[Held]:
        """All jobs of the batch."""
        return [*self.finished, *self.locked]

    @property
    def locked(self) -> list[Held]:
        """The jobs whose locks the child needs: the running one and those to come."""
        return [*([self.running] if self.running else []), *self.waiting]


class Board:
    """What the parent and one child know of each other; see the table above."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, WORDS * WORD + HELD_BYTES + LOST_BYTES)
        view = memoryview(self._memory)
        held, lost = WORDS * WORD, WORDS * WORD + HELD_BYTES
        self.words = view[:held].cast("Q")
        self.seconds = view[:held].cast("d")
        self._held = Letter(view[held:lost])
        self._lost = Letter(view[lost:])

    # The child's side.

    def publish(self, jobs: Sequence[Reserved | Settlement]) -> int:
        """Show these jobs as held and none as running; return how many fitted."""
        fitting = len(jobs)
        self.words[RUNNING] = 0
        while not self._held.write(
            [text for job in jobs[:fitting] for text in (job.jid, job.token)]
        ):
            fitting //= 2
        return fitting

    def run(self, place: int, now: float) -> None:
        """Show the job at this place, from 1, as the running one since `now`."""
        self.seconds[STARTED] = now
        self.words[RUNNING] = place

    @property
    def turn(self) -> int:
        """Which publication of held jobs is the present one."""
        return self._held.turns

    def show_alone(self, turn: int) -> None:
        """Show that of this publication only the running job is still held."""
        self.words[ALONE] = turn

    def rest(self) -> None:
        """Show that all held jobs have been run."""
        self.words[RUNNING] = DONE

    def clear(self) -> None:
        """Show that nothing is held any more."""
        self.publish(())

    def lost_tokens(self) -> set[str]:
        """Return the locks that the parent has been told are lost."""
        return set(self._lost.read() or ())

    # The parent's side.

    def holdings(self) -> Holdings:
        """Return what the child holds: one consistent look."""
        while True:
            turns, place = self._held.turns, self.words[RUNNING]
            alone = self.words[ALONE] == turns
            flat = self._held.read() or []
            if (self._held.turns, self.words[RUNNING]) == (turns, place):
                break
        jobs = [Held(*pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
        if not place:
            return Holdings([], None, jobs)
        if place > len(jobs):
            return Holdings(jobs, None, [])
        waiting = [] if alone else jobs[place:]
        return Holdings(jobs[: place - 1], jobs[place - 1], waiting)

    def order_stop(self) -> None:
        """Have the child start no more jobs."""
        self.words[STOP] = 1
        self.words[ATTENTION] += 1

    def order_drop(self, tokens: Collection[str]) -> None:
        """Have the child drop these jobs if it has not started them."""
        known = self._lost.read() or []
        # Only what a child holds now matters; it never holds more than this.
        self._lost.write([*known, *sorted(tokens)][-256:])
        self.words[ATTENTION] += 1

    def running_for(self) -> float:
        """Return for how many seconds the running job has been running."""
        return time.monotonic() - self.seconds[STARTED] if self.words[RUNNING] else 0.0

    def close(self) -> None:
        """Give the memory back."""
        for part in (self.words, self.seconds, self._held, self._lost):
            part.release()
        self._memory.close()
