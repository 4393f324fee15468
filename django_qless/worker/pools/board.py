"""The board between a pool's parent and one child: anonymous shared memory.

The child writes what it holds, so that the parent can beat for its jobs and clear up
after its death; the parent writes orders. Neither waits for the other or makes a system
call, and a board is as readable after its child's death as before.

    word         written by    meaning
    CALLS        child         odd while a call that reserves jobs is under way
    IDLE         child         1: a TERM wakes it: it waits, or its main thread runs no jobs
    DRY          child         1: its queues were empty when it last asked, and nothing runs
    READY        child         1: it has reached the server once
    LOCK         child         the shortest lock it was given of late, in seconds
    HIGH         child         slots from here on have never been used
    RUNS         child         how many runs it has begun
    LEAVING      child         1: it takes no more jobs, and ends when it holds none
    TURNED       child         when its event loop last turned (monotonic), 0.0 without one
    CULPRIT      child         1 + the slot of the job that blocks its event loop; 0: none
    ASKED        child         when a reserving call last went well (monotonic)
    SUSPENDED    child         1: the process apart that runs its job is suspended
    PREFETCH     child         0, or the CALLS of a pending call: it may have reserved jobs
                               that are not shown here yet
    HEARD        child         the ATTENTION that it has heeded
    ATTENTION    parent        rises with each order
    NUDGED       parent        when it last sent a TERM, to have it look here (monotonic)
    STOP         parent        1: start no more jobs, and end
    QUIET        parent        1: reserve no jobs for now
    INTERRUPT    parent        1: raise ShuttingDown in the jobs that run
    WAKES        parent        when it will look here at the latest (monotonic)
    PACE         parent        seconds from one heartbeat to the next
    ROOM         parent        how many jobs it may run at once
    RENEWED      parent        when the request was sent that last renewed the locks on all
                               jobs shown here (seconds since the machine was started)
    lost         parent        [token…] of held jobs whose locks are lost
    slots        child         the jobs that the server takes for held, one per slot

A slot begins with a word that counts its uses times four, plus a state: FREE, WAITING for
its turn, RUNNING, or FINISHED but not yet settled. Whoever reads a slot looks at this
word before and after.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, NamedTuple

from django_qless.worker.pools.letter import Letter

if TYPE_CHECKING:
    from collections.abc import Collection

    from django_qless.worker.execution import Obituary

(
    CALLS,
    IDLE,
    DRY,
    READY,
    LOCK,
    HIGH,
    RUNS,
    LEAVING,
    TURNED,
    CULPRIT,
    ASKED,
    SUSPENDED,
    PREFETCH,
    HEARD,
    ATTENTION,
    NUDGED,
    STOP,
    QUIET,
    INTERRUPT,
    WAKES,
    PACE,
    ROOM,
    RENEWED,
    WORDS,
) = range(24)

FREE, WAITING, RUNNING, FINISHED = range(4)

# The words of a slot: its state, when the job was handed out and when it began to run (both
# monotonic), the seconds after which the process is killed (0.0: never), the seconds until
# the next attempt then, the length of its text.
STATE, TAKEN, STARTED, HARD, DELAY, LENGTH, TEXT = range(7)

WORD = 8
SLOT_WORDS = 64
TEXT_BYTES = (SLOT_WORDS - TEXT) * WORD
LOST_BYTES = 16 * 1024
SLOTS = 512

# Seconds after a nudge in which a TERM is taken for the parent's.
NUDGE_TIME = 1.0


class Held(NamedTuple):
    """A job that a child holds."""

    slot: int
    state: int
    jid: str
    #: Names the lock on the job.
    token: str
    #: When its run began, on the monotonic clock; 0.0: not yet.
    started: float
    #: Seconds after which the process that runs it is killed; 0.0: never.
    hard: float
    #: Seconds until the next attempt, if it is; below 0: there is none then.
    delay: float
    #: When the job was handed out, on the monotonic clock.
    taken: float = 0.0

    @property
    def in_hands(self) -> float | None:
        """Seconds for which the job was held before its run began; None: it has not."""
        return max(0.0, self.started - self.taken) if self.started else None


class Holdings(NamedTuple):
    """What a child holds at a moment."""

    finished: list[Held]
    running: list[Held]
    waiting: list[Held]

    @property
    def all(self) -> list[Held]:
        """All jobs that the server takes for held."""
        return [*self.finished, *self.locked]

    @property
    def locked(self) -> list[Held]:
        """The jobs whose locks the child needs: the running ones and those to come."""
        return [*self.running, *self.waiting]


class Board:
    """What the parent and one child know of each other; see the table above."""

    def __init__(self, slots: int = SLOTS) -> None:
        """Make a board for up to `slots` held jobs. Untouched pages take no memory."""
        #: Runs that were ended from outside before the child began, for it to tell.
        self.obituaries: list[Obituary] = []
        head = WORDS * WORD
        first = head + LOST_BYTES
        # One more slot, which nobody reads, for jobs that fit into none.
        self._memory = mmap.mmap(-1, first + (slots + 1) * SLOT_WORDS * WORD)
        view = memoryview(self._memory)
        self.words = view.cast("Q")
        self.seconds = view.cast("d")
        self._bytes = view
        self._lost = Letter(view[head:first])
        self._first = first // WORD
        self.nowhere = slots
        self._unused = list(range(slots - 1, -1, -1))

    # The child's side. Each slot is touched by one thread at a time.

    def take(self, jid: str, token: str, now: float) -> int:
        """Show a job as held and waiting since `now`; return its slot.

        That is `nowhere` if it fits in none.
        """
        text = text_of(jid, token)
        size = len(text)
        if size > TEXT_BYTES or not self._unused:
            return self.nowhere
        slot = self._unused.pop()
        at = self._first + slot * SLOT_WORDS
        begin = (at + TEXT) * WORD
        self._bytes[begin : begin + size] = text
        words, seconds = self.words, self.seconds
        words[at + LENGTH] = size
        seconds[at + TAKEN] = now
        seconds[at + STARTED] = seconds[at + HARD] = 0.0
        words[at] += WAITING
        if slot >= words[HIGH]:
            words[HIGH] = slot + 1
        return slot

    def limit(self, slot: int, hard: float, delay: float) -> None:
        """Show after how many seconds the run is to be killed; call it before `begin`."""
        at = self._first + slot * SLOT_WORDS
        self.seconds[at + HARD] = hard
        self.seconds[at + DELAY] = delay

    def is_asleep(self, until: float) -> bool:
        """Return whether the parent has to be woken to see something happen `until` then.

        Ask it, and ring, after the beginning of a run that is to be killed then.
        """
        return self.seconds[WAKES] > until

    def begin(self, slot: int, now: float) -> None:
        """Show a waiting job as running since `now`."""
        at = self._first + slot * SLOT_WORDS
        self.seconds[at + STARTED] = now
        self.words[at] += 1
        self.words[RUNS] += 1

    def finish(self, slot: int) -> None:
        """Show a running job as finished: its outcome is not settled yet."""
        self.words[self._first + slot * SLOT_WORDS] += 1

    def free(self, slot: int) -> None:
        """Show a job as held no more: it is settled, handed back, or lost."""
        if slot != self.nowhere:
            at = self._first + slot * SLOT_WORDS
            self.words[at] = (self.words[at] | FINISHED) + 1
            self._unused.append(slot)

    @property
    def has_orders(self) -> bool:
        """Whether the parent wants something that the child has not heeded yet.

        Look at it after setting IDLE, before waiting: such an order sent no signal.
        """
        return self.words[ATTENTION] != self.words[HEARD]

    def heed(self) -> None:
        """Note that the orders have been heard; then read them, all of them."""
        self.words[HEARD] = self.words[ATTENTION]

    def was_nudged(self, now: float) -> bool:
        """Return whether a TERM that came just now is the parent's, or an operator's."""
        return now - self.seconds[NUDGED] < NUDGE_TIME

    def lost_tokens(self) -> set[str]:
        """Return the locks that the parent has been told are lost."""
        return set(self._lost.read() or ())

    # The parent's side.

    def holdings(self) -> Holdings:
        """Return what the child holds, by state."""
        found = Holdings([], [], [])
        lists = (None, found.waiting, found.running, found.finished)
        for slot in range(self.words[HIGH]):
            held = self._read(slot)
            if held:
                lists[held.state].append(held)  # type: ignore[union-attr]
        return found

    def order(self, word: int, value: int = 1) -> bool:
        """Give a word that is the parent's this value; return whether it is news."""
        if self.words[word] == value:
            return False
        self.words[word] = value
        self.call_attention()
        return True

    def call_attention(self) -> None:
        """Have the child look here, though nothing has changed."""
        self.words[ATTENTION] += 1

    def order_drop(self, tokens: Collection[str]) -> None:
        """Have the child drop these jobs: their locks are lost."""
        known = self._lost.read() or []
        # Only what a child holds now matters.
        self._lost.write([*known, *sorted(tokens)][-256:])
        self.words[ATTENTION] += 1

    def close(self) -> None:
        """Give the memory back."""
        self._lost.release()
        for view in (self.words, self.seconds, self._bytes):
            view.release()
        self._memory.close()

    def _read(self, slot: int) -> Held | None:
        words, seconds = self.words, self.seconds
        at = self._first + slot * SLOT_WORDS
        begin = (at + TEXT) * WORD
        while state := (word := words[at]) & 3:
            size = min(words[at + LENGTH], TEXT_BYTES)
            text = bytes(self._bytes[begin : begin + size])
            times = [seconds[at + n] for n in (STARTED, HARD, DELAY, TAKEN)]
            if words[at] == word:
                jid, _, token = text.decode("utf-8", "surrogateescape").rpartition("\n")
                return Held(slot, state, jid, token, *times)
        return None


def fits(jid: str, token: str) -> bool:
    """Return whether a job fits into a slot; all that our own clients put do."""
    return len(text_of(jid, token)) <= TEXT_BYTES


def text_of(jid: str, token: str) -> bytes:
    """Return what a slot says of a job."""
    return f"{jid}\n{token}".encode("utf-8", "surrogateescape")
