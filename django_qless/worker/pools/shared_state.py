"""The shared memory between a pool's parent and one child.

The child writes which jobs it holds, so that the parent can renew their locks and
recover them after its death; the parent writes commands. Neither waits for the other or
makes a system call, and the memory stays readable after the child's death.

    field               written by  meaning
    CALLS               child       odd while a call that reserves jobs is under way
    WAKEABLE            child       1: a TERM wakes it: it waits, or runs no jobs in its
                                    main thread
    QUEUES_EMPTY        child       1: its last call found no jobs, and none runs
    READY               child       1: it has reached the server once
    LOCK_SECONDS        child       the shortest lock that it was given lately
    SLOTS_USED          child       slots from this one on have never been used
    RUNS                child       number of runs that it has begun
    LEAVING             child       1: it takes no more jobs, and ends after the last
    LOOP_TURNED         child       when its event loop last turned (monotonic), or 0.0
    BLOCKING_SLOT       child       1 + slot of the job that blocks its event loop, or 0
    LAST_ANSWER         child       when a reserving call last succeeded (monotonic)
    SUSPENDED           child       1: the process that it has forked is suspended
    PENDING_CALL        child       0, or the CALLS of a prefetch under way: it may have
                                    reserved jobs that are not in the slots yet
    DETACHED            child       number of detached runs that it has tried to start
    COMMANDS_SEEN       child       the COMMANDS_SENT of the last command it saw
    COMMANDS_SENT       parent      rises with each command
    NUDGED              parent      when it last sent a TERM as a signal to look here
    STOP                parent      1: start no more jobs, and end
    QUIET               parent      1: reserve no jobs for now
    INTERRUPT           parent      1: raise ShuttingDown in the running jobs
    PARENT_WAKES        parent      when the parent looks here at the latest (monotonic)
    HEARTBEAT_INTERVAL  parent      seconds from one heartbeat to the next
    CAPACITY            parent      number of jobs that it may run at once
    LOCKS_RENEWED       parent      when the request was sent that last renewed the
                                    locks on all jobs in the slots (boottime)
    lost                parent      [token…] of held jobs whose locks are lost
    full                parent      [queue…] of which no detached job may be started now
    slots               child       the jobs that it holds by the server's records

The first integer of a slot counts its uses times four, plus a state: FREE, WAITING,
RUNNING, or FINISHED but not settled yet. A reader compares it before and after reading.
"""

from __future__ import annotations

import json
import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from django_qless.worker.crash_reports import CrashReport

(
    CALLS,
    WAKEABLE,
    QUEUES_EMPTY,
    READY,
    LOCK_SECONDS,
    SLOTS_USED,
    RUNS,
    LEAVING,
    LOOP_TURNED,
    BLOCKING_SLOT,
    LAST_ANSWER,
    SUSPENDED,
    PENDING_CALL,
    DETACHED,
    COMMANDS_SEEN,
    COMMANDS_SENT,
    NUDGED,
    STOP,
    QUIET,
    INTERRUPT,
    PARENT_WAKES,
    HEARTBEAT_INTERVAL,
    CAPACITY,
    LOCKS_RENEWED,
    FIELDS,
) = range(25)

FREE, WAITING, RUNNING, FINISHED = range(4)

# The fields of a slot: its state, when the job was reserved and when it began to run
# (both monotonic), the seconds after which the process is killed (0.0: never), the
# seconds until the next attempt in that case, the length of the text, the text.
STATE, TAKEN, STARTED, HARD, DELAY, LENGTH, TEXT = range(7)

WORD = 8
SLOT_WORDS = 64
TEXT_BYTES = (SLOT_WORDS - TEXT) * WORD
LOST_BYTES = 16 * 1024
FULL_BYTES = 16 * 1024
SLOTS = 512

# Seconds after a nudge in which a TERM is taken for the parent's.
NUDGE_TIME = 1.0


class HeldJob(NamedTuple):
    """A job that a child holds, as its slot shows it."""

    slot: int
    state: int
    jid: str
    #: Names the lock on the job.
    token: str
    #: When its run began, on the monotonic clock; 0.0: not yet.
    started: float
    #: Seconds after which the process that runs it is killed; 0.0: never.
    hard: float
    #: Seconds until the next attempt after such a kill; below 0: no further attempt.
    delay: float
    #: When the job was reserved, on the monotonic clock.
    taken: float = 0.0

    @property
    def seconds_held(self) -> float | None:
        """Seconds from the reservation to the start of the run; None: not started."""
        return max(0.0, self.started - self.taken) if self.started else None


