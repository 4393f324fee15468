"""Django's Tasks by way of the outbox."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

from django_qless.job_types.registry import registry
from django_qless.outbox.models import Entry
from django_qless.outbox.sweep import sweep
from django_qless.tasks import frameworks
from tests.tasks.conftest import tasks_setting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def add(qless: Any) -> Any:
    """A Task whose backend uses the outbox, which nothing knows of afterwards."""
    known = dict(registry._types)
    with override_settings(TASKS=tasks_setting(enqueue_on_commit="outbox")):
        from tests.tasks import work

        yield work.add
    registry._types.clear()
    registry._types.update(known)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_it_is_enqueued_at_the_commit(qless: Any, add: Any, way: str) -> None:
    enqueue = add.enqueue if way == "sync" else async_to_sync(add.aenqueue)
    with transaction.atomic():
        result = enqueue(1)
        assert result.enqueued_at is None
        assert qless.get(result.id) is None
        assert Entry.objects.count() == 1
    assert result.enqueued_at is not None
    assert qless.get(result.id) is not None
    assert not Entry.objects.exists()


def test_a_rollback_enqueues_nothing(qless: Any, add: Any) -> None:
    with transaction.atomic():
        result = add.enqueue(1)
        transaction.set_rollback(True)
    assert qless.get(result.id) is None
    assert not Entry.objects.exists()


def test_its_result_and_signal_come_though_a_sweep_was_faster(
    qless: Any, add: Any
) -> None:
    sent: list[Any] = []

    def note(task_result: Any, **kwargs: Any) -> None:
        sent.append(task_result)

    signal = frameworks.required().signals.task_enqueued
    signal.connect(note)
    try:
        with transaction.atomic():
            result = add.enqueue(1)
            # A sweep sees what is committed; here it is in the same connection.
            Entry.objects.update(created="2020-01-01T00:00:00Z")
            assert sweep("default", "default").entries == 1
            assert sent == []
    finally:
        signal.disconnect(note)
    assert qless.get(result.id) is not None
    assert result.enqueued_at is not None
    assert sent == [result]
    assert not Entry.objects.exists()
