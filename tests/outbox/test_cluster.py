"""The outbox of a namespace on a cluster: its slot moves, its primary dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.outbox import backlog
from django_qless.outbox.models import Entry
from tests.clusters import Cluster
from tests.jobs_app import jobs
from tests.real_servers import poll

pytestmark = pytest.mark.django_db(transaction=True)

kept = jobs.add.using(on_commit="outbox")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        alias = {**cluster.settings, "PATIENCE": 0.5}
        with override_settings(QLESS={"default": alias}):
            yield cluster
            connections.forget()


def queued() -> list[str]:
    return [job.jid for job in connections["default"].peek("default", 1000)]


def left(number: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Commit a job whose process dies before it delivers it; return its jid."""
    with monkeypatch.context() as patch:
        patch.setattr(backlog, "is_over", lambda *args: False)
        with transaction.atomic():
            return kept.delay(number).jid


def test_it_is_delivered_and_swept_while_its_slot_moves(
    cluster: Cluster, sweep_all: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_the_dead, own = [], []

    def between() -> None:
        of_the_dead.append(left(1, monkeypatch))
        sweep_all()
        with transaction.atomic():
            own.append(kept.delay(2).jid)

    between()
    # More keys than the moves take at once: some are here, some there.
    own += [job.jid for job in kept.enqueue_many([kept.args(n) for n in range(100)])]
    for _ in range(2):
        cluster.move("{ql}:", between)
    poll(lambda: [sweep_all(), not Entry.objects.exists()][1], what="all is swept up")
    found = queued()
    assert sorted(found) == sorted(own + of_the_dead)
    assert [jid for jid in found if jid in own] == own
    # What is kept of the deliveries has moved with the rest.
    assert len(cluster.of("{ql}:").shared_client().keys("{ql}:once:*")) >= 2


def test_what_is_committed_while_a_primary_dies_is_put_once(
    cluster: Cluster, sweep_all: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction.atomic():
        first = kept.delay(0).jid
    node = cluster.of("{ql}:")
    poll(lambda: node.ask("WAIT", 1, 1000) == 1, what="the replica has it")
    node.kill()
    jids = []
    for number in range(5):
        with transaction.atomic():
            handle = kept.delay(number)
        assert handle.pending
        jids.append(handle.jid)
    assert Entry.objects.count() == 5
    poll(lambda: [sweep_all(), not Entry.objects.exists()][1], what="all is swept up")
    assert queued() == [first, *jids]
    # A database that forgets that it has deleted them changes nothing.
    assert sweep_all().entries == 0
