"""Runs and waits by queue and job type, of the worker processes of a host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from prometheus_client.parser import text_string_to_metric_families

from django_qless.core import Client
from django_qless.job_types.current import CurrentJob
from django_qless.monitoring import timings
from tests.jobs_app.jobs import add
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
