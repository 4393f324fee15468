"""How one job's run is judged, without a server, and what is said of it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client, Reserved, Settlement
from django_qless.core.commands.settle import packed_settlements
from django_qless.exceptions import Fail, JobLost, JobTimeout, Retry, ShuttingDown
from django_qless.job_types.options import Options
from django_qless.job_types.registry import JobType, registry
from django_qless.worker.execution import UNKNOWN_PATIENCE, Execution, announced
from django_qless.worker.failure_report import overrun_message
from django_qless.worker.log import describe_outcome, log_outcome
from tests.real_servers import poll
from tests.worker.inside.plain import PlainEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def reserved(klass: str = "it", *args: Any, **fields: Any) -> Reserved:
    data = json.dumps({"args": args})
    job = Reserved("jid", "q", klass, data, "7", 3, 3, 0, "[]", "", 0.0)
    return job._replace(**fields)


@pytest.fixture(params=["perform", "aperform", "aperform a coroutine"])
def outcome_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Settlement]]:
    """Runs a function as a job, blocking or in an event loop; returns the outcome."""
    execution = Execution(PlainEnvironment("unix:///nowhere"), None, "w")  # type: ignore[arg-type]

    def run(
        function: Callable[..., Any], options: Options | None = None, **fields: Any
    ) -> Settlement:
        async def as_coroutine() -> Any:
            return function()

        is_async = request.param.endswith("coroutine")
        body = as_coroutine if is_async else function
        options = options or Options(backoff=5)
        registry._types["it"] = JobType("it", body, options, is_async=is_async)
        job = reserved(**fields)
        if request.param == "perform":
            return execution.perform(job)
        return asyncio.run(execution.aperform(job))

    yield run
    registry._types.pop("it", None)


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


class Trouble(Exception):
    pass


class Hostile(Exception):
    """Whatever is asked of it goes wrong."""

    group = 5

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class HostileFail(Fail):
    def __str__(self) -> str:
        raise RuntimeError("no")


class HostileTwice(Fail):
    """Neither can its text be had, nor that of the error which says so."""

    def __str__(self) -> str:
        raise Hostile


class Grouped(Exception):
    @property
    def group(self) -> str:
        raise RuntimeError("no")


class Endless(Exception):
    """Passes on what it does not have, and does not have what it passes that on to."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


class Misplaced(SyntaxError):
    @property
    def lineno(self) -> int:  # type: ignore[override]
        raise RuntimeError("no")


