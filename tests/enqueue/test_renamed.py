"""A job type under a new name: unique keys that are held under the old one hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_qless import job
from django_qless.job_types.registry import registry

OLD, NEW = "shop.jobs.sync", "shop.tasks.sync"


def declared(name: str, **options: Any) -> Any:
    @job(name=name, **options)
    def sync(number: int) -> int:
        return number

    return sync


@pytest.fixture(
    params=[{"unique": True}, {"unique": lambda number: "n" * 300 + str(number)}]
)
def rename(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The job under its old name; returns it, and how it is declared under the new one."""

    def begin(**more: Any) -> tuple[Any, Any]:
        old = declared(OLD, **request.param, **more)
        del registry._types[OLD]
        return old, declared(NEW, aliases=[OLD], **request.param, **more)

    yield begin
    registry._types.pop(NEW, None)


def test_job_under_the_old_name_stands_for_a_new_one(qless: Any, rename: Any) -> None:
    old, new = rename()
    first = old.delay(7)
    again = new.delay(7)
    assert (again.created, again.jid) == (False, first.jid)
    [many, other] = new.enqueue_many([new.args(7), new.args(8)])
    assert (many.created, many.jid) == (False, first.jid)
    assert other.created


def test_key_of_the_old_name_is_free_once_its_job_has_ended(
    qless: Any, rename: Any
) -> None:
    old, new = rename()
    old.delay(7).cancel()
    assert new.delay(7).created
    assert not new.delay(7).created


def test_debounce_moves_the_job_of_the_old_name(qless: Any, rename: Any) -> None:
    old, new = rename(debounce=60)
    first = old.delay(7)
    assert new.delay(7).jid == first.jid
    assert qless.get(first.jid).klass == NEW


def test_period_of_the_old_name_goes_on(qless: Any, rename: Any) -> None:
    old, new = rename(unique_for=300)
    old.delay(7).cancel()
    assert not new.delay(7).created


def test_job_without_aliases_has_its_own_keys(qless: Any, rename: Any) -> None:
    old, _ = rename()
    old.delay(7)
    assert declared("shop.jobs.other", unique=True).delay(7).created
    del registry._types["shop.jobs.other"]


def test_key_of_the_new_name_comes_first(qless: Any, rename: Any) -> None:
    old, new = rename()
    first = new.delay(7)
    old.delay(7)
    assert new.delay(7).jid == first.jid
