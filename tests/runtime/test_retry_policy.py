"""Which failures are worth another attempt, and after how long."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from django_qless import exponential
from django_qless.conf.connections import connections
from django_qless.job_types.options import Options
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.execution import Execution
from django_qless.worker.failure_policy import (
    FailurePolicy,
    import_exception,
    is_any_of,
    retry_delay,
)
from tests.jobs_app import policies

TRANSLATES = "tests.jobs_app.middleware.translates"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_attempts() -> None:
    policies.attempts.clear()


def outcome(qless, way, function, *args):
    """Run one job once; return how it is settled."""
    handle = function.delay(*args)
    [held] = qless.settle("w", [], 1, ["*"]).jobs
    assert held.jid == handle.jid
    return way(Execution(DjangoEnvironment(), connections["default"], "w"), held)


@pytest.mark.parametrize(
    ("function", "name", "runs", "group"),
    [
        (policies.retries_some, "Flaky", 3, "Flaky"),
        (policies.retries_some, "VeryFlaky", 3, "VeryFlaky"),
        (policies.retries_some, "Final", 3, "Final"),
        (policies.retries_some, "KeyError", 1, "KeyError"),
        (policies.retries_some, "Retry", 3, "failed-retries-default"),
        (policies.retries_some, "Fail", 1, "own-group"),
        (policies.fails_on_some, "Final", 1, "Final"),
        (policies.fails_on_some, "Flaky", 3, "Flaky"),
        (policies.fails_on_some, "Retry", 3, "failed-retries-default"),
        (policies.chooses, "Flaky", 3, "Flaky"),
        (policies.chooses, "VeryFlaky", 1, "VeryFlaky"),
        (policies.chooses, "KeyError", 1, "KeyError"),
    ],
)
def test_what_is_tried_again(qless, each_work, function, name, runs, group) -> None:
    handle = function.delay(name)
    assert each_work() == runs
    assert policies.attempts == list(range(1, runs + 1))
    now = handle.refresh()
    assert now.state == "failed"
    assert now.failure.group == group
    assert now.failure.message


def test_a_timeout_is_an_exception_like_others(qless, each_way) -> None:
    settled = outcome(qless, each_way, policies.must_be_quick)
    assert (settled.verb, settled.args[0]) == ("fail", "timeout")


def test_a_hard_timeout_is_one_as_well(qless) -> None:
    def limit(function):
        function.using(hard_timeout=5).delay()
        [held] = qless.settle("w", [], 1, ["*"]).jobs
        return FailurePolicy(DjangoEnvironment()).hard_limit(held)

    assert limit(policies.must_be_quick) == (5, -1)
    assert limit(policies.backs_off) == (5, 10)


def test_middleware_sees_what_the_job_raised(qless, each_work, settings) -> None:
    default = {**settings.QLESS["default"], "MIDDLEWARE": [TRANSLATES]}
    settings.QLESS = {**settings.QLESS, "default": default}
    handle = policies.retries_some.delay("KeyError")
    # It makes a Flaky of a KeyError, and that is worth a retry.
    assert each_work() == 3
    assert handle.refresh().failure.group == "Flaky"


def test_the_wait_grows(qless, each_way) -> None:
    settled = outcome(qless, each_way, policies.backs_off)
    assert (settled.verb, settled.args[0]) == ("retry", 10)


def test_the_job_says_itself_how_long(qless, each_way) -> None:
    settled = outcome(qless, each_way, policies.backs_off_itself)
    assert (settled.verb, settled.args[0]) == ("retry", 3)


def test_a_call_may_say_it(qless, each_way) -> None:
    for backoff, delay in (
        (7, 7),
        ([4, 5], 4),
        (exponential(base=6, factor=1, jitter=0), 6),
    ):
        function = policies.backs_off.using(backoff=backoff)
        assert outcome(qless, each_way, function).args[0] == delay


class TestExponential:
    def test_it_grows_by_its_factor_up_to_its_maximum(self) -> None:
        rule = exponential(base=5, factor=3, maximum=100, jitter=0)
        assert [rule(attempt) for attempt in range(1, 6)] == [5, 15, 45, 100, 100]
        assert rule(10_000) == 100
        assert exponential(maximum=100, jitter=0)(1_000_000) == 100
        assert exponential(base=0, factor=1)(7) == 0
        assert exponential(base=0)(1_000_000) == 0

    def test_jitter_scatters_but_never_beyond_the_maximum(self) -> None:
        random.seed(7)
        rule = exponential(base=10, factor=2, maximum=20, jitter=0.5)
        first = [rule(1) for _ in range(500)]
        last = [rule(9) for _ in range(500)]
        assert 5 <= min(first) < 6
        assert 14 < max(first) <= 15
        assert 10 <= min(last) < 11
        assert 19 < max(last) <= 20

    def test_the_usual_one_has_no_last_attempt(self) -> None:
        assert all(
            3600 * 0.75 <= retry_delay(None, attempt, ValueError()) <= 3600
            for attempt in (1024, 1025, 2**31)
        )

    def test_its_numbers_may_be_timedeltas(self) -> None:
        minute, hour = timedelta(minutes=1), timedelta(hours=1)
        rule = exponential(minute, maximum=hour)
        assert rule == exponential(60, maximum=3600)

    def test_it_travels(self) -> None:
        rule = exponential(base=5, factor=3, maximum=100, jitter=0.5)
        changed = Options(backoff=rule).travelling("x", Options())
        assert Options().with_travelling("x", changed).backoff == rule


class TestDelay:
    @pytest.mark.parametrize(
        ("backoff", "delays"),
        [
            (5, [5, 5, 5, 5]),
            ((1, 10, 60), [1, 10, 60, 60]),
            (lambda attempt, error: timedelta(minutes=attempt), [60, 120, 180, 240]),
            (lambda attempt, error: len(error.args), [2, 2, 2, 2]),
            (lambda attempt, error: -5, [0, 0, 0, 0]),
        ],
    )
    def test_by_backoff(self, backoff, delays) -> None:
        error = KeyError("a", "b")
        assert [retry_delay(backoff, n, error) for n in (1, 2, 3, 4)] == delays

    @pytest.mark.parametrize(
        ("attempt", "middle"), [(1, 2), (2, 4), (5, 32), (40, 3600)]
    )
    def test_the_usual_one_doubles_with_jitter(self, attempt, middle) -> None:
        delays = {retry_delay(None, attempt, ValueError()) for _ in range(200)}
        assert len(delays) > 40
        assert middle * 0.75 <= min(delays) < max(delays) <= middle * 1.25


class TestNames:
    def test_an_alias_of_a_class_is_the_class(self) -> None:
        assert (
            is_any_of(policies.Flaky(), ("tests.jobs_app.jobs.django_qless.Fail",))
            is False
        )
        assert is_any_of(OSError(), ("builtins.IOError",))

    def test_what_cannot_be_imported_counts_by_its_name(self, caplog) -> None:
        import_exception.cache_clear()
        gone = type("Gone", (Exception,), {"__module__": "no.such.module"})
        assert is_any_of(gone(), ("no.such.module.Gone",))
        assert not is_any_of(ValueError(), ("no.such.module.Gone",))
        assert not is_any_of(ValueError(), ("os.path.join",))
        told = [record.getMessage() for record in caplog.records]
        assert told == [
            "the exception no.such.module.Gone cannot be imported",
            "os.path.join is no exception",
        ]