class TestOutcomes:
    def test_nothing_is_returned(self, outcome_of: Any) -> None:
        assert outcome_of(lambda: None) == ("jid", "7", "complete", (), 0.0)

    def test_a_result(self, outcome_of: Any) -> None:
        assert outcome_of(lambda: [1]).args == ("[1]", 3600)
        assert outcome_of(lambda: [1], Options(result_ttl=0)).args == ()

    def test_a_result_that_cannot_be_kept(self, outcome_of: Any) -> None:
        outcome = outcome_of(lambda: {1})
        assert (outcome.verb, outcome.args[0]) == ("fail", "bad-result")
        assert "its result cannot be kept" in outcome.args[1]
        assert "set is not JSON serializable" in outcome.args[1]

    def test_an_exception(self, outcome_of: Any) -> None:
        outcome = outcome_of(raising(KeyError("k")))
        assert (outcome.verb, *outcome.args[:2]) == ("retry", 5, "KeyError")
        assert outcome.args[2].endswith("KeyError: 'k'\n")
        # It begins with the job's own code.
        assert "in function" in outcome.args[2].splitlines()[1] or (
            "in as_coroutine" in outcome.args[2].splitlines()[1]
        )

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
    def test_an_exception_that_should_end_the_process(
        self, outcome_of: Any, error: BaseException, request: Any
    ) -> None:
        outcome = outcome_of(raising(error))
        assert (outcome.verb, outcome.args[1]) == ("retry", type(error).__name__)

    def test_a_cancellation_of_its_own(self, outcome_of: Any) -> None:
        outcome = outcome_of(raising(asyncio.CancelledError()))
        assert (outcome.verb, outcome.args[1]) == ("retry", "CancelledError")

    def test_a_timeout(self, outcome_of: Any) -> None:
        outcome = outcome_of(raising(JobTimeout(2)))
        assert (outcome.verb, outcome.args[1]) == ("retry", "timeout")

    @pytest.mark.parametrize("error", [ShuttingDown(), JobLost()])
    def test_an_interruption(self, outcome_of: Any, error: Exception) -> None:
        assert outcome_of(raising(error)) == ("jid", "7", "release", (0,), 0.0)

    def test_a_failure_because_of_an_interruption(self, outcome_of: Any) -> None:
        """Only the interruption itself counts, not what the job makes of it."""

        def function() -> None:
            try:
                raise ShuttingDown
            except ShuttingDown:
                raise ValueError("cannot stop now") from None

        assert outcome_of(function).verb == "retry"

    def test_fail(self, outcome_of: Any) -> None:
        outcome = outcome_of(raising(Fail("bad-input", "no file")))
        assert outcome[2:4] == ("fail", ("bad-input", "no file"))

    def test_retry(self, outcome_of: Any) -> None:
        outcome = outcome_of(raising(Retry(7, message="soon", group="g")))
        assert outcome[2:4] == ("retry", (7, "g", "soon"))
        assert outcome_of(raising(Retry())).args[0] == 5

    def test_a_retry_has_the_group_of_its_cause(self, outcome_of: Any) -> None:
        def function() -> None:
            raise Retry(7, message="soon") from KeyError("k")

        delay, group, message = outcome_of(function).args
        assert (delay, group) == (7, "KeyError")
        assert message == "soon\n\nKeyError: 'k'\n"

    @pytest.mark.parametrize("delay", ["soon", float("nan"), -1, [3], True])
    def test_retry_at_no_time(self, outcome_of: Any, delay: Any, caplog: Any) -> None:
        assert outcome_of(raising(Retry(delay))).args[0] == 5
        assert "Retry(delay=" in caplog.text

    def test_a_name_that_nobody_knows(self, outcome_of: Any) -> None:
        outcome = outcome_of(lambda: 1, klass="nobody.knows")
        assert outcome[2:] == ("unknown", (UNKNOWN_PATIENCE,), None)

    @pytest.mark.parametrize(
        "error",
        [
            *(Hostile(), HostileFail("g"), Fail("g", 404), Fail(404)),  # type: ignore[arg-type]
            *(Retry(1, message=404), Fail("", "")),  # type: ignore[arg-type]
        ],
    )
    def test_whatever_is_raised_can_be_settled(
        self, outcome_of: Any, error: BaseException
    ) -> None:
        outcome = outcome_of(raising(error))
        assert outcome.verb in ("retry", "fail")
        assert list(packed_settlements([outcome]))
        group, message = outcome.args[-2:]
        assert isinstance(group, str)
        assert isinstance(message, str)

    @pytest.mark.parametrize(
        ("make", "verb", "group"),
        [
            (Grouped, "retry", "Grouped"),
            (Endless, "retry", "Endless"),
            (Misplaced, "retry", "Misplaced"),
            (lambda: HostileTwice("g"), "fail", "g"),
        ],
    )
    def test_whatever_its_exception_does_a_job_has_an_end(
        self, outcome_of: Any, make: Callable[[], Exception], verb: str, group: str
    ) -> None:
        """A job that has none would be held, and its lock renewed, for ever."""

        def function() -> None:
            raise make()

        outcome = outcome_of(function)
        assert (outcome.verb, outcome.args[-2]) == (verb, group)
        assert isinstance(outcome.args[-1], str)

    def test_an_environment_that_fails(
        self, outcome_of: Any, monkeypatch: Any, caplog: Any
    ) -> None:
        def fail(self: object, klass: str) -> None:
            raise ImportError("half deployed")

        monkeypatch.setattr(PlainEnvironment, "resolve", fail)
        outcome = outcome_of(lambda: 1)
        assert (outcome.verb, outcome.args[1]) == ("retry", "ImportError")
        assert 'error="ImportError: half deployed"' in caplog.text

    def test_the_exception_is_not_kept(self, outcome_of: Any) -> None:
        """Its traceback holds all that the job had in its hands."""
        watched: list[Any] = []

        def trouble() -> Trouble:
            made = Trouble()
            watched.append(weakref.ref(made))
            return made

        def function() -> None:
            raise trouble()

        gc.disable()
        try:
            outcome_of(function)
            # A thread that ran it may be about to forget it.
            poll(lambda: watched[0]() is None, what="it is forgotten", seconds=10)
        finally:
            gc.enable()


