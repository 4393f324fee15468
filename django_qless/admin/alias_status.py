"""The status of several aliases; one that is down does not delay the page.

Each alias is asked in a thread. One that does not answer in time is shown as not
answering, and its thread goes on until the connection gives up; until then no other one
is started for it. Pages do not wait for an alias that was down when it was last asked:
each starts a new question, and shows the answer to the last one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeAlias

from django_qless import conf
from django_qless.admin.error_texts import error_text
from django_qless.conf.connections import connections
from django_qless.operations.status import Totals, lags_of

PATIENCE = 0.2
"""Seconds for which a page waits for other aliases that answered last time."""
THREADS = 8


@dataclass(frozen=True)
class AliasStatus:
    """The totals of an alias, or why it does not answer."""

    totals: Totals | None = None
    """None if it did not answer."""
    failed: int = 0
    error: Exception | None = None
    """Why it did not answer; None if that is not known yet."""

    @property
    def problem(self) -> str:
        """The error in the language of who reads it, not of the thread that asked."""
        return "" if self.error is None else error_text(self.error)


Pending: TypeAlias = "dict[str, Future[AliasStatus]]"
"""The questions that were started, by alias."""


class AliasMonitor:
    """Asks aliases for their status. Safe for threads, and reset after a fork."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all questions: the settings have changed, or this is a new process."""
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._asked: Pending = {}
        # Why an alias did not answer when it was last asked.
        self._errors: dict[str, Exception | None] = {}

    def start(self, aliases: Sequence[str]) -> Pending:
        """Start to ask these aliases, in threads."""
        return {alias: self._ask(alias) for alias in aliases}

    def collect(
        self, pending: Pending, seconds: float = PATIENCE
    ) -> dict[str, AliasStatus]:
        """Return the status of each alias; wait for so many seconds at most."""
        hopeful = [each for name, each in pending.items() if name not in self._errors]
        wait(hopeful, seconds)
        return {alias: self._status(alias, each) for alias, each in pending.items()}

    @property
    def under_way(self) -> list[str]:
        """The aliases that have not answered yet."""
        with self._lock:
            found = self._asked.items()
            return [alias for alias, future in found if not future.done()]

    def _ask(self, alias: str) -> Future[AliasStatus]:
        with self._lock:
            future = self._asked.get(alias)
            if future is None or future.done():
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(THREADS, "qless-alias-status")
                future = self._threads.submit(self._answer, alias)
                self._asked[alias] = future
            return future

    def _answer(self, alias: str) -> AliasStatus:
        status = status_of(alias)
        if status.totals:
            self._errors.pop(alias, None)
        else:
            self._errors[alias] = status.error
        return status

    def _status(self, alias: str, future: Future[AliasStatus]) -> AliasStatus:
        if future.done():
            return future.result()
        return AliasStatus(error=self._errors.get(alias))


def status_of(alias: str) -> AliasStatus:
    """Ask an alias for its status. Raises nothing: the page is about another alias."""
    try:
        client = connections.impatient(alias)
        counts = client.queues()
        totals = Totals.of(counts, lags_of(client, counts))
        return AliasStatus(totals, client.failure_groups(0, 0).total_jobs)
    except Exception as error:  # noqa: BLE001  only this alias is down
        return AliasStatus(error=error)


alias_monitor = AliasMonitor()
conf.on_change(alias_monitor.reset)
os.register_at_fork(after_in_child=alias_monitor.reset)
