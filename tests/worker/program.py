"""A worker of the smallest project, as a program.

    python -m tests.worker.program '{"url": "unix://…", "queues": ["a"], …}'

Besides the options of a worker: `limits`, options of the
project's queues; `jobs`, another module of jobs; `announcements` and `batches`, ledgers
for what is sent as signals, a line each; `broken`, methods whose first calls fail, with their number.
"""

from __future__ import annotations

import json
import os
import sys
from functools import wraps
from importlib import import_module
from itertools import count
from typing import Any

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.worker.small_settings"

import django
from django.conf import settings

from django_qless import conf, signals
from django_qless.job_types.discovery import discover
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.log import configure_logging
from django_qless.worker.options import WorkerOptions
from django_qless.worker.server_checks import CannotStart
from django_qless.worker.worker import Worker
from tests.worker.ledger import note

django.setup()
discover()


def main() -> int:
    given = json.loads(sys.argv[1])
    configure_logging(given.pop("verbosity", 2))
    alias = {"LOCATION": given.pop("url"), "QUEUES": given.pop("limits", {})}
    configure(alias, given.pop("jobs", ""))
    os.environ["STATE_DIRECTORY"] = given.pop("state", "")
    if ledger := given.pop("announcements", None):
        announce_jobs(ledger)
    if ledger := given.pop("batches", None):
        announce_batches(ledger)
    for name, times in given.pop("broken", {}).items():
        break_first(name, times)
    for name in ("queues", "exclude"):
        given[name] = tuple(given.get(name, ("*",) if name == "queues" else ()))
    try:
        return Worker(DjangoEnvironment(), WorkerOptions(**given)).run()
    except CannotStart as error:
        print(error, file=sys.stderr)
        return error.code


def configure(alias: dict[str, Any], jobs: str) -> None:
    """Change the settings of this process, and of the interpreters that it starts."""
    os.environ["QLESS_TEST_ALIAS"] = json.dumps(alias)
    os.environ["QLESS_TEST_JOBS"] = jobs
    settings.QLESS = {"default": alias}
    settings.QLESS_MODULES = [*settings.QLESS_MODULES, *jobs.split()]
    conf.clear_cache()
    discover()


def break_first(name: str, times: int) -> None:
    """Let the first calls of an asynchronous method of the worker fail."""
    module, kind, method = name.split(".")
    owner = getattr(import_module(f"django_qless.worker.{module}"), kind)
    works, calls = getattr(owner, method), count(1)

    @wraps(works)
    async def breaks(self: Any) -> None:
        if next(calls) <= times:
            raise RuntimeError("planted")
        await works(self)

    setattr(owner, method, breaks)


def announce_jobs(ledger: str) -> None:
    """Write a line for each event of a job or of the worker."""

    def connect(what: str) -> None:
        def receive(job: Any, **details: Any) -> None:
            note(ledger, what, job.name, details.get("group", "-"))

        getattr(signals, f"job_{what}").connect(receive, weak=False)

    for what in ("started", "completed", "failed", "retried", "lost"):
        connect(what)

    def exhausted(sender: Any, batch: Any, **details: Any) -> None:
        told = [
            f"{entity}={','.join(str(payload['n']) for payload in payloads)}"
            for entity, payloads in sorted(batch.items())
        ]
        note(ledger, "exhausted", sender.name, *told)

    signals.retries_exhausted.connect(exhausted, weak=False)
    for what in ("started", "stopped"):
        getattr(signals, f"worker_{what}").connect(
            lambda what=what, **_: note(ledger, "worker", what), weak=False
        )


def announce_batches(ledger: str) -> None:
    """Write a line for each event of a batch: the number of jobs, how many have run."""
    for what in ("started", "finished"):
        getattr(signals, f"batch_{what}").connect(
            lambda jobs, what=what, **details: note(
                ledger, what, len(jobs), details.get("ran", "-")
            ),
            weak=False,
        )


if __name__ == "__main__":
    sys.exit(main())
