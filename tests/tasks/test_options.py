"""Options of ours for Tasks: of a backend, of a declaration, of one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

from django_qless import job, jobs
from django_qless.job_types.options import KNOWN
from django_qless.job_types.registry import registry
from django_qless.tasks.task import OURS
from tests.jobs_app.jobs import add
from tests.tasks import installed, work
from tests.tasks.conftest import Heard, tasks_setting
from tests.tasks.installed import InvalidTask, Status, task, task_backends

# What Django spells otherwise, or has no use for: a Task runs on no row, and the id and
# the data of an app are not the caller's to choose.
NOT_OURS = {
    *("queue", "alias", "priority", "delay", "run_at", "on_commit", "jid"),
    *("missing", "app_data", "entity", "batch_size"),
}


def refreshed(result: Any) -> Any:
    result.refresh()
    return result


@contextmanager
def rolled_back() -> Iterator[None]:
    """Make a transaction, or a savepoint in one, that is rolled back at its end."""
    with suppress(RuntimeError), transaction.atomic():
        yield
        raise RuntimeError


@pytest.mark.usefixtures("qless")
class TestOfTheDeclaration:
    def test_all_options_are_there(self) -> None:
        assert {"aliases", "enqueue_on_commit"} | (KNOWN - NOT_OURS) == set(OURS)

    def test_they_reach_the_job(self, qless, drain) -> None:
        result = work.with_options.enqueue()
        job = jobs[result.id]
        assert job.tags == ["slow"]
        assert job.retries == 2
        drain()
        assert refreshed(result).return_value == {"tags": ["slow"], "retries": 2}
        assert result.task is work.with_options

    def test_a_call_changes_them(self, qless) -> None:
        changed = work.with_options.using(
            retries=9, tags=["quick"], timeout=timedelta(seconds=5), priority=1
        )
        assert work.with_options.retries == 2
        result = changed.enqueue()
        job = jobs[result.id]
        assert (job.tags, job.retries, job.priority) == (["quick"], 9, 1)
        assert qless.get(result.id).context == {"options": {"timeout": 5.0}}
        read = work.with_options.get_result(result.id)
        assert read.task.timeout == 5.0

    def test_the_copy_stays_what_it_is(self) -> None:
        changed = work.with_options.using(retries=9).using(backend="default")
        assert type(changed) is type(work.with_options)
        assert changed.retries == 9

    def test_a_task_cannot_be_changed(self) -> None:
        with pytest.raises(FrozenInstanceError):
            work.with_options.retries = 3

    def test_unknown_ones(self) -> None:
        with pytest.raises(TypeError, match="retrys"):
            task(retrys=3)(work.plain)
        with pytest.raises(TypeError, match=r"retrys.*There are priority.*retries"):
            work.add.using(retrys=3)

    @pytest.mark.parametrize(
        "bad", [{"retries": -1}, {"timeout": 0}, {"timeout": 9, "hard_timeout": 1}]
    )
    def test_bad_ones(self, bad: dict[str, Any]) -> None:
        with pytest.raises(InvalidTask, match=r"tests\.tasks\.work\.plain"):
            task(**bad)(work.plain)
        with pytest.raises(InvalidTask, match=r"tests\.tasks\.work\.add"):
            work.add.using(**bad)

    def test_what_belongs_to_the_code(self) -> None:
        with pytest.raises(InvalidTask, match="belongs to the job's code"):
            work.add.using(fail_on=[ValueError])

    def test_a_list_among_them(self, qless) -> None:
        result = work.add.using(tags=["a", "b"], backoff=[1, 2]).enqueue(1)
        assert jobs[result.id].tags == ["a", "b"]

    def test_the_name_of_a_job_is_taken(self) -> None:
        def taken() -> None: ...

        taken.__module__, taken.__qualname__ = work.__name__, "taken"
        job(name=f"{work.__name__}.taken")(work.plain)
        try:
            with pytest.raises(InvalidTask, match="taken"):
                task(taken)
        finally:
            del registry._types[f"{work.__name__}.taken"]

    def test_what_no_job_can_wait_for(self, qless) -> None:
        elsewhere = add.using(alias="other").delay(1)
        with pytest.raises(InvalidTask, match="'other'"):
            work.add.using(after=[elsewhere]).enqueue(1)
        assert qless.queues() == []

    def test_any_number_of_them(self, qless, monkeypatch) -> None:
        monkeypatch.setattr("django_qless.tasks.backend.MAX_PLANS", 2)
        for priority in (1, 2, 3, 1, 2, 3):
            result = work.add.using(priority=priority).enqueue(1)
            assert jobs[result.id].priority == priority
        assert len(task_backends["default"]._plans) <= 2

    def test_it_is_shown_shortly(self) -> None:
        assert "retries" not in repr(work.add)
        assert "add" in repr(work.add)

    def test_a_former_name(self, qless, drain) -> None:
        renamed = task(aliases=["shop.tasks.old"])(work.renamed)
        qless.put("", "default", "x", "shop.tasks.old", '{"v":1}')
        drain()
        assert renamed.get_result("x").status == Status.SUCCESSFUL


class TestUnique:
    def test_a_second_one_is_the_first(self, qless, drain, heard: Heard) -> None:
        first = work.only_one.enqueue(1)
        again = work.only_one.enqueue(a=1, b=1)
        other = work.only_one.enqueue(2)
        assert again.id == first.id != other.id
        assert again.enqueued_at == first.enqueued_at
        assert heard.words() == ["enqueued"] * 2
        drain()
        assert refreshed(again).return_value == 2
        assert work.only_one.enqueue(1).id != first.id

    def test_in_a_loop(self, qless) -> None:
        first = async_to_sync(work.only_one.aenqueue)(1)
        assert async_to_sync(work.only_one.aenqueue)(1).id == first.id

    def test_by_a_name(self, qless) -> None:
        named = work.echo.using(unique="name")
        assert named.enqueue(1).id == named.enqueue(2).id

    def test_by_a_function(self, qless) -> None:
        by_first = work.echo.using(unique=lambda first, rest: first)
        assert by_first.enqueue("a", 1).id == by_first.enqueue("a", 2).id
        assert by_first.enqueue("b", 1).id != by_first.enqueue("a", 2).id


class TestDependencies:
    def test_after_another_task(self, qless, drain) -> None:
        first = work.note.enqueue("first")
        second = work.note.using(after=first, priority=50).enqueue("second")
        assert refreshed(second).status == Status.READY
        assert jobs[second.id].dependencies == [first.id]
        drain()
        assert work.noted == ["first", "second"]

    def test_after_jobs_and_ids(self, qless) -> None:
        first, second = work.note.enqueue("1"), work.note.enqueue("2")
        third = work.note.using(
            after=[first, jobs[second.id], second.id], on_failure="run"
        ).enqueue("3")
        assert set(jobs[third.id].dependencies) == {first.id, second.id}


@pytest.mark.django_db(transaction=True)
class TestCommits:
    def test_a_task_does_not_wait(self, qless, drain) -> None:
        with transaction.atomic():
            result = work.add.enqueue(1)
            assert result.enqueued_at is not None
            assert refreshed(result).status == Status.READY
            drain()
        assert refreshed(result).return_value == 2

    @pytest.mark.parametrize("way", [True, "default"])
    def test_unless_the_backend_says_so(self, qless, heard: Heard, way: Any) -> None:
        with override_settings(TASKS=tasks_setting(enqueue_on_commit=way)):
            with transaction.atomic():
                result = work.add.enqueue(1)
                assert result.status == Status.READY
                assert result.enqueued_at is None
                assert result.id
                assert heard == []
                with pytest.raises(installed.TaskResultDoesNotExist):
                    result.refresh()
            assert heard.words() == ["enqueued"]
            assert result.enqueued_at is not None
            assert refreshed(result).status == Status.READY

    def test_or_the_task(self, qless, heard: Heard) -> None:
        with transaction.atomic():
            result = work.add.using(enqueue_on_commit=True).enqueue(1)
            assert qless.get(result.id) is None
        assert qless.get(result.id) is not None
        with (
            override_settings(TASKS=tasks_setting(enqueue_on_commit=True)),
            transaction.atomic(),
        ):
            result = work.add.using(enqueue_on_commit=False).enqueue(1)
            assert qless.get(result.id) is not None

    def test_another_database(self, qless) -> None:
        with override_settings(TASKS=tasks_setting(enqueue_on_commit="other")):
            with transaction.atomic():
                result = work.add.enqueue(1)
                assert qless.get(result.id) is not None
            with transaction.atomic(using="other"):
                result = work.add.enqueue(1)
                assert qless.get(result.id) is None
            assert qless.get(result.id) is not None

    test_another_database.pytestmark = [  # type: ignore[attr-defined]
        pytest.mark.django_db(transaction=True, databases=["default", "other"])
    ]

    def test_a_rollback_enqueues_nothing(self, qless, heard: Heard) -> None:
        waiting = work.add.using(enqueue_on_commit=True)
        with rolled_back():
            result = waiting.enqueue(1)
        assert qless.get(result.id) is None
        assert heard == []

    def test_nor_does_that_of_a_savepoint(self, qless, heard: Heard) -> None:
        waiting = work.add.using(enqueue_on_commit=True)
        with transaction.atomic():
            with rolled_back():
                lost = waiting.enqueue(1)
            kept = waiting.enqueue(1)
        assert qless.get(lost.id) is None
        assert qless.get(kept.id) is not None
        assert heard.words() == ["enqueued"]


class TestOfTheBackend:
    def test_defaults_of_all_its_tasks(self, qless) -> None:
        with override_settings(TASKS=tasks_setting(retries=7, tags=["all"], timeout=3)):
            result = work.add.enqueue(1)
            assert jobs[result.id].retries == 7
            assert jobs[result.id].tags == ["all"]
            own = work.with_options.enqueue()
            assert jobs[own.id].retries == 2

    def test_another_alias(self, qless, drain) -> None:
        with override_settings(TASKS=tasks_setting(alias="other")):
            result = work.add.enqueue(1)
            assert qless.get(result.id) is None
            assert drain() == 0
            assert drain(alias="other") == 1
            assert refreshed(result).return_value == 2

    def test_a_second_backend(self, qless, drain) -> None:
        result = work.add.using(backend="open", queue_name="anywhere").enqueue(1)
        assert result.backend == "open"
        drain()
        found = task_backends["open"].get_result(result.id)
        assert found.backend == "open"
        assert found.task == result.task
        assert found.return_value == 2

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"retrys": 1}, "Did you mean 'retries'"),
            ({"retries": "many"}, "a whole number"),
            ({"enqueue_on_commit": 3}, "enqueue_on_commit must be"),
            ({"TASK_MODULES": "shop"}, "a list of modules"),
            ({"timeout": 9, "hard_timeout": 1}, "exceeds"),
        ],
    )
    def test_bad_ones_are_found(self, qless, options: Any, words: str) -> None:
        with override_settings(TASKS=tasks_setting(**options)):
            [error] = task_backends["default"].check()
            assert error.id == "django_qless.E102"
            assert words in f"{error.msg} {error.hint}"
            assert "TASKS['default']" in error.msg
            # Modules with Tasks can be imported all the same.
            task(work.plain)
            with pytest.raises(
                installed.InvalidTaskBackend, match=r"TASKS\['default'\]"
            ):
                work.add.enqueue(1)

    def test_options_that_are_none(self, qless) -> None:
        setting = {"default": {"BACKEND": installed.QLESS, "OPTIONS": ["alias"]}}
        with override_settings(TASKS=setting):
            [error] = task_backends["default"].check()
            assert "a dict" in error.msg

    def test_an_alias_that_does_not_exist(self, qless) -> None:
        with override_settings(TASKS=tasks_setting(alias="nowhere")):
            [error] = task_backends["default"].check()
            assert error.id == "django_qless.E103"
            assert "'nowhere'" in error.msg
            assert "'other'" in error.hint

    def test_an_alias_is_not_looked_for_where_all_are_wrong(self, settings) -> None:
        backend = task_backends["default"]
        settings.QLESS = "redis://"
        assert backend.check() == []

    def test_an_app_that_is_not_installed(self, qless, settings) -> None:
        settings.INSTALLED_APPS = [
            app for app in settings.INSTALLED_APPS if app != "django_qless"
        ]
        [error] = task_backends["default"].check()
        assert error.id == "django_qless.E101"
