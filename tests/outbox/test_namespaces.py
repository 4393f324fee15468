"""What goes through an outbox reaches the namespace of its queue."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.outbox.models import Entry
from django_qless.outbox.sweep import sweep
from tests.jobs_app.jobs import add
from tests.real_servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

NAMESPACES = {"": "ql:", "mail": "ql-mail:"}


def waiting(name: str, queue: str) -> int:
    return connections[name].queue_counts(queue).waiting


def test_the_outbox_delivers_to_the_namespace_of_the_queue(server: Server) -> None:
    alias = {"LOCATION": server.url, "NAMESPACES": NAMESPACES, "ON_COMMIT": "outbox"}
    with override_settings(QLESS={"default": alias}):
        mail = add.using(queue="mail")
        with transaction.atomic():
            given = [mail.args(1), add.args(2), mail.args(3)]
            handles = add.enqueue_many(given)
            assert {entry.alias for entry in Entry.objects.all()} == {
                *("default", "default/mail")
            }
            assert waiting("default/mail", "mail") == 0
        assert [handle.alias for handle in handles] == [
            *("default/mail", "default", "default/mail")
        ]
        assert (waiting("default/mail", "mail"), waiting("default", "default")) == (
            2,
            1,
        )
        assert not Entry.objects.exists()


def test_what_is_left_over_is_swept_by_the_worker_of_its_namespace(
    server: Server,
) -> None:
    with Server() as away:
        namespaces = {**NAMESPACES, "mail": {"PREFIX": "m:", "LOCATION": away.url}}
        alias = {"LOCATION": server.url, "PATIENCE": 0.1, "NAMESPACES": namespaces}
        with override_settings(QLESS={"default": {**alias, "ON_OUTAGE": "buffer"}}):
            away.kill()
            handle = add.using(queue="mail").delay(1)
            assert (handle.alias, handle.pending) == ("default/mail", True)
            # The other server is there.
            assert not add.delay(1).pending
            Entry.objects.update(created="2020-01-01T00:00:00Z")
            assert sweep("default", "default").entries == 0
            away.start()
            assert sweep("default", "default/mail").entries == 1
            assert waiting("default/mail", "mail") == 1
            connections.forget()


def test_jobs_of_all_partitions_are_written_by_one_insert(
    server: Server, django_assert_num_queries: Any
) -> None:
    queues = {"default": {"partitions": 4}}
    alias = {"LOCATION": server.url, "QUEUES": queues, "ON_COMMIT": "outbox"}
    names = [f"default/default:{index}" for index in range(4)]
    with override_settings(QLESS={"default": alias}):
        with transaction.atomic():
            with django_assert_num_queries(1):
                handles = add.enqueue_many(map(add.args, range(40)))
            assert {entry.alias for entry in Entry.objects.all()} == set(names)
            assert all(handle.pending for handle in handles)
        assert [waiting(name, "default") for name in names] == [10] * 4
        assert not Entry.objects.exists()
        assert not any(handle.pending for handle in handles)
