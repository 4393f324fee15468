"""The project as processes: a database, producers, workers, and what jobs wrote down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.real_servers import Server, poll

ROOT = Path(__file__).parents[2]

#: Seconds for what takes ten where nothing else runs.
PATIENCE = 240.0

LAST = """
import django; django.setup()
from tests.outbox.shop.models import ship
ship.using(priority=-1).delay("last", -1)
"""


class Project:
    """One project, whose processes find database and server in their environment."""

    def __init__(
        self, folder: Path, database: dict[str, Any], url: str, **more: Any
    ) -> None:
        """`more` are settings of the alias."""
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        config = {"jobs-history-count": 0}
        qless = {"LOCATION": url, "PATIENCE": 0.2, "CONFIG": config, **more}
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.outbox.settings",
            "DATABASE": json.dumps(database),
            "QLESS": json.dumps(qless),
            "LEDGER": str(self.ledger),
        }
        self.run("-m", "django", "migrate", "--run-syncdb", "-v", "0")

    def run(self, *words: str) -> str:
        """Run a Python process to its end; return what it printed."""
        return subprocess.run(
            [sys.executable, *words],
            cwd=ROOT,
            env=self.environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    @contextmanager
    def worker(
        self, *words: str, name: str = "worker"
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a worker, which logs under a name."""
        command = ("-m", "django", "qless_worker", "--no-reload", "-v", "1", *words)
        with self.process(name, *command) as process:
            yield process

    @contextmanager
    def process(self, name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run a Python process, which is ended with its children."""
        with (self.folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if "load" in name else log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)

    def log_of(self, name: str) -> str:
        """Return what a process has logged so far."""
        return (self.folder / f"{name}.log").read_text()

    def runs(self) -> list[tuple[str, int]]:
        """Return producer and number of each run, in their order."""
        lines = (line.split() for line in self.ledger.read_text().splitlines())
        return [(producer, int(number)) for producer, number in lines]

    def ask(self, code: str) -> Any:
        """Return what an expression of the project's models is worth."""
        program = (
            "import django, json; django.setup()\n"
            "from tests.outbox.shop.models import Order\n"
            "from django_qless.outbox.models import Entry\n"
            f"print(json.dumps({code}))"
        )
        return json.loads(self.run("-c", program))

    def committed(self) -> list[int]:
        """Return the numbers of all rows that are committed."""
        return self.ask(
            "list(Order.objects.order_by('number').values_list('pk', flat=True))"
        )  # type: ignore[no-any-return]

    def leave(self, number: int) -> None:
        """Commit an order while no server answers."""
        away = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0}
        program = (
            "import django; django.setup()\n"
            "from tests.outbox.producer import order\n"
            f"order('left', {number})"
        )
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**self.environment, "QLESS": json.dumps(away)},
            check=True,
            stderr=subprocess.DEVNULL,
        )

    def queued(self, server: Server) -> list[tuple[str, int]]:
        """Return producer and number of each job that waits, in the queue's order."""
        client = server.client(decode_responses=True)
        jids = client.zrevrange("ql:q:orders-work", 0, -1)
        data = [json.loads(client.hget(f"ql:j:{jid}", "data")) for jid in jids]
        client.close()
        return [tuple(each["args"]) for each in data]

    def run_last(self) -> None:
        """Let a job run behind all others: what would run twice would come before it."""
        self.run("-c", LAST)
        poll(
            lambda: ("last", -1) in self.runs(),
            what="the last job has run",
            seconds=PATIENCE,
        )

    def wait_for_log(self, name: str, text: str, times: int = 1) -> None:
        """Return when a process has logged this a number of times."""
        poll(
            lambda: self.log_of(name).count(text) >= times,
            what=f"{text!r} in {self.log_of(name)[-3000:]}",
            seconds=PATIENCE,
        )

    def wait_for_empty_outbox(self) -> None:
        """Return when nothing is left in the outbox."""
        poll(
            lambda: self.ask("Entry.objects.count()") == 0,
            what="the outbox is empty",
            seconds=PATIENCE,
        )