class TestTelling:
    @pytest.mark.parametrize(
        ("verb", "args", "remaining", "level", "word", "more"),
        [
            ("complete", (), 3, "DEBUG", "done", {}),
            ("move", ("q2", 0), 3, "DEBUG", "moved", {}),
            (
                *("retry", (5, "g", "m"), 1, "WARNING", "failed, to be tried again"),
                {"group": "g", "delay": 5},
            ),
            ("retry", (5, "g", "m"), 0, "ERROR", "failed", {"group": "g"}),
            # A job may ask for it without a group.
            (
                *("retry", (5, "", "m"), 1, "WARNING", "failed, to be tried again"),
                {"delay": 5},
            ),
            ("fail", ("g", "m"), 3, "ERROR", "failed", {"group": "g"}),
            ("release", (0,), 3, "INFO", "handed back", {}),
        ],
    )
    def test_what_is_said_of_an_outcome(
        self, verb: str, args: Any, remaining: int, level: str, word: str, more: Any
    ) -> None:
        job = reserved(remaining=remaining)
        said = describe_outcome(job, Settlement("jid", "7", verb, args))
        fields = {"queue": "q", "jid": "jid", "klass": "it", **more}
        assert said == (getattr(logging, level), word, fields)

    def test_an_unknown_name_has_the_remedy_of_its_page(self, client: Client) -> None:
        client.put("", "q", "x", "nobody.knows", "{}")
        [job] = client.settle("w", [], 1, ["q"]).jobs
        outcome = Settlement("x", job.token, "unknown", (600,))
        level, action, fields = describe_outcome(job, outcome)
        assert (level, action) == (logging.WARNING, "unknown job name")
        client.settle("w", [outcome], 0, ())
        returned = client.get("x").history[-1]
        assert returned["message"].endswith(f" {fields['hint']}")

    def test_the_last_attempt_is_the_servers_last_as_well(self, client: Client) -> None:
        """What the log calls the last one is what the server takes for it."""
        client.put("", "q", "x", "it", "{}", retries=1)
        words = []
        while jobs := client.settle("w", [], 1, ["q"]).jobs:
            outcome = Settlement("x", jobs[0].token, "retry", (0, "g", "m"))
            words.append(describe_outcome(jobs[0], outcome)[1])
            client.settle("w", [outcome], 0, ())
        assert words == ["failed, to be tried again", "failed"]
        job = client.get("x")
        assert job is not None
        assert job.state == "failed"

    def test_the_line(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG, "django_qless.worker"):
            log_outcome(reserved(), Settlement("jid", "7", "complete"), 0.25)
        assert "done" in caplog.text
        assert "jid=jid" in caplog.text
        assert "seconds=0.25" in caplog.text

    def test_a_failure_leaves_its_traceback(self, outcome_of: Any, caplog: Any) -> None:
        outcome_of(raising(KeyError("k")), remaining=0)
        [record] = caplog.records
        assert record.levelname == "ERROR"
        line = record.getMessage()
        assert line.startswith("failed ")
        assert "queue=q jid=jid klass=it group=KeyError" in line
        assert """error="KeyError: 'k'\"""" in line
        assert "\n" not in line
        assert record.fields["jid"] == "jid"
        kind, error, trace = record.exc_info
        assert (kind, error.args) == (KeyError, ("k",))
        # It begins with the job's own code, as it does in the admin.
        code = trace.tb_frame.f_code.co_name
        assert code in ("function", "as_coroutine")

    def test_a_retry_is_told_in_a_line(self, outcome_of: Any, caplog: Any) -> None:
        outcome_of(raising(ValueError("two\nlines")))
        [record] = caplog.records
        assert (record.levelname, record.exc_info) == ("WARNING", None)
        assert record.getMessage().startswith("failed, to be tried again ")
        assert r'error="ValueError: two\nlines"' in record.getMessage()
        assert record.fields["delay"] == 5

    def test_a_retry_that_the_job_asks_for_has_no_group(
        self, outcome_of: Any, caplog: Any
    ) -> None:
        outcome_of(raising(Retry(5, message="not yet")))
        [record] = caplog.records
        assert "group" not in record.fields
        assert "not yet" in record.fields["error"]

    @pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
    def test_a_job_that_is_done_is_told_in_debug(
        self, outcome_of: Any, caplog: Any, level: int
    ) -> None:
        with caplog.at_level(level, "django_qless.worker"):
            outcome_of(lambda: 1)
        told = [record.getMessage().split()[0] for record in caplog.records]
        assert told == (["done"] if level == logging.DEBUG else [])

    def test_no_handler_sees_what_is_sensitive(
        self, outcome_of: Any, caplog: Any
    ) -> None:
        def function() -> None:
            password = "hunter2"
            raise KeyError(len(password))

        outcome_of(function, Options(sensitive=True), remaining=0)
        [record] = caplog.records
        # Sentry and mails to admins show the variables of an exception's frames.
        assert (record.levelname, record.exc_info) == ("ERROR", None)
        assert "raise KeyError(len(password))" in record.getMessage()
        assert "hunter2" not in caplog.text

    @pytest.mark.parametrize("error", [Hostile(), HostileFail("g")])
    def test_a_hostile_exception_is_told(
        self, outcome_of: Any, caplog: Any, error: Exception
    ) -> None:
        outcome_of(raising(error), remaining=0)
        [record] = caplog.records
        assert "cannot be shown: RuntimeError" in record.getMessage()

    def test_a_handler_that_fails_costs_no_job_its_end(
        self, outcome_of: Any, monkeypatch: Any, capsys: Any
    ) -> None:
        def fail(*args: Any, **fields: Any) -> None:
            raise OSError("the collector is away")

        monkeypatch.setattr(logging.Logger, "callHandlers", fail)
        outcome = outcome_of(raising(KeyError("k")), remaining=0)
        assert outcome.verb == "retry"
        assert "the collector is away" in capsys.readouterr().err

    def test_a_hard_timeout(self) -> None:
        assert "hard timeout of 1.5 s" in overrun_message(1.5)


@pytest.mark.parametrize(
    ("verb", "remaining", "event"),
    [
        ("complete", 0, "completed"),
        ("move", 0, "completed"),
        ("fail", 5, "failed"),
        ("retry", 1, "retried"),
        ("retry", 0, "failed"),
        ("release", 0, ""),
    ],
)
def test_what_is_announced_of_an_outcome(verb: str, remaining: int, event: str) -> None:
    reserved = Reserved("j", "q", "k", "{}", "1", 5, remaining, 0, "", "", 0.0)
    assert announced(reserved, Settlement("j", "1", verb)) == event
