"""Eight workers under a rate, from the core's own start times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

RATE, JOBS, LOCK = 25, 90, 600

#: A little less than a second, as a microsecond may be lost in the difference.
WINDOW = 1 - 1e-5


def most_in_a_window(times: list[float], length: float) -> int:
    """Return the largest number of starts within any window of this length."""
    window: deque[float] = deque()
    most = 0
    for time in times:
        window.append(time)
        while time - window[0] >= length:
            window.popleft()
        most = max(most, len(window))
    return most


def test_no_window_holds_more_starts_than_the_rate(
    start_worker: Callable[..., WorkerProcess],
    put: Callable[..., str],
    client: Client,
    ledger: Ledger,
) -> None:
    client.config_set("q-heartbeat", LOCK)
    client.config_set("say_lock-rate-of-type", f"{RATE}/s")
    for n in range(JOBS):
        put("say_lock", ledger.path, n)
    start_worker(concurrency=8)
    lines = [line.split() for line in ledger.wait_until(JOBS)]
    assert sorted(int(number) for number, _ in lines) == list(range(JOBS))
    # A lock is given by the core at the start, for a number of seconds.
    starts = sorted(float(expires) - LOCK for _, expires in lines)
    assert most_in_a_window(starts, WINDOW) <= RATE
    assert starts[-1] - starts[0] >= (JOBS - 1) // RATE * WINDOW
