"""The target time of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_qless import job, signals
from django_qless.exceptions import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterator


@job(target_time=1e-9, retries=0)
def slow(*, raises: bool = False) -> None:
    if raises:
        raise ValueError("after all that time")


@job(target_time=1e-9)
async def aslow() -> None: ...


@job(target_time=3600)
def quick() -> None: ...


@job(target_time=3600)
async def aquick() -> None: ...


@pytest.fixture
def heard() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def receive(**details: Any) -> None:
        heard.append(details)

    signals.job_over_target.connect(receive)
    yield heard
    signals.job_over_target.disconnect(receive)


@pytest.mark.parametrize(
    ("job_of", "arguments", "state"),
    [
        (slow, {}, "complete"),
        (slow, {"raises": True}, "failed"),
        (aslow, {}, "complete"),
    ],
)
def test_a_run_over_its_target_time(
    each_work: Any,
    heard: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
    job_of: Any,
    arguments: dict[str, Any],
    state: str,
) -> None:
    handle = job_of.delay(**arguments)
    each_work()
    assert handle.refresh().state == state
    (told,) = heard
    assert told["job"].jid == handle.jid
    assert 60 > told["took"] > told["target_time"] == 1e-9
    (line,) = (each for each in caplog.text.splitlines() if "over target time" in each)
    assert f"jid={handle.jid}" in line


@pytest.mark.parametrize("job_of", [quick, aquick])
def test_a_run_within_its_target_time(
    each_work: Any, heard: list[Any], job_of: Any
) -> None:
    job_of.delay()
    each_work()
    assert heard == []


@pytest.mark.parametrize(
    "given",
    [
        {"target_time": 0},
        {"target_time": "long"},
    ],
)
def test_what_is_none_is_refused_where_it_is_written(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(given))):
        job(**given)(lambda: None)
