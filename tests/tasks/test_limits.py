"""Limits hold for Tasks as for other jobs."""

from __future__ import annotations

import json

import pytest
from django.test import override_settings

from django_qless.conf.config_sync import sync_config
from tests.tasks import installed

with override_settings(TASKS=installed.TASKS):
    from tests.tasks import limited

pytestmark = pytest.mark.django_db(transaction=True)


def taken(qless) -> list[list[object]]:
    """Return the arguments of the jobs that a worker gets."""
    return [json.loads(each.data)["args"] for each in qless.pop("default", "w", 10)]


def test_a_task_waits_for_its_key_and_for_its_type(qless) -> None:
    sync_config()
    qless.config_set(f"{limited.charge.module_path}-max-concurrency-of-type", 2)
    for number, customer in enumerate(["a", "a", "b", "c"]):
        limited.charge.enqueue(customer, number)
    assert taken(qless) == [["a", 0], ["b", 2]]
    [key, of_type] = sorted(qless.limits("default").limits, key=lambda each: each.kind)
    assert (key.kind, key.key, key.type) == ("key", "a", limited.charge.module_path)
    assert (of_type.kind, of_type.running, of_type.most) == ("type", 2, 2)
    assert qless.queue_counts("default").held_back == 2


def test_the_limit_of_a_queue_holds_for_tasks(qless) -> None:
    qless.config_set("default-max-concurrency", 1)
    qless.config_set("default-rate", "1/d")
    for number, customer in enumerate("abc"):
        limited.charge.enqueue(customer, number)
    assert taken(qless) == [["a", 0]]
    qless.config_unset("default-max-concurrency")
    assert taken(qless) == []
    qless.config_unset("default-rate")
    assert taken(qless) == [["b", 1], ["c", 2]]
