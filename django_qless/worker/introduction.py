"""What a worker says of itself with each heartbeat, for those who look at workers."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from django_qless.worker import memory
from django_qless.worker.resume import whereabouts

if TYPE_CHECKING:
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.shutdown import Shutdown

LOOK = 5.0
"""Seconds from one look at the memory to the next, however often the heart beats."""


class Introduction:
    """A JSON object: where the worker is, what it does, in which state it is."""

    def __init__(self, options: WorkerOptions, shutdown: Shutdown) -> None:
        self._shutdown = shutdown
        self._lasting: dict[str, Any] = {
            **whereabouts(),
            "pool": options.pool,
            "concurrency": options.concurrency,
            "reserver": options.reserver,
            "queues": options.queues,
            "exclude": options.exclude,
        }
        self._pid = os.getpid()
        self._memory: memory.Memory | None = None
        self._looked = float("-inf")
        self._state = ""

    @property
    def is_news(self) -> bool:
        """Whether the state is another one than was said last."""
        return self._shutdown.state != self._state

    def say(self) -> str:
        """Return what to say now."""
        self._state = self._shutdown.state
        if time.monotonic() - self._looked >= LOOK:
            self._looked = time.monotonic()
            self._memory = memory.of_family(self._pid)
        said = {**self._lasting, "state": self._state}
        if self._memory:
            said["memory"], said["processes"] = self._memory
        return json.dumps(said)