class HeldJobs(NamedTuple):
    """The jobs that a child holds, by state."""

    finished: list[HeldJob]
    running: list[HeldJob]
    waiting: list[HeldJob]

    @property
    def all(self) -> list[HeldJob]:
        """All jobs that are held by the server's records."""
        return [*self.finished, *self.locked]

    @property
    def locked(self) -> list[HeldJob]:
        """The running and waiting jobs: the child needs their locks."""
        return [*self.running, *self.waiting]

    def without(self, tokens: Collection[str]) -> HeldJobs:
        """Return them without the jobs of these tokens."""
        return HeldJobs(
            *([held for held in part if held.token not in tokens] for part in self)
        )


class SharedState:
    """Shared memory of the parent and one child; see the table above."""

    def __init__(self, slots: int = SLOTS) -> None:
        """Allocate memory for `slots` held jobs. Untouched pages take no memory."""
        #: Runs of earlier children, or of lost workers, that this child has to announce.
        self.crash_reports: list[CrashReport] = []
        head = FIELDS * WORD
        first = head + LOST_BYTES + FULL_BYTES
        # One more slot, which is never read, for jobs that fit into none.
        self._memory = mmap.mmap(-1, first + (slots + 1) * SLOT_WORDS * WORD)
        view = memoryview(self._memory)
        self.ints = view.cast("Q")
        self.floats = view.cast("d")
        self._bytes = view
        self._lost = Message(view[head : head + LOST_BYTES])
        self._full = Message(view[head + LOST_BYTES : first])
        self._full_seen = 0
        self._full_queues: tuple[str, ...] = ()
        self._first = first // WORD
        self.nowhere = slots
        self._unused = list(range(slots - 1, -1, -1))

    # The child's side. One thread at a time uses a slot.

    def take(self, jid: str, token: str, now: float) -> int:
        """Show a job as waiting since `now`; return its slot, or `nowhere`."""
        text = text_of(jid, token)
        size = len(text)
        if size > TEXT_BYTES or not self._unused:
            return self.nowhere
        slot = self._unused.pop()
        at = self._first + slot * SLOT_WORDS
        begin = (at + TEXT) * WORD
        self._bytes[begin : begin + size] = text
        ints, floats = self.ints, self.floats
        ints[at + LENGTH] = size
        floats[at + TAKEN] = now
        floats[at + STARTED] = floats[at + HARD] = 0.0
        ints[at] += WAITING
        if slot >= ints[SLOTS_USED]:
            ints[SLOTS_USED] = slot + 1
        return slot

    def limit(self, slot: int, hard: float, delay: float) -> None:
        """Set a run's hard limit, and the delay after it; call before `begin`."""
        at = self._first + slot * SLOT_WORDS
        self.floats[at + HARD] = hard
        self.floats[at + DELAY] = delay

    def must_wake_parent(self, due: float) -> bool:
        """Return whether the parent sleeps beyond `due`, when it has something to do.

        Ask after the start of a run with a hard limit.
        """
        return self.floats[PARENT_WAKES] > due

    def begin(self, slot: int, now: float) -> None:
        """Show a waiting job as running since `now`."""
        at = self._first + slot * SLOT_WORDS
        self.floats[at + STARTED] = now
        self.ints[at] += 1
        self.ints[RUNS] += 1

    def finish(self, slot: int) -> None:
        """Show a running job as finished but not settled yet."""
        self.ints[self._first + slot * SLOT_WORDS] += 1

    def free(self, slot: int) -> None:
        """Free the slot of a job that is settled, returned, or lost."""
        if slot != self.nowhere:
            at = self._first + slot * SLOT_WORDS
            self.ints[at] = (self.ints[at] | FINISHED) + 1
            self._unused.append(slot)

    @property
    def has_commands(self) -> bool:
        """True if there are commands that the child has not followed yet.

        Look here after setting WAKEABLE, before waiting: an earlier command sent no
        signal.
        """
        return self.ints[COMMANDS_SENT] != self.ints[COMMANDS_SEEN]

    def acknowledge(self) -> None:
        """Mark all commands as seen, before reading them."""
        self.ints[COMMANDS_SEEN] = self.ints[COMMANDS_SENT]

    def was_nudged(self, now: float) -> bool:
        """Return whether a TERM that came just now is from the parent."""
        return now - self.floats[NUDGED] < NUDGE_TIME

    def lost_locks(self) -> set[str]:
        """Return the tokens of the locks that the parent knows to be lost."""
        return set(self._lost.read() or ())

    def full_queues(self) -> tuple[str, ...]:
        """Return the queues of which no detached job may be started now."""
        if self._full_seen != self._full.count:
            self._full_seen = self._full.count
            self._full_queues = tuple(self._full.read() or ())
        return self._full_queues

    def found_full(self, queue: str) -> None:
        """Count this queue among the full ones, until the parent says which are."""
        self._full_queues = (*self.full_queues(), queue)

    # The parent's side.

    def exclude(self, full: Collection[str]) -> None:
        """Tell the child which queues are full: it takes no jobs of these."""
        self._full.write([*full])
        self.ints[QUEUES_EMPTY] = 0
        self.request_attention()

    def held_jobs(self) -> HeldJobs:
        """Return the jobs that the child holds, by state."""
        found = HeldJobs([], [], [])
        lists = (None, found.waiting, found.running, found.finished)
        for slot in range(self.ints[SLOTS_USED]):
            held = self._read(slot)
            if held:
                lists[held.state].append(held)  # type: ignore[union-attr]
        return found

    def command(self, field: int, value: int = 1) -> bool:
        """Set a field of the parent's; return whether that changes it."""
        if self.ints[field] == value:
            return False
        self.ints[field] = value
        self.request_attention()
        return True

    def request_attention(self) -> None:
        """Make the child look here, although no field has changed."""
        self.ints[COMMANDS_SENT] += 1

    def drop(self, tokens: Collection[str]) -> None:
        """Make the child drop the jobs of these locks, which are lost."""
        known = self._lost.read() or []
        # Only the jobs that a child holds now matter.
        self._lost.write([*known, *sorted(tokens)][-256:])
        self.request_attention()

    def close(self) -> None:
        """Release the memory."""
        self._lost.release()
        self._full.release()
        for view in (self.ints, self.floats, self._bytes):
            view.release()
        self._memory.close()

    def _read(self, slot: int) -> HeldJob | None:
        ints, floats = self.ints, self.floats
        at = self._first + slot * SLOT_WORDS
        begin = (at + TEXT) * WORD
        while state := (word := ints[at]) & 3:
            size = min(ints[at + LENGTH], TEXT_BYTES)
            text = bytes(self._bytes[begin : begin + size])
            times = [floats[at + n] for n in (STARTED, HARD, DELAY, TAKEN)]
            if ints[at] == word:
                jid, _, token = text.decode("utf-8", "surrogateescape").rpartition("\n")
                return HeldJob(slot, state, jid, token, *times)
        return None


