"""Runs and waits by queue and job type, of the worker processes of a host."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.parser import text_string_to_metric_families

from django_qless.conf.connections import connections
from django_qless.core import Client, Settlement
from django_qless.job_types.current import CurrentJob
from django_qless.monitoring import timings
from tests.jobs_app.jobs import add
from tests.monitoring.conftest import Get
from tests.real_servers import Server

ROOT = Path(__file__).parents[2]

SETTINGS = """
import os
SECRET_KEY = "only for tests"
QLESS = {"default": {
    "LOCATION": os.environ["AT"],
    "MIDDLEWARE": ["django_qless.monitoring.timings.measure_runs",
                   "django_qless.monitoring.timings.measure_waits"],
}}
INSTALLED_APPS = ["django_qless", "shop"]
"""

JOBS = """
from django_qless import job

@job("mail")
def work():
    pass

@job("feeds")
async def awork():
    pass

@job("mail", retries=0)
def broken():
    raise ValueError
"""

PRINT = """
import django; django.setup()
from django_qless.monitoring.exposition import encoded
from django_qless.monitoring.timings import HostTimings
print(encoded(HostTimings(), "")[0].decode())
"""

ENQUEUE = """
import django; django.setup()
from shop.jobs import awork, broken, work
work.enqueue_many([work.args()] * 7)
awork.enqueue_many([awork.args()] * 3)
broken.delay()
"""


@pytest.mark.parametrize("pool", ["prefork", "coroutines"])
def test_all_processes_of_a_host_count_and_are_added_up(
    server: Server, tmp_path: Path, pool: str
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "jobs.py").write_text(JOBS)
    (tmp_path / "shop_settings.py").write_text(SETTINGS)
    files = tmp_path / "files"
    files.mkdir()
    environment = {
        **os.environ,
        "AT": server.url,
        "PROMETHEUS_MULTIPROC_DIR": str(files),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
        "DJANGO_SETTINGS_MODULE": "shop_settings",
    }

    def run(*words: str) -> str:
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    # Two workers, one after the other: what the first has counted stays.
    for _ in range(2):
        run("-c", ENQUEUE)
        run("-m", "django", "qless_worker", "--burst", "--pool", pool, "--no-reload")
    found = {
        (sample.name, sample.labels["queue"], sample.labels["job"]): sample.value
        for family in text_string_to_metric_families(run("-c", PRINT))
        for sample in family.samples
        if "le" not in sample.labels
    }
    numbers = {("mail", "work"): 14, ("feeds", "awork"): 6, ("mail", "broken"): 2}
    for (queue, name), number in numbers.items():
        key = queue, f"shop.jobs.{name}"
        assert found[("qless_job_run_seconds_count", *key)] == number
        assert found[("qless_job_wait_seconds_count", *key)] == number
        assert found[("qless_job_run_seconds_sum", *key)] > 0
        assert found[("qless_job_wait_seconds_sum", *key)] > 0
    assert found["qless_job_exceptions_total", "mail", "shop.jobs.broken"] == 2
    assert ("qless_job_exceptions_total", "mail", "shop.jobs.work") not in found


def test_without_a_folder_it_is_not_used(
    qless: Client, work: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.delenv(timings.FOLDER, raising=False)
    names = ["measure_runs", "measure_waits"]
    paths = [f"django_qless.monitoring.timings.{name}" for name in names]
    default = {**settings.QLESS["default"], "MIDDLEWARE": paths}
    with override_settings(QLESS={**settings.QLESS, "default": default}):
        handle = add.using(result_ttl=60).delay(20, 1)
        work()
        assert handle.result() == 21
    for name in names:
        words = f"{name} counts nothing: PROMETHEUS_MULTIPROC_DIR names no folder"
        assert words in caplog.text


def held(client: Client, queue: str) -> CurrentJob:
    """A job of this queue as the worker that runs it has it."""
    add.using(queue=queue).delay(1)
    [reserved] = client.settle("w", [], 1, [queue]).jobs
    return CurrentJob(reserved, client, "w")


def test_queues_beyond_the_first_ones_share_a_name(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timings, "_queues", set())
    monkeypatch.setattr(timings, "MOST_QUEUES", 2)
    found = [timings.labels_of(held(qless, queue)) for queue in ("a", "b", "c", "a")]
    assert found == [(queue, add.name) for queue in ("a", "b", "(others)", "a")]


def test_a_job_that_is_gone_has_no_wait(qless: Client) -> None:
    def counted(queue: str) -> float | None:
        labels = {"queue": queue, "job": add.name}
        name = "qless_job_wait_seconds_count"
        return timings._registry.get_sample_value(name, labels)

    gone, here = held(qless, "gone"), held(qless, "here")
    qless.cancel(gone.jid)
    qless.redis.delete(f"ql:canceled:{gone.jid}")
    for job in (gone, here):
        timings.count_wait(job)
    assert (counted("gone"), counted("here")) == (None, 1)


def written(folder: Path, name: str, value: float) -> None:
    """Write a counter as a process of this host does."""
    file = MmapedDict(str(folder / f"counter_{name}.db"))
    file.write_value(
        mmap_key(name, f"{name}_total", [], [], "What is counted."), value, 0
    )
    file.close()


def test_only_timings_of_jobs_are_told(
    get: Get, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "qless_job_exceptions", 3)
    written(tmp_path, "of_the_project", 4)
    monkeypatch.setenv(timings.FOLDER, str(tmp_path))
    text = get("timings").text
    assert "qless_job_exceptions_total 3.0" in text
    assert "of_the_project" not in text
    for nowhere in (str(tmp_path / "nowhere"), str(tmp_path / "counter_1.db"), ""):
        monkeypatch.setenv(timings.FOLDER, nowhere)
        response = get("timings")
        assert (response.status_code, response.text.strip()) == (200, ""), nowhere


def counted(name: str, queue: str) -> float | None:
    """Return what this process has counted of jobs of a queue."""
    labels = {"queue": queue, "job": add.name}
    return timings._registry.get_sample_value(f"qless_job_{name}", labels)


@pytest.mark.parametrize("is_async", [False, True])
def test_runs_that_raise_are_counted_among_all(
    qless: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setenv(timings.FOLDER, str(tmp_path))
    queue = f"counts-{is_async}"
    job = held(qless, queue)
    outcomes: list[Any] = [1, SystemExit(), ValueError(), 2]

    def run(job: CurrentJob) -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def arun(job: CurrentJob) -> Any:
        return run(job)

    measured: Any = timings.measure_runs(arun if is_async else run)
    found: list[Any] = []
    for _ in range(4):
        try:
            found.append(asyncio.run(measured(job)) if is_async else measured(job))
        except (SystemExit, ValueError) as error:
            found.append(type(error))
    assert found == [1, SystemExit, ValueError, 2]
    assert counted("run_seconds_count", queue) == 4
    assert counted("exceptions_total", queue) == 2


def test_the_wait_is_that_of_the_present_attempt(qless: Client) -> None:
    job = held(qless, "again")
    end = Settlement(job.jid, job.reserved.token, "retry", (0, "group", "message"))
    qless.settle("w", [end], 0, [])
    [reserved] = qless.settle("w", [], 1, ["again"]).jobs
    history = f"ql:j:{job.jid}-history"
    # As if the first attempt had had to wait for an hour.
    when, what, *rest = json.loads(qless.redis.lindex(history, 0))
    assert what == "put"
    qless.redis.lset(history, 0, json.dumps([when - 3600, what, *rest]))
    timings.count_wait(CurrentJob(reserved, qless, "w"))
    assert counted("wait_seconds_count", "again") == 1
    waited = counted("wait_seconds_sum", "again")
    assert waited is not None
    assert 0 <= waited < 1800


def test_a_wait_that_is_not_known_delays_no_job(qless: Client) -> None:
    job = held(qless, "away")
    gone = {"default": {"LOCATION": "unix:///nowhere/at/all"}}
    with override_settings(QLESS=gone):
        away = CurrentJob(job.reserved, connections.impatient("default"), "w")
        timings.count_wait(away)
    assert counted("wait_seconds_count", "away") is None
