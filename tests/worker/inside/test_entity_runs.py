"""How a run of several entities is judged, without a server."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Reserved, Settlement
from django_qless.exceptions import BatchFailure
from django_qless.job_types.options import Options
from django_qless.job_types.registry import JobType, registry
from django_qless.worker.entity_runs import EntityRun, content_of
from django_qless.worker.execution import UNKNOWN_PATIENCE, Execution
from django_qless.worker.sandbox import Sandboxes
from tests.worker.declare import current
from tests.worker.inside.plain import PlainEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., list[Settlement]]


class Environment(PlainEnvironment):
    """Notes which entities have failed for good."""

    exhausted: tuple[Any, ...] = ()

    def announce_exhausted(self, klass: str, batch: Any, errors: Any) -> None:
        self.exhausted = klass, batch, errors


def reserved(entity: str, **fields: Any) -> Reserved:
    data = json.dumps({"v": 1, "entity": entity, "payloads": [1, 2]})
    job = Reserved(
        f"jid-{entity}", "q", "it", data, entity, 3, 3, 0, "[]", "", 0.0, batch=3
    )
    return job._replace(**fields)


@pytest.fixture
def environment() -> Environment:
    return Environment("unix:///nowhere")


@pytest.fixture
def execution(environment: Environment, tmp_path: Path) -> Execution:
    sandboxes = Sandboxes(tmp_path)
    return Execution(environment, None, "w", sandboxes)  # type: ignore[arg-type]


@pytest.fixture(params=["perform", "aperform a coroutine"])
def run(request: pytest.FixtureRequest, execution: Execution) -> Iterator[Run]:
    """Runs a function on entities a, b and c; returns the outcomes."""
    is_async = request.param != "perform"

    def run(
        function: Callable[[Any], Any], klass: str = "it", **fields: Any
    ) -> list[Settlement]:
        async def as_coroutine(batch: Any) -> Any:
            return function(batch)

        body = as_coroutine if is_async else function
        options = Options(backoff=5, entity=True)
        registry._types["it"] = JobType("it", body, options, is_async=is_async)
        jobs = [reserved(name, klass=klass, **fields) for name in "abc"]
        entities = EntityRun(execution, jobs)
        return asyncio.run(entities.aperform()) if is_async else entities.perform()

    yield run
    registry._types.pop("it", None)


def verbs(outcomes: list[Settlement]) -> dict[str, str]:
    """Return how each entity ended, by the token of its lock."""
    return {outcome.token: outcome.verb for outcome in outcomes}


def raising(error: BaseException) -> Callable[[Any], None]:
    def function(batch: Any) -> None:
        raise error

    return function


def test_they_are_given_together(run: Run) -> None:
    seen: list[Any] = []
    assert verbs(run(seen.append)) == dict.fromkeys("abc", "complete")
    assert seen == [{"a": [1, 2], "b": [1, 2], "c": [1, 2]}]


def test_of_a_name_that_is_unknown_none_is_run(run: Run) -> None:
    outcomes = run(lambda batch: None, klass="nobody.knows")
    assert verbs(outcomes) == dict.fromkeys("abc", "unknown")
    assert {outcome[3:] for outcome in outcomes} == {((UNKNOWN_PATIENCE,), None)}


@pytest.mark.parametrize("error", [KeyError("k"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_is_raised_is_the_end_of_each(run: Run, error: BaseException) -> None:
    outcomes = run(raising(error))
    assert verbs(outcomes) == dict.fromkeys("abc", "retry")
    assert {outcome.args[1] for outcome in outcomes} == {type(error).__name__}


def test_those_that_are_not_named_as_failed_are_done(
    run: Run, environment: Environment
) -> None:
    failure = BatchFailure({"b": "no stock", "c": KeyError("k")})
    outcomes = run(raising(failure), remaining=0)
    assert verbs(outcomes) == {"a": "complete", "b": "retry", "c": "retry"}
    klass, batch, errors = environment.exhausted
    assert (klass, batch) == ("it", {"b": [1, 2], "c": [1, 2]})
    assert errors["b"].endswith("RuntimeError: no stock\n")
    assert errors["c"].endswith("KeyError: 'k'\n")


def test_a_failure_with_retries_left_is_not_for_good(
    run: Run, environment: Environment
) -> None:
    run(raising(KeyError("k")), remaining=1)
    assert environment.exhausted == ()


def test_an_environment_that_fails_is_the_end_of_each(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, klass: str) -> None:
        raise ImportError("half deployed")

    monkeypatch.setattr(PlainEnvironment, "resolve", fail)
    outcomes = run(lambda batch: None)
    assert {(outcome.verb, outcome.args[1]) for outcome in outcomes} == {
        ("retry", "ImportError")
    }


def test_their_sandbox_ends_with_the_run(run: Run, execution: Execution) -> None:
    made: list[Path] = []

    def function(batch: Any) -> None:
        made.append(current().sandbox)
        (made[0] / "file").write_text("left")

    assert verbs(run(function)) == dict.fromkeys("abc", "complete")
    assert made
    assert not made[0].exists()
    assert execution.sandboxes.in_use == {}


def test_a_copy_of_a_run_tells_nothing(
    run: Run, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has forked: what the copy returns is not the outcome of the job."""
    pid = os.getpid()

    def fork(batch: Any) -> None:
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        raise KeyError("k")

    run(fork, remaining=0)
    assert environment.exhausted == ()


@pytest.mark.parametrize("data", ["", "3", "[]", "{}", '{"entity": "a"}'])
def test_what_cannot_be_read_is_named_by_its_id(data: str) -> None:
    assert content_of(reserved("a", data=data)) == ("jid-a", [])