class Message:
    """The latest JSON message from one process to another, without locks.

    The writer fills one of two pages in turn and publishes it with a single store, so a
    writer that is killed half-way leaves the previous message intact.
    """

    def __init__(self, memory: memoryview) -> None:
        """Use `memory`, all zero bytes: no message yet."""
        self._count = memory[:WORD].cast("Q")
        rest = memory[WORD:]
        half = len(rest) // 2 // WORD * WORD
        self._pages = (rest[:half], rest[half : 2 * half])
        self._lengths = tuple(page[:WORD].cast("Q") for page in self._pages)
        self.capacity = half - WORD

    @property
    def count(self) -> int:
        """Number of messages written so far."""
        return self._count[0]

    def write(self, message: Any) -> bool:
        """Replace the message; return False, leaving the old one, if it is too long."""
        text = json.dumps(message, separators=(",", ":")).encode()
        if len(text) > self.capacity:
            return False
        count = self._count[0] + 1
        page = count & 1
        self._pages[page][WORD : WORD + len(text)] = text
        self._lengths[page][0] = len(text)
        self._count[0] = count
        return True

    def read(self) -> Any:
        """Return the latest message, or None."""
        while count := self._count[0]:
            page = count & 1
            length = min(self._lengths[page][0], self.capacity)
            text = bytes(self._pages[page][WORD : WORD + length])
            # A newer message may be overwriting this page already.
            if self._count[0] == count:
                return json.loads(text)
        return None

    def release(self) -> None:
        """Release the memory."""
        for view in (self._count, *self._lengths, *self._pages):
            view.release()


def fits(jid: str, token: str) -> bool:
    """Return whether a job fits into a slot, as those of our clients do."""
    return len(text_of(jid, token)) <= TEXT_BYTES


def text_of(jid: str, token: str) -> bytes:
    """Return the text of a slot."""
    return f"{jid}\n{token}".encode("utf-8", "surrogateescape")
