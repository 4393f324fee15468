"""What becomes of a run, by how its function ends, and what the log says."""

from __future__ import annotations

import gc
import json
import logging
import os
import weakref
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from django_qless import job
from django_qless.core import Reserved
from django_qless.exceptions import Fail, Retry, ShuttingDown
from django_qless.job_types.current import current_job
from django_qless.job_types.registry import registry
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.signals import job_completed, retries_exhausted
from django_qless.worker.entity_runs import EntityRun
from django_qless.worker.execution import Execution
from tests.in_process import WAYS
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.core import Settlement

NAME = "tests.outcome"

#: A context variable of the project.
mark: ContextVar[str] = ContextVar("mark", default="")


@pytest.fixture
def execution(qless) -> Iterator[Execution]:
    yield Execution(DjangoEnvironment(), qless, "w")
    registry._types.pop(NAME, None)


@pytest.fixture(params=["function", "coroutine function"])
def declare(request: pytest.FixtureRequest) -> Callable[..., Any]:
    def declare(function: Callable[..., Any], **options: Any) -> Any:
        async def as_coroutine(*args: Any) -> Any:
            return function(*args)

        body = function if request.param == "function" else as_coroutine
        return job(name=NAME, **{"backoff": 5, **options})(body)

    return declare


@pytest.fixture
def run(qless, each_way, declare, execution) -> Callable[..., Settlement]:
    """Runs a function as a job, and settles it."""

    def run(function: Callable[[], Any], **options: Any) -> Settlement:
        declare(function, **options).delay()
        [held] = qless.settle("w", [], 1, ["*"]).jobs
        outcome: Settlement = each_way(execution, held)
        assert not qless.settle("w", [outcome], 0, ()).refused
        return outcome

    return run


def raising(error: BaseException) -> Callable[..., None]:
    def function(*args: Any) -> None:
        raise error

    return function


class Hostile(Exception):
    group = 5

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class HostileFail(Fail):
    def __str__(self) -> str:
        raise Hostile


class HostileGroup(Exception):
    @property
    def group(self) -> str:
        raise RuntimeError("no")


class Endless(Exception):
    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


class Misplaced(SyntaxError):
    @property
    def lineno(self) -> int:  # type: ignore[override]
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("make", "verb", "group"),
    [
        (partial(SystemExit, 3), "retry", "SystemExit"),
        (KeyboardInterrupt, "retry", "KeyboardInterrupt"),
        (Hostile, "retry", "Hostile"),
        (HostileGroup, "retry", "HostileGroup"),
        (Endless, "retry", "Endless"),
        (Misplaced, "retry", "Misplaced"),
        (partial(HostileFail, "g"), "fail", "g"),
        (partial(Fail, "g", 404), "fail", "g"),
        (partial(Fail, "", ""), "fail", "Fail"),
        (partial(Retry, 1, message=404), "retry", ""),
    ],
)
def test_any_exception_ends_the_job(
    run: Any, make: Callable[[], BaseException], verb: str, group: str
) -> None:
    def function() -> None:
        raise make()

    outcome = run(function)
    assert (outcome.verb, outcome.args[-2]) == (verb, group)
    assert isinstance(outcome.args[-1], str)


@pytest.mark.parametrize("delay", ["soon", float("nan"), -1, [3], True])
def test_invalid_delay_of_a_retry_is_the_backoff(run: Any, delay: Any, caplog) -> None:
    assert run(raising(Retry(delay))).args[0] == 5
    assert "Retry(delay=" in caplog.text


def test_retry_has_the_group_of_its_cause(run: Any) -> None:
    def function() -> None:
        raise Retry(7, message="soon") from KeyError("k")

    assert run(function).args == (7, "KeyError", "soon\n\nKeyError: 'k'\n")


def test_own_exception_after_an_interruption_is_a_failure(run: Any) -> None:
    def function() -> None:
        try:
            raise ShuttingDown
        except ShuttingDown:
            raise ValueError("cannot stop now") from None

    assert run(function).verb == "retry"


def test_job_type_that_cannot_be_resolved_is_tried_again(
    run: Any, monkeypatch, caplog
) -> None:
    def fail(self: object, klass: str) -> None:
        raise ImportError("half deployed")

    monkeypatch.setattr(DjangoEnvironment, "resolve", fail)
    outcome = run(lambda: 1)
    assert (outcome.verb, outcome.args[1]) == ("retry", "ImportError")
    assert 'error="ImportError: half deployed"' in caplog.text


@pytest.mark.parametrize(
    ("each_way", "declare"),
    [
        *((way, "function") for way in WAYS),
        # (asgiref, which runs a coroutine in a thread, keeps it in a cycle.)
        ("loop", "coroutine function"),
    ],
    indirect=True,
)
def test_exception_is_freed_without_garbage_collection(run: Any) -> None:
    """Its traceback holds what the job had in its variables."""
    watched: list[Any] = []

    def function() -> None:
        error = HostileGroup()
        watched.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    gc.disable()
    try:
        run(function)
        poll(lambda: watched[0]() is None, what="it is freed", seconds=10)
    finally:
        gc.enable()


