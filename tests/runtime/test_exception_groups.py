"""Exception groups count as what is in them: asyncio.TaskGroup raises nothing else."""

from __future__ import annotations

import asyncio
import builtins
from typing import TYPE_CHECKING, Any

import pytest

from django_qless import BatchFailure, Fail, Retry, job
from django_qless.testing import run_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

group: Any = getattr(builtins, "ExceptionGroup", None)
if group is None:
    pytest.skip("Python 3.11 has exception groups", allow_module_level=True)

TROUBLES: dict[str, Callable[[], Exception]] = {
    "Fail": lambda: Fail("gone", "no such order"),
    "Retry": lambda: Retry(0, message="not yet", group="busy"),
    "KeyError": lambda: KeyError("k"),
    "OSError": lambda: OSError("no disk"),
    "TimeoutError": lambda: TimeoutError("slow"),
    "nested": lambda: group("inner", [group("innermost", [KeyError("k")])]),
    "deep Fail": lambda: group("inner", [KeyError("k"), Fail("gone", "no order")]),
}


async def trouble(name: str) -> None:
    raise TROUBLES[name]()


@job(retries=1, backoff=0)
async def side_by_side(*names: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(trouble(name))


retries_oserrors = job(
    name="tests.retries_oserrors", retries=1, backoff=0, retry_on=OSError
)(side_by_side.declaration.function)
fails_on_timeouts = job(
    name="tests.fails_on_timeouts", retries=1, backoff=0, fail_on=TimeoutError
)(side_by_side.declaration.function)


@job(entity=True, queue="grouped", retries=0, batch_size=2)
def sync(batch: dict[str, list[int]]) -> None:
    raise group("several", [BatchFailure({"b": "bad"})])


@pytest.mark.parametrize(
    ("function", "names", "runs", "failed_in"),
    [
        (side_by_side, ["Fail"], 1, "gone"),
        (side_by_side, ["KeyError", "Retry", "Fail"], 1, "gone"),
        (side_by_side, ["deep Fail"], 1, "gone"),
        (side_by_side, ["KeyError", "Retry"], 2, "busy"),
        (side_by_side, ["KeyError", "KeyError"], 2, "KeyError"),
        (side_by_side, ["nested"], 2, "KeyError"),
        (side_by_side, ["KeyError", "OSError"], 2, "ExceptionGroup"),
        (retries_oserrors, ["OSError", "TimeoutError"], 2, "ExceptionGroup"),
        (retries_oserrors, ["OSError", "KeyError"], 1, "ExceptionGroup"),
        (fails_on_timeouts, ["KeyError", "KeyError"], 2, "KeyError"),
        (fails_on_timeouts, ["KeyError", "TimeoutError"], 1, "ExceptionGroup"),
    ],
)
def test_group_ends_a_run_as_what_is_in_it(
    qless, each_work, function: Any, names: list[str], runs: int, failed_in: str
) -> None:
    handle = function.delay(*names)
    assert each_work() == runs
    assert handle.refresh().failure.group == failed_in


def test_message_has_all_that_was_raised(qless, work) -> None:
    handle = side_by_side.delay("KeyError", "Fail")
    work()
    message = handle.refresh().failure.message
    assert message.startswith("no such order\n")
    assert "KeyError: 'k'" in message


def test_of_a_group_with_a_batch_failure_the_other_entities_are_done(qless) -> None:
    sync.push_many([("a", 1), ("b", 2)])
    runs = run_jobs(raise_failures=False)
    assert sorted(run.outcome for run in runs) == ["complete", "failed"]


def test_group_with_a_retry_is_a_retry_in_tests(qless) -> None:
    side_by_side.using(retries=2).delay("Retry")
    runs = run_jobs(until_empty=False)
    assert [run.outcome for run in runs] == ["retried"]
