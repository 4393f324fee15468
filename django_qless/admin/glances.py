"""A quick look at several aliases beside each other: one that is down holds up nobody.

Each alias is asked in a thread. What has not answered in time is said not to answer, and
its thread goes on until the connection gives up; until then no other one is sent. Once an
alias is known to be down nobody waits for it: each page sends for news of it, and shows
what the last one brought.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeAlias

from django_qless import conf
from django_qless.connections import connections

PATIENCE = 0.2
"""Seconds for which a page waits for aliases that it is not of, and that answered when
they were last asked."""

THREADS = 8


@dataclass(frozen=True)
class Glance:
    """What an alias looked like, or why nothing is known of it."""

    waiting: int = 0
    running: int = 0
    stalled: int = 0
    failed: int = 0
    queues: int = 0
    lag: float = 0.0
    answers: bool = True
    problem: str = ""
    """Why it did not answer; "" if that is not known yet."""


Looks: TypeAlias = "dict[str, Future[Glance]]"
"""What is on its way, by alias."""


class Glances:
    """Looks at aliases. Safe for threads, and fresh after a fork."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget what is under way: the settings have changed, or this is a new process."""
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._under_way: dict[str, Future[Glance]] = {}
        # Why an alias did not answer when it was last asked.
        self._problems: dict[str, str] = {}

    def send(self, aliases: Sequence[str]) -> Looks:
        """Begin to look at these aliases, beside whatever else there is to do."""
        return {alias: self._send_to(alias) for alias in aliases}

    def wait(self, looks: Looks, seconds: float = PATIENCE) -> dict[str, Glance]:
        """Return what the aliases look like; wait so many seconds at most."""
        hopeful = [each for alias, each in looks.items() if alias not in self._problems]
        wait(hopeful, seconds)
        return {alias: self._seen(alias, each) for alias, each in looks.items()}

    @property
    def under_way(self) -> list[str]:
        """Aliases that are being asked, and have not answered yet."""
        with self._lock:
            found = self._under_way.items()
            return [alias for alias, future in found if not future.done()]

    def _send_to(self, alias: str) -> Future[Glance]:
        with self._lock:
            future = self._under_way.get(alias)
            if future is None or future.done():
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(THREADS, "qless-glance")
                future = self._threads.submit(self._look_at, alias)
                self._under_way[alias] = future
            return future

    def _look_at(self, alias: str) -> Glance:
        glance = look_at(alias)
        if glance.answers:
            self._problems.pop(alias, None)
        else:
            self._problems[alias] = glance.problem
        return glance

    def _seen(self, alias: str, look: Future[Glance]) -> Glance:
        if look.done():
            return look.result()
        return Glance(answers=False, problem=self._problems.get(alias, ""))


def look_at(alias: str) -> Glance:
    """Ask an alias how it is. Raises nothing: the page is about another one."""
    try:
        client = connections.impatient(alias)
        counts = client.queues()
        names = [each.name for each in counts]
        return Glance(
            waiting=sum(each.waiting for each in counts),
            running=sum(each.running for each in counts),
            stalled=sum(each.stalled for each in counts),
            failed=client.failure_groups(0, 0).total_jobs,
            queues=len(counts),
            lag=max(client.lag(names), default=0.0) if names else 0.0,
        )
    except Exception as error:  # noqa: BLE001  whatever it is, only this alias is down
        return Glance(answers=False, problem=str(error))


glances = Glances()
conf.on_change(glances.forget)
os.register_at_fork(after_in_child=glances.forget)
