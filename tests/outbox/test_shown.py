"""What the outbox promises, with processes that are killed and a server that is away.

A small form is here, each on one kind of database; QLESS_ALL_CELLS=1 makes it 500 kills,
and a minute without a server, on both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.drawing import ALL, part
from tests.outbox.databases import SERVERS
from tests.outbox.project import PATIENCE, Project
from tests.real_servers import Server, poll

ROUNDS = 500 if ALL else 20
SECONDS_AWAY = 60.0 if ALL else 3.0
PAUSE = 0.01
PRODUCERS = ("1", "2")

KINDS = ["sqlite", *sorted(SERVERS)]
KEPT = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def database(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[dict[str, Any]]:
    """The settings of an empty database of each kind."""
    if request.param == "sqlite":
        yield {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(tmp_path / "db.sqlite3"),
            "OPTIONS": {"timeout": 60, "transaction_mode": "IMMEDIATE"},
        }
        return
    server = SERVERS[request.param]()
    try:
        yield server.start().database
    finally:
        server.close()


@pytest.mark.parametrize("database", part(KINDS[::-1], 2), indirect=True)
def test_committed_is_run_once_whenever_the_producer_is_killed(
    server: Server, database: dict[str, Any], tmp_path: Path
) -> None:
    project = Project(tmp_path, database, server.url)
    with project.worker("--concurrency", "1"):
        project.run("-m", "tests.outbox.producer", "kill", str(ROUNDS), "1")
        committed = project.committed()
        assert len(committed) >= ROUNDS // 10
        project.wait_for_empty_outbox()
        poll(
            lambda: len(project.runs()) >= len(committed),
            what="all that is committed has run",
            seconds=PATIENCE,
        )
        project.run_last()
    runs = [number for producer, number in project.runs() if producer == "killed"]
    assert sorted(runs) == committed
    print(f"{len(committed)} of {ROUNDS} committed, and run once")


@pytest.mark.parametrize("database", part(KINDS, 2), indirect=True)
def test_nothing_is_lost_and_the_order_kept_while_the_server_is_away(
    database: dict[str, Any], tmp_path: Path
) -> None:
    with Server("valkey", *KEPT) as server, ExitStack() as stack:
        project = Project(tmp_path, database, server.url)
        # This one runs no jobs of theirs: it sweeps.
        stack.enter_context(project.worker("--concurrency", "1", "nothing"))
        producers = [
            stack.enter_context(
                project.process(f"load-{name}", *LOAD, name, str(PAUSE))
            )
            for name in PRODUCERS
        ]
        poll(lambda: len(project.committed()) > 20, what="orders come")
        server.kill()
        time.sleep(SECONDS_AWAY)  # (how long it is away, not what is waited for)
        before = len(project.committed())
        server.start()
        began = time.monotonic()
        poll(lambda: len(project.committed()) > before + 20, what="orders go on")
        counts = [int(each.communicate("\n")[0]) for each in producers]
        project.wait_for_empty_outbox()
        took = time.monotonic() - began
        queued = project.queued(server)
        with project.worker("--concurrency", "1", "orders"):
            poll(
                lambda: len(project.runs()) >= sum(counts),
                what="all have run",
                seconds=PATIENCE,
            )
    for name, count in zip(PRODUCERS, counts, strict=True):
        first = int(name) * 1_000_000
        wanted = list(range(first, first + count))
        assert [number for producer, number in queued if producer == name] == wanted
        runs = [number for producer, number in project.runs() if producer == name]
        assert sorted(runs) == wanted
    print(f"{sum(counts)} orders; outbox empty {took:.1f} s after the server's return")


LOAD = ("-m", "tests.outbox.producer", "load")
