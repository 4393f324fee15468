"""Which workers are alive, and which queues they serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core.commands.operations import WorkerCounts
from django_qless.operations.workers import (
    LATE_AFTER,
    LOST_AFTER,
    ServedQueues,
    is_alive,
    is_late,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.conftest import WorkerProcess

    StartWorker = Callable[..., WorkerProcess]


NOW = 1_000_000.0


def worker(name: str = "w", silent: float = 0.0, **info: Any) -> WorkerCounts:
    return WorkerCounts(name, 0, 0, NOW - silent, info or None)


class TestServedQueues:
    def test_silence_makes_the_difference(self) -> None:
        assert is_alive(worker(silent=LOST_AFTER - 1), NOW)
        assert not is_alive(worker(silent=LOST_AFTER), NOW)

    def test_a_heartbeat_may_be_late_only_where_there_are_any(self) -> None:
        assert not is_late(worker(silent=LATE_AFTER - 1, pid=1), NOW)
        assert is_late(worker(silent=LATE_AFTER, pid=1), NOW)
        # Of another qless client: it beats when it takes a job.
        assert not is_late(worker(silent=LATE_AFTER + 1), NOW)

    @pytest.mark.parametrize(
        ("workers", "serves"),
        [
            ([], False),
            ([worker(queues=["mail"])], True),
            ([worker(queues=["ma*"])], True),
            ([worker(queues=["other"])], False),
            ([worker(queues=["*"], exclude=["mail"])], False),
            ([worker(queues=["*"], exclude=["mail"]), worker(queues=["mail"])], True),
            ([worker(queues=["mail"], silent=LOST_AFTER)], False),
            ([worker(queues=["mail"], state="quiet")], False),
            ([worker(queues=["mail"], state="stopping")], False),
            ([worker(queues=["mail"], state="running")], True),
            # Of another qless client, which may serve anything.
            ([worker(host="ruby")], True),
            ([worker()], True),
            ([worker(queues=7, exclude={})], True),
            ([worker(queues=["mail"], exclude=7)], True),
            ([worker(silent=LOST_AFTER)], False),
        ],
    )
    def test_which_workers_take_the_jobs_of_mail(
        self, workers: list[WorkerCounts], serves: bool
    ) -> None:
        assert ServedQueues(workers, NOW).serves("mail") is serves

    def test_brackets_mean_themselves(self) -> None:
        """As they do where workers look for jobs."""
        served = ServedQueues([worker(queues=["mail[1]", "a[b]*"])], NOW)
        assert served.serves("mail[1]")
        assert served.serves("a[b]c")
        assert not served.serves("mail1")
        assert not served.serves("ab")
