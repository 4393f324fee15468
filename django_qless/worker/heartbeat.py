"""Heartbeats: they renew the locks of running jobs and carry the worker info.

Events of the server only bring the next heartbeat forward: a message may get lost, and
the reply to a heartbeat is the truth.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from typing import TYPE_CHECKING, Any

from django_qless.core import Beat
from django_qless.core.events import RECONNECTED
from django_qless.core.exceptions import QlessError
from django_qless.worker.log import log_event
from django_qless.worker.process_info import (
    Memory,
    family_memory,
    this_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from django_qless.core import Client
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.shutdown import Shutdown

MAX_INTERVAL = 10.0
"""Seconds: a worker beats at least as often, with jobs or without."""
MIN_INTERVAL = 0.05
BEATS_PER_LOCK = 3
RETRY_AFTER = 1.0
"""Seconds until the next try, when a heartbeat did not reach the server."""
MIN_GAP = 0.05
"""Seconds between two heartbeats at least, however many events ask for one."""

MEMORY_INTERVAL = 5.0
"""Seconds between two measurements of the memory, however many heartbeats there are."""

#: Events for the worker that serves cron schedules: one has changed.
SCHEDULE_EVENTS = ("schedules", RECONNECTED)

#: Events that bring the next heartbeat forward.
JOB_EVENTS = ("canceled", "lock_lost", "put", "order", RECONNECTED)

AFTER_REFUSAL = 60.0
"""Seconds until the next try when the server has refused the subscription."""


def interval_for(lock: float) -> float:
    """Return the longest time between two heartbeats for a lock of this many seconds."""
    return min(MAX_INTERVAL, max(MIN_INTERVAL, lock / BEATS_PER_LOCK))


def held_tokens(client: Client, worker: str) -> dict[str, str]:
    """Ask the server for a worker's held jobs; return their tokens by jid."""
    jids = [jid for part in client.worker_jobs(worker) for jid in part]
    return {job.jid: job.token for job in client.multiget(jids) if job.token}


class Heartbeat:
    """Schedules and sends a worker's heartbeats, one call for all its jobs."""

    def __init__(self, client: Client, worker: str, info: Callable[[], str]) -> None:
        """`info` returns the worker info: a JSON object."""
        self._client = client
        self._worker = worker
        self._info = info
        self._last = float("-inf")
        #: True if the last heartbeat did not reach the server.
        self.is_failing = False
        self.interval = MAX_INTERVAL
        self.due = time.monotonic()
        #: When the server last answered (monotonic), 0.0 before it ever did.
        self.last_success = 0.0

    def beat_soon(self) -> None:
        """Bring the next heartbeat forward: its reply will have news."""
        self.due = min(self.due, max(time.monotonic(), self._last + MIN_GAP))

    def shorten_interval(self, lock: float) -> None:
        """Beat more often if a lock of this length needs it."""
        interval = interval_for(lock)
        if interval < self.interval:
            self.interval = interval
            self.due = min(self.due, time.monotonic() + interval)

    def set_interval(self, locks: Iterable[float]) -> None:
        """Beat as often as these locks need it."""
        self.interval = min(map(interval_for, locks), default=MAX_INTERVAL)

    def held(self) -> dict[str, str]:
        """Return the tokens of all jobs that this worker holds, by jid.

        Empty if the server cannot be reached: the next heartbeat asks again.
        """
        try:
            return held_tokens(self._client, self._worker)
        except Exception as error:  # noqa: BLE001
            log_event(logging.DEBUG, "held jobs unknown", error=error)
            return {}

    def is_canceled(self, jid: str) -> bool:
        """Ask the server whether a job was canceled; False if it cannot be reached."""
        try:
            job = self._client.get(jid)
        except Exception as error:  # noqa: BLE001
            log_event(logging.DEBUG, "canceled or not, unknown", jid=jid, error=error)
            return False
        return job is not None and job.canceled is not None

    def beat(self, held: Sequence[tuple[str, str, float | None]]) -> Beat:
        """Renew the locks on these (jid, token, held); return lost ones and commands.

        Raises nothing: a heartbeat that fails is tried again soon.
        """
        try:
            answer = self._client.beat(self._worker, self._info(), held)
        except Exception as error:  # noqa: BLE001  whatever it is, the next may succeed
            pause = min(RETRY_AFTER, self.interval)
            level = logging.DEBUG if self.is_failing else logging.WARNING
            log_event(level, "heartbeat failed", again_in=pause, error=error)
            self.is_failing = True
            self._last = time.monotonic()
            self.due = self._last + pause
            return Beat([], [])
        if self.is_failing:
            log_event(logging.INFO, "heartbeat restored")
            self.is_failing = False
        self.last_success = self._last = time.monotonic()
        # Jitter, so that workers started together do not beat together.
        self.due = self._last + self.interval * random.uniform(0.8, 1.0)
        return answer


class WorkerInfo:
    """A JSON object sent with each heartbeat: host, options and state of the worker."""

    def __init__(
        self,
        options: WorkerOptions,
        shutdown: Shutdown,
        more: Mapping[str, object] | None = None,
    ) -> None:
        self._shutdown = shutdown
        self._constant: dict[str, Any] = {
            **this_process(),
            "pool": options.pool,
            "concurrency": options.concurrency,
            "reserver": options.reserver,
            "queues": options.queues,
            "exclude": options.exclude,
            **(more or {}),
        }
        self._pid = os.getpid()
        self._memory: Memory | None = None
        self._measured_at = float("-inf")
        self._sent_state = ""

    @property
    def has_changed(self) -> bool:
        """True if the state differs from the one that was sent last."""
        return self._shutdown.state != self._sent_state

    def to_json(self) -> str:
        """Return the JSON to send now."""
        self._sent_state = self._shutdown.state
        if time.monotonic() - self._measured_at >= MEMORY_INTERVAL:
            self._measured_at = time.monotonic()
            self._memory = family_memory(self._pid)
        info = {**self._constant, "state": self._sent_state}
        if self._memory:
            info["memory"], info["processes"] = self._memory
        return json.dumps(info)


class EventListener:
    """A subscription to the worker's events, for a loop that must not wait."""

    def __init__(self, client: Client, worker: str) -> None:
        self._subscriber = client.events(f"w:{worker}")
        self._refused_until = 0.0
        #: True if a schedule has changed; the reader sets it back.
        self.schedules_changed = False

    def fileno(self) -> int | None:
        """Return the descriptor to poll for reading; None without a connection."""
        return self._subscriber.fileno()

    @property
    def due(self) -> float:
        """When to call `listen` though there is nothing to read (monotonic)."""
        return max(self._subscriber.due, self._refused_until)

    def listen(self) -> bool:
        """Return whether an event concerns the worker's jobs. Raises nothing.

        Restores a lost connection when its time has come.
        """
        if time.monotonic() < self._refused_until:
            return False
        try:
            events = self._subscriber.look()
        except QlessError as error:
            log_event(logging.WARNING, "cannot listen for events", error=error)
            self._refused_until = time.monotonic() + AFTER_REFUSAL
            return False
        if any(each.event in SCHEDULE_EVENTS for each in events):
            self.schedules_changed = True
        return any(each.event in JOB_EVENTS for each in events)

    def close(self) -> None:
        """Stop listening; in a child, close its copy of the parent's connection."""
        self._subscriber.close()