class TestLog:
    def test_final_failure_has_its_traceback(self, run: Any, caplog) -> None:
        run(raising(KeyError("k")), retries=0)
        [record] = caplog.records
        assert record.levelname == "ERROR"
        line = record.getMessage()
        assert line.startswith("failed queue=default jid=")
        assert f"klass={NAME} group=KeyError seconds=" in line
        assert line.endswith("""error="KeyError: 'k'\"""")
        kind, error, trace = record.exc_info
        assert (kind, error.args) == (KeyError, ("k",))
        # From the job's own code on.
        assert trace.tb_frame.f_code.co_name in ("function", "as_coroutine")

    def test_retry_is_one_line(self, run: Any, caplog) -> None:
        run(raising(ValueError("two\nlines")))
        [record] = caplog.records
        assert (record.levelname, record.exc_info) == ("WARNING", None)
        assert record.getMessage().startswith("failed, to be tried again ")
        assert r'error="ValueError: two\nlines"' in record.getMessage()
        assert record.fields["delay"] == 5

    def test_requested_retry_has_no_group(self, run: Any, caplog) -> None:
        run(raising(Retry(0, message="not yet")))
        [record] = caplog.records
        assert "group" not in record.fields
        assert record.fields["delay"] == 0

    @pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
    def test_completion_is_debug(self, run: Any, caplog, level: int) -> None:
        with caplog.at_level(level, "django_qless.worker"):
            run(lambda: 1)
        actions = [record.action for record in caplog.records]
        assert actions == (["done"] if level == logging.DEBUG else [])

    def test_sensitive_variables_are_hidden(self, run: Any, caplog) -> None:
        def function() -> None:
            password = "hunter2"
            raise KeyError(len(password))

        run(function, sensitive=True, retries=0)
        [record] = caplog.records
        assert (record.levelname, record.exc_info) == ("ERROR", None)
        assert "raise KeyError(len(password))" in record.getMessage()
        assert "hunter2" not in caplog.text

    def test_failing_handler_costs_no_outcome(
        self, run: Any, monkeypatch, capsys
    ) -> None:
        def fail(*args: Any, **fields: Any) -> None:
            raise OSError("the collector is away")

        monkeypatch.setattr(logging.Logger, "callHandlers", fail)
        assert run(raising(KeyError("k")), retries=0).verb == "retry"
        assert "the collector is away" in capsys.readouterr().err

    def test_unknown_name_has_the_remedy_of_the_history(
        self, qless, execution, caplog
    ) -> None:
        qless.put("", "q", "x", "unknown.name", "{}")
        [held] = qless.settle("w", [], 1, ["q"]).jobs
        outcome = execution.perform(held)
        qless.settle("w", [outcome], 0, ())
        [record] = caplog.records
        assert (record.levelname, record.action) == ("WARNING", "unknown job name")
        message = qless.get("x").history[-1]["message"]
        assert message.endswith(f" {record.fields['hint']}")


@pytest.fixture(params=[*WAYS])
def run_entities(
    request: pytest.FixtureRequest, declare, execution, django_db_blocker
) -> Callable[..., list[Settlement]]:
    """Runs a function on the entities a and b."""

    class Entities:
        """Runs entities where `tests.in_process` runs one job."""

        environment = execution.environment

        def perform(self, jobs: Any) -> Any:
            return EntityRun(execution, jobs).perform()

        async def aperform(self, jobs: Any) -> Any:
            return await EntityRun(execution, jobs).aperform()

    def run(function: Callable[[Any], Any], **fields: Any) -> list[Settlement]:
        declare(function, entity=True)
        jobs = []
        for entity in "ab":
            data = json.dumps({"v": 1, "entity": entity, "payloads": [1]})
            held = Reserved(entity, "q", NAME, data, entity, 3, 3, 0, "", "", 0.0, 2)
            jobs.append(held._replace(**fields))
        with django_db_blocker.unblock():
            return WAYS[request.param](Entities(), jobs)  # type: ignore[arg-type, return-value]

    return run


class TestEntities:
    @pytest.mark.parametrize("error", [KeyError("k"), SystemExit(3)])
    def test_any_exception_ends_each(
        self, run_entities: Any, error: BaseException
    ) -> None:
        outcomes = run_entities(raising(error))
        group = type(error).__name__
        assert [(o.token, o.verb, o.args[1]) for o in outcomes] == [
            ("a", "retry", group),
            ("b", "retry", group),
        ]

    def test_unknown_name_is_not_run(self, run_entities: Any) -> None:
        outcomes = run_entities(lambda batch: None, klass="unknown.name")
        assert [o[2:] for o in outcomes] == [("unknown", (600,), None)] * 2

    def test_sandbox_ends_with_the_run(self, run_entities: Any) -> None:
        made: list[Any] = []

        def function(batch: Any) -> None:
            made.append(current_job().sandbox)  # type: ignore[union-attr]

        assert {o.verb for o in run_entities(function)} == {"complete"}
        assert not made[0].exists()

    def test_forked_copy_announces_nothing(
        self, run_entities: Any, monkeypatch, caplog
    ) -> None:
        pid = os.getpid()
        heard: list[Any] = []

        def fork(batch: Any) -> None:
            monkeypatch.setattr(os, "getpid", lambda: pid + 1)
            raise KeyError("k")

        def hear(**details: Any) -> None:
            heard.append(details)

        monkeypatch.setattr(os, "_exit", lambda status: None)
        retries_exhausted.connect(hear)
        try:
            run_entities(fork, remaining=0)
        finally:
            retries_exhausted.disconnect(hear)
        assert (heard, caplog.records) == ([], [])

    def test_receivers_see_no_context_of_the_job(self, run_entities: Any) -> None:
        seen: list[Any] = []

        def function(batch: Any) -> None:
            mark.set("of the job")

        def hear(**details: Any) -> None:
            seen.append((mark.get(), current_job()))

        job_completed.connect(hear)
        try:
            run_entities(function)
        finally:
            job_completed.disconnect(hear)
        assert seen == [("", None)] * 2


def test_receivers_see_no_context_of_the_job(run: Any) -> None:
    seen: list[Any] = []

    def hear(**details: Any) -> None:
        seen.append((mark.get(), current_job()))

    job_completed.connect(hear)
    try:
        run(lambda: mark.set("of the job") and None)
    finally:
        job_completed.disconnect(hear)
    assert seen == [("", None)]
