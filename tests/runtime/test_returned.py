"""What a job's function returns decides how it is run, not what the function looks like."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest

from django_qless import job
from django_qless.testing import inline_jobs, run_jobs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

done: list[Any] = []


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """An ordinary decorator, which calls and returns."""

    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


@job(retries=0)
@traced
async def add(a: int, b: int) -> int:
    await asyncio.sleep(0)
    done.append(a + b)
    return a + b


@job(retries=0, timeout=0.05)
@traced
async def hang() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        done.append("stopped")


@job(retries=0)
async def forgets_to_await(a: int) -> Any:
    return add.declaration.function(a, 1)


@job(retries=0, result_ttl=0)
@traced
def steps() -> Iterator[int]:
    done.append("ran")
    yield 1


@job(retries=0, result_ttl=0)
@traced
async def asteps() -> AsyncIterator[int]:
    done.append("ran")
    yield 1


@job
class Mailer:
    @staticmethod
    @traced
    async def process(sent: Any) -> None:
        done.append(sent.data)


@job(entity=True, queue="returned")
@traced
async def sync_stock(batch: dict[str, list[int]]) -> None:
    done.append(batch)


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


@pytest.mark.parametrize(
    ("enqueue", "expected"),
    [
        (lambda: add.delay(1, 2), 3),
        (lambda: forgets_to_await.delay(3), 4),
        (lambda: Mailer.delay("Ann"), "Ann"),  # type: ignore[attr-defined]
        (lambda: sync_stock.push("a", 1), {"a": [1]}),
    ],
)
def test_returned_coroutine_is_awaited(
    qless, each_work, enqueue: Callable[[], Any], expected: Any
) -> None:
    enqueue()
    each_work()
    assert done == [expected]
    assert qless.failed() == {}


def test_returned_coroutine_is_awaited_in_tests(qless) -> None:
    with inline_jobs():
        assert add.delay(1, 2).result() == 3
    add.delay(2, 2)
    [run] = run_jobs()
    assert (run.result, done) == (4, [3, 4])


def test_returned_coroutine_is_stopped_by_its_timeout(qless, each_work) -> None:
    handle = hang.delay()
    each_work()
    assert handle.refresh().failure.group == "timeout"
    assert done == ["stopped"]


@pytest.mark.parametrize("generating", [steps, asteps])
def test_returned_generator_is_refused(qless, each_work, generating: Any) -> None:
    handle = generating.delay()
    each_work()
    failure = handle.refresh().failure
    assert (failure.group, done) == ("bad-result", [])
    assert "returned a generator" in failure.message
