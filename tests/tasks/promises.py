"""Contract of a backend for Django's Tasks that stores them."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from datetime import timezone as zones
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings
from django.utils import timezone

from tests.real_servers import poll
from tests.tasks import installed, work
from tests.tasks.conformance import Conformance, Drain
from tests.tasks.conftest import Heard
from tests.tasks.installed import Status, task, task_backends


class Promises(Conformance):
    """For a backend with all four `supports_` flags."""

    def test_its_flags(self, backend: Any) -> None:
        assert backend.supports_defer
        assert backend.supports_async_task
        assert backend.supports_get_result
        assert backend.supports_priority

    @pytest.mark.parametrize(
        "one", [work.interrupted, work.ainterrupted], ids=["sync", "async"]
    )
    def test_a_keyboard_interrupt(self, drain: Drain, one: Any) -> None:
        result = self.done(drain, one)
        assert result.status == Status.FAILED
        assert result.attempts == 1
        assert result.errors[0].exception_class is KeyboardInterrupt

    # Results.

    @pytest.mark.parametrize("one", [work.add, work.aadd], ids=["sync", "async"])
    def test_a_result_waits(self, drain: Drain, one: Any) -> None:
        result = one.enqueue(1)
        assert result.status == Status.READY
        assert not result.is_finished
        assert result.enqueued_at is not None
        assert result.started_at is result.finished_at is None
        assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
        with pytest.raises(ValueError, match="not finished"):
            _ = result.return_value
        drain()
        assert result.status == Status.READY
        result.refresh()
        assert result.status == Status.SUCCESSFUL

    def test_a_result_can_be_got(self, drain: Drain, backend: Any) -> None:
        result = work.add.enqueue(1, b=2)
        assert work.add.get_result(result.id) == result
        assert backend.get_result(result.id) == result
        drain()
        result.refresh()
        found = work.add.get_result(result.id)
        assert found == result
        assert found.return_value == 3

    def test_and_in_a_loop(self, drain: Drain, backend: Any) -> None:
        result = work.add.enqueue(1, b=2)
        assert async_to_sync(work.add.aget_result)(result.id) == result
        drain()
        async_to_sync(result.arefresh)()
        assert result.return_value == 3
        assert async_to_sync(backend.aget_result)(result.id) == result

    def test_from_a_task_with_other_options(self) -> None:
        result = work.add.using(priority=9, queue_name="mail").enqueue(1)
        found = work.add.get_result(result.id)
        assert found == result
        assert (found.task.priority, found.task.queue_name) == (9, "mail")

    @pytest.mark.parametrize(
        "unknown", ["", "123", "x" * 64, "x" * 1000, "\ud800", str(uuid.UUID(int=7))]
    )
    def test_a_result_that_does_not_exist(self, backend: Any, unknown: str) -> None:
        missing = installed.TaskResultDoesNotExist
        with pytest.raises(missing):
            work.add.get_result(unknown)
        with pytest.raises(missing):
            async_to_sync(work.add.aget_result)(unknown)
        with pytest.raises(missing):
            backend.get_result(unknown)

    def test_a_result_of_another_task(self) -> None:
        result = work.add.enqueue(1)
        with pytest.raises(installed.TaskResultMismatch):
            work.aadd.get_result(result.id)
        with pytest.raises(installed.TaskResultMismatch):
            async_to_sync(work.aadd.aget_result)(result.id)

    def test_a_running_task_is_seen_to_run(self, drain: Drain, heard: Heard) -> None:
        seen = []

        def look(task_result: Any, **more: Any) -> None:
            now = task_backends["default"].get_result(task_result.id)
            seen.append((now.status, now.attempts, now.started_at >= now.enqueued_at))

        installed.signals.task_started.connect(look)
        try:
            work.add.enqueue(1)
            drain()
        finally:
            installed.signals.task_started.disconnect(look)
        assert seen == [(Status.RUNNING, 1, True)]

    # Order and time.

    def test_higher_priorities_come_first(self, drain: Drain) -> None:
        for priority in (0, -100, 5, 100, -1):
            work.note.using(priority=priority).enqueue(str(priority))
        drain()
        assert work.noted == ["100", "5", "0", "-1", "-100"]

    def test_at_one_priority_the_first_comes_first(self, drain: Drain) -> None:
        for number in range(20):
            work.note.enqueue(str(number))
        drain()
        assert work.noted == [str(number) for number in range(20)]

    def test_a_task_waits_for_its_time(self, drain: Drain) -> None:
        later = timezone.now() + timedelta(hours=1)
        result = work.add.using(run_after=later).enqueue(1)
        assert result.status == Status.READY
        drain()
        result.refresh()
        assert result.status == Status.READY
        assert result.attempts == 0
        found = work.add.get_result(result.id)
        assert found.task.run_after == later
        assert found == result

    def test_and_runs_then(self, drain: Drain) -> None:
        soon = timezone.now() + timedelta(milliseconds=50)
        result = work.add.using(run_after=soon).enqueue(1)
        poll(drain, what="the Task is due")
        result.refresh()
        assert result.status == Status.SUCCESSFUL
        assert result.started_at >= soon

    def test_a_time_that_has_passed(self, drain: Drain) -> None:
        past = timezone.now() - timedelta(days=1)
        result = self.done(drain, work.add.using(run_after=past), 1)
        assert result.status == Status.SUCCESSFUL
        assert result.task.run_after == past

    def test_any_time_zone_will_do(self, drain: Drain) -> None:
        zone = zones(timedelta(hours=9))
        past = datetime.now(zone) - timedelta(minutes=1)
        future = datetime.now(zone) + timedelta(hours=1)
        done = work.add.using(run_after=past).enqueue(1)
        waits = work.add.using(run_after=future).enqueue(1)
        drain()
        assert self.latest(done).is_finished
        assert not self.latest(waits).is_finished

    @override_settings(USE_TZ=False)
    def test_naive_times_where_all_are(self, drain: Drain) -> None:
        past = timezone.now() - timedelta(minutes=1)
        future = timezone.now() + timedelta(hours=1)
        done = work.add.using(run_after=past).enqueue(1)
        waits = work.add.using(run_after=future).enqueue(1)
        drain()
        assert self.latest(done).is_finished
        assert not self.latest(waits).is_finished
        assert work.add.get_result(waits.id).task.run_after == future

    def test_a_run_after_cannot_be_declared(self) -> None:
        with pytest.raises(TypeError, match="run_after"):
            task(run_after=timezone.now())(work.plain)
