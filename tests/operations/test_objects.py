"""The operator's view."""

from __future__ import annotations

import subprocess
import sys

import pytest

import django_qless
from django_qless import (
    config,
    failures,
    jobs,
    queues,
    recurring,
    tags,
    tracked,
    workers,
)
from django_qless.core import JobNotFound, ScheduleNotFound
from tests.jobs_app.jobs import add, failing


def test_queues(qless) -> None:
    add.using(queue="mail").delay(1)
    assert list(queues) == ["mail"]
    assert queues["mail"].counts().waiting == 1
    queues["mail"].pause()
    assert [(each.name, each.paused) for each in queues.counts()] == [("mail", True)]
    assert list(queues.using_alias("other")) == []


def test_jobs(qless, work) -> None:
    handle = add.delay(1)
    assert jobs[handle.jid] == handle
    assert handle.jid in jobs
    assert "nobody" not in jobs
    assert jobs.get("nobody") is None
    assert jobs.many(["nobody", handle.jid]) == [handle]
    with pytest.raises(
        JobNotFound, match="There is no job 'nobody' in alias 'default'"
    ):
        jobs["nobody"]
    with pytest.raises(LookupError):
        jobs.using_alias("other")[handle.jid]
    work()
    assert jobs[handle.jid].result() == 1


def test_the_rest(qless, work) -> None:
    handle = failing.using(tags=["t"]).delay("group", "text")
    add.using(tags=["t"]).delay(1)
    handle.track()
    assert tags.top() == ["t"]
    assert [job.jid for job in tracked.jobs().jobs] == [handle.jid]
    work()
    assert failures.groups() == {"group": 1}
    assert failures.unfail("group", "again") == 1
    assert [worker.name for worker in workers.counts()] == ["test-worker"]
    config.set("heartbeat", 30)
    assert config.get("heartbeat") == "30"
    assert config.using_alias("other").get("heartbeat") == 60
    qless.recur("q", "tick", "a.job", "{}", 60)
    assert recurring["tick"].every == 60
    with pytest.raises(ScheduleNotFound, match="no recurring job 'tock'"):
        recurring["tock"]
    assert repr(queues) == "<Queues of 'default'>"
    with pytest.raises(AttributeError):
        config.nonsense  # noqa: B018


def test_the_package_is_lazy() -> None:
    script = """
import sys
import django_qless.core, django_qless.worker.execution, django_qless.job_types.registry
import django_qless.job_types.current, django_qless.exceptions, django_qless.job_types.options
from django_qless import current_job, Retry, Fail
assert current_job() is None
loaded = {name.partition(".")[0] for name in sys.modules}
assert "django" not in loaded, sorted(loaded)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_names_of_the_package() -> None:
    for name in django_qless.__all__:
        assert getattr(django_qless, name) is not None
        assert name in dir(django_qless)
    with pytest.raises(AttributeError, match="no attribute 'jobz'"):
        django_qless.jobz  # noqa: B018
