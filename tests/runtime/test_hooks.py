"""should_run, which may refuse a job, and the target time of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless import Fail, Retry, job, signals
from django_qless.checks.jobs import check_options
from django_qless.conf import clear_cache
from django_qless.exceptions import InvalidOption
from django_qless.runtime import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.job_types.current import CurrentJob

#: What the hook is to do, and what happened, in order.
answers: list[Any] = []
happened: list[str] = []


@pytest.fixture(autouse=True)
def empty() -> None:
    answers.clear()
    happened.clear()


def may_run(current: CurrentJob) -> Any:
    happened.append(f"asked {current.name.rpartition('.')[2]}")
    answer = answers.pop(0) if answers else True
    if isinstance(answer, Exception):
        raise answer
    return answer


async def amay_run(current: CurrentJob) -> Any:
    return may_run(current)


class Guard:
    """A hook that is no function."""

    def __call__(self, current: CurrentJob) -> bool:
        return False

    def __repr__(self) -> str:
        return "<the guard>"


def around(run: Callable[..., Any]) -> Callable[..., Any]:
    def call(current: CurrentJob) -> Any:
        happened.append("middleware")
        return run(current)

    return call


@job(should_run=may_run, middleware=[around], retries=1, backoff=0)
def guarded() -> str:
    happened.append("ran")
    return "done"


@job(should_run=amay_run, retries=1, backoff=0)
async def aguarded() -> str:
    happened.append("ran")
    return "done"


@job(should_run=f"{__name__}.amay_run", retries=0)
def guarded_by_coroutine() -> None:
    happened.append("ran")


@job(should_run=lambda running: amay_run(running), retries=0)
def guarded_by_what_it_returns() -> None:
    happened.append("ran")


@job(should_run=Guard())
def guarded_by_object() -> None:
    happened.append("ran")


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


@pytest.mark.parametrize(
    "name",
    ["guarded", "aguarded", "guarded_by_coroutine", "guarded_by_what_it_returns"],
)
def test_a_job_that_may_run(each_work: Any, name: str) -> None:
    handle = globals()[name].delay()
    each_work()
    assert handle.refresh().state == "complete"
    assert [line for line in happened if line != "middleware"] == [
        *(f"asked {name}", "ran"),
    ]
    assert happened[0] == f"asked {name}"


@pytest.mark.parametrize("name", ["guarded", "aguarded"])
@pytest.mark.parametrize(
    ("answer", "group", "message"),
    [
        (False, "refused", "may_run refused the job"),
        ("on the list", "refused", "on the list"),
        (Fail("banned", "by whom"), "banned", "by whom"),
    ],
)
def test_a_job_that_may_not(
    each_work: Any, name: str, answer: Any, group: str, message: str
) -> None:
    """It fails at once, whatever retries are left."""
    answers.append(answer)
    handle = globals()[name].delay()
    assert each_work() == 1
    failure = handle.refresh().failure
    assert failure.group == group
    assert message in failure.message
    assert "ran" not in happened
    assert "middleware" not in happened


def test_a_hook_without_a_name_is_named_as_it_names_itself(work: Any) -> None:
    handle = guarded_by_object.delay()
    assert work() == 1
    assert handle.refresh().failure.message == "<the guard> refused the job"


def test_a_hook_may_say_not_now(work: Any) -> None:
    answers.append(Retry(delay=0))
    handle = guarded.delay()
    assert work() == 2
    assert handle.refresh().state == "complete"


@pytest.mark.parametrize("answer", [None, 1, ""])
def test_any_other_answer_is_a_mistake(work: Any, answer: object) -> None:
    """It counts neither as a yes nor as a refusal: the job fails as by an exception."""
    answers.extend([answer, answer])
    handle = guarded.delay()
    assert work() == 2
    failure = handle.refresh().failure
    assert failure.group == "TypeError"
    assert "must return True" in failure.message


@pytest.mark.parametrize("job_of", [quick, guarded])
def test_an_alias_may_have_one_for_all_jobs(work: Any, job_of: Any) -> None:
    from django.conf import settings

    default = {**settings.QLESS["default"], "SHOULD_RUN": f"{__name__}.may_run"}
    with override_settings(QLESS={**settings.QLESS, "default": default}):
        answers.append(False)
        handle = job_of.delay()
        work()
        assert handle.refresh().failure.group == "refused"
    assert len(happened) == 1


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


def test_without_hooks_the_chain_is_as_it_was() -> None:
    def run(current: object) -> None: ...

    plain = job(name="hooks-plain")(lambda: None)
    assert plain.job_type is not None
    assert not hooks.has_own(plain.job_type)
    clear_cache()
    with override_settings(QLESS={"default": {"LOCATION": "redis://nowhere"}}):
        assert hooks.with_hooks("default", plain.job_type, run, is_async=False) is run


@pytest.mark.parametrize(
    "given",
    [
        {"should_run": 1},
        {"should_run": "plain"},
        {"should_run": lambda: True},
        {"retries_exhausted": lambda: None, "entity": True},
        {"target_time": 0},
        {"target_time": "long"},
    ],
)
def test_what_is_none_is_refused_where_it_is_written(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(given))):
        job(**given)(lambda: None)


def test_a_hook_that_cannot_be_imported() -> None:
    misspelt = job(name="hooks-misspelt", should_run="nowhere.jobs.nothing")(
        lambda: None
    )
    try:
        found = [message for message in check_options() if "E051" in str(message.id)]
        assert [message.msg for message in found if "hooks-misspelt" in message.msg]
    finally:
        from django_qless.job_types.registry import registry

        del registry._types[misspelt.name]
