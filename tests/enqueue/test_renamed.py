"""A job type under a new name: unique keys that are held under the old one hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from django_qless import failures, job, jobs
from django_qless.core import WrongState
from django_qless.job_types.registry import registry
from django_qless.operations.bulk import change_jobs
from tests.core.invariants import violations_on
from tests.real_servers import Server

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


def test_job_under_the_new_name_stands_for_one_under_the_old_name(
    qless: Any, rename: Any
) -> None:
    old, new = rename()
    first = new.delay(7)
    again = old.delay(7)
    assert (again.created, again.jid) == (False, first.jid)
    first.cancel()
    assert old.delay(7).created


def number(act: Callable[[], object]) -> int:
    """Return how many jobs an action on one has changed."""
    with suppress(WrongState):
        act()
        return 1
    return 0


WAYS_BACK = {
    "retry": lambda _, handle: number(handle.retry),
    "move": lambda _, handle: number(lambda: handle.move("default")),
    "revive": lambda _, handle: jobs.revive([handle.jid]),
    "unfail": lambda *_: failures.unfail("group", "default"),
    "bulk retry": lambda qless, handle: change_jobs(qless, "retry", [handle.jid]).done,
}


@pytest.mark.parametrize("way", WAYS_BACK)
@pytest.mark.parametrize("first", ["old", "new"])
def test_failed_job_stays_failed_while_one_under_the_other_name_has_its_key(
    qless: Any, rename: Any, first: str, way: str, server: Server
) -> None:
    old, new = rename()
    failed = (old if first == "old" else new).delay(7)
    [reserved] = qless.settle("worker", [], 1, ["default"]).jobs
    qless.fail(reserved.jid, reserved.token, "group", "message")
    other = (new if first == "old" else old).delay(7)
    assert WAYS_BACK[way](qless, failed) == 0
    assert [failed.refresh().state, other.refresh().state] == ["failed", "waiting"]
    other.cancel()
    assert WAYS_BACK[way](qless, failed) == 1
    assert new.delay(7).jid == failed.jid
    assert violations_on(server) == []
