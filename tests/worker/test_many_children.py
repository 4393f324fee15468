"""A worker with very many children."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.worker.ledger import Gate, Ledger
    from tests.worker.processes import WorkerProcess

CHILDREN = 200


def test_all_run_at_once_and_all_end(
    start_worker: Callable[..., WorkerProcess],
    put: Callable[..., str],
    ledger: Ledger,
    gate: Gate,
    client: Client,
) -> None:
    jids = [put("stay", ledger.path, gate.path, n, retries=0) for n in range(CHILDREN)]
    worker = start_worker(queues=["q"], concurrency=CHILDREN, shutdown_timeout=600)
    lines = ledger.wait_until(CHILDREN)
    assert len({line.split()[2] for line in lines}) == CHILDREN
    worker.signal("TERM")
    worker.wait_for_log("SIGTERM")
    gate.open()
    assert worker.wait(90) == 0
    jobs = client.multiget(jids)
    assert {(job.state, job.remaining) for job in jobs} == {("complete", 0)}
    assert len(ledger.all()) == 2 * CHILDREN
