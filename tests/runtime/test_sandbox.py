"""The sandbox of a job: there when it asks, gone when its run has ended."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from django_qless.job_types.current import CurrentJob
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.execution import Execution
from tests.jobs_app import jobs


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the sandboxes in these tests."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("job", [jobs.makes_files, jobs.amakes_files])
def test_a_job_has_one(qless, each_work, temporary: Path, job: Any) -> None:
    handle = job.delay()
    each_work()
    path, *content = handle.result()
    assert content == ["folder"]
    assert temporary in Path(path).parents
    assert not Path(path).exists()


def test_a_job_that_does_not_ask_has_none(qless, each_work, temporary: Path) -> None:
    jobs.add.delay(1)
    each_work()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("ending", ["raises", "exits", "times out", "retries"])
def test_it_is_removed_however_the_run_ends(
    qless, each_work, temporary: Path, ending: str
) -> None:
    jobs.seen_sandboxes.clear()
    timeout = 0.2 if ending == "times out" else None
    jobs.ends_in_sandbox.using(retries=1, backoff=0, timeout=timeout).delay(ending)
    assert each_work() == 2
    first, second = map(Path, jobs.seen_sandboxes)
    assert first != second
    assert first.parent.is_dir()
    assert not first.exists()
    assert not second.exists()


def test_the_job_of_a_class_has_the_same(qless, each_work) -> None:
    jobs.seen_sandboxes.clear()
    jobs.Digger.delay()
    each_work()
    [path] = jobs.seen_sandboxes
    assert not Path(path).exists()


def test_a_copy_of_the_process_does_not_remove_it(qless, work) -> None:
    """A job that forks, and returns twice."""
    jobs.forks_in_sandbox.delay()
    [reserved] = qless.settle("w", [], 1, ["default"]).jobs
    execution = Execution(DjangoEnvironment(), qless, "w")
    parent = os.getpid()
    outcome = execution.perform(reserved)
    if os.getpid() != parent:
        os._exit(0 if outcome else 1)
    assert outcome.args[0] == '"still there"'


def test_outside_of_a_worker_there_is_none(qless) -> None:
    job = CurrentJob(None, qless, "w")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="only a job that a worker runs"):
        job.sandbox  # noqa: B018
