"""QLESS_ROUTES: which alias a queue is in, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError
from django.test import override_settings

from django_qless import current_job, entities, job, jobs, queues, workflow
from django_qless.conf.connections import connections
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.operations.objects import failures
from django_qless.schedules.declared import sync_schedules
from django_qless.testing import captured_jobs, run_jobs
from tests.jobs_app.jobs import add, failing
from tests.management.commands import data, run
from tests.real_servers import Server
from tests.schedules.declaring import declaring
from tests.tasks import installed, work

ROUTES = {"mail": "mail", "report.*": "reports"}
BACKEND = {"BACKEND": installed.QLESS, "QUEUES": []}


@job("mail")
def send(number: int) -> int:
    return number


@job
def plain() -> str:
    return "plain"


@job(after="plain", name="routes.after_plain")
def after_plain() -> None:
    """Comes after a job; `.using(queue=…)` leads it to another alias."""


@job("mail", entity=True)
def deliver(entities: dict[str, list[Any]]) -> None:
    """Has entities in a routed queue."""


@job("mail", retries=0)
def moving(queue: str) -> None:
    job = current_job()
    assert job is not None
    job.move_to(queue)


@job("mail", retries=0)
def spawning(queue: str) -> None:
    job = current_job()
    assert job is not None
    job.spawn([add.using(queue=queue, alias=None).args(1)])


@pytest.fixture(autouse=True)
def aliases(server: Server) -> Iterator[None]:
    """Three aliases, each on a namespace of one server, and the routes to them."""
    settings = {
        "default": {"LOCATION": server.url},
        "mail": {"LOCATION": server.url, "PREFIX": "ql-mail:"},
        "reports": {"LOCATION": server.url, "PREFIX": "ql-r:"},
    }
    tasks = {"default": BACKEND}
    with override_settings(QLESS=settings, QLESS_ROUTES=ROUTES, TASKS=tasks):
        yield
        connections.forget()


def waiting(queue: str) -> list[str]:
    """Return the aliases in which a job of this queue waits."""
    return [
        alias for alias in connections if connections[alias].queue_counts(queue).waiting
    ]


def problems(**settings: Any) -> list[str]:
    """Return what the system checks find in these settings."""
    with override_settings(**settings):
        found = run_checks(tags=["qless"])
    numbers = ("E047", "E048", "E049")
    return [f"{each.id} {each.msg}" for each in found if str(each.id).endswith(numbers)]


@pytest.mark.parametrize(
    ("queue", "alias"),
    [
        ("mail", "mail"),
        ("report.x", "reports"),
        ("report.", "reports"),
        ("mail.x", "default"),
        ("other", "default"),
    ],
)
def test_job_goes_to_the_alias_of_its_queue(queue: str, alias: str) -> None:
    handle = add.using(queue=queue).delay(1, 2)
    assert handle.alias == alias
    assert waiting(queue) == [alias]
    run_jobs()
    assert handle.result() == 3


def test_first_matching_pattern_wins() -> None:
    with override_settings(QLESS_ROUTES={"m*": "reports", "mail": "mail"}):
        assert send.delay(1).alias == "reports"


def test_given_alias_wins_over_the_route() -> None:
    handle = send.using(alias="default").delay(1)
    assert handle.alias == "default"
    # Its queue is in the alias that was named, so it can be moved within.
    handle.move("mail")
    assert waiting("mail") == ["default"]


def test_changed_route_counts_for_new_jobs() -> None:
    send.delay(1)
    with override_settings(QLESS_ROUTES={}):
        send.delay(2)
        assert waiting("mail") == ["default", "mail"]
        # What was left is run where it is.
        assert sorted(run.result for run in run_jobs()) == [1, 2]


def test_enqueue_many_sends_each_job_to_its_alias() -> None:
    names = ["mail", "q", "report.a", "mail"]
    handles = add.enqueue_many(add.using(queue=name).args(1) for name in names)
    assert [each.alias for each in handles] == ["mail", "default", "reports", "mail"]
    assert connections["mail"].queue_counts("mail").waiting == 2


def test_entities_of_a_routed_queue() -> None:
    deliver.push("o-1", {"a": 1})
    assert entities["mail"].counts().queued == 1
    assert entities.using_alias("default")["mail"].counts().queued == 0
    run_jobs()
    assert entities["mail"].counts().queued == 0


def test_queue_objects_are_in_the_alias_of_the_queue() -> None:
    send.delay(1)
    assert queues["mail"].counts().waiting == 1
    assert queues.using_alias("default")["mail"].counts().waiting == 0
    assert [each.name for each in jobs.list(queue="mail").handles] == [send.name]


def test_job_is_looked_for_in_one_alias() -> None:
    handle = send.delay(1)
    assert jobs.get(handle.jid) is None
    assert jobs.using_alias("mail")[handle.jid].state == "waiting"


def test_task_of_a_routed_queue() -> None:
    result = work.add.using(queue_name="mail").enqueue(1, 2)
    assert waiting("mail") == ["mail"]
    run_jobs()
    result.refresh()
    assert result.return_value == 3
    with pytest.raises(installed.TaskResultDoesNotExist, match="'default'"):
        installed.task_backends["default"].get_result(result.id)


def test_alias_of_a_tasks_backend_counts_as_given() -> None:
    options = {**BACKEND, "OPTIONS": {"alias": "default"}}
    with override_settings(TASKS={"default": options}):
        work.add.using(queue_name="mail").enqueue(1)
    assert waiting("mail") == ["default"]


def test_schedules_of_a_routed_queue() -> None:
    handle = send.recur(3, every=60)
    assert handle.alias == "mail"
    with declaring() as declare:
        declare(plain.name, every=60, queue="report.x")
        assert sync_schedules("reports").added == [plain.name]
        assert sync_schedules("default").added == []
    send.unrecur()
    assert connections["mail"].schedule_get(handle.id) is None


def test_workflow_in_one_alias() -> None:
    flow = workflow("w")
    first = flow.add(send.args(1))
    flow.add(add.using(queue="mail").args(1), after=[first])
    handle = flow.enqueue()
    assert handle.alias == "mail"
    run_jobs()
    assert handle.refresh().state == "complete"


class TestRefusals:
    """Each names both aliases, and writes nothing."""

    def test_dependency_in_another_alias(self) -> None:
        handle = send.delay(1)
        with pytest.raises(InvalidOption, match=r"'mail'.*'default'"):
            plain.using(after=[handle]).delay()
        assert waiting("default") == []

    def test_named_dependency_in_another_alias(self) -> None:
        with pytest.raises((InvalidOption, InvalidJob), match=r"'default'.*'mail'"):
            after_plain.using(queue="mail").delay()

    def test_workflow_of_two_aliases(self) -> None:
        flow = workflow("w")
        flow.add(send.args(1))
        with pytest.raises(InvalidOption, match=r"'mail'.*'default'"):
            flow.add(plain.args())

    def test_move_to_another_alias(self) -> None:
        handle = send.delay(1)
        with pytest.raises(InvalidOption, match=r"'mail'.*'reports'"):
            handle.move("report.x")
        assert handle.refresh().queue == "mail"
        handle.move("unrouted")
        assert (handle.refresh().queue, waiting("unrouted")) == ("unrouted", ["mail"])

    def test_move_to_of_a_running_job(self) -> None:
        handle = moving.delay("report.x")
        run_jobs(raise_failures=False)
        failure = handle.refresh().failure
        assert failure is not None
        assert "'reports'" in failure.message
        handle = moving.delay("unrouted")
        run_jobs("mail")
        assert waiting("unrouted") == ["mail"]

    def test_spawn_in_another_alias(self) -> None:
        handle = spawning.delay("report.x")
        run_jobs(raise_failures=False)
        failure = handle.refresh().failure
        assert failure is not None
        assert "'mail'" in failure.message
        assert "'reports'" in failure.message

    def test_schedule_edited_into_another_alias(self) -> None:
        handle = send.recur(1, every=60)
        with pytest.raises(InvalidOption, match=r"'mail'.*'reports'"):
            handle.update(queue="report.x")

    def test_failed_jobs_into_another_alias(self) -> None:
        failing.using(queue="mail", retries=0).delay("g", "m")
        run_jobs(raise_failures=False)
        with pytest.raises(InvalidOption, match=r"'mail'.*'reports'"):
            failures.using_alias("mail").unfail("g", "report.x")


class TestCommands:
    def test_queue_names_say_the_alias(self) -> None:
        send.delay(1)
        run("qless_queue", "pause", "mail")
        assert queues["mail"].counts().paused
        [found] = data("qless_jobs", "list", "--queue", "mail")["jobs"]
        assert found["queue"] == "mail"
        assert data("qless_jobs", "list")["jobs"] == []

    def test_alias_option_wins(self) -> None:
        run("qless_queue", "pause", "mail", "--alias", "reports")
        assert not queues["mail"].counts().paused
        assert queues.using_alias("reports")["mail"].counts().paused

    def test_queues_of_several_aliases_are_refused(self) -> None:
        with pytest.raises(CommandError, match=r"mail in mail.*report\.x in reports"):
            run("qless_queue", "pause", "mail", "report.x")
        assert not queues["mail"].counts().paused


class TestChecks:
    def test_sound_routes_pass(self) -> None:
        assert problems() == []

    @pytest.mark.parametrize(
        ("routes", "words"),
        [
            (["mail"], "E047 QLESS_ROUTES must be a dict"),
            ({"mail": 1}, "E047 QLESS_ROUTES: 'mail': 1"),
            ({"mail": "mars"}, "E047 QLESS_ROUTES: 'mail' leads to alias 'mars'"),
            ({"m*": "mail", "mail": "reports"}, "E048 QLESS_ROUTES: 'mail'"),
            ({"a?": "mail", "a*": "reports"}, ""),
            ({"a*": "mail", "a?": "reports"}, "E048 QLESS_ROUTES: 'a?'"),
        ],
    )
    def test_wrong_routes(self, routes: Any, words: str) -> None:
        found = problems(QLESS_ROUTES=routes)
        assert len(found) == bool(words)
        assert all(words in each for each in found)

    @pytest.mark.parametrize(
        "options",
        [
            {"QUEUES": {"mail": {"heartbeat": 9}}},
            {"QUEUES": {"q": {"failed_queue": "mail"}}},
            {"CONFIG": {"q-failed-queue": "mail"}},
        ],
    )
    def test_queue_declared_in_another_alias(
        self, server: Server, options: dict[str, Any]
    ) -> None:
        settings = {
            "default": {"LOCATION": server.url, **options},
            "mail": {"LOCATION": server.url, "PREFIX": "ql-mail:"},
        }
        routes = {"mail": "mail"}
        [found] = problems(QLESS=settings, QLESS_ROUTES=routes)
        assert found.startswith("django_qless.E049 QLESS['default']")
        assert "alias 'mail'" in found

    def test_unusable_routes_stop_the_first_job(self) -> None:
        with (
            override_settings(QLESS_ROUTES="mail"),
            pytest.raises(ImproperlyConfigured, match="QLESS_ROUTES must be a dict"),
        ):
            send.delay(1)


def test_captured_jobs_know_their_alias() -> None:
    with captured_jobs() as captured:
        send.delay(1)
    assert [each.handle.alias for each in captured] == ["mail"]
