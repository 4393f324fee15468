"""What is read for one moment: of the first queues, and an error as well as figures."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.core import Client, QlessError, Settlement
from django_qless.core.commands.entities import Payload
from django_qless.monitoring import snapshot
from django_qless.monitoring.snapshot import Shared, Snapshot
from django_qless.operations.status import NamespaceStatus
from tests.monitoring.test_collector import fail, put


def test_an_error_is_shared_until_it_is_old(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(
        "django_qless.monitoring.snapshot.time.monotonic", lambda: now[0]
    )
    reads: list[str] = []

    def read(alias: str) -> Any:
        reads.append(alias)
        if len(reads) == 1:
            raise QlessError("it is away")
        return len(reads)

    shared = Shared(read)
    for _ in range(2):
        with pytest.raises(QlessError, match="it is away"):
            shared.get("default")
    assert reads == ["default"]
    assert shared.get("other") == 2
    # After a second, no sooner and no later.
    now[0] += snapshot.MAX_AGE
    assert shared.get("default") == 3
    shared.forget()
    assert shared.get("default") == 4


def test_any_other_error_is_not_kept(qless: Client) -> None:
    reads: list[int] = []

    def read(alias: str) -> int:
        reads.append(1)
        return 1 // (len(reads) - 1)

    shared = Shared(read)
    with pytest.raises(ZeroDivisionError):
        shared.get("default")
    assert shared.get("default") == 1


def read_snapshot(client: Client) -> Snapshot:
    return Snapshot.read(client, NamespaceStatus.read(client))


def test_only_the_first_queues_have_figures_of_their_own(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MOST_QUEUES", 2)
    for number, queue in enumerate("abc", start=1):
        fail(qless, queue, "g", number)
        qless.push("", queue, "sync", [Payload("e", '{"v":1}', "1")])
    found = read_snapshot(qless)
    assert [queue.counts.name for queue in found.status.queues] == ["a", "b", "c"]
    assert found.failed_of == [1, 2]
    assert [stats.failures for stats in found.today] == [1, 2]
    assert len(found.throughput) == 2
    assert [each.queue for each in found.entities] == ["a", "b"]


def test_what_is_complete_is_counted_as_long_as_it_is_kept(qless: Client) -> None:
    assert read_snapshot(qless).completed == 0
    put(qless, "q", 3)
    held = qless.settle("w", [], 3, ["q"]).jobs
    ends = [Settlement(job.jid, job.token, "complete", (), 0.0) for job in held]
    qless.settle("w", ends, 0, [])
    assert read_snapshot(qless).completed == 3
