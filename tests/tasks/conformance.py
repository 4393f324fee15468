"""Contract of every backend for Django's Tasks.

A subclass says which settings make the backend, and how Tasks that wait are run. What
backends with all four `supports_` flags have to do beside this is in `promises.py`.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import django
import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings
from django.utils import timezone

from tests.tasks import installed, work
from tests.tasks.conftest import Heard
from tests.tasks.installed import InvalidTask, Status, task, task_backends

Drain = Callable[[], int]

JSON_VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**60),
    1.5,
    "",
    "snow ☃ and \N{GRINNING FACE}",
    [],
    {},
    [1, [2, {"a": None}]],
    {"$date": "2030-01-01", "$model": "auth.User", "v": 1},
    {"key with spaces": [True, False]},
]
NOT_JSON: list[Any] = [
    datetime(2030, 1, 1, tzinfo=UTC),
    date(2030, 1, 1),
    timedelta(1),
    Decimal("1.1"),
    uuid.UUID(int=1),
    {1, 2},
    frozenset(),
    object(),
    Exception("no"),
    len,
    {"nested": [{"deep": {1}}]},
]


def shown(value: object) -> str:
    return type(value).__name__


class Conformance:
    """For every backend."""

    #: How the backend is asked for.
    settings: dict[str, Any] = {}

    @pytest.fixture(autouse=True)
    def backend(self, drain: Drain) -> Iterator[Any]:
        """The default backend."""
        with override_settings(TASKS=self.settings):
            yield task_backends["default"]

    def latest(self, result: Any) -> Any:
        """Return the result as it is by now."""
        if task_backends["default"].supports_get_result:
            result.refresh()
        return result

    def done(self, drain: Drain, one: Any, *args: Any, **kwargs: Any) -> Any:
        """Have a Task run; return its result."""
        result = one.enqueue(*args, **kwargs)
        drain()
        return self.latest(result)

    # Enqueueing and running.

    @pytest.mark.parametrize("one", [work.add, work.aadd], ids=["sync", "async"])
    def test_a_task_that_is_enqueued_runs(self, drain: Drain, one: Any) -> None:
        result = self.done(drain, one, 1, b=2)
        assert result.status == Status.SUCCESSFUL
        assert result.return_value == 3
        assert result.is_finished
        assert result.errors == []

    @pytest.mark.parametrize("one", [work.add, work.aadd], ids=["sync", "async"])
    def test_so_does_one_that_is_enqueued_in_a_loop(
        self, drain: Drain, one: Any
    ) -> None:
        result = async_to_sync(one.aenqueue)(1, b=2)
        drain()
        assert self.latest(result).return_value == 3

    def test_a_result_says_what_it_is_of(self, drain: Drain) -> None:
        result = work.add.enqueue(1, b=2)
        assert result.task is work.add
        assert (result.args, result.kwargs) == ([1], {"b": 2})
        assert result.backend == "default"
        assert isinstance(result.id, str)
        assert 0 < len(result.id) <= 64

    def test_every_result_has_an_id_of_its_own(self) -> None:
        assert len({work.nothing.enqueue().id for _ in range(20)}) == 20

    @pytest.mark.parametrize("value", JSON_VALUES, ids=shown)
    def test_arguments_and_results_come_as_they_were(
        self, drain: Drain, value: Any
    ) -> None:
        result = self.done(drain, work.echo, value, named=value)
        assert result.return_value == [[value], {"named": value}]
        assert (result.args, result.kwargs) == ([value], {"named": value})

    def test_what_json_has_no_word_for_but_means_the_same(self, drain: Drain) -> None:
        result = self.done(drain, work.echo, (1, (2,)), b"bytes", key=range(3))
        assert result.args == [[1, [2]], "bytes"]
        assert result.return_value == [[[1, [2]], "bytes"], {"key": [0, 1, 2]}]

    @pytest.mark.parametrize("value", NOT_JSON, ids=shown)
    @pytest.mark.parametrize("keyword", [False, True])
    def test_arguments_are_json_and_nothing_else(
        self, heard: Heard, value: Any, keyword: bool
    ) -> None:
        args, kwargs = ([], {"x": value}) if keyword else ([value], {})
        with pytest.raises(TypeError, match="Unsupported type"):
            work.echo.enqueue(*args, **kwargs)
        with pytest.raises(TypeError, match="Unsupported type"):
            async_to_sync(work.echo.aenqueue)(*args, **kwargs)
        assert heard == []

    def test_bytes_that_are_no_text(self) -> None:
        with pytest.raises(ValueError, match="Unsupported value"):
            work.echo.enqueue(b"\xff")

    def test_a_task_can_be_called_without_a_backend(self) -> None:
        assert work.add.call(1, b=2) == 3
        assert work.aadd.call(1, b=2) == 3
        assert async_to_sync(work.add.acall)(1, b=2) == 3
        assert async_to_sync(work.aadd.acall)(1, b=2) == 3

    # How it ends.

    @pytest.mark.parametrize("one", [work.fails, work.afails], ids=["sync", "async"])
    def test_a_task_that_raises(self, drain: Drain, one: Any) -> None:
        result = self.done(drain, one, "oh no")
        assert result.status == Status.FAILED
        assert result.is_finished
        [error] = result.errors
        assert error.exception_class is ValueError
        assert error.exception_class_path == "builtins.ValueError"
        assert error.traceback.startswith("Traceback (most recent call last):\n")
        assert error.traceback.endswith("ValueError: oh no\n")
        with pytest.raises(ValueError, match="failed"):
            _ = result.return_value

    def test_an_exception_that_cannot_be_copied(self, drain: Drain) -> None:
        [error] = self.done(drain, work.fails_in_a_complicated_way).errors
        assert error.exception_class is work.Unpicklable
        assert "two\nlines: of text" in error.traceback
        assert "KeyError: 'cause'" in error.traceback

    def test_a_task_that_wants_to_end_the_process(self, drain: Drain) -> None:
        result = self.done(drain, work.leaves)
        assert result.status == Status.FAILED
        assert result.errors[0].exception_class is SystemExit

    @pytest.mark.parametrize("kind", ["set", "object"])
    def test_a_result_that_json_has_no_word_for(self, drain: Drain, kind: str) -> None:
        result = self.done(drain, work.returns, kind)
        assert result.status == Status.FAILED
        assert result.errors[0].exception_class is TypeError
        assert "Unsupported type" in result.errors[0].traceback

    def test_a_result_is_made_json(self, drain: Drain) -> None:
        assert self.done(drain, work.returns, "tuple").return_value == [1, [2]]
        assert self.done(drain, work.returns, "zero").return_value == 0
        assert self.done(drain, work.nothing).return_value is None

    def test_arguments_that_the_function_does_not_take(self, drain: Drain) -> None:
        result = self.done(drain, work.add, 1, c=2)
        assert result.status == Status.FAILED
        assert result.errors[0].exception_class is TypeError

    def test_what_is_known_of_a_run(self, drain: Drain) -> None:
        before = timezone.now()
        result = self.done(drain, work.add, 1)
        after = timezone.now()
        assert before <= result.enqueued_at <= result.started_at
        assert result.started_at == result.last_attempted_at
        assert result.started_at <= result.finished_at <= after
        assert len(result.worker_ids) == result.attempts == 1
        assert result.worker_ids[0]

    @override_settings(USE_TZ=False)
    def test_times_are_naive_where_all_are(self, drain: Drain) -> None:
        before = timezone.now()
        result = self.done(drain, work.add, 1)
        assert before <= result.enqueued_at <= result.finished_at <= timezone.now()

    # The context.

    def test_a_task_may_ask_for_its_context(self, drain: Drain) -> None:
        result = self.done(drain, work.with_context, "hello")
        assert result.return_value == [
            *("hello", 1, result.id, "RUNNING", result.worker_ids)
        ]
        assert result.args == ["hello"]

    def test_so_may_a_coroutine(self, drain: Drain) -> None:
        assert self.done(drain, work.awith_context).return_value == [1, "RUNNING"]

    # What is refused.

    def test_only_functions_of_modules(self) -> None:
        def local() -> None: ...

        with pytest.raises(InvalidTask, match="module level"):
            task(local)
        with pytest.raises(InvalidTask, match="module level"):
            task(len)

    def test_a_context_needs_a_place(self) -> None:
        with pytest.raises(InvalidTask, match="context"):
            task(takes_context=True)(work.add.func)
        with pytest.raises(InvalidTask, match="context"):
            task(takes_context=True)(work.plain)

    @pytest.mark.parametrize("priority", [-101, 101, 0.5])
    def test_priorities_have_bounds(self, priority: float) -> None:
        with pytest.raises(InvalidTask, match="priority"):
            work.add.using(priority=priority)
        with pytest.raises(InvalidTask, match="priority"):
            task(priority=priority)(work.add.func)

    @pytest.mark.parametrize("priority", [-100, 0, 100])
    def test_priorities_within_them(self, drain: Drain, priority: int) -> None:
        result = self.done(drain, work.add.using(priority=priority), 1)
        assert result.status == Status.SUCCESSFUL
        assert result.task.priority == priority

    def test_queues_must_be_known(self) -> None:
        with pytest.raises(InvalidTask, match="unheard-of"):
            work.add.using(queue_name="unheard-of")
        with pytest.raises(InvalidTask, match="unheard-of"):
            task(queue_name="unheard-of")(work.add.func)

    def test_unless_the_backend_takes_any(self, drain: Drain) -> None:
        somewhere = work.add.using(backend="open", queue_name="unheard-of")
        result = somewhere.enqueue(1)
        drain()
        assert result.backend == "open"
        assert result.task.queue_name == "unheard-of"

    def test_a_task_is_judged_again_when_it_is_enqueued(self) -> None:
        mail = work.add.using(queue_name="mail")
        narrow = {**self.settings["default"], "QUEUES": ["default"]}
        with override_settings(TASKS={"default": narrow}):
            with pytest.raises(InvalidTask, match="mail"):
                mail.enqueue(1)
            with pytest.raises(InvalidTask, match="mail"):
                async_to_sync(mail.aenqueue)(1)

    def test_a_naive_time_is_no_time(self) -> None:
        if task_backends["default"].supports_defer:
            with pytest.raises(InvalidTask, match="aware"):
                work.add.using(run_after=datetime(2030, 1, 1))
        else:
            with pytest.raises(InvalidTask, match="run_after"):
                work.add.using(run_after=timezone.now())

    def test_using_leaves_the_task_as_it_is(self) -> None:
        changed = work.add.using(priority=3, queue_name="mail")
        assert (changed.priority, changed.queue_name) == (3, "mail")
        assert (work.add.priority, work.add.queue_name) == (0, "default")
        assert changed.func is work.add.func
        assert changed.name == "add"
        assert changed.module_path == "tests.tasks.work.add"

    # Who is told.

    def test_signals_of_a_success(self, drain: Drain, heard: Heard) -> None:
        self.done(drain, work.add, 1)
        assert heard.words() == ["enqueued", "started", "finished"]
        backend = type(task_backends["default"])
        assert all(sender is backend for _, sender, _ in heard)
        assert [status for *_, status in heard] == ["READY", "RUNNING", "SUCCESSFUL"]

    def test_signals_of_a_failure(self, drain: Drain, heard: Heard) -> None:
        self.done(drain, work.fails)
        assert [(what, status) for what, _, status in heard] == [
            *(("enqueued", "READY"), ("started", "RUNNING"), ("finished", "FAILED"))
        ]

    def test_signals_in_a_loop(self, drain: Drain, heard: Heard) -> None:
        async_to_sync(work.aadd.aenqueue)(1)
        drain()
        assert heard.words() == ["enqueued", "started", "finished"]

    def test_a_coroutine_may_listen(self, drain: Drain) -> None:
        heard = []

        async def receive(task_result: Any, **more: Any) -> None:
            await asyncio.sleep(0)
            heard.append(task_result.id)

        signals = installed.signals
        known = [signals.task_enqueued, signals.task_started, signals.task_finished]
        for signal in known:
            signal.connect(receive)
        try:
            result = work.add.enqueue(1)
            drain()
        finally:
            for signal in known:
                signal.disconnect(receive)
        assert heard == [result.id] * 3

    def test_the_log(self, drain: Drain, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG, installed.LOGGER):
            well = work.add.enqueue(1)
            drain()
            ill = work.fails.enqueue("oh no")
            drain()
        records = [each for each in caplog.records if each.name == installed.LOGGER]
        assert [(each.levelname, well.id in each.getMessage()) for each in records] == [
            *(("DEBUG", True), ("INFO", True), ("INFO", True)),
            *(("DEBUG", False), ("INFO", False), ("ERROR", False)),
        ]
        assert all("tests.tasks.work." in each.getMessage() for each in records)
        assert ill.id in records[-1].getMessage()
        assert records[-1].exc_info is not None
        assert isinstance(records[-1].exc_info[1], ValueError)
        assert not records[2].exc_info or records[2].exc_info[0] is None

    # Settings.

    def test_a_change_of_settings_makes_a_new_backend(self, backend: Any) -> None:
        assert task_backends["default"] is backend
        with override_settings(TASKS={**self.settings}):
            assert task_backends["default"] is not backend

    def test_the_checks_find_nothing(self, backend: Any) -> None:
        assert list(backend.check()) == []

    if django.VERSION >= (6, 1):

        def test_tasks_and_results_can_be_pickled(self, drain: Drain) -> None:
            changed = work.add.using(priority=3)
            assert pickle.loads(pickle.dumps(changed)) == changed
            result = self.done(drain, changed, 1, b=2)
            copy = pickle.loads(pickle.dumps(result))
            assert copy == result
            assert copy.return_value == 3
