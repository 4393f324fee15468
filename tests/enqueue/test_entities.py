"""Pushes to entities where the replicas of the server are late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless import job
from django_qless.core.exceptions import NotReplicated
from django_qless.job_types.entity import EntityHandle

if TYPE_CHECKING:
    from tests.real_servers import Server


@job("late-entities", entity=True)
def sync(batch: dict[str, list[Any]]) -> None: ...


@pytest.mark.parametrize(
    ("push", "entities"),
    [
        (lambda: sync.push("a", 1), ["a"]),
        (lambda: asyncio.run(sync.apush("a", 1)), ["a"]),
        (lambda: sync.push_many([("a", 1), ("b", 2), ("a", 3)]), ["a", "b"]),
        (lambda: asyncio.run(sync.apush_many([("a", 1), ("b", 2)])), ["a", "b"]),
    ],
)
def test_late_replicas_are_told_with_the_entities_that_are_pushed(
    server: Server, push: Callable[[], object], entities: list[str]
) -> None:
    # There is none.
    given = {"LOCATION": server.url, "REPLICAS": 1}
    with override_settings(QLESS={"default": given}):
        with pytest.raises(NotReplicated) as told:
            push()
        handles: tuple[EntityHandle, ...] = told.value.handles
        assert [handle.entity for handle in handles] == entities
        assert {handle.state for handle in handles} == {"pushed"}
        assert {handle.refresh().state for handle in handles} == {"waiting"}
