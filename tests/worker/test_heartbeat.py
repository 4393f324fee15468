"""What a worker says of itself, and what it hears of its jobs, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client
from django_qless.core.commands.operations import WorkerCounts
from tests.real_servers import poll
from tests.worker.conftest import is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from tests.worker.conftest import WorkerProcess

    StartWorker = Callable[..., WorkerProcess]

    from collections.abc import Callable

    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


NOW = 1_000_000.0


def worker(name: str = "w", silent: float = 0.0, **info: Any) -> WorkerCounts:
    return WorkerCounts(name, 0, 0, NOW - silent, info or None)


class TestWorkerInfo:
    def test_a_worker_says_its_state_without_waiting_for_its_next_beat(
        self, start_worker: StartWorker, client: Client
    ) -> None:
        def state() -> str | None:
            (found,) = client.workers() or [worker()]
            return (found.info or {}).get("state")

        process = start_worker(queues=["q"], name="w")
        poll(lambda: state() == "running", what="it beats")
        # Without jobs its heart beats every ten seconds.
        process.signal("TSTP")
        poll(lambda: state() == "quiet", what="it is said to be quiet", seconds=5)
        process.signal("CONT")
        poll(lambda: state() == "running", what="it is said to run", seconds=5)


# Seconds in which a hint must have had its effect. Locks last for an hour in these tests,
# so heartbeats come every 8 to 10 s: they alone would be later, mostly.
SOON = 5.0


@pytest.fixture
def runs(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, client: Client
) -> tuple[str, int]:
    """A job that runs in a worker `w` that has just beaten: its jid, and its process."""
    client.config_set("heartbeat", 3600)
    start_worker(queues=["q"], name="w", verbosity=3)
    jid = put("stay", ledger.path, gate.path, "job", retries=3)
    pid = int(ledger.wait_until(1)[0].split()[2])
    poll(lambda: subscribers(client), what="the worker listens")
    return jid, pid


def subscribers(client: Client) -> int:
    """Return how many listen on the channel of the worker `w`."""
    ((_, count),) = client.redis.pubsub_numsub("ql:w:w")
    return int(count)


def gone(pid: int) -> None:
    poll(lambda: not is_alive(pid), what="the job's process is gone", seconds=SOON)


def test_a_cancelled_job_is_ended_at_once(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    client.cancel(jid)
    gone(pid)


def test_a_job_that_is_taken_away_is_ended_at_once(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    client.get(jid).move("elsewhere")  # type: ignore[union-attr]
    gone(pid)
    assert client.queue_counts("elsewhere").waiting == 1


def test_a_lock_that_times_out_by_order_is_lost_at_once(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    client.timeout(jid)
    gone(pid)


def test_what_happened_while_it_could_not_hear_is_seen_at_the_reconnection(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    with client.redis.pipeline() as both:
        both.client_kill_filter(_type="pubsub")
        both.execute_command(
            "EVAL", "redis.call('DEL', KEYS[1])", 1, f"ql:j:{jid}"
        )  # no message goes out
        both.execute()
    gone(pid)
    assert subscribers(client) == 1
